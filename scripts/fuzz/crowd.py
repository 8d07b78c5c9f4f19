#!/usr/bin/env python3
"""Many connections on the same few rows: writers that insert, delete, move and roll back, and readers that keep a consistent snapshot
open and read the table again and again through each of its keys. What a snapshot shows must never change, be the same through every
key, and in the end CHECK TABLE and the keys must agree with the table. Random, so a seed does not repeat a run; with few rows and a
small pool most faults show within a minute. Exit code 1 at the first disagreement. Used by `make fuzz`.
"""
import argparse
import pathlib
import random
import shutil
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
from connection import pymysql  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

TABLES = {
    "plain": "a INT PRIMARY KEY, b INT, c VARCHAR(30), d INT, pad VARCHAR(300), KEY b (b), UNIQUE KEY c (c), KEY bd (b, d DESC)",
    "named": "c VARCHAR(20) COLLATE utf8mb4_unicode_ci NOT NULL, a INT, b INT, d DOUBLE, pad MEDIUMTEXT, PRIMARY KEY (c, a), "
             "KEY b (b), UNIQUE KEY a (a), KEY p (pad(10)), KEY d (d)",
    "hidden": "a INT, b INT, c VARCHAR(20), d INT AS (b + 1) VIRTUAL, pad VARCHAR(2000), UNIQUE KEY a (a), KEY b (b), KEY d (d), KEY c (c, b)",
}
KEYS = {"plain": ("PRIMARY", "b", "c", "bd"), "named": ("PRIMARY", "b", "a", "d"), "hidden": ("a", "b", "d", "c")}
# What a transaction may meet among others.
EXPECTED = {1020, 1062, 1205, 1213, 1412}
LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")


