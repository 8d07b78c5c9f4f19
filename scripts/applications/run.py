#!/usr/bin/env python3
"""`make stand-in-applications`: applications of Debian on a server in which Sluice is the only transactional engine. Needs root.

The applications run in a clean root of Debian 12 under build/applications, unchanged. Each is installed by its own installer
and used, in headless Chromium or by its own commands. Then these must hold:
- all tables say ENGINE=InnoDB, but for those that the application gives to another engine; CHECK TABLE EXTENDED finds them sound;
- the server's error log has no error;
- after kill -9 of the server and a start all rows are the same, and the application goes on with them.
The same steps run on a server with the real InnoDB: the definitions of all tables must be equal. --on stand-in leaves that out.
The last result of each application is kept in build/applications/results. --page writes the guide's page from them.

Exit code 1 when an application fails; the log of its commands is build/applications/root.log.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import checks  # noqa: E402
import display  # noqa: E402
from browser import Browser, WebDriverError  # noqa: E402
from debian_root import DebianRoot, Failed  # noqa: E402
from django_site import DjangoSite  # noqa: E402
from exporter import Exporter  # noqa: E402
from mediawiki import MediaWiki  # noqa: E402
from mydumper import MyDumper  # noqa: E402
from phpmyadmin import PhpMyAdmin  # noqa: E402
from redmine import Redmine  # noqa: E402
from schema_change import SchemaChange  # noqa: E402
from server import BUILD, PLUGINS, Server, ServerError, SqlError, free_port  # noqa: E402
from sysbench import Sysbench  # noqa: E402
from wordpress import WordPress  # noqa: E402
from zabbix import Zabbix  # noqa: E402

APPLICATIONS = (WordPress, MediaWiki, Redmine, Zabbix, DjangoSite, PhpMyAdmin, Sysbench, MyDumper, SchemaChange, Exporter)
COMMON_PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core", "mariadb-client", "dbconfig-no-thanks")
PLACE = BUILD / "applications"
CODENAME = "bookworm"
PAGE = ROOT / "docs/guide/stand-in-applications.md"
PAGE_MARKS = ("<!-- The tables of make stand-in-applications APPLICATIONS=--page begin. -->", "<!-- They end. -->")
STAND_IN, OWN = "stand-in", "InnoDB"
# By both servers alike: InnoDB and the stand-in have the same variables.
OPTIONS = ["--innodb-buffer-pool-size=128M", "--character-set-server=utf8mb4", "--max-allowed-packet=64M", "--log-bin", "--server-id=1",
           "--log-bin-trust-function-creators"]  # Zabbix asks for it where its user lacks SUPER


def open_root(applications):
    """The root with all packages; made once, and brought up to date when an application needs more."""
    folder, archives = PLACE / "root", PLACE / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    base_done, packages_done = PLACE / "base.complete", PLACE / "packages"
    if not base_done.exists():
        subprocess.run([ROOT / "scripts/clean-root", CODENAME, folder, "ca-certificates"], check=True)
        policy = folder / "usr/sbin/policy-rc.d"  # nothing is started by an install
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        base_done.touch()
    (PLACE / "root.log").unlink(missing_ok=True)
    root = DebianRoot(folder, archives)
    try:
        wanted = sorted({*COMMON_PACKAGES, *(package for one in applications for package in one.packages)})
        present = set(packages_done.read_text().split()) if packages_done.exists() else set()
        if missing := [package for package in wanted if package not in present]:
            display.say(f"installing {len(missing)} packages and what they need in {folder.relative_to(ROOT)}")
            if "dbconfig-no-thanks" in missing:
                root.apt("install dbconfig-no-thanks")
            root.apt(f"install {' '.join(missing)}")
            packages_done.write_text("\n".join({*present, *wanted}) + "\n")
    except BaseException:
        root.close()
        raise
    return root


def make_server(engine):
    folder = PLACE / f"servers/{engine}-{os.getpid()}"  # two runs may be under way
    shutil.rmtree(folder, ignore_errors=True)
    server = Server(folder, free_port(), OPTIONS, plugins=(), engine="InnoDB", stand_in=engine == STAND_IN)
    server.start()
    # Anyone at localhost would be met before a user of that name, as mariadb-secure-installation knows.
    server.sql("DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES")
    return server


class Trial:
    """One application on one server."""

    def __init__(self, kind, root, server, browser):
        self.application = kind(root, server, browser, PLACE)
        self.server = server
        self.log = checks.Log(server)
        self.log.new_lines("ERROR")
        self.tables = []
        self.notes = []

    def run(self):
        application = self.application
        try:
            application.make_databases()
            application.install()
            self.notes = application.use()
            self.check()
            self.crash()
            with application.step("after kill -9: goes on with the same data"):
                application.serves()
            self.check()
            self.definitions = checks.definitions(self.server, application.databases)
        finally:
            application.stop_programs()

    def check(self):
        self.tables = checks.engines(self.server, self.application.databases, self.application.other_engines)
        checks.sound(self.server, self.tables)
        self.log.expect_no_errors(self.application.known_errors)

    def crash(self):
        """kill -9 while the application runs and holds connections."""
        self.application.before_crash()
        before = checks.checksums(self.server, self.tables)
        self.server.kill9()
        self.server.start()
        checks.equal(before, checks.checksums(self.server, self.tables), "after kill -9 rows")
        self.application.after_crash()


class Result:
    """What came of an application; kept as JSON."""

    def __init__(self, kind, root):
        version = root.run(f"dpkg-query -W -f '${{Version}}' {kind.packages[0]}").rpartition(":")[2].strip()
        self.kept = {"name": kind.name, "package": f"{kind.packages[0]} {version}", "commit": commit(), "steps": [], "tables": 0, "others": [],
                     "notes": [], "compared": "not run", "error": ""}

    def of(self, trial):
        self.kept.update(tables=len(trial.tables), notes=trial.notes, steps=trial.application.steps,
                         others=sorted(f"{table} ({engine})" for _, table, engine in trial.tables if engine != "InnoDB"))

    def keep(self):
        file = result_file(self.kept["name"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.kept, indent=1), encoding="utf-8")


def result_file(name):
    return PLACE / "results" / f"{name}.json"


def row(kept):
    error = " ".join(kept["error"].split())[:160]
    return [kept["name"], kept["package"], len(kept["steps"]), kept["tables"], kept["compared"], f"fails: {error}" if error else "runs", kept["commit"]]


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=True).stdout.strip()


def compare(trial, own):
    names = sorted(trial.definitions.keys() | own.definitions.keys())
    wrong = [name for name in names if trial.definitions.get(name) != own.definitions.get(name)]
    if wrong:
        raise Failed(f"definitions differ from InnoDB's: {', '.join(wrong[:10])}: {trial.definitions.get(wrong[0])!r} "
                     f"and not {own.definitions.get(wrong[0])!r}")
    return f"{len(names)} equal"


def try_one(kind, root, servers, browser):
    result = Result(kind, root)
    trials = []
    for engine, server in servers.items():
        trial = Trial(kind, root, server, browser)
        try:
            with browser:
                try:
                    trial.run()
                except BaseException:
                    browser.picture(PLACE / f"failed-{kind.name}.png")
                    raise
            trials.append(trial)
            if engine == STAND_IN:
                result.of(trial)
            elif len(trials) > 1:
                result.kept["compared"] = compare(trials[0], trial)
        except (Failed, SqlError, ServerError, WebDriverError, subprocess.SubprocessError) as error:
            display.say(traceback.format_exc(limit=-3))
            result.kept["error"] = f"{'' if engine == STAND_IN else 'on InnoDB: '}{error}"
            result.kept["steps"] = result.kept["steps"] or trial.application.steps
            break
    if STAND_IN in servers:
        result.keep()
    return result.kept


def chosen(names):
    known = {kind.name.lower(): kind for kind in APPLICATIONS}
    for name in names:
        if name.lower() not in known:
            sys.exit(f"error: no application is called '{name}': there are {', '.join(known)}")
    return [known[name.lower()] for name in names] or list(APPLICATIONS)


def write_page():
    """Puts the kept results between the marks of the guide's page."""
    results = [json.loads(result_file(kind.name).read_text()) for kind in APPLICATIONS if result_file(kind.name).exists()]
    parts = [display.markdown(COLUMNS, [row(kept) for kept in results])]
    for kept in results:
        part = [f"### {kept['name']}", "\n".join(f"{number}. {text}" for number, (text, _) in enumerate(kept["steps"], 1))]
        if kept["others"]:
            part.append(f"The application gives tables to another engine: {', '.join(kept['others'])}.")
        parts += part + kept["notes"]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(PAGE_MARKS[0])
    after = rest.partition(PAGE_MARKS[1])[2]
    PAGE.write_text(f"{before}{PAGE_MARKS[0]}\n\n" + "\n\n".join(parts) + f"\n\n{PAGE_MARKS[1]}{after}", encoding="utf-8")


