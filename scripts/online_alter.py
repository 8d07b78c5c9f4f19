#!/usr/bin/env python3
"""ADD INDEX with LOCK=NONE while clients write: their rate, their longest wait, and whether the index is right.

Sysbench's table is filled, and threads of sysbench's oltp_write_only kind write to it: before, during and after an ALTER TABLE that adds
an index and one that adds a unique index. Afterwards CHECK TABLE ... EXTENDED must find nothing, and the rows read by the new index
must be those of the table. With --rounds ALTER TABLE is ended by KILL, or the server by kill -9, at a random moment, and the
table must be sound with its old indexes, or with the new one. Exit code 1 if not, or if writers keep less than --least of their rate.
"""
import argparse
import pathlib
import random
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
CREATE = """CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL,
KEY k_1 (k)) ENGINE={engine}"""
FILL = "INSERT INTO t SELECT seq, 1 + (seq * 7919) %% {rows}, SHA2(seq, 256), SHA2(-seq, 224) FROM seq_1_to_{rows}"
ALTERS = {"new": "ADD INDEX new (c, k)", "new_unique": "ADD UNIQUE INDEX new_unique (pad, id)", "FORCE": "FORCE",
          "PRIMARY KEY": "DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)"}
# What writers meet besides success.
HARMLESS = (1205, 1213, 1020, 1062, 1412)


class Writers:
    """Clients that write as sysbench's oltp_write_only does: two updates, a delete and an insert of the same row in a transaction."""

    def __init__(self, server, clients, rows):
        self.server, self.rows = server, rows
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
        dice = random.Random(number)
        try:
            with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
                while not self.stop.is_set():
                    self.write(link, cursor, dice, number)
        except Exception as error:  # noqa: BLE001  (told by the caller)
            if not connection.is_lost(error):
                self.failures.append(error)

    def write(self, link, cursor, dice, number):
        row = dice.randint(1, self.rows)
        text = f"{dice.getrandbits(256):064x}"
        begun = time.monotonic()
        try:
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE t SET k = k + 1 WHERE id = {dice.randint(1, self.rows)}")
            cursor.execute(f"UPDATE t SET c = '{text}' WHERE id = {dice.randint(1, self.rows)}")
            cursor.execute(f"DELETE FROM t WHERE id = {row}")
            cursor.execute(f"INSERT INTO t (id, k, c, pad) VALUES ({row}, {dice.randint(1, self.rows)}, '{text}', '{text[:50]}')")
            link.rollback() if dice.random() < 0.05 else link.commit()
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

    def expect(self, is_right, what):
        if not is_right:
            self.failed.append(what)
            display.say(f"WRONG: {what}")

    def prepare(self):
        self.server.start()
        self.server.sql(f"CREATE DATABASE {DATABASE}")
        self.server.sql(CREATE.format(engine=self.arguments.engine), DATABASE)
        self.server.sql(FILL.format(rows=self.arguments.rows).replace("%%", "%"), DATABASE)

    def measure(self, name):
        seconds = self.arguments.seconds
        with Writers(self.server, self.arguments.clients, self.arguments.rows) as writers, connection.connect(self.server, DATABASE) as link:
            time.sleep(1)
            before, begun = writers.count(), time.monotonic()
            time.sleep(seconds)
            usual = (writers.count() - before) / (time.monotonic() - begun)
            usual_wait = writers.longest_ms(begun, time.monotonic())
            before, begun = writers.count(), time.monotonic()
            with link.cursor() as cursor:
                cursor.execute(f"ALTER TABLE t {ALTERS[name]}, ALGORITHM=INPLACE, LOCK=NONE")
            ended = time.monotonic()
            rate = (writers.count() - before) / (ended - begun)
            wait = writers.longest_ms(begun, ended)
            time.sleep(1)
        self.expect(not writers.failures, f"a writer failed: {writers.failures[:1]}")
        share = rate / usual
        display.say(f"{name}: {ended - begun:.1f} s; writers {usual:,.0f} transactions/s before, {rate:,.0f} meanwhile ({share:.2f}); "
                    f"longest transaction {usual_wait:.0f} ms before, {wait:.0f} ms meanwhile")
        self.expect(share >= self.arguments.least, f"writers kept {share:.2f} of their rate")

    def check(self):
        with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
            cursor.execute("CHECK TABLE t EXTENDED")
            found = [row for row in cursor.fetchall() if row[3] != "OK"]
            self.expect(not found, f"CHECK TABLE: {found[:3]}")
            cursor.execute("SHOW INDEX FROM t")
            indexes = sorted({row[2] for row in cursor.fetchall()})
            read = {}
            for index in indexes:
                cursor.execute(f"SELECT COUNT(*), SUM(CRC32(CONCAT(id, k, c, pad))) FROM t FORCE INDEX ({index}) WHERE c >= '' AND k >= 0 AND pad >= '' AND id > 0")
                read[index] = cursor.fetchone()
            self.expect(len(set(read.values())) == 1, f"the indexes have different rows: {read}")
            return indexes

    def end_in_the_middle(self, number, dice):
        """One ALTER TABLE that ends by KILL or kill -9; the table is checked then."""
        with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
            for index in ("new", "new_unique"):
                cursor.execute(f"DROP INDEX IF EXISTS {index} ON t")
            cursor.execute("SELECT COUNT(*) FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND constraint_name = 'PRIMARY'")
            if cursor.fetchone()[0] == 2:
                cursor.execute("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
        name = dice.choice(list(ALTERS))
        kills = dice.random() < 0.5
        with Writers(self.server, self.arguments.clients, self.arguments.rows) as writers:
            alter = connection.connect(self.server, DATABASE)
            thread = threading.Thread(target=self.alter, args=(alter, name), daemon=True)
            thread.start()
            time.sleep(dice.random() * self.usual_seconds)
            if kills:
                self.server.kill9()
            else:
                with connection.connect(self.server) as link, link.cursor() as cursor:
                    cursor.execute(f"KILL {alter.thread_id()}") if dice.random() < 0.5 else cursor.execute(f"KILL QUERY {alter.thread_id()}")
            thread.join()
            if not kills:
                time.sleep(0.2)
        self.expect(not writers.failures, f"a writer failed: {writers.failures[:1]}")
        if kills:
            self.server.start()
        indexes = self.check()
        display.say(f"round {number}: {'kill -9' if kills else 'KILL'} in {ALTERS[name]}: indexes {', '.join(indexes)}")

    @staticmethod
    def alter(link, name):
        try:
            with link.cursor() as cursor:
                cursor.execute(f"ALTER TABLE t {ALTERS[name]}, ALGORITHM=INPLACE, LOCK=NONE")
        except (pymysql.err.MySQLError, OSError):
            pass

    def run(self):
        self.prepare()
        times = []
        for name in ALTERS:
            begun = time.monotonic()
            self.measure(name)
            times.append(time.monotonic() - begun - self.arguments.seconds - 2)
        self.check()
        self.usual_seconds = statistics.mean(times)
        dice = random.Random(self.arguments.seed)
        for number in range(1, self.arguments.rounds + 1):
            self.end_in_the_middle(number, dice)
        self.server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10, help="of writing before each ALTER TABLE")
    parser.add_argument("--rounds", type=int, default=0, help="of ALTER TABLE that ends in the middle")
    parser.add_argument("--least", type=float, default=0.7, help="share of their rate that writers must keep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="Sluice")
    parser.add_argument("--folder", default=str(BUILD / "run/online-alter"))
    arguments = parser.parse_args()
    import shutil
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
