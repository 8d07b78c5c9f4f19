"""WordPress: its installer in the browser, then posts, pages, comments, a second author, search and the trash."""
import time

from application import PASSWORD, Application
from debian_root import Failed
from server import free_port

FOLDER = "/usr/share/wordpress"
POST, TEXT = "Of rows and pages", "A row lives on a page; a page lives in a pool. ‘Ünïcode’ 🗝"
CONFIG = """<?php
define('DB_NAME', '{database}');
define('DB_USER', '{database}');
define('DB_PASSWORD', '{password}');
define('DB_HOST', '127.0.0.1:{port}');
define('DB_CHARSET', 'utf8mb4');
define('WP_CONTENT_DIR', '/var/lib/wordpress/wp-content');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
"""


class WordPress(Application):
    name = "WordPress"
    packages = ("wordpress", "wordpress-theme-twentytwentyone", "php-cli", "php-mysql", "php-gd", "php-mbstring", "php-xml", "php-curl")
    databases = ("wordpress",)

    def install(self):
        self.write("/etc/wordpress/config-127.0.0.1.php", CONFIG.format(database=self.database, password=PASSWORD, port=self.server.port))
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.start(f"php -S 127.0.0.1:{port} -t {FOLDER}", "wordpress", self.address + "/wp-includes/images/w-logo-blue.png",
                   ["PHP_CLI_SERVER_WORKERS=4"])
        browser = self.browser
        with self.step("wp-admin/install.php in the browser"):
            browser.open(self.address + "/wp-admin/install.php?step=1&language=")
            browser.fill("#weblog_title", "Trial of a storage engine")
            browser.fill("#user_login", "admin")
            browser.wait_until("the form's script", "document.querySelector('#pass1').value.length > 0")
            browser.fill("#pass1", PASSWORD)
            browser.fill("#admin_email", "admin@example.com")
            browser.click("#submit")
            browser.expect("WordPress has been installed")

    def login(self, user):
        browser = self.browser
        browser.forget()
        browser.open(self.address + "/wp-login.php")
        time.sleep(1)  # a script of the page moves the focus after 200 ms
        browser.fill("#user_login", user)
        browser.fill("#user_pass", PASSWORD)
        browser.click("#wp-submit")
        browser.find("#wpadminbar")

    def publish(self, kind, title, text):
        """With the block editor."""
        browser = self.browser
        browser.open(f"{self.address}/wp-admin/post-new.php?post_type={kind}")
        browser.wait_until("the editor", "window.wp && wp.data && document.querySelector('.editor-post-title__input, .wp-block-post-title')")
        browser.script("wp.data.dispatch('core/preferences').set('core/edit-post', 'welcomeGuide', false)")
        browser.type(".editor-post-title__input, .wp-block-post-title", title + "\n")
        browser.type("p.wp-block-paragraph, [data-type='core/paragraph']", text)
        browser.click(".editor-post-publish-panel__toggle")
        browser.click(".editor-post-publish-panel .editor-post-publish-button")
        browser.expect("is now live")
        return browser.script("return wp.data.select('core/editor').getCurrentPostId()")

    def use(self):
        browser = self.browser
        with self.step("logged in; a post and a page are published with the block editor"):
            self.login("admin")
            self.post = self.publish("post", POST, TEXT)
            self.publish("page", "About", "Who we are.")
        with self.step("a category, a tag and a second author"):
            browser.open(self.address + "/wp-admin/edit-tags.php?taxonomy=category")
            browser.fill("#tag-name", "Databases")
            browser.click("#submit")
            browser.find("//table//a[text()='Databases']")
            browser.open(self.address + "/wp-admin/user-new.php")
            browser.fill("#user_login", "author")
            browser.fill("#email", "author@example.com")
            browser.fill("#pass1", PASSWORD)
            browser.choose("#role", "Author")
            browser.click("#createusersub")
            browser.expect("New user created")
        with self.step("the post is edited with quick edit, its revisions are kept"):
            browser.open(self.address + "/wp-admin/edit.php")
            browser.script("document.querySelector(`#post-${arguments[0]} .editinline`).click()", self.post)
            browser.fill(".inline-edit-row input[name=post_title]", POST + ", edited")
            browser.click(".inline-edit-save .save")
            browser.find(f"//tr[@id='post-{self.post}']//a[contains(., '{POST}, edited')]")
        with self.step("a reader comments, the comment is answered"):
            browser.open(f"{self.address}/?p={self.post}")
            browser.expect("A row lives on a page", "Ünïcode")  # the theme's script makes a picture of the key
            if self.sql("SELECT COUNT(*) FROM wp_posts WHERE post_content LIKE '%🗝%' AND post_status = 'publish'") != [["1"]]:
                raise Failed("the letter of four bytes is lost")
            browser.fill("#comment", "What is a pool?")
            browser.click("#submit")
            browser.expect("What is a pool?")
            browser.click(".comment-reply-link")
            browser.fill("#comment", "Memory for pages.")
            browser.click("#submit")
            browser.expect("Memory for pages.")
        with self.step("search, feed and the REST API find the post"):
            browser.open(f"{self.address}/?s=rows")
            browser.expect(POST)
            browser.open(f"{self.address}/?rest_route=/wp/v2/posts&search=rows")
            browser.expect(POST)
        with self.step("a post goes to the trash, comes back, and is deleted for good"):
            doomed = self.publish("post", "Doomed", "For the trash.")
            browser.open(self.address + "/wp-admin/edit.php")
            browser.script("document.querySelector(`#post-${arguments[0]} .submitdelete`).click()", doomed)
            browser.expect("moved to the Trash")
            browser.click("//a[text()='Undo']")
            browser.expect("restored from the Trash")
            browser.open(self.address + "/wp-admin/edit.php")
            browser.script("document.querySelector(`#post-${arguments[0]} .submitdelete`).click()", doomed)
            browser.expect("moved to the Trash")
            browser.open(self.address + "/wp-admin/edit.php?post_status=trash&post_type=post")
            browser.click("#delete_all")
            browser.expect("permanently deleted")
        with self.step("Site Health shows the server's version"):
            browser.open(self.address + "/wp-admin/site-health.php?tab=debug")
            browser.expect("Site Health")
        return []

    def serves(self):
        browser = self.browser
        browser.open(f"{self.address}/?p={self.post}")
        browser.expect(POST + ", edited", "A row lives on a page", "Memory for pages.")
        self.login("author")
        self.publish("post", "After the crash", "Written by the second author.")
        browser.open(self.address + "/")
        browser.expect("After the crash")
