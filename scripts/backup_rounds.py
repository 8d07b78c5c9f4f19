#!/usr/bin/env python3
"""Rounds of hot backups under load: 8 writers on Sluice and InnoDB, DDL, bulk loads. Each backup is restored elsewhere. Every index must
agree with its table. Every table must agree, row by row, with a reference server that has replayed the binary log up to the position in
the backup. In some rounds the tool or the server gets kill -9 at a random moment: then there must be a complete backup, or none.

    scripts/backup_rounds.py --rounds 50 --kills 20
    scripts/backup_rounds.py --rounds 2 --kills 2 --rows 20000 --writers 4      (a part of make test)
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from connection import connect, is_lost  # noqa: E402
from server import BUILD, Server, free_port  # noqa: E402
import pymysql  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "w"
WRITTEN = [("s1", "Sluice"), ("s2", "Sluice"), ("s3", "Sluice"), ("i1", "InnoDB"), ("i2", "InnoDB")]
COLUMNS = "id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(300) NOT NULL, c INT, KEY (a), KEY (b), UNIQUE KEY (c, id)"
OPTIONS = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--sync-binlog=1", "--innodb-buffer-pool-size=32M",
           "--sluice-buffer-pool-size=16M", "--sluice-redo-log-capacity=32M", "--loose-innodb-log-file-size=32M",
           "--max-binlog-size=64M", "--max-allowed-packet=1G", "--expire-logs-days=0",
           # No engine sees a deadlock over both.
           "--innodb-lock-wait-timeout=2", "--sluice-lock-wait-timeout=2"]
REFUSED = (1213, 1205, 1020)  # deadlock, lock wait timeout, changed since the snapshot
TOOL = ROOT / "target/release/sluice-backup"


class Wrong(Exception):
    """A round has shown a fault."""


def programs(server):
    return [f"--mariadb-backup={server.base}/bin/mariadb-backup"]


def tool_backup(server, target, *more):
    return [str(TOOL), "backup", str(target), f"--socket={server.socket}", "--user=root", "--quiet",
            f"--client={server.base}/bin/mariadb", *programs(server), *more]


def tool_restore(server, backups, to):
    return [str(TOOL), "restore", *map(str, backups), f"--to={to}", "--quiet", f"--mbstream={server.base}/bin/mbstream",
            f"--sluice-check={ROOT}/target/release/sluice-check", *programs(server)]


class Load:
    """Writers, and one session that changes definitions and loads tables, until it is stopped."""

    def __init__(self, server, writers, rows, seed):
        self.server, self.rows = server, rows
        self.stop_asked = threading.Event()
        self.commits = 0
        self.fault = None
        # A body begins again after a kill of the server, and goes on in its sequence: no name of an index comes twice.
        bodies = [lambda rng=random.Random(seed * 100 + n): self.write(rng) for n in range(writers)]
        bodies.append(lambda rng=random.Random(seed): self.define(rng))
        self.threads = [threading.Thread(target=self.guard, args=(body,), daemon=True) for body in bodies]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop_asked.set()
        for thread in self.threads:
            thread.join()

    def guard(self, body):
        while not self.stop_asked.is_set():
            try:
                body()
            except Exception as error:  # noqa: BLE001
                if not is_lost(error):
                    self.fault = self.fault or error
                    return
                time.sleep(0.2)  # the server was killed: it is started again

    def write(self, rng):
        connection = connect(self.server, SCHEMA)
        cursor = connection.cursor()
        while not self.stop_asked.is_set():
            try:
                for _ in range(rng.randint(1, 4)):
                    name = rng.choice(WRITTEN)[0]
                    key, a = rng.randrange(self.rows * 2), rng.randrange(1000)
                    match rng.randrange(4):
                        case 0:
                            cursor.execute(f"DELETE FROM {name} WHERE id = {key}")
                        case 1:
                            cursor.execute(f"UPDATE {name} SET a = {a}, c = {a % 7} WHERE id = {key}")
                        case _:
                            text = chr(97 + a % 26) * rng.randrange(200)
                            cursor.execute(f"REPLACE INTO {name} VALUES ({key}, {a}, '{text}', NULL)")
                if rng.randrange(10):
                    connection.commit()
                    self.commits += 1
                else:
                    connection.rollback()
            except pymysql.err.OperationalError as error:
                if error.args[0] not in REFUSED:
                    raise
                connection.rollback()

    def define(self, rng):
        connection = connect(self.server, SCHEMA, autocommit=True)
        cursor = connection.cursor()
        cursor.execute(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME LIKE 'd%'")
        names = [row[0] for row in cursor.fetchall()]
        number = max([int(name[1:]) for name in names], default=0)
        while not self.stop_asked.is_set():
            if len(names) < 3:
                number += 1
                names.append(f"d{number}")
                cursor.execute(f"CREATE TABLE d{number} ({COLUMNS}) ENGINE=Sluice")
            name = rng.choice(names)
            source = rng.choice(WRITTEN)[0]
            statement = rng.choice([
                f"TRUNCATE {name}",
                f"REPLACE INTO {name} SELECT * FROM {source} LIMIT {rng.randrange(self.rows)}",
                f"ALTER TABLE {name} FORCE, ALGORITHM=COPY",
                f"ALTER TABLE {name} ADD KEY more{rng.randrange(10 ** 6)} (c, a)" if rng.randrange(3) else f"OPTIMIZE TABLE {name}",
                f"DROP TABLE {name}",
            ])
            try:
                cursor.execute(statement)
                if statement.startswith("DROP"):
                    names.remove(name)
                if statement.startswith("TRUNCATE"):  # an empty table: the rows are loaded past the log
                    cursor.execute(f"INSERT INTO {name} SELECT * FROM {source}")
            except pymysql.err.OperationalError as error:
                if error.args[0] not in REFUSED:
                    raise
            time.sleep(rng.random() / 5)


def prepare(server, rows):
    server.sql(f"CREATE DATABASE {SCHEMA}")
    for name, engine in WRITTEN:
        server.sql(f"CREATE TABLE {name} ({COLUMNS}) ENGINE={engine}", SCHEMA)
        server.sql(f"INSERT INTO {name} SELECT seq, seq % 1000, REPEAT(CHAR(97 + seq % 26), seq % 250), NULL FROM seq_1_to_{rows}", SCHEMA)


def tables_of(server):
    """Every table's rows."""
    found = {}
    connection = connect(server, SCHEMA, autocommit=True)
    cursor = connection.cursor()
    cursor.execute(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}' ORDER BY 1")
    for (name,) in cursor.fetchall():
        cursor.execute(f"SHOW CREATE TABLE `{name}`")
        definition = re.sub(r" AUTO_INCREMENT=\d+", "", cursor.fetchone()[1])
        cursor.execute(f"SELECT * FROM `{name}` ORDER BY id")
        found[name] = (definition, cursor.fetchall())
    return found


