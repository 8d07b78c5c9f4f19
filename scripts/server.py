#!/usr/bin/env python3
"""A private MariaDB server with Sluice, on 127.0.0.1: made, started, stopped, killed and asked from one place.

    server = Server("build/run/demo", port=free_port(), options=["--sluice-buffer-pool-size=64M"])
    server.start()                          # makes the data directory when there is none; returns when SQL is answered
    server.sql("SELECT COUNT(*) FROM t")    # [["42"]]
    server.kill9(); server.start(); server.stop()

A server lives in a folder of its own, with everything it touches: data/, tmp/ (a starting server deletes what it finds in its
tmpdir, so no two may share one), plugin/, socket, pid and log. Several run side by side, each with its folder and port.
Used by `make server` and by every script here that needs a server. Command line: see --help.
"""
import argparse
import getpass
import hashlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
# Where the plugins are that are tested.
PLUGINS = pathlib.Path(os.environ.get("SLUICE_PLUGINS", BUILD))
PREFIX = BUILD / "mariadb"
SOCKET_PATH_BYTES_MAX = 107
# Below those that Linux gives to outgoing connections (32768 to 60999): one of these could take a port that was found free before the
# server has it. Above those of MariaDB's test driver (13000 to 19000).
PORTS = range(20000, 30000)
PORT_OF_MAKE_SERVER = 23306


class ServerError(Exception):
    """The server could not be started or stopped; the text says why, in one line."""


class SqlError(Exception):
    """A statement failed; the text is the client's message."""


def free_port(taken=()):
    """A free port at random: two programs that start servers at the same moment then hardly ever choose the same."""
    for port in random.sample(PORTS, len(PORTS)):
        if port not in taken and not port_is_taken(port):
            return port
    raise ServerError(f"no free port between {PORTS[0]} and {PORTS[-1]}")


