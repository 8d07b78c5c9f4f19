#!/usr/bin/env python3
"""ALTER TABLE with LOCK=NONE while clients write: their rate, their longest wait, and whether rows and indexes are right.

Threads write to sysbench's table as its oltp_write_only does: before, during and after each ALTER TABLE. The statements add an index, add
a unique index, and rebuild the table (FORCE, another primary key). Afterwards CHECK TABLE ... EXTENDED must find nothing, and the rows read
by each index must be those of the table.

--rounds: at a random moment KILL ends the ALTER TABLE, or kill -9 the server. The table must then be intact, with its old definition or
with the new one. --table: the plain table, or one with partitions, with foreign keys in both directions, with virtual columns, or with a
unique index whose values move from row to row.

Exit code 1 if something is wrong, if the writers keep less than the share --least of their rate, or if a KILL takes more than a second.
"""
import argparse
import pathlib
import random
import shutil
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import connection  # noqa: E402
import display  # noqa: E402
import pymysql.err  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

OPTIONS = ("--sluice-buffer-pool-size=512M", "--sluice-redo-log-capacity=512M", "--sluice-flush-log-at-trx-commit=2", "--skip-log-bin")
DATABASE = "online"
COLUMNS = "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL"
PARENT = ["CREATE TABLE p (id INT PRIMARY KEY) ENGINE={engine}", "INSERT INTO p SELECT seq FROM seq_0_to_9"]
# Children of every tenth row, which a delete of their parent deletes.
CHILD = ["CREATE TABLE ch (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id) ON DELETE CASCADE) ENGINE={engine}",
         "INSERT INTO ch SELECT id FROM t WHERE id % 10 = 0"]
# (before, the table, after it is filled)
TABLES = {
    "plain": ([], f"CREATE TABLE t ({COLUMNS}, KEY k_1 (k)) ENGINE={{engine}}", []),
    "partitioned": ([], f"CREATE TABLE t ({COLUMNS}, KEY k_1 (k)) ENGINE={{engine}} PARTITION BY KEY (id) PARTITIONS 4", []),
    "foreign": (PARENT, f"CREATE TABLE t ({COLUMNS}, g INT NOT NULL DEFAULT 1, KEY k_1 (k), KEY g_1 (g), FOREIGN KEY (g) REFERENCES p (id)) "
                        "ENGINE={engine}", CHILD),
    "virtual": ([], f"CREATE TABLE t ({COLUMNS}, v INT AS (k % 1000) VIRTUAL, w CHAR(20) AS (LEFT(RTRIM(c), 20)) VIRTUAL, KEY k_1 (k), KEY v_1 (v)) "
                    "ENGINE={engine}", []),
    "unique": ([], f"CREATE TABLE t ({COLUMNS}, u INT, KEY k_1 (k), UNIQUE KEY u_1 (u)) ENGINE={{engine}}", ["UPDATE t SET u = id"]),
}
FILL = "INSERT INTO t (id, k, c, pad) SELECT seq, 1 + (seq * 7919) % {rows}, SHA2(seq, 256), SHA2(-seq, 224) FROM seq_1_to_{rows}"
ALTERS = {"new": "ADD INDEX new (c, k)", "new_unique": "ADD UNIQUE INDEX new_unique (pad, id)", "FORCE": "FORCE",
          "PRIMARY KEY": "DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)"}
VIRTUAL = {**ALTERS, "new": "ADD INDEX new (w, v)"}
EVERY_ROW = "c >= '' AND k >= 0 AND pad >= '' AND id > 0"
EVERY_ROW_OF = {"foreign": " AND g > 0", "virtual": " AND v >= 0 AND w >= ''", "unique": " AND u > 0"}
KILL_ANSWERED_S = 1.0
# What writers meet besides success.
HARMLESS = (1205, 1213, 1020, 1062, 1412)


