"""A full disk: the engine's files lie on a small file system of their own, which a balloon fills up in the middle of a load. The statement
fails, the server lives, reads go on, what was committed is there; when the balloon is gone, everything works on, without a restart.

Needs a file system to mount: a tmpfs in a mount namespace of the server's own (`unshare`; root, or user namespaces allowed). Where
neither works the trials are left out, and say so.
"""
import os
import shutil
import subprocess
import threading
import time

import connection
from server import Server, SqlError, free_port
from trial import Broken, expect_sound, wait_until

MIB = 1 << 20
SIZE = 160 * MIB


class SmallDisk:
    """A server whose engine directory is a tmpfs; the file system is reached through /proc/PID/root."""

    def __init__(self, folder, *options):
        self.mount = folder / "small"
        self.server = SmallServer(folder, free_port(), [f"--sluice-directory={self.mount}", "--sluice-buffer-pool-size=8M",
                                                        "--sluice-redo-log-capacity=16M", "--sluice-lock-wait-timeout=3", *options])

    def start(self):
        self.mount.mkdir(parents=True, exist_ok=True)
        self.server.start()
        self.pid = self.server.pid()
        self.root = f"/proc/{self.pid}/root{self.mount}"
        self.server.sql("CREATE DATABASE f")

    def sql(self, text):
        return self.server.sql(text, "f", timeout=120)

    def refused(self, statement, client=None):
        """The error; None if there is none. Without a client, in a connection of its own."""
        own = client or connection.connect(self.server, "f", autocommit=True)
        try:
            with own.cursor() as cursor:
                cursor.execute(statement)
                cursor.fetchall()
            return None
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error):
                raise Broken(f"the connection was lost: {error}") from error
            return str(error)
        finally:
            if client is None:
                own.close()

    def expect_alive(self):
        if self.server.pid() != self.pid:
            raise Broken("the server died")

    def expect_sound(self, table, rows):
        expect_sound(self.sql, table, rows)

    def free(self):
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave=0):
        """Takes all but `leave` bytes."""
        with open(f"{self.root}/balloon", "ab") as balloon:
            for _ in range(1000):
                take = self.free() - leave
                if take <= 0:
                    return
                try:
                    os.posix_fallocate(balloon.fileno(), os.fstat(balloon.fileno()).st_size, take)
                except OSError:
                    continue  # the server took some of it meanwhile

    def give_back(self):
        os.unlink(f"{self.root}/balloon")


class SmallServer(Server):
    def command(self):
        mount = next(option.partition("=")[2] for option in self.options if option.startswith("--sluice-directory="))
        # exec: the server's process id is the one that was started.
        script = f'mount -t tmpfs -o size={SIZE} tmpfs "{mount}" && exec "$@"'
        return [*namespace(), "sh", "-c", script, "sh", *super().command()]


def namespace():
    return ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


def works():
    probe = subprocess.run([*namespace(), "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"], capture_output=True)
    return probe.returncode == 0


def with_disk(body, *options):
    def run(trial, _how):
        trial.server.kill9()
        folder = trial.folder / "full"
        shutil.rmtree(folder, ignore_errors=True)
        disk = SmallDisk(folder, *options)
        try:
            disk.start()
            return body(disk)
        finally:
            disk.server.kill9()
    return run


def data_file(disk):
    """A load of single rows; the disk fills up under it."""
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, a INT, pad VARBINARY(2000), KEY (a)) ENGINE=Sluice")
    with connection.connect(disk.server, "f", autocommit=True) as client, client.cursor() as cursor:
        rows, error = 0, None
        disk.fill(12 * MIB)
        while error is None:
            try:
                cursor.execute(f"INSERT INTO t VALUES ({rows}, {rows * 7 % 1000}, REPEAT('x', 1900))")
                rows += 1
            except connection.pymysql.err.Error as problem:
                error = problem
            if rows == 2000:
                disk.fill()
            if rows > 200000:
                raise Broken("the disk does not fill up")
        if connection.is_lost(error):
            raise Broken(f"the connection was lost: {error}")
        disk.expect_alive()
        for statement in ("SELECT COUNT(*), SUM(LENGTH(pad)) FROM t", "SELECT COUNT(*) FROM t FORCE INDEX (a) WHERE a < 500"):
            if problem := disk.refused(statement):
                raise Broken(f"{statement}: {problem}")
        disk.give_back()
        cursor.execute(f"INSERT INTO t VALUES ({rows}, 1, REPEAT('x', 1900))")
    disk.expect_alive()
    disk.expect_sound("t", rows + 1)
    return "statements that need room", f"make room; error {error.args[0]}"


