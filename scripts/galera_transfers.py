#!/usr/bin/env python3
"""Full state transfers between the nodes of a Galera cluster by `wsrep_sst_method=sluice`, and failures in them. Of rsync the pause only.

    scripts/galera_transfers.py                         all of it: some minutes
    scripts/galera_transfers.py --sst sluice --quick    a short one
    scripts/galera_transfers.py --binlog                the nodes have binary logs

What it does:
  calls      the program alone, without servers: a connection without the secret, or without any data, is refused; an option for
             encryption is refused by its name; the program ends when its server ends
  pause      a writer on the donor while a node joins: its longest wait is printed for each method
  joiner     kill -9 of the joiner during the transfer: the donor continues; the joiner then requests a full transfer again
  placing    kill -9 of the joiner while the new files replace the old ones: it must not start with half of them
  donor      kill -9 of the donor during the transfer: the joiner ends, and later joins from another node
  disk       the joiner's disk is full: it ends with an error, its old files stay, the donor continues (needs root)
After each part the nodes must have the same rows, and CHECK TABLE must find nothing. Exit code 1 at a fault; the nodes' folders are
then kept.
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import connection  # noqa: E402
import pymysql.err  # noqa: E402
from galera import NOT_THERE, PROGRAMS, Broken, Cluster, check_programs  # noqa: E402
from server import PREFIX, ServerError, SqlError, free_port  # noqa: E402

NOWHERE = "00000000-0000-0000-0000-000000000000:-1"
TABLES = """CREATE DATABASE d; USE d;
CREATE TABLE big (id INT PRIMARY KEY, v INT NOT NULL, text VARCHAR(2000) NOT NULL, KEY (v));
CREATE TABLE old (id INT PRIMARY KEY, v INT NOT NULL, text VARCHAR(2000) NOT NULL) ENGINE=InnoDB;
CREATE TABLE written (n INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE written_old (n INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB;
CREATE DATABASE e; CREATE TABLE e.aria (a INT PRIMARY KEY) ENGINE=Aria;"""


def say(text):
    print(text, flush=True)


# ---- the program alone ----

class Program:
    """The joiner's program, with a process that stands for its server."""

    def __init__(self, folder, more=(), name="data"):
        data = folder / name
        data.mkdir(exist_ok=True)
        link = folder / "wsrep_sst_sluice"
        if not link.exists():
            link.symlink_to(PROGRAMS / "sluice-backup")
        self.server = subprocess.Popen(["sleep", "100"])
        path = {**os.environ, "PATH": f"{PREFIX}/usr/bin:{os.environ['PATH']}"}
        self.process = subprocess.Popen(
            [link, "--role", "joiner", "--address", f"127.0.0.1:{free_port()}", "--datadir", data, "--parent", str(self.server.pid), "--progress", "0", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=path)

    def ready(self):
        line = self.process.stdout.readline()
        if not line.startswith("ready sluice:"):
            raise Broken(f"the program said {line!r} instead of ready: {self.process.stderr.read()}")
        user, address = line.split()[1].split("@")
        return user.split(":")[1], int(address.split("/")[0].split(":")[1])

    def end(self, code, text):
        out, err = self.process.communicate(timeout=30)
        self.server.kill()
        self.server.wait()
        if self.process.returncode != code or text not in out + err:
            raise Broken(f"the program ended with {self.process.returncode}, not {code} and {text!r}:\n{out}{err}")


def greet(port, secret, kind=1):
    """What a donor says first. Returns the number of the answer; None: the connection ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        position = b"01020304-0506-0708-090a-0b0c0d0e0f10:7 3"
        peer.sendall(b"SLUICEST" + struct.pack("<III", 1, kind, len(secret)) + secret.encode() + struct.pack("<I", len(position)) + position)
        answer = peer.recv(4)
        return struct.unpack("<I", answer)[0] if len(answer) == 4 else None


def calls(folder):
    program = Program(folder)
    secret, port = program.ready()
    if greet(port, "0" * len(secret)) != 0 or greet(port, "") != 0:
        raise Broken("a stranger without the secret was not refused")
    silent = socket.create_connection(("127.0.0.1", port))
    if greet(port, secret) != 1:
        raise Broken("the donor with the secret was refused")
    silent.close()
    program.end(0, "01020304-0506-0708-090a-0b0c0d0e0f10:7 3")
    program = Program(folder)
    secret, port = program.ready()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(b"SLUICEST" + struct.pack("<III", 1, 2, len(secret)) + secret.encode() + struct.pack("<I", 0))
        peer.recv(8)
        peer.sendall(b"no backup at all, " * 10)
    program.end(1, "[ERROR]")
    program = Program(folder)
    program.ready()
    program.server.kill()
    program.server.wait()
    program.end(32, "the server")
    options = folder / "options.cnf"
    for option in ("encrypt=3", "ssl-mode=VERIFY_CA", "tkey=/etc/key.pem"):
        options.write_text(f"[sst]\n{option}\n")
        Program(folder, ["--defaults-file", options]).end(1, f"the option {option.split('=')[0]} asks for an encrypted")
    Program(folder, ["--mysqld-args", "--no-defaults", "--sluice-directory=/elsewhere"]).end(1, "sluice_directory=/elsewhere")
    linked = folder / "linked"
    linked.mkdir()
    (linked / "#sluice").symlink_to(folder)
    Program(folder, name="linked").end(1, "is a link")
    if list((folder / "data").iterdir()):
        raise Broken(f"the program left {list((folder / 'data').iterdir())}")
    say("calls: strangers, encryption, a linked directory and a server that ends: as they must")


# ---- a cluster ----

class DonorWriter(threading.Thread):
    """Commits one row after the other on a node, and notes the longest wait."""

    def __init__(self, node, table):
        super().__init__(daemon=True)
        self.node, self.table, self.stopping, self.longest, self.commits, self.failure = node, table, threading.Event(), 0.0, 0, None

    def run(self):
        try:
            client = connection.connect(self.node, "d", autocommit=True)
            cursor = client.cursor()
            cursor.execute(f"SELECT COALESCE(MAX(n), 0) FROM {self.table}")
            n = cursor.fetchone()[0]
            while not self.stopping.is_set():
                n += 1
                began = time.monotonic()
                try:
                    cursor.execute(f"INSERT INTO {self.table} VALUES ({n}, 0)")
                    cursor.execute(f"UPDATE {self.table} SET v = v + 1 WHERE n = {n // 2 + 1}")
                except pymysql.err.OperationalError as error:
                    if error.args[0] not in (1213, 1205, *NOT_THERE):
                        raise
                    time.sleep(0.01)
                self.longest = max(self.longest, time.monotonic() - began)
                self.commits += 1
                time.sleep(0.002)
        except Exception as error:  # the main thread raises it
            self.failure = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join(120)

    def lap(self):
        longest, self.longest = self.longest, 0.0
        return longest


class Transfers:
    def __init__(self, folder, options, method):
        self.options, self.method, self.folder = options, method, folder
        more = ["--log-bin=bin", "--log-slave-updates", "--server-id=1"] if options.binlog else []
        self.cluster = Cluster(folder, "Sluice", more=[*more, *options.option], methods=(method,))
        self.first, self.second, self.third = self.cluster.nodes

    def fill(self):
        node = self.first
        node.sql(TABLES)
        for table, rows in (("big", self.options.rows), ("old", self.options.rows // 4)):
            for at in range(0, rows, 4000):
                node.sql(f"USE d; INSERT INTO {table} SELECT seq, seq % 97, REPEAT(CHAR(97 + seq % 26), 1500) FROM seq_{at + 1}_to_{min(at + 4000, rows)}")
        # The cluster does not replicate rows of Aria.
        self.cluster.wait_equal()
        for node in self.cluster.nodes:
            node.sql("INSERT INTO e.aria VALUES (1), (2)")

    def begin_join(self, node, donor):
        """Starts the node, and returns while it has no state yet."""
        node.prepare(self.cluster.seeds(node), more=[f"--wsrep-sst-donor={donor.name}"])
        node._make_folders()
        self.log_from = node.log.stat().st_size if node.log.exists() else 0
        node._process = subprocess.Popen(node.command(), env=node._environment(), cwd=node.folder, start_new_session=True,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(node.log, "ab"))
        node.pid_file.write_text(f"{node._process.pid}\n")

    def new_log(self, node):
        return node.log.read_bytes()[self.log_from:].decode(errors="replace")

    def until(self, what, condition, seconds=90):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Broken(f"{what}: not after {seconds} s")
            time.sleep(0.002)

    def in_the_middle(self, node):
        """The new files are being written."""
        def bytes_there():
            folder = node.data / (".sst" if self.method == "sluice" else "") / "#sluice"
            try:
                return sum(path.stat().st_size for path in folder.iterdir())
            except OSError:
                return 0
        self.until("the transfer began", lambda: bytes_there() > 4 << 20)

    def full_join(self, node):
        kind, seconds = self.cluster.join(node)
        if kind != "full":
            raise Broken(f"{node.name} made an incremental transfer, not a full one")
        return seconds

    def programs_left(self, node):
        """Programs of state transfers for the node that still run."""
        found = subprocess.run(["pgrep", "-f", f"wsrep_sst_.*{node.folder}"], capture_output=True, text=True, check=False).stdout.split()
        return [number for number in found if int(number) != os.getpid()]

    def compare(self):
        self.cluster.compare()
        counts = [node.sql("SELECT COUNT(*) FROM e.aria") for node in self.cluster.nodes]
        if any(count != [["2"]] for count in counts):
            raise Broken(f"the table of Aria has {counts}")

    def donor_serves(self, writer, donor):
        before = writer.commits
        self.until(f"{donor.name} commits", lambda: writer.failure or writer.commits > before + 20, 60)
        if writer.failure:
            raise Broken(f"the writer on the donor: {writer.failure!r}")
        donor.wait_synced()

    # ---- the parts ----

    def pause(self):
        node, donor = self.third, self.first
        node.stop()
        shutil.rmtree(node.data)
        for table in ("written", "written_old"):
            with DonorWriter(donor, table) as writer:
                time.sleep(2)
                before = writer.lap()
                node.install()
                self.begin_join(node, donor)
                node.wait_ready(180, self.log_from)
                node.wait_synced()
                pause, commits = writer.lap(), writer.commits
                self.donor_serves(writer, donor)
            say(f"pause: {self.method}: the donor's writer of {'Sluice' if table == 'written' else 'InnoDB'} waited {before:.2f} s at most before, "
                f"{pause:.2f} s during the transfer ({commits} commits)")
            self.compare()
            node.stop()
            shutil.rmtree(node.data)
        self.full_join(node)

    def joiner(self):
        node, donor = self.third, self.first
        node.stop()
        (node.data / "grastate.dat").unlink()
        with DonorWriter(donor, "written") as writer:
            self.begin_join(node, donor)
            self.in_the_middle(node)
            node.kill9()
            self.donor_serves(writer, donor)
            self.until("the joiner's program ended", lambda: not self.programs_left(node), 30)
            seconds = self.full_join(node)
            self.donor_serves(writer, donor)
        self.compare()
        say(f"joiner: killed in the middle; the donor went on; a full transfer then took {seconds:.1f} s")

    def placing(self):
        """Half of the files are new ones: the position must be unknown, whatever is there."""
        node, donor = self.third, self.first
        for wait in (0, 0.02, 0.1, 0.3):
            node.stop()
            (node.data / "grastate.dat").unlink()
            old = (node.data / "#sluice").stat().st_ino
            self.begin_join(node, donor)

            def is_new():
                try:
                    return (node.data / "#sluice").stat().st_ino != old
                except OSError:
                    return True
            self.until("the new files came", is_new)
            time.sleep(wait)
            for number in self.programs_left(node):
                try:
                    os.kill(int(number), signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has ended by itself
            node.kill9()
            has_all = "the data directory has the state" in self.new_log(node)
            if not has_all and (node.data / "mysql").is_dir():
                position = node.recovered_position()
                if position != NOWHERE:
                    raise Broken(f"with half of the files the node found the position {position}")
            # A node without its definitions cannot be asked for its position.
            if not (node.data / "mysql").is_dir():
                shutil.rmtree(node.data)
            seconds = self.full_join(node) if not has_all else self.cluster.join(node)[1]
            say(f"placing: killed {wait} s after the first change{' (the transfer was over)' if has_all else ''}; back in {seconds:.1f} s")
        self.compare()

    def donor(self):
        node, donor, other = self.third, self.second, self.first
        node.stop()
        (node.data / "grastate.dat").unlink()
        with DonorWriter(other, "written") as writer:
            self.begin_join(node, donor)
            self.in_the_middle(node)
            donor.kill9()
            self.until("the joiner ended", lambda: not node.running(), 120)
            self.until("the donor's program ended", lambda: not self.programs_left(donor) and not self.programs_left(node), 30)
            # Two of three nodes are gone within a moment: the last one has no majority, and is given it by hand.
            time.sleep(8)
            if other.status("cluster_status") != "Primary":
                other.sql("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=1'")
            self.donor_serves(writer, other)
            seconds = self.full_join(node)
            self.cluster.join(donor)
        self.compare()
        say(f"donor: killed in the middle; the joiner ended, and joined from another node in {seconds:.1f} s")

    def disk(self):
        node, donor = self.third, self.first
        node.stop()
        if os.geteuid() != 0:
            return say("disk: left out, it needs root")
        shutil.rmtree(node.data)
        node.data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", node.data], check=True)
        try:
            (node.data / "mysql").mkdir()
            (node.data / "mysql" / "of-old").write_text("x")
            with DonorWriter(donor, "written") as writer:
                self.begin_join(node, donor)
                self.until("the joiner ended", lambda: not node.running(), 120)
                self.donor_serves(writer, donor)
            text = self.new_log(node)
            lines = [line for line in text.splitlines() if "WSREP_SST: [ERROR]" in line]
            if not any("No space left" in line for line in text.splitlines()):
                raise Broken(f"the joiner did not say that its disk is full: {lines}")
            if self.method == "sluice" and not (node.data / "mysql" / "of-old").exists():
                raise Broken("the joiner has removed its old files for nothing")
        finally:
            node.kill9()
            subprocess.run(["umount", "-l", node.data], check=False)
        shutil.rmtree(node.data, ignore_errors=True)
        self.full_join(node)
        self.compare()
        say(f"disk: full; {lines[-1][:160] if lines else ''}")

    def run(self):
        self.cluster.start()
        self.fill()
        self.compare()
        parts = ["pause", "joiner", "placing", "donor", "disk"]
        if self.method != "sluice":
            parts = ["pause"]
        elif self.options.quick:
            parts = ["pause", "joiner"]
        for part in self.options.part or parts:
            if part != "calls":
                getattr(self, part)()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst", default="both", choices=("rsync", "sluice", "both"))
    parser.add_argument("--rows", type=int, default=60_000, help="of 1.5 kB in the table of Sluice; a quarter in that of InnoDB (%(default)s)")
    parser.add_argument("--binlog", action="store_true", help="with binary logs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", action="append", help="only this part; repeatable")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="of all nodes; repeatable")
    options = parser.parse_args()
    methods = ("rsync", "sluice") if options.sst == "both" else (options.sst,)
    check_programs(("sluice",))
    if options.quick:
        options.rows = min(options.rows, 20_000)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-transfers-"))
    folder.chmod(0o755)
    transfers = None
    try:
        if not options.part or "calls" in options.part:
            calls(folder)
        for method in methods if options.part != ["calls"] else ():
            transfers = Transfers(folder / method, options, method)
            transfers.run()
            transfers.cluster.stop()
    except (Broken, ServerError, SqlError, pymysql.err.Error) as error:
        for node in transfers.cluster.nodes if transfers else ():
            node.kill9()
        sys.exit(f"error: {error}\nthe folders stay: {folder}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