class Writers:
    """Clients that write as sysbench's oltp_write_only does: two updates, a delete and an insert of the same row in a transaction.

    In the table "unique", the row that is deleted and inserted and another one exchange their unique values.
    """

    def __init__(self, server, clients, rows, kind):
        self.server, self.rows, self.exchanges = server, rows, kind == "unique"
        self.stop = threading.Event()
        self.done = [0] * clients
        self.waits = [[] for _ in range(clients)]
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self, number):
        rng = random.Random(number)
        try:
            with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
                while not self.stop.is_set():
                    self.write(link, cursor, rng, number)
        except Exception as error:  # noqa: BLE001  (told by the caller)
            if not connection.is_lost(error):
                self.failures.append(error)

    def write(self, link, cursor, rng, number):
        row = rng.randint(1, self.rows)
        text = f"{rng.getrandbits(256):064x}"
        begun = time.monotonic()
        try:
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE t SET k = k + 1 WHERE id = {rng.randint(1, self.rows)}")
            cursor.execute(f"UPDATE t SET c = '{text}' WHERE id = {rng.randint(1, self.rows)}")
            if self.exchanges:
                other = row % self.rows + 1
                cursor.execute(f"SELECT id, u FROM t WHERE id IN ({row}, {other}) FOR UPDATE")
                unique = dict(cursor.fetchall())
            cursor.execute(f"DELETE FROM t WHERE id = {row}")
            if self.exchanges:
                cursor.execute(f"UPDATE t SET u = {unique[row]} WHERE id = {other}")
            names, values = (", u", f", {unique[other]}") if self.exchanges else ("", "")
            cursor.execute(f"INSERT INTO t (id, k, c, pad{names}) VALUES ({row}, {rng.randint(1, self.rows)}, '{text}', '{text[:50]}'{values})")
            link.rollback() if rng.random() < 0.05 else link.commit()
            self.done[number] += 1
        except pymysql.err.MySQLError as error:
            if error.args[0] not in HARMLESS:
                raise
            link.rollback()
        self.waits[number].append((begun, time.monotonic() - begun))

    def count(self):
        return sum(self.done)

    def longest_ms(self, begin, end):
        return max((wait for each in self.waits for begun, wait in list(each) if begun + wait > begin and begun < end), default=0) * 1000