def big_statement(disk):
    """One statement that fills the disk is undone whole."""
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, a INT, pad VARBINARY(2000), KEY (a)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, seq % 77, REPEAT('x', 1000) FROM seq_1_to_5000")
    disk.fill(6 * MIB)
    problem = disk.refused("INSERT INTO t SELECT seq + 5000, seq % 77, REPEAT('y', 1900) FROM seq_1_to_20000")
    if not problem:
        raise Broken("the statement had room")
    disk.expect_alive()
    disk.fill()
    problem_2 = disk.refused("UPDATE t SET pad = REPEAT('z', 1990)")
    disk.expect_alive()
    disk.give_back()
    # A rollback that had no room goes on by itself once there is some.
    if not wait_until(30, lambda: disk.refused("UPDATE t SET a = a + 1") is None):
        raise Broken("rows stay locked: " + str(disk.refused("UPDATE t SET a = a + 1")))
    disk.expect_alive()
    disk.expect_sound("t", 5000)
    if int(disk.sql("SELECT COUNT(*) FROM f.t WHERE pad LIKE 'z%'")[0][0]) != (0 if problem_2 else 5000):
        raise Broken("half of a statement is there")
    return "the statement, undone whole", "make room"


def undo(disk):
    """One transaction writes undo until the disk is full, then rolls back."""
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, pad CHAR(250)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, 'a' FROM seq_1_to_3000")
    with connection.connect(disk.server, "f") as client:
        disk.fill(4 * MIB)
        problem = None
        for round_no in range(200):
            problem = disk.refused(f"UPDATE t SET pad = REPEAT('{chr(98 + round_no % 20)}', 250)", client)
            if problem:
                break
        if not problem:
            raise Broken("undo found room")
        disk.expect_alive()
        client.rollback()
    disk.expect_alive()
    disk.give_back()
    if not wait_until(30, lambda: disk.sql("SELECT COUNT(*) FROM f.t WHERE pad = 'a'")[0][0] == "3000"):
        raise Broken("the rollback is not whole")
    disk.expect_sound("t", 3000)
    disk.sql("UPDATE f.t SET pad = 'c'")
    return "the transaction", "make room"


def redo(disk):
    """The log must grow: its capacity is raised, and there is no room for its files."""
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, pad VARBINARY(2000)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, REPEAT('x', 500) FROM seq_1_to_2000")
    disk.sql("SET GLOBAL sluice_redo_log_capacity = 512 << 20")
    disk.fill()
    failures = 0
    for n in range(60):
        failures += disk.refused(f"UPDATE t SET pad = REPEAT('{chr(97 + n % 26)}', 500)") is not None
        disk.expect_alive()
    disk.give_back()
    if not wait_until(30, lambda: disk.refused("UPDATE t SET pad = REPEAT('!', 500)") is None):
        raise Broken("it does not work on: " + str(disk.refused("UPDATE t SET pad = REPEAT('!', 500)")))
    disk.expect_alive()
    disk.expect_sound("t", 2000)
    return f"{failures} of 60 statements", "make room"


def doublewrite(disk):
    """The doublewrite file has its room from the start: pages are written on a full disk."""
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, pad VARBINARY(2000), n INT) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, REPEAT('x', 1500), 0 FROM seq_1_to_9000")
    disk.fill()
    for _ in range(3):
        if problem := disk.refused("UPDATE t SET n = n + 1"):
            if "full" not in problem:
                raise Broken(problem)
        disk.expect_alive()
    disk.give_back()
    if not wait_until(30, lambda: disk.refused("UPDATE t SET n = n + 1") is None):
        raise Broken("it does not work on")
    disk.expect_sound("t", 9000)
    return "at most statements that need undo", "make room"


def temporary(disk):
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, pad VARBINARY(2000)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, REPEAT('x', 1500) FROM seq_1_to_9000")
    disk.fill(3 * MIB)
    with connection.connect(disk.server, "f", autocommit=True) as client:
        problem = disk.refused("CREATE TEMPORARY TABLE tmp ENGINE=Sluice SELECT * FROM t", client)
        if not problem:
            raise Broken("the temporary table found room")
        disk.expect_alive()
        disk.give_back()
        if problem := disk.refused("CREATE TEMPORARY TABLE tmp ENGINE=Sluice SELECT * FROM t", client):
            raise Broken(problem)
    disk.expect_sound("t", 9000)
    return "the statement", "make room"


def index_build(disk):
    """Sort files and pages of an index that is being built."""
    disk.sql("SET GLOBAL sluice_sort_buffer_size = 65536; CREATE TABLE f.t (id INT PRIMARY KEY, pad VARBINARY(1000)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, CONCAT(seq % 977, REPEAT('x', 800)) FROM seq_1_to_15000")
    disk.fill(4 * MIB)
    if not disk.refused("ALTER TABLE t ADD INDEX (pad)"):
        raise Broken("the index found room")
    disk.expect_alive()
    disk.expect_sound("t", 15000)
    disk.give_back()
    if problem := disk.refused("ALTER TABLE t ADD INDEX (pad)"):
        raise Broken(problem)
    disk.expect_sound("t", 15000)
    return "the statement", "make room"


