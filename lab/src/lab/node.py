"""One server of a cell: made from a template, started with the arm's options inside a cgroup, asked, measured, ended.

Life is `scripts/server.py`'s; added here are the data directory's template (making one takes seconds, copying it none), costs
that survive a restart, and SQL over one connection instead of a client process for each statement.
"""
import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import threading
import time

import pymysql

from . import BUILD, ROOT, LabError, probe
from .cgroup import open_group

_spec = importlib.util.spec_from_file_location("sluice_server", ROOT / "scripts" / "server.py")
server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(server)

TEMPLATES = BUILD / "lab" / "templates"
# A template's redo log is small; the server resizes it at start to what the arm says.
TEMPLATE_OPTIONS = ["--innodb-log-file-size=8M"]


class Node(server.Server):
    def __init__(self, folder, name, engine, options, limits=None, plugins=None, port=None):
        super().__init__(folder, port or server.free_port(), options, plugins or ([engine.plugin] if engine.plugin else []), engine.name)
        self.engine_file = engine
        self.limits = limits or {}
        self.name = name
        self.group, self.group_missing = None, ""
        self.install_log = self.folder / "install.log"
        self._before = probe.Costs()  # of processes that have ended
        self._last = probe.Costs()
        self._connection = None
        self._watch = None

    # ---- life ----

    def install(self):
        if (self.data / "mysql").is_dir():
            return
        shaping = [option for option in self.options if option.lstrip("-").split("=")[0].replace("_", "-") in self.engine_file.install_options]
        self.folder.mkdir(parents=True, exist_ok=True)
        template = make_template(self, sorted(shaping))
        shutil.copytree(template, self.data, symlinks=True)
        for path in self.data.rglob("*"):
            if path.is_file():  # no write-back of the copy during the measurement
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def start(self, timeout=90):
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.group is None and not self.group_missing:
            self.group, self.group_missing = open_group(f"{os.getpid()}-{self.name}", self.folder, **self.limits)
            if self.group is None and any(self.limits.values()):
                raise LabError(f"the experiment limits the disk or the memory, but there is {self.group_missing}")
        super().start(timeout)
        self._watch = threading.Thread(target=self._watch_costs, daemon=True)
        self._watch.start()
        self._set_up()

    def _set_up(self):
        for statement in self.engine_file.setup:
            self.ask(statement)

    def command(self):
        command = super().command()
        return self.group.wrap(command) if self.group else command

    def stop(self, timeout=900):
        self._ending(lambda: super(Node, self).stop(timeout))

    def kill9(self):
        self._ending(super().kill9)

    def remove(self):
        """Ends the server, whatever state it is in, and frees what it took."""
        try:
            self.kill9()
        finally:
            if self.group:
                self.group.close()
            shutil.rmtree(self.data, ignore_errors=True)
            shutil.rmtree(self.folder / "tmp", ignore_errors=True)

    def _ending(self, end):
        if self._connection is not None:
            with contextlib.suppress(pymysql.Error):
                self._connection.close()
            self._connection = None
        end()
        if self._watch is not None:
            self._watch.join()
            self._before, self._last, self._watch = self._before + self._last, probe.Costs(), None

    def _watch_costs(self):
        """The costs of a process are gone with it: keep the last that were seen."""
        pid = self.pid()
        while pid is not None:
            costs = probe.process_costs(pid)
            if costs is None:
                return
            self._last = costs
            time.sleep(0.02)

    def slow_disk(self, read_iops):
        """From now on no more reads a second than that."""
        if self.group is None:
            raise LabError(f"a step slows the disk down, but there is {self.group_missing}")
        self.group.limit_reads(read_iops)

    # ---- asking ----

    @contextlib.contextmanager
    def cursor(self):
        try:
            if self._connection is None or not self._connection.open:
                self._connection = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)
            with self._connection.cursor() as cursor:
                yield cursor
        except pymysql.Error as error:
            message = error.args[1] if len(error.args) > 1 else error
            raise LabError(f"the server says: {message}") from None

    def ask(self, statement):
        with self.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def variables(self):
        return dict(self.ask("SHOW GLOBAL VARIABLES"))

    def status(self):
        found = {}
        for name, value in self.ask("SHOW GLOBAL STATUS"):
            with contextlib.suppress(ValueError):
                found[name.lower()] = float(value)
        for name, query in self.engine_file.counter_queries.items():
            with contextlib.suppress(LabError, ValueError, TypeError, IndexError):
                found[name] = float(self.ask(query)[0][0])
        return found

    # ---- measuring ----

    def costs(self):
        """All that the server has used since it was first started."""
        pid = self.pid()
        now = probe.process_costs(pid) if pid else None
        costs = self._before + (now or self._last)
        if self.group:
            with contextlib.suppress(OSError):
                costs.take_group(self.group.counts())
        return costs


def make_template(node, options):
    """A data directory as mariadb-install-db leaves it, made once for each set of options that shape one."""
    binary = node.prefix / "usr/sbin/mariadbd"
    if not binary.exists():
        raise LabError(f"there is no MariaDB in {node.prefix}: run make first")
    key = hashlib.sha256("\0".join([str(binary.resolve()), str(binary.stat().st_mtime), *options]).encode()).hexdigest()[:16]
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    template = TEMPLATES / key
    with open(TEMPLATES / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            maker = server.Server(TEMPLATES / f"{key}.make", node.port, prefix=node.prefix)
            shutil.rmtree(maker.folder, ignore_errors=True)
            _install(maker, [*TEMPLATE_OPTIONS, *options], node.install_log)
            maker.data.rename(template)
            shutil.rmtree(maker.folder, ignore_errors=True)
    return template


def _install(maker, options, log):
    (maker.folder / "tmp").mkdir(parents=True)
    result = subprocess.run(
        [maker.prefix / "usr/bin/mariadb-install-db", "--no-defaults", f"--basedir={maker.prefix}/usr", f"--datadir={maker.data}",
         f"--tmpdir={maker.folder}/tmp", "--auth-root-authentication-method=normal", "--skip-test-db", *maker._user(), *options],
        env=maker._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        log.write_text(result.stdout)
        told = next((line.split("[ERROR]")[1].strip() for line in result.stdout.splitlines() if "[ERROR]" in line), "it names no error")
        raise LabError(f"mariadb-install-db failed: {told}")


@functools.lru_cache(maxsize=None)
def server_variables(plugin):
    """The variables that the server and a plugin have, as its --help tells them; none when it cannot be asked."""
    prefix = server.PREFIX
    folder = next((path.parent for path in (BUILD / f"{plugin}.so", prefix / "usr/lib/mysql/plugin" / f"{plugin}.so") if plugin and path.exists()), None)
    load = [f"--plugin-dir={folder}", "--plugin-maturity=experimental", f"--plugin-load-add={plugin}"] if folder else []
    user = ["--user=root"] if os.geteuid() == 0 else []
    command = [prefix / "usr/sbin/mariadbd", "--no-defaults", *user, *load, "--verbose", "--help"]
    try:
        told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(dict.fromkeys(name.replace("-", "_") for name in re.findall(r"^ +(?:-\w, )?--([a-z][a-z0-9-]+)", told, re.M)))
