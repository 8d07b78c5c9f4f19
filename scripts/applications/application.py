"""What every application here has: its packages, its databases, and the steps that it is taken through.

An application is a class with install(), use() and serves(). Each act of a person or an installer is a step:

    with self.step("a post is written and published"):
        ...
"""
import contextlib
import json
import shlex
import time
import urllib.error
import urllib.request

from debian_root import Failed
from server import free_port

PASSWORD = "Sluice-17-trial"
START_SECONDS_MAX = 90


class Application:
    name = ""
    packages = ()     # of Debian; the first one's version is reported
    databases = ()    # made before install(), for a user of the first one's name
    other_engines = {}  # tables that the application itself asks another engine for
    privileges = ""   # of the user on all databases, beyond ALL on its own
    collation = "utf8mb4_general_ci"
    known_errors = ()  # parts of lines of the server's error log that the real InnoDB has, too

    def __init__(self, root, server, browser, folder):
        self.root, self.server, self.browser, self.folder = root, server, browser, folder
        self.steps = []
        self.programs = []

    # ---- what an application says ----

    def install(self):
        """Its own installer, against the server."""

    def use(self):
        """What its users do. Returns notes for the report."""
        return []

    def before_crash(self):
        """Stops what would write between the look at the rows and the end of the server."""

    def after_crash(self):
        """Starts that again."""

    def serves(self):
        """After a crash of the server: its pages and programs still work, with what was entered."""

    # ---- helpers ----

    @contextlib.contextmanager
    def step(self, text):
        began = time.monotonic()
        try:
            yield
        except Failed as error:
            raise Failed(f"{text}: {error}") from error
        self.steps.append((text, time.monotonic() - began))

    @property
    def database(self):
        return self.databases[0]

    def make_databases(self):
        user = self.database
        self.server.sql(f"CREATE USER {user}@localhost IDENTIFIED BY '{PASSWORD}'")
        for database in self.databases:
            self.server.sql(f"CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE {self.collation}; GRANT ALL ON {database}.* TO {user}@localhost")
        if self.privileges:
            self.server.sql(f"GRANT {self.privileges} ON *.* TO {user}@localhost")

    def sql(self, statements, database=None):
        return self.server.sql("SET NAMES utf8mb4;" + statements, database or self.database)

    def client(self):
        """The command of the client mariadb in the root, connected to the first database as its user."""
        return f"mariadb --no-defaults -h127.0.0.1 -P{self.server.port} -u{self.database} -p{PASSWORD} {self.database}"

    def write(self, path, text):
        file = self.root.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def start(self, command, name, url=None, environment=()):
        """A program in the root, which ends with the application; waits until `url` answers."""
        program = self.root.start(command, name, environment)
        self.programs.append(program)
        deadline = time.monotonic() + START_SECONDS_MAX
        while url:
            try:
                fetch(url)
                break
            except OSError as error:
                if not program.running() or time.monotonic() > deadline:
                    raise Failed(f"{name} does not answer at {url}: {error}; it said: {program.said()[-400:]}") from error
                time.sleep(0.2)
        return program

    def php(self, folder, name, settings=""):
        """PHP's own web server over a folder; returns its address."""
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        self.start(f"php {settings} -S 127.0.0.1:{port} -t {shlex.quote(folder)}", name, f"{address}/", ["PHP_CLI_SERVER_WORKERS=4"])
        return address

    def stop_programs(self):
        while self.programs:
            self.programs.pop().stop()


def fetch(url, data=None, headers=()):
    """The answer of a web server, also when it is an error; `data` is sent as JSON unless it is bytes."""
    if data is not None and not isinstance(data, bytes):
        data, headers = json.dumps(data).encode(), [*headers, ("Content-Type", "application/json-rpc")]
    request = urllib.request.Request(url, data=data, headers=dict(headers))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            return response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace")


def wait_for(what, condition, seconds=60):
    """Waits until condition() returns something true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failed(f"{what} did not come about in {seconds} s")
        time.sleep(0.2)
