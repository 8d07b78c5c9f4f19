"""MediaWiki: maintenance/install.php, then a reader's and an editor's ways through the wiki in the browser, and its own scripts."""
from application import PASSWORD, Application
from server import free_port

FOLDER = "/usr/share/mediawiki"
SETTINGS = "/etc/mediawiki/LocalSettings.php"
EDITOR = "Wikieditor"
PAGE = "Storage engines"


class MediaWiki(Application):
    name = "MediaWiki"
    packages = ("mediawiki", "php-cli", "php-mysql", "php-mbstring", "php-xml", "php-intl", "php-curl", "php-apcu", "imagemagick")
    databases = ("mediawiki",)
    other_engines = {"searchindex": "MyISAM"}  # includes/installer/MysqlInstaller.php and maintenance/tables.sql name it

    def maintenance(self, script, arguments=""):
        return self.root.run(f"cd {FOLDER} && php maintenance/{script}.php {arguments}")

    def page(self, title, query=""):
        return f"{self.address}/index.php?title={title.replace(' ', '_')}{query}"

    def install(self):
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        with self.step("maintenance/install.php"):
            self.root.run(f"rm -f {SETTINGS}")
            self.maintenance("install", f"--dbtype=mysql --dbserver=127.0.0.1:{self.server.port} --dbname={self.database} --dbuser={self.database} "
                             f"--dbpass={PASSWORD} --pass={PASSWORD} --server={self.address} --scriptpath= --confpath=/etc/mediawiki --lang=en Trial Admin")
            self.root.run(f"ln -sf {SETTINGS} /var/lib/mediawiki/LocalSettings.php")
        with self.step("maintenance/update.php, createAndPromote.php, importTextFiles.php"):
            self.maintenance("update", "--quick")
            self.maintenance("createAndPromote", f"--sysop {EDITOR} {PASSWORD}")
            self.root.run("mkdir -p /tmp/pages && for n in $(seq 1 60); do echo \"Page $n of the import, see [[Import $(($n % 60 + 1))]]\" "
                          ">\"/tmp/pages/Import $n.txt\"; done")
            self.maintenance("importTextFiles", "'/tmp/pages/Import*.txt'")
        self.start(f"php -S 127.0.0.1:{port} -t {FOLDER}", "mediawiki", self.address + "/index.php", ["PHP_CLI_SERVER_WORKERS=4"])

    def edit(self, title, text, summary):
        browser = self.browser
        browser.open(self.page(title, "&action=edit"))
        browser.fill("#wpTextbox1", text)
        browser.fill("#wpSummary", summary)
        browser.click("#wpSave")

    def use(self):
        browser = self.browser
        with self.step("logged in as an editor"):
            browser.open(self.page("Special:UserLogin"))
            browser.fill("#wpName1", EDITOR)
            browser.fill("#wpPassword1", PASSWORD)
            browser.click("#wpLoginAttempt")
            browser.expect(EDITOR)
        with self.step("a page is created, and edited twice"):
            self.edit(PAGE, "A storage engine keeps rows in [[pages]].\n\n[[Category:Databases]]", "begun")
            browser.expect("A storage engine keeps rows in")
            self.edit(PAGE, "A storage engine keeps rows in [[pages]] and changes in a log. ‘Ünïcode’ 🗝\n\n[[Category:Databases]]", "the log")
            browser.expect("changes in a log", "🗝")
            self.edit(PAGE, "Vandalism.", "oops")
            browser.expect("Vandalism.")
        with self.step("the last edit is undone, by its history"):
            browser.open(self.page(PAGE, "&action=history"))
            browser.expect("begun", "the log", "oops")
            browser.click(".mw-history-undo a")
            browser.click("#wpSave")
            browser.expect("changes in a log")
            browser.expect_not("Vandalism.")
        with self.step("a page is moved, protected, deleted and restored"):
            self.edit("Buffer", "A pool of frames.", "new")
            browser.open(self.page("Special:MovePage/Buffer"))
            browser.fill("input[name=wpNewTitleMain]", "Buffer pool")
            browser.click("button[name=wpMove]")
            browser.expect("has been moved to")
            browser.open(self.page("Buffer pool", "&action=delete"))
            browser.click("#wpConfirmB, button[name=wpConfirmB]")
            browser.expect("has been deleted")
            browser.open(self.page("Special:Undelete/Buffer_pool"))
            browser.click("button[name=restore]")
            browser.expect("has been undeleted")
        with self.step("jobs, links, category, recent changes, search, statistics"):
            self.maintenance("runJobs")
            self.maintenance("refreshLinks")
            self.maintenance("rebuildtextindex")
            browser.open(self.page("Category:Databases"))
            browser.expect(PAGE)
            browser.open(self.page("Special:RecentChanges", "&enhanced=0"))
            browser.expect(PAGE, "oops")
            browser.open(self.page("Special:WhatLinksHere/Import_2"))
            browser.expect("Import 1")
            browser.open(self.page("Special:Search", "&search=frames&fulltext=1"))
            browser.expect("Buffer pool")
            browser.open(self.page("Special:Statistics"))
            browser.expect("Pages")
        return []

    def serves(self):
        self.browser.open(self.page(PAGE))
        self.browser.expect("changes in a log", "🗝")
        self.edit(PAGE, "After the crash.\n\n[[Category:Databases]]", "after the crash")
        self.browser.expect("After the crash.")
        self.browser.open(self.page(PAGE, "&action=history"))
        self.browser.expect("begun", "after the crash")
