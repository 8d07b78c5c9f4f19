"""phpMyAdmin: a database, a table and rows made, edited, searched, exported, imported and dropped in the browser."""
import gzip

from application import PASSWORD, Application
from debian_root import Failed

FOLDER = "/usr/share/phpmyadmin"
CONFIG = """<?php
$cfg['Servers'][1]['host'] = '127.0.0.1';
$cfg['Servers'][1]['port'] = '{port}';
$cfg['Servers'][1]['auth_type'] = 'cookie';
$cfg['Servers'][1]['pmadb'] = 'phpmyadmin';
$cfg['Servers'][1]['controluser'] = '{database}';
$cfg['Servers'][1]['controlpass'] = '{password}';
{tables}
$cfg['SendErrorReports'] = 'never';
$cfg['VersionCheck'] = false;
$cfg['RetainQueryBox'] = true;
"""
PMA_TABLES = ("bookmark:bookmarktable", "relation", "table_info", "table_coords", "pdf_pages", "column_info", "history", "table_uiprefs", "tracking",
              "userconfig", "recent", "favorite", "users", "usergroups", "navigationhiding", "savedsearches", "central_columns",
              "designer_settings", "export_templates")
ROWS = """INSERT INTO item (name, price, owner) VALUES ('Pool', 10.5, 1), ('Log ‘Ünïcode’ 🗝', 20, 1), ('Lock', 30, 2);"""


