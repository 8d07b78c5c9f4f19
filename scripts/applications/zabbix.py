"""Zabbix: the server's schema and data, its web setup, hosts by the API, a load by zabbix_sender, problems in the browser."""
import json
import time

from application import PASSWORD, Application, fetch, wait_for
from debian_root import Failed
from server import free_port

SCRIPTS = "/usr/share/zabbix-server-mysql"
WEB = "/usr/share/zabbix"
PHP_SETTINGS = "-d post_max_size=16M -d max_execution_time=300 -d max_input_time=300 -d date.timezone=UTC -d memory_limit=256M"
HOSTS, ITEMS, VALUES = 20, 10, 100
BATCHES_MAX = 10
SELECT_ALL = "\ue009a\ue000"  # Control and A, as WebDriver names them
SERVER_CONF = """DBHost=127.0.0.1
DBPort={port}
DBName={database}
DBUser={database}
DBPassword={password}
ListenPort={listen}
ListenIP=127.0.0.1
LogType=console
PidFile=/tmp/zabbix_server.pid
SocketDir=/tmp
AllowRoot=1
AllowUnsupportedDBVersions=1
StartTrappers=4
CacheSize=32M
"""


class Zabbix(Application):
    name = "Zabbix"
    packages = ("zabbix-server-mysql", "zabbix-frontend-php", "zabbix-agent", "php-cli", "php-mysql", "php-gd", "php-bcmath", "php-mbstring",
                "php-xml", "php-ldap", "locales")
    databases = ("zabbix",)
    collation = "utf8mb4_bin"
    sent_until = None  # the time of the last value that was sent

    def install(self):
        self.root.run("localedef -i en_US -f UTF-8 en_US.UTF-8")  # setup.php wants the locale of its language
        with self.step("schema.sql, images.sql and data.sql of the package"):
            for name in ("schema", "images", "data"):
                self.root.run(f"(echo 'SET autocommit = 0;'; zcat {SCRIPTS}/{name}.sql.gz; echo 'COMMIT;') | {self.client()}")
        self.listen = free_port()
        self.write("/etc/zabbix/trial_server.conf", SERVER_CONF.format(port=self.server.port, database=self.database, password=PASSWORD, listen=self.listen))
        with self.step("zabbix_server is started"):
            self.start_server()
        self.address = self.php(WEB, "zabbix-web", PHP_SETTINGS)
        self.web_setup()

    def start_server(self):
        self.program = self.start("zabbix_server -f -c /etc/zabbix/trial_server.conf", "zabbix_server")
        wait_for("zabbix_server", lambda: "server #0 started" in self.program.said() or not self.program.running())
        if not self.program.running():
            raise Failed(f"zabbix_server ended: {self.program.said()[-500:]}")

    def web_setup(self):
        browser = self.browser
        with self.step("setup.php in the browser"):
            self.root.run("rm -f /etc/zabbix/zabbix.conf.php")  # of an earlier run
            browser.open(self.address + "/setup.php")
            for number in (1, 2):  # the welcome, the check of pre-requisites
                browser.click(f"button[name='next[{number}]']")
            # A script puts 0 into this field as soon as it is cleared, so its text is selected and typed over.
            browser.type("#port", f"{SELECT_ALL}{self.server.port}")
            for field, text in (("server", "127.0.0.1"), ("database", self.database), ("user", self.database),
                                ("password", PASSWORD)):
                browser.fill(f"#{field}", text)
            if browser.script("return document.querySelector('#tls_encryption').checked"):
                browser.click("label[for=tls_encryption]")  # the server of the trial has no certificate
            browser.click("button[name='next[3]']")
            browser.fill("input[name=zbx_server_name]", "Trial")
            for number in (4, 5):
                browser.click(f"button[name='next[{number}]']")
            browser.expect("Congratulations")
            browser.click("button[name=finish]")

    # ---- the API ----

    def api(self, method, **parameters):
        body = {"jsonrpc": "2.0", "method": method, "params": parameters, "id": 1}
        if method != "user.login":
            body["auth"] = self.token
        answer = json.loads(fetch(self.address + "/api_jsonrpc.php", body))
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']['data']}")
        return answer["result"]

    def make_hosts(self):
        group = self.api("hostgroup.create", name="Trial hosts")["groupids"][0]
        self.hosts = []
        for number in range(HOSTS):
            name = f"host-{number}"
            host = self.api("host.create", host=name, groups=[{"groupid": group}])["hostids"][0]
            self.hosts.append(host)
            for item in range(ITEMS):
                kind = (0, 3, 4)[item % 3]  # a float, a number, a text
                self.api("item.create", hostid=host, name=f"Value {item}", key_=f"value.{item}", type=2, value_type=kind)
            self.api("trigger.create", description=f"Value is high on {name}", expression=f"last(/{name}/value.0)>1000", priority=4)

    def reload(self):
        """Until the server takes values of the new items: one value is stored."""
        expected = self.stored() + 1
        self.root.run("zabbix_server -c /etc/zabbix/trial_server.conf -R config_cache_reload")
        probe = f"zabbix_sender -z 127.0.0.1 -p {self.listen} -s host-{HOSTS - 2} -k value.{ITEMS - 1} -o 1"
        wait_for("the server's knowledge of the new items", lambda: self.root.try_run(probe)[0] == 0)
        self.wait_stored(expected)

    def send(self, high):
        """VALUES values of every item; the last ones are raised by `high`. No two of an item have the same time."""
        begin = self.sent_until or int(time.time()) - BATCHES_MAX * VALUES
        self.sent_until = begin + VALUES
        lines = [f"host-{host} value.{item} {begin + second} {second + (high if second == VALUES - 1 else 0)}"
                 for second in range(VALUES) for host in range(len(self.hosts)) for item in range(ITEMS)]
        self.write("/tmp/values", "\n".join(lines) + "\n")
        said = self.root.run(f"zabbix_sender -z 127.0.0.1 -p {self.listen} -T -i /tmp/values")
        if f"processed: {len(lines)}; failed: 0" not in said and said.count("failed: 0") != said.count("failed:"):
            raise Failed(f"zabbix_sender: {said[-300:]}")
        return len(lines)

    def stored(self):
        """How many values of the hosts are in the tables of history."""
        return sum(int(self.sql(f"SELECT COUNT(*) FROM {table} h JOIN items i USING (itemid) WHERE i.hostid IN ({', '.join(self.hosts)})")[0][0])
                   for table in ("history", "history_uint", "history_str", "history_text"))

    def send_and_count(self, high):
        self.wait_stored(self.stored() + self.send(high))

    def wait_stored(self, expected):
        try:
            wait_for("the storing of all values", lambda: self.stored() == expected, seconds=180)
        except Failed as error:
            raise Failed(f"{error}: {self.stored()} of {expected}") from error

    # ---- the ways through it ----

    def login(self):
        browser = self.browser
        browser.open(self.address + "/index.php")
        browser.fill("#name", "Admin")
        browser.fill("#password", "zabbix")
        browser.click("#enter")
        browser.expect("Latest data")

    def problems(self):
        return [problem["eventid"] for problem in self.api("problem.get", output="extend") if "Value is high" in problem["name"]]

    def use(self):
        browser = self.browser
        with self.step("logged in; the system's report shows that the server runs"):
            self.login()
            browser.open(self.address + "/zabbix.php?action=report.status")
            browser.expect("Zabbix server is running", "Yes")
        with self.step(f"{HOSTS} hosts with {ITEMS} items and a trigger each, by the API"):
            self.token = self.api("user.login", username="Admin", password="zabbix")
            self.make_hosts()
            self.reload()
        with self.step(f"zabbix_sender: {HOSTS * ITEMS * VALUES} values are stored, each once"):
            self.send_and_count(high=0)
        with self.step(f"as many again; {HOSTS} triggers fire, problems are shown and acknowledged"):
            self.send_and_count(high=5000)
            wait_for("the problems", lambda: len(self.problems()) == HOSTS)
            browser.open(self.address + "/zabbix.php?action=problem.view&filter_set=1")
            browser.expect("Value is high on host-3")
            self.api("event.acknowledge", eventids=self.problems()[:5], action=6, message="seen")
        with self.step("latest data are shown"):
            browser.open(self.address + f"/zabbix.php?action=latest.view&filter_set=1&hostids[]={self.hosts[3]}")
            browser.expect("Value 0")
        with self.step("a host is renamed, another is deleted in the browser with its items"):
            self.api("host.update", hostid=self.hosts[0], name="Renamed host")
            browser.open(self.address + "/zabbix.php?action=host.list&filter_set=1&filter_host=host-" + str(HOSTS - 1))
            browser.click(f"#hostids_{self.hosts[-1]}")
            browser.script("window.confirm = () => true")
            browser.click("//button[text()='Delete']")
            browser.expect("deleted")
            self.hosts.pop()
            browser.open(self.address + "/zabbix.php?action=host.list&filter_set=1&filter_host=")
            browser.expect("Renamed host")
        with self.step("the housekeeper runs"):
            self.root.run("zabbix_server -c /etc/zabbix/trial_server.conf -R housekeeper_execute")
            wait_for("the housekeeper", lambda: "housekeeper [deleted" in self.program.said())
        return []

    def before_crash(self):
        self.program.stop()
        wait_for("the end of zabbix_server", lambda: "Zabbix Server stopped" in self.program.said())

    def after_crash(self):
        self.start_server()

    def serves(self):
        self.browser.open(self.address + "/zabbix.php?action=problem.view&filter_set=1")
        self.browser.expect("Value is high on host-3")
        self.reload()
        self.send_and_count(high=0)
        wait_for("the end of the problems", lambda: not self.problems())
