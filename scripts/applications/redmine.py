"""Redmine: rake db:migrate and its default data, then projects, issues, a wiki, time and search in the browser."""
from application import PASSWORD, Application
from server import free_port

FOLDER = "/usr/share/redmine"
FIRST_PASSWORD = "admin"
DATABASE_YML = """production:
  adapter: mysql2
  database: {database}
  host: 127.0.0.1
  port: {port}
  username: {database}
  password: "{password}"
  encoding: utf8mb4
"""
ENVIRONMENT = ("X_DEBIAN_SITEID=default", "RAILS_ENV=production", "REDMINE_LANG=en", "RAILS_SERVE_STATIC_FILES=1")


class Redmine(Application):
    name = "Redmine"
    packages = ("redmine", "redmine-mysql", "puma", "ruby-mysql2")
    databases = ("redmine",)

    def rake(self, tasks):
        return self.root.run(f"cd {FOLDER} && {' '.join(ENVIRONMENT)} bundle exec rake {tasks}")

    def install(self):
        self.write("/etc/redmine/default/database.yml", DATABASE_YML.format(database=self.database, port=self.server.port, password=PASSWORD))
        with self.step("rake generate_secret_token db:migrate"):
            self.root.run("mkdir -p /var/lib/redmine/default/files /var/cache/redmine/default /var/log/redmine/default")
            self.rake("generate_secret_token db:migrate")
        with self.step("rake redmine:load_default_data"):
            self.rake("redmine:load_default_data")
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.start(f"puma --dir {FOLDER} --environment production --threads 1:4 --bind tcp://127.0.0.1:{port} {FOLDER}/config.ru", "redmine",
                   self.address + "/login", ENVIRONMENT)

    def login(self, password):
        browser = self.browser
        browser.open(self.address + "/login")
        browser.fill("#username", "admin")
        browser.fill("#password", password)
        browser.click("#login-submit")

    def submit(self):
        self.browser.click("#content form input[name=commit]")

    def new_issue(self, tracker, subject, text, parent=""):
        browser = self.browser
        browser.open(self.address + "/projects/trial/issues/new")
        browser.choose("#issue_tracker_id", tracker)
        browser.wait_until("the form of the tracker", "window.jQuery && jQuery.active === 0")
        browser.fill("#issue_subject", subject)
        browser.fill("#issue_description", text)
        if parent:
            browser.fill("#issue_parent_issue_id", parent)
        self.submit()
        browser.expect("created.", subject)
        return browser.url().rpartition("/")[2]

    def update(self, issue, status, notes):
        browser = self.browser
        browser.open(f"{self.address}/issues/{issue}/edit")
        browser.choose("#issue_status_id", status)
        browser.wait_until("the form of the status", "window.jQuery && jQuery.active === 0")
        browser.fill("#issue_notes", notes)
        self.submit()
        browser.expect("Successful update.", notes)

    def use(self):
        browser = self.browser
        with self.step("logged in; the first password is changed"):
            self.login(FIRST_PASSWORD)
            browser.fill("#password", FIRST_PASSWORD)
            browser.fill("#new_password", PASSWORD)
            browser.fill("#new_password_confirmation", PASSWORD)
            self.submit()
            browser.expect("Password was successfully updated")
        with self.step("a project, and one below it"):
            for name, parent in (("Trial", ""), ("Part", "Trial")):
                browser.open(self.address + "/projects/new")
                browser.fill("#project_name", name)
                browser.fill("#project_identifier", name.lower())
                if parent:
                    browser.choose("#project_parent_id", parent)
                self.submit()
                browser.expect("Successful creation.")
        with self.step("issues of two trackers, one below another"):
            self.bug = self.new_issue("Bug", "Rows are lost", "After a crash. ‘Ünïcode’ 🗝")
            self.child = self.new_issue("Bug", "Find the page", "Part of the other.", self.bug)
            self.doomed = self.new_issue("Feature", "Not wanted", "To be deleted.")
        with self.step("issues are updated, listed, filtered and deleted"):
            self.update(self.bug, "In Progress", "Looking at it.")
            self.update(self.child, "Closed", "It was page 7.")
            browser.open(self.address + "/projects/trial/issues?set_filter=1&status_id=*&sort=id")
            browser.expect("Rows are lost", "Find the page", "Not wanted")
            browser.open(self.address + "/projects/trial/issues?set_filter=1&status_id=c")
            browser.expect("Find the page")
            browser.expect_not("Not wanted")
            browser.open(f"{self.address}/issues/{self.doomed}")
            browser.click("#content > .contextual .drdn-trigger")
            browser.click("#content > .contextual .icon-del")
            browser.expect("Issues")
            browser.open(f"{self.address}/issues/{self.doomed}")
            browser.expect("404")
        with self.step("time is logged, a wiki page is written and edited"):
            browser.open(f"{self.address}/issues/{self.bug}/time_entries/new")
            browser.fill("#time_entry_hours", "1.5")
            browser.choose("#time_entry_activity_id", "Development")
            self.submit()
            browser.expect("Successful creation.")
            for text in ("h1. Wiki\n\nPages have 16 KiB.", "h1. Wiki\n\nPages have 16 KiB. See #1."):
                browser.open(self.address + "/projects/trial/wiki/Wiki/edit")
                browser.fill("#content_text", text)
                self.submit()
                browser.expect("Pages have 16 KiB.")
            browser.open(self.address + "/projects/trial/wiki/Wiki/history")
            browser.expect("2", "1")
        with self.step("a user is added"):
            browser.open(self.address + "/users/new")
            for field, text in (("login", "dev"), ("firstname", "Dee"), ("lastname", "Veloper"), ("mail", "dev@example.com"), ("password", PASSWORD),
                                ("password_confirmation", PASSWORD)):
                browser.fill(f"#user_{field}", text)
            self.submit()
            browser.expect("created.")
        with self.step("search and activity"):
            browser.open(self.address + "/search?q=page&issues=1&wiki_pages=1&all_words=1")
            browser.expect("Find the page")
            browser.open(self.address + "/projects/trial/activity")
            browser.expect("Rows are lost")
        return []

    def serves(self):
        browser = self.browser
        browser.open(f"{self.address}/issues/{self.bug}")
        browser.expect("Rows are lost", "🗝", "Looking at it.", "Find the page")
        self.update(self.bug, "Resolved", "After the crash.")
        self.new_issue("Support", "After the crash", "A new one.")