def settle_innodb(server):
    """Waits until InnoDB has rolled back and purged. Before that, its CHECK TABLE ... EXTENDED can report damage that is not there
    (MDEV-35227), and it marks the index as corrupted for good."""
    for _ in range(300):
        rolled_back = server.sql("SELECT COUNT(*) FROM information_schema.INNODB_TRX")[0][0] == "0"
        history = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")[0][1]
        if rolled_back and history == "0":
            return
        time.sleep(0.1)
    raise Wrong(f"InnoDB has not rolled back or purged after 30 s; the history list has {history} entries")


def check_tables(server, what):
    settle_innodb(server)
    for (name, *_rest) in server.sql(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}'"):
        answer = server.sql(f"CHECK TABLE `{name}` EXTENDED", SCHEMA)
        if answer[-1][-1] != "OK":
            raise Wrong(f"{what}: CHECK TABLE {name}: {answer}")


def compare(expected, found, what):
    if expected.keys() != found.keys():
        raise Wrong(f"{what}: tables {sorted(expected)} were expected, {sorted(found)} are there")
    for name, (definition, rows) in expected.items():
        if found[name][0] != definition:
            raise Wrong(f"{what}: table {name} is defined as {found[name][0]}, expected {definition}")
        if found[name][1] != rows:
            theirs, ours = dict((row[0], row) for row in rows), dict((row[0], row) for row in found[name][1])
            other = [key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)]
            raise Wrong(f"{what}: table {name}: {len(other)} rows differ, e.g. {theirs.get(other[0])} became {ours.get(other[0])}")