class PhpMyAdmin(Application):
    name = "phpMyAdmin"
    packages = ("phpmyadmin", "php-cli", "php-mysql", "php-mbstring", "php-xml", "php-zip", "php-bz2", "php-gd", "php-curl")
    databases = ("phpmyadmin", "shop", "shop_again")
    privileges = "ALL PRIVILEGES"

    def install(self):
        tables = "\n".join(f"$cfg['Servers'][1]['{entry.rpartition(':')[2]}'] = 'pma__{entry.partition(':')[0]}';" for entry in PMA_TABLES)
        self.write("/etc/phpmyadmin/conf.d/trial.php", CONFIG.format(port=self.server.port, database=self.database, password=PASSWORD, tables=tables))
        with self.step("create_tables.sql of the package"):
            file = next(path for path in sorted((self.root.folder / "usr/share").glob("**/create_tables.sql*")) if "phpmyadmin" in str(path))
            text = gzip.open(file, "rt").read() if file.suffix == ".gz" else file.read_text()
            self.server.sql(text)
        self.address = self.php(FOLDER, "phpmyadmin")

    def open(self, route, **parameters):
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        self.browser.open(f"{self.address}/index.php?route={route}{more}&lang=en")
        self.settled()

    def settled(self):
        self.browser.wait_until("the page's requests", "window.jQuery && jQuery.active === 0 && !document.querySelector('.ajax_notification_loading')")

    def query(self, database, text):
        """In the SQL box of a database."""
        browser = self.browser
        self.open("/database/sql", db=database)
        browser.wait_until("the SQL box", "window.codeMirrorEditor")
        browser.script("codeMirrorEditor.setValue(arguments[0])", text)
        browser.click("#button_submit_query")
        browser.wait_until("the answer", "document.querySelector('#sqlqueryresultsouter') && document.querySelector('#sqlqueryresultsouter').innerText.trim()", 90)
        self.settled()

    def use(self):
        browser = self.browser
        with self.step("logged in; the server's pages about InnoDB"):
            self.browser.open(self.address + "/index.php?lang=en")
            browser.fill("#input_username", self.database)
            browser.fill("#input_password", PASSWORD)
            browser.click("#input_go")
            browser.expect("Database server", "MariaDB")
            self.open("/server/engines")
            browser.expect("InnoDB")
            self.open("/server/engines/InnoDB")
            browser.expect("Data home directory")
            self.open("/server/engines/InnoDB/Bufferpool")
            browser.expect("Buffer Pool Usage", "Read requests")
            self.open("/server/engines/InnoDB/Status")
            browser.expect("INNODB MONITOR OUTPUT", "TRANSACTIONS")
            self.open("/server/status/variables")
            browser.expect("Innodb buffer pool")
        with self.step("a table is made with the form, a second one by SQL with a foreign key"):
            self.open("/table/create", db="shop", table="person", num_fields=2)
            browser.fill("input[name=table]", "person")
            browser.fill("#field_0_1", "id")
            browser.click("#field_0_9, input[name='field_extra[0]']")
            if browser.all("#addIndexModal.show, .ui-dialog #addIndexModalGoButton"):
                browser.click("#addIndexModalGoButton")
            browser.fill("#field_1_1", "name")
            browser.choose("#field_1_2", "VARCHAR")
            browser.fill("#field_1_3", "40")
            browser.click("input[name=do_save_data]")
            self.settled()
            self.query("shop", "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60), price DECIMAL(8,2), owner INT, KEY (owner));"
                       "ALTER TABLE person MODIFY id INT NOT NULL AUTO_INCREMENT; INSERT INTO person (name) VALUES ('Ann'), ('Bob');"
                       "ALTER TABLE item ADD FOREIGN KEY (owner) REFERENCES person (id) ON DELETE CASCADE;" + ROWS)
            self.open("/database/structure", db="shop")
            browser.expect("person", "item", "InnoDB")
        with self.step("rows are browsed, inserted with the form, edited and deleted"):
            self.open("/table/change", db="shop", table="person")
            browser.fill("#field_2_3", "Cid")
            browser.click("#buttonYes")
            self.settled()
            self.open("/sql", db="shop", table="person", pos=0)
            browser.expect("Ann", "Bob", "Cid")
            self.open("/sql", db="shop", table="item", pos=0)
            browser.expect("Pool", "🗝", "30.00")
            browser.click("//tr[contains(., 'Lock') and contains(., '30.00')]//a[contains(., 'Edit')]")
            self.settled()
            browser.fill("#field_2_3", "Row lock")
            browser.click("#buttonYes")
            self.settled()
            if self.sql("SELECT name FROM item WHERE id = 3", "shop") != [["Row lock"]]:
                raise Failed("the edited row was not stored")
            self.query("shop", "DELETE FROM person WHERE name = 'Bob';")
            browser.expect("1 row deleted")
            if self.sql("SELECT COUNT(*) FROM item", "shop") != [["2"]]:
                raise Failed("the cascade did not delete Bob's item")
        with self.step("structure, indexes, relations, operations: shown; the table is checked, analysed and optimised"):
            self.open("/table/structure", db="shop", table="item")
            browser.expect("PRIMARY", "owner")
            self.open("/table/relation", db="shop", table="item")
            browser.expect("Foreign key constraints")
            self.open("/table/operations", db="shop", table="item")
            browser.expect("Table maintenance")
            for action in ("check", "analyze", "optimize"):
                self.open("/table/operations", db="shop", table="item")
                browser.click(f"#tbl_maintenance a[href*='maintenance/{action}']")
                browser.expect("Your SQL query has been executed successfully", "shop.item", "OK")
        with self.step("search, and an export that is imported into another database"):
            self.open("/database/search", db="shop")
            browser.fill("#criteriaSearchString", "Ann")
            browser.click("#select_all")
            browser.click("#buttonGo")
            browser.expect("1 match in", "person")
            self.export_and_import()
        with self.step("a table is tracked, renamed, copied and dropped"):
            self.query("shop", "CREATE TABLE copy_of_item LIKE item; INSERT INTO copy_of_item SELECT * FROM item; RENAME TABLE copy_of_item TO copied;"
                       "ALTER TABLE copied ADD COLUMN note TEXT, ADD INDEX (price); DROP TABLE copied;")
            browser.expect("MySQL returned an empty result set")
        return []

    def export_and_import(self):
        """The quick export of the page, fetched with the browser's cookies."""
        browser = self.browser
        self.open("/database/export", db="shop")
        text = browser.script("""const form = document.querySelector('form[name=dump]'); const data = new FormData(form);
            const request = new XMLHttpRequest(); request.open('POST', form.action, false); request.send(data); return request.responseText""")
        for part in ("CREATE TABLE `item`", "ENGINE=InnoDB", "ADD CONSTRAINT", "Row lock" if "Row lock" in text else "Pool"):
            if part not in text:
                raise Failed(f"the export lacks {part!r}: {text[:300]}")
        self.server.sql("DROP DATABASE shop_again; CREATE DATABASE shop_again")
        self.query("shop_again", text)
        browser.expect_not("#1005")
        if self.sql("SELECT COUNT(*) FROM item", "shop_again") != self.sql("SELECT COUNT(*) FROM item", "shop"):
            raise Failed("the import has other rows")

    def serves(self):
        browser = self.browser
        self.open("/sql", db="shop", table="item", pos=0)
        browser.expect("Pool", "🗝")
        self.query("shop", "INSERT INTO person (name) VALUES ('After the crash');")
        browser.expect("1 row inserted")