def port_is_taken(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def base_of(prefix):
    """The folder over a MariaDB's bin, sbin and share: usr in a prefix of Debian's packages, or the prefix itself."""
    return prefix / "usr" if (prefix / "usr/sbin/mariadbd").exists() else prefix


class Server:
    def __init__(self, folder, port, options=(), plugins=("ha_sluice",), engine="Sluice", prefix=PREFIX, stand_in=False):
        """`plugins` are loaded at start (more names of build/*.so or of the stock plugins); `engine` is the default one.
        `options` come last on the command line, so they win. `stand_in`: build/ha_innodb.so in InnoDB's place, from the system
        tables on."""
        if stand_in:
            plugins, engine, options = ("ha_innodb", *(name for name in plugins if name != "ha_sluice")), "InnoDB", ["--ignore-builtin-innodb", *options]
        self.folder = pathlib.Path(folder).resolve()
        self.port = port
        self.options = list(options)
        self.plugins = list(plugins)
        self.engine = engine
        self.stand_in = stand_in
        self.prefix = pathlib.Path(prefix).resolve()
        self.base = base_of(self.prefix)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.pid_file = self.folder / "pid"
        self.socket = self.folder / "socket"
        if len(bytes(self.socket)) > SOCKET_PATH_BYTES_MAX:
            digest = hashlib.sha256(bytes(self.folder)).hexdigest()[:16]
            self.socket = pathlib.Path(tempfile.gettempdir()) / f"sluice-{digest}.socket"
        self._process = None

    # ---- life ----

    def install(self):
        """Makes the data directory when there is none."""
        if (self.data / "mysql").is_dir():
            return
        shutil.rmtree(self.data, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / "data.part"
        shutil.rmtree(part, ignore_errors=True)
        self._make_folders()
        result = subprocess.run(
            [self.base / "bin/mariadb-install-db", "--no-defaults", f"--basedir={self.base}", f"--datadir={part}",
             f"--tmpdir={self.folder}/tmp", "--auth-root-authentication-method=normal", *self._user(), *self._install_options()],
            env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            self.log.write_text(result.stdout)
            raise ServerError(f"mariadb-install-db failed; its output is in {self.log}")
        part.rename(self.data)

    def start(self, timeout=60):
        """Starts the server and returns when it answers. Does nothing when it already runs."""
        if self.running():
            return
        if not (self.base / "sbin/mariadbd").exists():
            raise ServerError(f"there is no MariaDB in {self.prefix}: run make first")
        if port_is_taken(self.port):
            raise ServerError(f"port {self.port} is taken: stop what uses it or choose another (make server PORT=...)")
        self.install()
        self._make_folders()
        self.pid_file.unlink(missing_ok=True)
        log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = subprocess.Popen(
            self.command(), env=self._environment(), cwd=self.folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.log, "ab"))
        self.pid_file.write_text(f"{self._process.pid}\n")
        self.wait_ready(timeout, log_start)

    def wait_ready(self, timeout=60, log_start=0):
        """Waits until the server greets a client, which it does only when it is ready for statements."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.running():
                raise ServerError(f"the server did not start: {self._last_error(log_start)} (log: {self.log})")
            if self._greets():
                return
            time.sleep(0.05)
        raise ServerError(f"the server is not ready after {timeout} s (log: {self.log})")

    def stop(self, timeout=120):
        """Asks the server to shut down and waits until it has."""
        self._end(signal.SIGTERM, timeout)

    def kill9(self):
        """Ends the server at once, as a crash would."""
        self._end(signal.SIGKILL, 30)

    def pid(self):
        """The process id, or None when the server does not run."""
        if self._process is not None:
            self._process.poll()  # a child that ended is gone only once it is waited for
        try:
            pid = int(self.pid_file.read_text())
            process = pathlib.Path(f"/proc/{pid}")
            command = (process / "cmdline").read_bytes()
            if not command:  # it is on its way out: gone when it is a zombie and its other threads have let go of its files
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                return None if state in "ZX" and len(os.listdir(process / "task")) <= 1 else pid
        except (OSError, ValueError):
            return None
        return pid if f"--datadir={self.data}".encode() in command.split(b"\0") else None

    def running(self):
        return self.pid() is not None

    # ---- asking ----

    def client(self, *arguments):
        """The command line of a client connected as root, for subprocess or for a person."""
        return [str(self.base / "bin/mariadb"), "--no-defaults", f"--socket={self.socket}", "--user=root", *arguments]

    def sql(self, statements, database="", timeout=None):
        """Runs statements and returns the rows of all results: a list of lists of strings, NULL as 'NULL'."""
        result = subprocess.run(self.client("--batch", "--skip-column-names", *([database] if database else [])),
                                input=statements, capture_output=True, text=True, timeout=timeout)
        if result.returncode != 0:
            raise SqlError("\n".join(line for line in result.stderr.splitlines() if line.startswith("ERROR")) or result.stderr.strip())
        return [line.split("\t") for line in result.stdout.splitlines()]

    # ---- how ----

    def command(self):
        return [
            str(self.base / "sbin/mariadbd"), "--no-defaults", *self._user(),
            f"--basedir={self.base}", f"--lc-messages-dir={self.share()}", f"--character-sets-dir={self.share()}/charsets",
            f"--datadir={self.data}", f"--tmpdir={self.folder}/tmp", f"--socket={self.socket}",
            f"--port={self.port}", "--bind-address=127.0.0.1",
            f"--plugin-dir={self.folder}/plugin", "--plugin-maturity=experimental",
            *(f"--plugin-load-add={name}" for name in self.plugins),
            f"--default-storage-engine={self.engine}", *self.options,
        ]

    def _install_options(self):
        """The system tables of a stand-in are in its own engine."""
        if not self.stand_in:
            return []
        return ["--ignore-builtin-innodb", f"--plugin-dir={self.folder}/plugin", "--plugin-maturity=experimental",
                "--plugin-load-add=ha_innodb"]

    def share(self):
        """The server's messages, character sets and test suites: Debian renamed the folder with MariaDB 11."""
        folders = [self.base / "share" / name for name in ("mariadb", "mysql")]
        return next((folder for folder in folders if (folder / "charsets").is_dir()), folders[0])

    def _user(self):
        return ["--user=root"] if os.geteuid() == 0 else [f"--user={getpass.getuser()}"]

    def _environment(self):
        """State transfer and install scripts find their programs in the prefix first."""
        return {**os.environ, "PATH": f"{self.base}/bin:{self.base}/sbin:{os.environ.get('PATH', '/usr/bin:/bin')}"}

    def _make_folders(self):
        """One folder with the stock plugins and ours, as links that are made anew: a plugin may have come or gone."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        plugin = self.folder / "plugin"
        shutil.rmtree(plugin, ignore_errors=True)
        plugin.mkdir()
        for library in [*(self.base / "lib/mysql/plugin").glob("*.so"), *PLUGINS.glob("ha_*.so")]:
            link = plugin / library.name
            link.unlink(missing_ok=True)
            link.symlink_to(library)

    def _greets(self):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(str(self.socket))
                return bool(connection.recv(1))
        except OSError:
            return False

    def _end(self, how, timeout):
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, how)
        deadline = time.monotonic() + timeout
        while self.running():
            if time.monotonic() > deadline:
                raise ServerError(f"server {pid} still runs {timeout} s after signal {int(how)} (log: {self.log})")
            time.sleep(0.02)
        self.pid_file.unlink(missing_ok=True)

    def _last_error(self, log_start):
        try:
            lines = self.log.read_bytes()[log_start:].decode(errors="replace").splitlines()
        except OSError:
            return "no log"
        errors = [line for line in lines if "[ERROR]" in line]
        return (errors or lines or ["it said nothing"])[0].split("[ERROR]")[-1].strip()


def main():
    parser = argparse.ArgumentParser(
        description="A private MariaDB server with Sluice on 127.0.0.1; its error log is FOLDER/log, its data FOLDER/data.")
    parser.add_argument("action", choices=["start", "stop", "kill9", "status", "sql"],
                        help="start (again), stop, kill -9, tell whether it runs, or ask as root")
    parser.add_argument("statements", nargs="?", help="for sql: what to run (standard input when absent)")
    parser.add_argument("--folder", default=BUILD / "run/server", help="where the server lives (build/run/server; others: ls build/run)")
    parser.add_argument("--port", type=int, default=PORT_OF_MAKE_SERVER, help="for start (%(default)s)")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE",
                        help="an option of the server, for start; repeatable. Write it as one word: --option=--NAME=VALUE")
    arguments = parser.parse_intermixed_args()  # statements may come after options
    server = Server(arguments.folder, arguments.port, arguments.option)
    try:
        if arguments.action == "start":
            server.start()
            print(f"server {server.pid()} is ready; connect with:\n  " + " ".join(server.client()))
        elif arguments.action == "sql":
            statements = arguments.statements if arguments.statements is not None else sys.stdin.read()
            for row in server.sql(statements):
                print("\t".join(row))
        elif arguments.action == "status":
            print(f"server {server.pid()} runs" if server.running() else "no server runs")
        else:
            getattr(server, arguments.action)()
    except (ServerError, SqlError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