class Trial:
    def __init__(self, arguments):
        self.arguments = arguments
        self.server = Server(arguments.folder, free_port(), OPTIONS, engine=arguments.engine)
        self.failed = []
        self.answers = []
        self.kind = None
        self.alters = ALTERS

    def expect(self, is_right, what):
        if not is_right:
            self.failed.append(what)
            display.say(f"WRONG: {what}")

    def prepare(self, kind):
        self.kind = kind
        self.alters = VIRTUAL if kind == "virtual" else ALTERS
        before, create, after = TABLES[kind]
        self.server.sql(f"DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}")
        for statement in (*before, create, FILL, *after):
            self.server.sql(statement.replace("{engine}", self.arguments.engine).replace("{rows}", str(self.arguments.rows)), DATABASE)

    def measure(self, name):
        seconds = self.arguments.seconds
        with Writers(self.server, self.arguments.clients, self.arguments.rows, self.kind) as writers, connection.connect(self.server, DATABASE) as link:
            time.sleep(1)
            before, begun = writers.count(), time.monotonic()
            time.sleep(seconds)
            usual = (writers.count() - before) / (time.monotonic() - begun)
            usual_wait = writers.longest_ms(begun, time.monotonic())
            before, begun = writers.count(), time.monotonic()
            error = self.alter(link, self.alters[name])
            self.expect(not error, f"{self.kind}, {name}: {error}")
            ended = time.monotonic()
            rate = (writers.count() - before) / (ended - begun)
            wait = writers.longest_ms(begun, ended)
            time.sleep(1)
        self.expect(not writers.failures, f"a writer failed: {writers.failures[:1]}")
        share = rate / usual
        display.say(f"{self.kind}, {name}: {ended - begun:.1f} s; writers {usual:,.0f} transactions/s before, {rate:,.0f} meanwhile ({share:.2f}); "
                    f"longest transaction {usual_wait:.0f} ms before, {wait:.0f} ms meanwhile")
        self.expect(share >= self.arguments.least, f"writers kept {share:.2f} of their rate")

    def check(self):
        with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
            cursor.execute("CHECK TABLE t EXTENDED")
            found = [row for row in cursor.fetchall() if row[3] != "OK"]
            self.expect(not found, f"CHECK TABLE: {found[:3]}")
            cursor.execute("SHOW INDEX FROM t")
            indexes = sorted({row[2] for row in cursor.fetchall()})
            where = EVERY_ROW + EVERY_ROW_OF.get(self.kind, "")
            read = {}
            for index in indexes:
                cursor.execute(f"SELECT COUNT(*), SUM(CRC32(CONCAT(id, k, c, pad))) FROM t FORCE INDEX ({index}) WHERE {where}")
                read[index] = cursor.fetchone()
            self.expect(len(set(read.values())) == 1, f"the indexes have different rows: {read}")
            if self.kind == "foreign":
                cursor.execute("SELECT (SELECT COUNT(*) FROM t LEFT JOIN p ON g = p.id WHERE p.id IS NULL) + "
                               "(SELECT COUNT(*) FROM ch LEFT JOIN t ON ch.id = t.id WHERE t.id IS NULL)")
                orphans = cursor.fetchone()[0]
                self.expect(not orphans, f"{orphans} rows without a parent")
            return indexes

    def end_in_the_middle(self, number, rng):
        """One ALTER TABLE that ends by KILL or kill -9; the table is checked then."""
        with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
            for index in ("new", "new_unique"):
                cursor.execute(f"DROP INDEX IF EXISTS {index} ON t")
            cursor.execute("SELECT COUNT(*) FROM information_schema.key_column_usage WHERE table_schema = DATABASE() "
                           "AND table_name = 't' AND constraint_name = 'PRIMARY'")
            if cursor.fetchone()[0] == 2:
                cursor.execute("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
        name = rng.choice(list(self.alters))
        kills = rng.random() < 0.5
        with Writers(self.server, self.arguments.clients, self.arguments.rows, self.kind) as writers:
            alter = connection.connect(self.server, DATABASE)
            thread = threading.Thread(target=self.alter, args=(alter, self.alters[name]), daemon=True)
            thread.start()
            time.sleep(rng.random() * self.usual_seconds)
            was_running = thread.is_alive()
            answered = self.end_it(thread, alter, kills, rng)
            thread.join()
            if not kills:
                time.sleep(0.2)
        self.expect(not writers.failures, f"a writer failed: {writers.failures[:1]}")
        if kills:
            self.server.start()
        elif was_running:
            self.answers.append(answered)
            self.expect(answered < KILL_ANSWERED_S, f"a KILL was answered after {answered * 1000:.0f} ms")
        indexes = self.check()
        display.say(f"{self.kind}, round {number}: {'kill -9' if kills else f'KILL, answered after {answered * 1000:.0f} ms,'} in {self.alters[name]}: "
                    f"indexes {', '.join(indexes)}")

    def end_it(self, thread, alter, kills, rng):
        """Seconds until the ALTER TABLE has ended."""
        if kills:
            self.server.kill9()
            return 0.0
        with connection.connect(self.server) as link, link.cursor() as cursor:
            begun = time.monotonic()
            cursor.execute(f"KILL {'' if rng.random() < 0.5 else 'QUERY '}{alter.thread_id()}")
            thread.join()
            return time.monotonic() - begun

    @staticmethod
    def alter(link, change):
        """The error, or None."""
        try:
            with link.cursor() as cursor:
                cursor.execute(f"ALTER TABLE t {change}, ALGORITHM=INPLACE, LOCK=NONE")
        except (pymysql.err.MySQLError, OSError) as error:
            return error
        return None

    def run(self):
        self.server.start()
        for kind in self.arguments.tables:
            self.run_kind(kind)
        self.server.stop()
        if self.answers:
            display.say(f"{len(self.answers)} KILLs were answered within {max(self.answers) * 1000:.0f} ms")

    def run_kind(self, kind):
        self.prepare(kind)
        times = []
        for name in self.alters:
            begun = time.monotonic()
            self.measure(name)
            times.append(time.monotonic() - begun - self.arguments.seconds - 2)
        self.check()
        self.usual_seconds = statistics.mean(times)
        rng = random.Random(self.arguments.seed)
        for number in range(1, self.arguments.rounds + 1):
            self.end_in_the_middle(number, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10, help="of writing before each ALTER TABLE")
    parser.add_argument("--rounds", type=int, default=0, help="of ALTER TABLE that ends in the middle")
    parser.add_argument("--table", dest="tables", type=lambda text: text.split(","), default=["plain"], help=f"{', '.join(TABLES)}; several with commas")
    parser.add_argument("--least", type=float, default=0.7, help="share of their rate that writers must keep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="Sluice")
    parser.add_argument("--folder", default=str(BUILD / "run/online-alter"))
    arguments = parser.parse_args()
    if unknown := set(arguments.tables) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    shutil.rmtree(arguments.folder, ignore_errors=True)
    trial = Trial(arguments)
    try:
        trial.run()
    except ServerError as error:
        sys.exit(f"error: {error}")
    finally:
        trial.server.kill9() if trial.server.running() else None
    sys.exit(1 if trial.failed else 0)


if __name__ == "__main__":
    main()