def delta_trees(disk):
    disk.sql("CREATE TABLE f.t (id INT PRIMARY KEY, a INT, b INT, KEY (a), KEY (b)) ENGINE=Sluice;"
             "INSERT INTO f.t SELECT seq, seq * 7919 % 100003, seq * 104729 % 100003 FROM seq_1_to_20000")
    disk.fill()
    rows, problem = 20000, None
    while problem is None and rows < 400000:
        problem = disk.refused(f"INSERT INTO t SELECT seq, seq * 7919 % 100003, seq * 104729 % 100003 FROM seq_{rows + 1}_to_{rows + 500}")
        rows += 500 if problem is None else 0
    if problem is None:
        raise Broken("there was always room")
    disk.expect_alive()
    # Merges on a full disk wait.
    disk.sql("SET GLOBAL sluice_change_buffer_drain = ON")
    time.sleep(2)
    disk.expect_alive()
    disk.expect_sound("t", rows)
    disk.give_back()
    if not wait_until(30, lambda: disk.sql("SHOW STATUS LIKE 'Sluice_change_buffer_entries'")[0][1] == "0"):
        raise Broken("what is buffered is not merged")
    disk.expect_sound("t", rows)
    return "statements that need room", "make room"


def definitions(disk):
    """CREATE, ALTER, RENAME, TRUNCATE and DROP TABLE, with less room each time: each happens or does not, and DROP always does."""
    pid, there, refusals = disk.pid, set(), 0
    columns = ", ".join(f"column_with_a_long_name_{n} INT COMMENT '{'c' * 900}'" for n in range(60))
    for no, leave in enumerate([6000, 3000, 1500, 700, 300, 150, 60, 20, 0, 0]):
        disk.fill(leave << 10)
        for statement, gone, made in ((f"CREATE TABLE f.a{no} (id INT PRIMARY KEY, {columns}) ENGINE=Sluice", None, f"a{no}"),
                                      (f"ALTER TABLE f.a{no} ADD INDEX (column_with_a_long_name_1)", None, None),
                                      (f"TRUNCATE TABLE f.a{no}", None, None),
                                      (f"RENAME TABLE f.a{no} TO f.b{no}", f"a{no}", f"b{no}")):
            try:
                disk.sql(statement)
                there = there - {gone} | ({made} if made else set())
            except SqlError:
                refusals += 1
            if disk.server.pid() != pid:
                raise Broken(f"the server died: {statement[:60]}")
    found = {row[0] for row in disk.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'f'")}
    if found != there or not refusals:
        raise Broken(f"tables {sorted(found)}, not {sorted(there)}; {refusals} statements refused")
    for name in sorted(there):
        disk.sql(f"DROP TABLE f.{name}")
    disk.give_back()
    disk.sql(f"CREATE TABLE f.last (id INT PRIMARY KEY, {columns}) ENGINE=Sluice; INSERT INTO f.last (id) VALUES (1); CHECK TABLE f.last")
    return f"{refusals} of 40 statements", "make room; DROP TABLE works"


def crowd(disk):
    """Eight clients at once, while the disk fills up and empties several times."""
    disk.sql("CREATE TABLE f.t (id INT AUTO_INCREMENT PRIMARY KEY, client INT, a INT, pad VARBINARY(2000), KEY (a)) ENGINE=Sluice")
    stop, counts, problems = threading.Event(), [0] * 8, []

    def write(number):
        try:
            with connection.connect(disk.server, "f") as client, client.cursor() as cursor:
                while not stop.is_set():
                    try:
                        for _ in range(3):
                            cursor.execute(f"INSERT INTO t (client, a, pad) VALUES ({number}, RAND() * 10000, REPEAT('x', 900))")
                        client.commit()
                        counts[number] += 3
                    except connection.pymysql.err.Error as error:
                        if connection.is_lost(error):
                            raise
                        client.rollback()
        except Exception as error:  # noqa: BLE001  (told by the main thread)
            problems.append(str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(1.5)
        disk.fill()
        time.sleep(1.5)
        disk.give_back()
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    if problems:
        raise Broken(problems[0])
    disk.expect_alive()
    # A commit that was answered by an error may have happened; one that was acknowledged must have.
    found = [int(n) for _, n in sorted(map(tuple, disk.sql("SELECT client, COUNT(*) FROM f.t GROUP BY client")))]
    if any(there < known or (there - known) % 3 for there, known in zip(found, counts)):
        raise Broken(f"acknowledged {counts}, found {found}")
    disk.expect_sound("t", sum(found))
    return "statements while it is full", f"make room; {sum(found)} rows right"


TRIALS = [("data file", data_file, ()), ("one large statement", big_statement, ()), ("undo", undo, ()), ("redo log", redo, ()),
          ("doublewrite and flushing", doublewrite, ()), ("temporary table", temporary, ()), ("index build", index_build, ()),
          ("delta trees", delta_trees, ("--sluice-change-buffering=all", "--sluice-change-buffer-test-mode=1")),
          ("definitions", definitions, ()), ("eight clients", crowd, ())]


def trials():
    if not works():
        return
    for where, body, options in TRIALS:
        yield where, "disk full", with_disk(body, *options)