COLUMNS = ("application", "package", "steps", "tables", "definitions beside InnoDB's", "outcome", "commit")


def main():
    parser = argparse.ArgumentParser(description="Applications on a server with Sluice in InnoDB's place.")
    parser.add_argument("application", nargs="*", help=f"some of {', '.join(kind.name for kind in APPLICATIONS)}")
    parser.add_argument("--on", choices=(STAND_IN, OWN), help="one server alone: without a comparison")
    parser.add_argument("--page", action="store_true", help=f"write the kept results into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--page-only", action="store_true", help="the same, and run nothing")
    arguments = parser.parse_args()
    if arguments.page_only:
        write_page()
        return
    if not (PLUGINS / "ha_innodb.so").exists():
        sys.exit(f"error: there is no ha_innodb.so in {PLUGINS}: run make stand-in first")
    applications = chosen(arguments.application)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended from outside"))
    results, servers, root = [], {}, None
    try:
        root = open_root(applications)
        for engine in (arguments.on,) if arguments.on else (STAND_IN, OWN):
            servers[engine] = make_server(engine)
        browser = Browser(root, free_port())
        for kind in applications:
            began = time.monotonic()
            kept = try_one(kind, root, servers, browser)
            results.append(kept)
            display.say(f"{kind.name}: {kept['error'] or 'runs'} ({time.monotonic() - began:.0f} s)")
            for text, seconds in kept["steps"]:
                display.say(f"  {seconds:5.1f} s  {text}")
    except (Failed, ServerError, SqlError, subprocess.SubprocessError) as error:
        sys.exit(f"error: {error}")
    finally:
        for server in servers.values():
            server.stop()
            if not any(kept["error"] for kept in results):
                shutil.rmtree(server.folder)
        if root:
            root.close()
    display.plain_table(COLUMNS, [row(kept) for kept in results])
    for kept in results:
        for note in kept["notes"]:
            display.say(f"{kept['name']}: {note}")
    if arguments.page:
        write_page()
    sys.exit(1 if any(kept["error"] for kept in results) else 0)


if __name__ == "__main__":
    main()
