"""A shadow tree for MariaDB's test driver (mtr): the prefix's own driver and suites, with ours beside them.

mtr finds everything relative to the folder it lies in, and loads plugins from the server's own plugin folder. So that the
prefix stays as it was unpacked, a tree of links is made in which only these are real:

    FOLDER/bin, sbin                    links into the prefix
    FOLDER/lib/mysql/plugin/            every plugin of the prefix, and ours
    FOLDER/share/mysql/mysql-test/      the driver and its includes, as links
    FOLDER/share/mysql/mysql-test/suite/   the prefix's suites as links, and what add_suite() puts there
    FOLDER/var/                         what a run writes: data directories, logs

Called by compare.py (MariaDB's suites) and by scripts/sqltest (our own suite).
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from server import base_of  # noqa: E402

# "suite.test 'combination' w1 [ pass ]   12": mtr's line for a test that ended.
RESULT_LINE = re.compile(r"^(?P<name>\S+)\s+(?:'[^']*'\s+)?(?:w\d+\s+)?\[ (?P<outcome>[^\]]+) \](?P<rest>.*)$")
RULER = re.compile(r"^-{10,}$")
CLOSING_LINE = "The servers were restarted"  # the first line of mtr's summary


class TreeError(Exception):
    """The driver cannot run; the text says why, in one line."""


@dataclass
class Result:
    name: str  # suite.test
    outcome: str  # pass, fail, skipped, disabled
    text: str  # what mtr printed about it


class Tree:
    def __init__(self, folder, prefix, plugins=()):
        """`prefix` is a folder over sbin/mariadbd or usr/sbin/mariadbd ("/usr" for an installed MariaDB); `plugins` are files of ours."""
        self.folder = pathlib.Path(folder).resolve()
        self.base = base_of(pathlib.Path(prefix).resolve())
        self.plugins = [pathlib.Path(plugin).resolve() for plugin in plugins]
        self.bootstrap_options = []  # of the server that makes the system tables, beside those of mtr
        self.as_nobody = False  # run() by root: as the user nobody
        self.programs = {}  # name -> file: in the server's PATH
        self.installed_tests = self._installed_tests()
        # Debian 12 calls these mysql and mysql-test, Debian 13 mariadb and mariadb-test.
        self.tests = self.folder / "share" / self.installed_tests.parent.name / self.installed_tests.name

    def _installed_tests(self):
        for share in ("mysql/mysql-test", "mariadb/mariadb-test", "mariadb/mysql-test", "mysql/mariadb-test"):
            folder = self.base / "share" / share
            if (folder / "suite").is_dir():
                return folder
        raise TreeError(f"there is no mysql-test folder with suites under {self.base}/share: are mariadb-test and "
                        "mariadb-test-data installed?")

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name in ("bin", "sbin"):
            (self.folder / name).symlink_to(self.base / name)
        plugin_folder = self.folder / "lib/mysql/plugin"
        for source in ("lib/mysql/plugin", "lib/mariadb/plugin"):
            if (self.base / source).is_dir():
                link_entries(self.base / source, plugin_folder)
        for plugin in self.plugins:
            if not plugin.exists():
                raise TreeError(f"there is no {plugin}: run make first")
            replace_link(plugin_folder / plugin.name, plugin)
        # From the bottom up: a folder that is already real is not replaced by a link to the original.
        link_entries(self.installed_tests / "suite", self.tests / "suite")
        link_entries(self.installed_tests, self.tests)
        link_entries(self.installed_tests.parent, self.tests.parent)

    def add_suite(self, name, source, in_place):
        """A suite of ours: `in_place` when results are recorded, else as a copy, so that mtr's .reject files stay out of it."""
        target = self.tests / "suite" / name
        if in_place:
            replace_link(target, pathlib.Path(source).resolve())
        else:
            shutil.copytree(source, target)

    def copy_suite(self, name, without):
        """A private copy of an installed suite, less the files that match the patterns `without`."""
        target = self.tests / "suite" / name
        target.unlink()
        shutil.copytree(self.installed_tests / "suite" / name, target, ignore=shutil.ignore_patterns(*without))
        return target

    def copy_tests(self, name, without):
        """The same of another folder beside `suite`, such as `include`."""
        target = self.tests / name
        target.unlink()
        shutil.copytree(self.installed_tests / name, target, ignore=shutil.ignore_patterns(*without))
        return target

    def run(self, suites, options, tests=(), on_result=lambda result: None):
        """Runs the suites (or only `tests` of them); returns the results, with the driver's whole output in FOLDER/output."""
        command = ["perl", "mariadb-test-run.pl" if (self.tests / "mariadb-test-run.pl").exists() else "mtr",
                   f"--vardir={self.folder}/var", "--force", "--max-test-fail=0", "--max-save-core=0", "--max-save-datadir=0",
                   *([f"--suite={','.join(suites)}"] if suites else []), *options, *tests]
        output = self.folder / "output"
        if self.as_nobody and os.geteuid() == 0:
            subprocess.run(["chown", "-hR", "nobody:nogroup", self.folder], check=True)
            command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        results = []
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
        with open(output, "w") as log, subprocess.Popen(
                command, cwd=self.tests, env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", process_group=0) as process:
            closed = False
            try:
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    closed = closed or line.startswith(CLOSING_LINE)
                    if not closed:
                        collect(results, line, on_result)
            finally:  # interrupted: mtr, its workers and what watches its servers end them when they are told to end
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
        if not results:
            raise TreeError(f"mtr ran no test: {last_line(output)} (output: {output})")
        return results

    def _environment(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MTR_") or name == "MTR_PORT_BASE"}
        environment.setdefault("WSREP_PROVIDER", str(self.base / "lib/galera/libgalera_smm.so"))
        if self.bootstrap_options:
            bootstrap = self.folder / "bootstrap"
            bootstrap.write_text(f'#!/bin/bash\nexec {self.base}/sbin/mariadbd "$@" {" ".join(self.bootstrap_options)}\n')
            bootstrap.chmod(0o755)
            environment["MYSQLD_BOOTSTRAP"] = str(bootstrap)
        # gawk and patch of the prefix, where the system has none.
        environment["PATH"] = f"{environment.get('PATH', '/usr/bin:/bin')}:{self.base}/bin"
        if self.programs:
            folder = self.folder / "programs"
            folder.mkdir(exist_ok=True)
            for name, path in self.programs.items():
                replace_link(folder / name, path)
            environment["PATH"] = f"{folder}:{environment['PATH']}"
        return environment


def link_entries(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if not (target / entry.name).exists():
            replace_link(target / entry.name, entry)


def replace_link(link, target):
    if link.is_symlink():
        link.unlink()
    link.symlink_to(target)


def collect(results, line, on_result):
    """A line with an outcome opens a result; the lines after it are what mtr says about it."""
    match = RESULT_LINE.match(line)
    if match and "." in match["name"]:
        outcome = match["outcome"].strip()
        results.append(Result(match["name"], outcome.split("-")[-1], match["rest"].strip() + "\n"))
        on_result(results[-1])
    elif results and not RULER.match(line):
        results[-1].text += line


def last_line(path):
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