class Reference:
    """A server that replays the binary log of another one, up to one position after the other."""

    def __init__(self, source, folder):
        self.source = source
        self.at = None  # (file, position); None: the beginning
        self.server = Server(folder, free_port([source.port]), [option for option in OPTIONS if "bin" not in option])
        self.server.start()

    def replay_to(self, file, position):
        replay(self.source, self.server, self.at, (file, position))
        self.at = (file, position)


def binary_logs(source, first, last):
    names = [row[0] for row in source.sql("SHOW BINARY LOGS")] if source.running() else sorted(
        path.name for path in source.data.glob("bin.[0-9]*"))
    return [name for name in names if (first is None or name >= first) and (last is None or name <= last)]


def replay(source, to, begin, end):
    """mariadb-binlog | mariadb, from one position to another; `end` None: to the end."""
    names = binary_logs(source, begin and begin[0], end and end[0])
    positions = ([f"--start-position={begin[1]}"] if begin else []) + ([f"--stop-position={end[1]}"] if end else [])
    command = [f"{source.base}/bin/mariadb-binlog", "--no-defaults", *positions, *(str(source.data / name) for name in names)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    client = subprocess.run(to.client("--binary-mode"), stdin=reader.stdout, capture_output=True, text=True)
    said = reader.communicate()[1].decode()
    if client.returncode or reader.returncode:
        raise Wrong(f"the binary log cannot be replayed: {client.stderr[-1000:]}{said[-1000:]}")


class Rounds:
    def __init__(self, arguments):
        self.arguments = arguments
        self.rng = random.Random(arguments.seed)
        self.folder = pathlib.Path(arguments.folder).resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.server = Server(self.folder / "server", free_port(), OPTIONS)
        self.server.start()
        prepare(self.server, arguments.rows)
        self.reference = Reference(self.server, self.folder / "reference")
        self.restored = None
        self.seconds = [10.0]
        self.refused = self.whole = 0

    def close(self):
        for server in (self.server, self.reference.server, self.restored):
            if server and server.running():
                server.kill9()

    def options(self):
        choice = [[], ["--compress"], ["--throttle=200"], ["--compress", "--throttle=100"]]
        return self.rng.choice(choice)

    def back_up(self, target, kill=None, more=()):
        """True: a whole backup is there. `kill`: what is killed, after a while."""
        started = time.monotonic()
        process = subprocess.Popen(tool_backup(self.server, target, *self.options(), *more), stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        if kill:
            time.sleep(self.rng.random() * 1.2 * sorted(self.seconds)[len(self.seconds) // 2])
            if kill == "tool":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                self.server.kill9()
        said = process.communicate()[1]
        if kill == "server":
            self.server.start()
        if kill is None:
            if process.returncode:
                raise Wrong(f"the backup failed: {said}")
            self.seconds.append(time.monotonic() - started)
        if process.returncode == 0 and not target.exists():
            raise Wrong("the backup ended well, and is not there")
        if kill and not target.exists():
            partial = target.with_name(target.name + ".partial")
            if partial.exists() and subprocess.run([TOOL, "show", partial], capture_output=True).returncode == 0:
                # The kill came between the last byte and the name. It must pass as any other whole backup does.
                partial.rename(target)
            partial.unlink(missing_ok=True)
        return target.exists()

    def restore(self, targets, what):
        to = self.folder / "restored/data"
        shutil.rmtree(to.parent, ignore_errors=True)
        to.parent.mkdir()
        done = subprocess.run(tool_restore(self.server, targets, to), capture_output=True, text=True)
        if done.returncode:
            raise Wrong(f"{what}: {done.stderr}")
        found = re.search(r"binary log position: (\S+) (\d+)", done.stdout)
        if not found:
            raise Wrong(f"{what}: no position of the binary log: {done.stdout}")
        return found[1], int(found[2])

    def judge(self, targets, what):
        file, position = self.restore(targets, what)
        self.restored = Server(self.folder / "restored", free_port([self.server.port]), [o for o in OPTIONS if "bin" not in o])
        self.restored.start()
        check_tables(self.restored, what)
        self.reference.replay_to(file, position)
        expected = tables_of(self.reference.server)
        compare(expected, tables_of(self.restored), f"{what}, at {file} {position}")
        return file, position

    def check_point_in_time(self, position, what):
        """The binary log from the backup's position on brings the restored server to the present."""
        replay(self.server, self.restored, position, None)
        compare(tables_of(self.server), tables_of(self.restored), f"{what}, and the binary log after it")

    def check_damage_found(self, target):
        """One bit is flipped: the restore finds it."""
        bytes_ = bytearray(target.read_bytes())
        at = self.rng.randrange(16, len(bytes_))
        bytes_[at] ^= 1 << self.rng.randrange(8)
        copy = self.folder / "damaged-backup"
        copy.write_bytes(bytes_)
        to = self.folder / "damaged"
        done = subprocess.run(tool_restore(self.server, [copy], to), capture_output=True, text=True)
        copy.unlink()
        if done.returncode == 0 or to.exists():
            raise Wrong(f"a flipped bit at {at} is not found")
        shutil.rmtree(self.folder / "damaged.restoring", ignore_errors=True)

    def check_mariadb_backup_refused(self):
        """mariadb-backup by itself would leave Sluice's tables out: the server makes it fail."""
        to = self.folder / "alone"
        done = subprocess.run([f"{self.server.base}/bin/mariadb-backup", "--backup", f"--socket={self.server.socket}", "--user=root",
                               f"--target-dir={to}"], capture_output=True, text=True)
        if done.returncode == 0 or "sluice-backup" not in done.stderr:
            raise Wrong(f"mariadb-backup alone is not refused: {done.stderr[-500:]}")
        shutil.rmtree(to, ignore_errors=True)

    def run(self):
        self.check_mariadb_backup_refused()
        kills = [None] * (self.arguments.rounds - self.arguments.kills)
        kills += ["tool" if n % 2 else "server" for n in range(self.arguments.kills)]
        self.rng.shuffle(kills)
        if self.arguments.rounds < 5:
            kills.sort(key=lambda kill: kill is not None)
        for number, kill in enumerate(kills, 1):
            what = f"round {number}" + (f", kill -9 of the {kill}" if kill else "")
            base = self.folder / "backup"
            pages = self.folder / "pages"
            # After each full backup comes an increment of it.
            is_increment = kill is None and base.exists() and pages.exists()
            if is_increment:
                what += ", incremental"
                target, more = self.folder / "increment", [f"--incremental={pages}"]
            else:
                pages.unlink(missing_ok=True)
                target, more = base, ([] if kill else [f"--save-pages={pages}"])
            target.unlink(missing_ok=True)
            started = time.monotonic()
            with Load(self.server, self.arguments.writers, self.arguments.rows, self.arguments.seed * 1000 + number) as load:
                time.sleep(1)
                before = load.commits
                is_whole = self.back_up(target, kill, more)
            if load.fault:
                raise Wrong(f"{what}: a statement failed: {load.fault!r}")
            if is_whole:
                position = self.judge([base, target] if is_increment else [target], what)
                if number == 1:
                    self.check_point_in_time(position, what)
                self.restored.kill9()
                if number <= 3:
                    self.check_damage_found(self.folder / "backup")
                if is_increment:
                    pages.unlink()
                self.whole += 1
            else:
                self.refused += 1
            print(f"{what}: {'whole, and as it should be' if is_whole else 'no backup, as it should be'}; {load.commits - before} commits "
                  f"meanwhile, {time.monotonic() - started:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--kills", type=int, help="rounds of these with a kill -9; two of five")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60000, help="rows of each table at the start")
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--folder", default=BUILD / "run/backup-rounds")
    arguments = parser.parse_args()
    arguments.kills = arguments.rounds * 2 // 5 if arguments.kills is None else arguments.kills
    print(f"seed {arguments.seed}", flush=True)
    rounds = Rounds(arguments)
    try:
        rounds.run()
    except Wrong as fault:
        print(f"FAILED: {fault}\nThe files are in {rounds.folder}", file=sys.stderr)
        return 1
    finally:
        rounds.close()
    print(f"passed: {rounds.whole} backups restored and compared, {rounds.refused} cut short and refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