class Crowd:
    def __init__(self, server, seed, seconds, rows):
        self.server = server
        self.seed = seed
        self.rows = rows
        self.until = time.monotonic() + seconds
        self.failure = None
        self.statements = 0
        self.snapshots = 0

    def over(self):
        return self.failure is not None or time.monotonic() > self.until

    def fail(self, text):
        self.failure = self.failure or text

    # ---- writers ----

    def writer(self, number):
        chance = random.Random(self.seed * 1000 + number)
        link = connection.connect(self.server, "crowd")
        cursor = link.cursor()
        cursor.execute("SET SESSION sluice_lock_wait_timeout=2")
        while not self.over():
            try:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {chance.choice(LEVELS)}")
                cursor.execute("BEGIN")
                for _ in range(chance.choice((1, 1, 2, 5, 20))):
                    self.statements += 1
                    self.statement(cursor, chance)
                cursor.execute(chance.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            except pymysql.err.Error as error:
                if connection.is_lost(error) or error.args[0] not in EXPECTED:
                    return self.fail(f"a writer met {error}")
                cursor.execute(chance.choice(("ROLLBACK", "COMMIT")))
        link.close()

    def statement(self, cursor, chance):
        table = chance.choice(tuple(TABLES))
        number, other = chance.randrange(self.rows), chance.randrange(self.rows)
        text = chance.choice(("a", "A", "b", "ab ", "x")) + str(chance.randrange(self.rows))
        pad = f"REPEAT('{chance.choice('pqr')}', {chance.choice((0, 10, 200, 300))})"
        if table == "named" and chance.random() < 0.05:
            pad = f"REPEAT('{chance.choice('pqr')}', {chance.choice((9000, 60000))})"
        hint = f"{table} FORCE INDEX ({chance.choice(KEYS[table])})"
        where = chance.choice((f"a = {number}", f"b = {number}", f"c = '{text}'", f"a BETWEEN {number} AND {number + 3}",
                               f"b > {number} AND b < {number + 4}"))
        cursor.execute(chance.choice((
            f"INSERT INTO {table} (a, b, c, pad) VALUES ({number}, {other}, '{text}', {pad})",
            f"INSERT IGNORE INTO {table} (a, b, c, pad) VALUES ({number}, {other}, '{text}', {pad}), ({other}, {number}, '{text}x', {pad})",
            f"REPLACE INTO {table} (a, b, c, pad) VALUES ({number}, {other}, '{text}', {pad})",
            f"INSERT INTO {table} (a, b, c, pad) VALUES ({number}, {other}, '{text}', {pad}) ON DUPLICATE KEY UPDATE b = {other}, c = '{text}'",
            f"DELETE FROM {table} WHERE {where}", f"DELETE FROM {hint.split()[0]} WHERE a = {number}",
            f"UPDATE {hint} SET b = {other}, pad = {pad} WHERE {where}", f"UPDATE {hint} SET c = '{text}' WHERE {where} LIMIT 1",
            f"UPDATE {hint} SET a = {other} WHERE {where}", f"UPDATE {hint} SET b = b + 1 WHERE {where}",
            f"SELECT * FROM {hint} WHERE {where} FOR UPDATE", f"SELECT a FROM {hint} WHERE {where} LOCK IN SHARE MODE",
            f"SELECT COUNT(*) FROM {hint} WHERE {where}")))

    # ---- readers ----

    def reader(self, number):
        chance = random.Random(self.seed * 1000 + 500 + number)
        link = connection.connect(self.server, "crowd")
        cursor = link.cursor()
        while not self.over():
            try:
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                self.read_snapshot(cursor, chance)
                cursor.execute("COMMIT")
            except pymysql.err.Error as error:
                return self.fail(f"a reader met {error}")
        link.close()

    def read_snapshot(self, cursor, chance):
        seen = {}
        for i in range(chance.choice((2, 5, 12))):
            for table in TABLES:
                key = chance.choice(KEYS[table])
                columns = chance.choice(("a, b, c", "a, b, c, d, LEFT(pad, 3), LENGTH(pad)", "a, b"))
                cursor.execute(f"SELECT {columns} FROM {table} FORCE INDEX ({key}) WHERE {self.everything(key)}"
                               f"{chance.choice(('', f' ORDER BY {self.order(table, key)}', f' ORDER BY {self.order(table, key)} DESC'))}")
                rows = sorted(cursor.fetchall(), key=repr)
                first = seen.setdefault((table, columns), (rows, key))
                if first[0] != rows:
                    return self.fail(self.both(f"{table}: a snapshot read {columns} by {first[1]} and then by {key}", first[0], rows))
            time.sleep(chance.choice((0, 0, 0.01, 0.2)))
        self.snapshots += 1
        return None

    @staticmethod
    def everything(key):
        """A range that takes the key, and NULLs too."""
        column = {"PRIMARY": "a", "bd": "b"}.get(key, key)
        return f"({column} >= {'-1' if column != 'c' else repr('')} OR {column} IS NULL)"

    @staticmethod
    def order(table, key):
        return {"PRIMARY": "a" if table == "plain" else "c", "bd": "b"}.get(key, key)

    @staticmethod
    def both(text, one, two):
        return f"{text}: only the first has {[r for r in one if r not in two][:4]}, only the second {[r for r in two if r not in one][:4]}"

    # ---- the end ----

    def account(self):
        link = connection.connect(self.server, "crowd")
        cursor = link.cursor()
        for table in TABLES:
            cursor.execute(f"CHECK TABLE {table} EXTENDED")
            for row in cursor.fetchall():
                if row[3] != "OK":
                    return self.fail(f"CHECK TABLE: {row}")
            cursor.execute(f"SELECT a, b, c FROM {table} IGNORE INDEX (a, b, c, d)" if table == "hidden" else f"SELECT a, b, c FROM {table}")
            whole = sorted(cursor.fetchall(), key=repr)
            for key in KEYS[table]:
                cursor.execute(f"SELECT a, b, c FROM {table} FORCE INDEX ({key}) WHERE {self.everything(key)}")
                rows = sorted(cursor.fetchall(), key=repr)
                if rows != whole:
                    return self.fail(self.both(f"{table} and its key {key}", whole, rows))
        return link.close()

    def run(self, writers, readers):
        threads = [threading.Thread(target=self.writer, args=(i,)) for i in range(writers)]
        threads += [threading.Thread(target=self.reader, args=(i,)) for i in range(readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not self.failure:
            self.account()
        return self.failure


def make_tables(server):
    link = connection.connect(server, autocommit=True)
    cursor = link.cursor()
    cursor.execute("CREATE DATABASE IF NOT EXISTS crowd")
    for table, columns in TABLES.items():
        cursor.execute(f"DROP TABLE IF EXISTS crowd.{table}")
        cursor.execute(f"CREATE TABLE crowd.{table} ({columns})")
    link.close()


def main():
    parser = argparse.ArgumentParser(description="Writers and snapshot readers on the same few rows of Sluice tables.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of a round")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--engine", default="Sluice")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/crowd")
    parser.add_argument("--port", type=int)
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    options = ["--sluice-buffer-pool-size=8M", "--character-set-server=utf8mb4", "--sluice-flush-log-at-trx-commit=0",
               "--sluice-snapshot-isolation=ON", *arguments.option]
    server = Server(arguments.folder, arguments.port or free_port(), options, engine=arguments.engine)
    try:
        server.start()
        make_tables(server)
        for i in range(arguments.rounds):
            chance = random.Random(arguments.seed + i)
            crowd = Crowd(server, arguments.seed + i, arguments.seconds, chance.choice((8, 30, 300)))
            failure = crowd.run(arguments.writers, arguments.readers)
            display.say(f"round {i + 1}: {crowd.statements} statements on {crowd.rows} keys, {crowd.snapshots} snapshots: {failure or 'all right'}")
            if failure:
                sys.exit(f"DISAGREEMENT (seed {arguments.seed + i}); the server still runs in {arguments.folder}")
        server.stop()
    except ServerError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
