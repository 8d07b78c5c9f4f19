#!/usr/bin/env python3
"""Tests that no child row is left without its parent, while clients insert, move and delete parents and children, and after kill -9.

There are four foreign keys: to the primary key (CASCADE), to a secondary unique key (CASCADE on update, SET NULL on delete), to the same
table (CASCADE), and one with RESTRICT. Clients use all isolation levels, savepoints and rollbacks. There are few parents, so that clients
conflict. The server is killed every --kill-every seconds. After each start, and at the end, a LEFT JOIN checks every foreign key, and
CHECK TABLE ... EXTENDED must find nothing. Exit code 1 at the first orphan.
"""
import argparse
import pathlib
import random
import shutil
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import connection  # noqa: E402
import display  # noqa: E402
import pymysql.err  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

DATABASE = "family"
OPTIONS = ("--sluice-buffer-pool-size=64M", "--sluice-flush-log-at-trx-commit=2", "--skip-log-bin", "--max-connections=400",
           "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2")
TABLES = """
CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR(20) NOT NULL, n INT NOT NULL DEFAULT 0, UNIQUE KEY code (code));
CREATE TABLE child (id BIGINT AUTO_INCREMENT PRIMARY KEY, parent_id INT NOT NULL, code VARCHAR(20), mother BIGINT,
  KEY parent_id (parent_id), KEY code (code), KEY mother (mother),
  CONSTRAINT by_id FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT by_code FOREIGN KEY (code) REFERENCES parent (code) ON DELETE SET NULL ON UPDATE CASCADE,
  CONSTRAINT by_mother FOREIGN KEY (mother) REFERENCES child (id) ON DELETE CASCADE);
CREATE TABLE kept (id BIGINT AUTO_INCREMENT PRIMARY KEY, child_parent INT NOT NULL, KEY child_parent (child_parent),
  CONSTRAINT by_restrict FOREIGN KEY (child_parent) REFERENCES parent (id));
"""
ORPHANS = {
    "by_id": "SELECT COUNT(*) FROM child LEFT JOIN parent ON parent.id = child.parent_id WHERE parent.id IS NULL",
    "by_code": "SELECT COUNT(*) FROM child LEFT JOIN parent ON parent.code = child.code WHERE child.code IS NOT NULL AND parent.id IS NULL",
    "by_mother": "SELECT COUNT(*) FROM child LEFT JOIN child m ON m.id = child.mother WHERE child.mother IS NOT NULL AND m.id IS NULL",
    "by_restrict": "SELECT COUNT(*) FROM kept LEFT JOIN parent ON parent.id = kept.child_parent WHERE parent.id IS NULL",
}
LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
# Expected errors: foreign keys, duplicates, deadlocks, timeouts, snapshot conflicts.
EXPECTED = (1451, 1452, 1062, 1205, 1213, 1020, 1761, 1762, 1048)


class Clients:
    def __init__(self, server, count, parents, seed):
        self.server, self.parents, self.seed = server, parents, seed
        self.stop = threading.Event()
        self.commits = [0] * count
        self.refused = {}
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(count)]

    def run(self, number):
        rng = random.Random(self.seed * 1000 + number)
        try:
            with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
                cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {rng.choice(LEVELS)}")
                cursor.execute("SET SESSION innodb_lock_wait_timeout=2, lock_wait_timeout=20")
                self.set_timeout(cursor)
                while not self.stop.is_set():
                    self.transaction(link, cursor, rng, number)
        except Exception as error:  # noqa: BLE001
            if not connection.is_lost(error):
                self.failures.append(error)

    @staticmethod
    def set_timeout(cursor):
        try:
            cursor.execute("SET SESSION sluice_lock_wait_timeout=2")
        except pymysql.err.MySQLError:
            pass

    def transaction(self, link, cursor, rng, number):
        commits = rng.random() >= 0.15
        statements = [text for _ in range(rng.randint(1, 4)) for text in self.step(rng)]
        try:
            # One trip to the server: more transactions meet in a second.
            cursor.execute("BEGIN NOT ATOMIC START TRANSACTION; {}; {}; END".format("; ".join(statements), "COMMIT" if commits else "ROLLBACK"))
            self.commits[number] += commits
        except pymysql.err.MySQLError as error:
            if error.args[0] not in EXPECTED:
                raise
            self.refused[error.args[0]] = self.refused.get(error.args[0], 0) + 1
            link.rollback()

    def step(self, rng):
        """The statements of one step: one, or one that is undone."""
        if rng.random() < 0.15:
            return "SAVEPOINT s", self.statement(rng), "ROLLBACK TO s"
        return (self.statement(rng),)

    def statement(self, rng):
        hot = rng.randint(1, 16) if rng.random() < 0.7 else rng.randint(1, self.parents)
        other = rng.randint(1, self.parents)
        kind = rng.random()
        if kind < 0.35:
            code = f"'c{hot}'" if rng.random() < 0.5 else "NULL"
            return f"INSERT INTO child (parent_id, code, mother) SELECT {hot}, {code}, {self.mother(rng, other)}"
        if kind < 0.45:
            return f"INSERT INTO kept (child_parent) VALUES ({other})"
        if kind < 0.60:
            return f"INSERT IGNORE INTO parent (id, code) VALUES ({hot}, 'c{hot}')"
        if kind < 0.72:
            return f"DELETE FROM parent WHERE id = {hot}"
        if kind < 0.80:
            return f"UPDATE parent SET n = n + 1 WHERE id = {hot}"
        if kind < 0.85:
            return f"UPDATE parent SET code = 'd{other}' WHERE id = {hot}"
        if kind < 0.88:
            return f"UPDATE parent SET id = id + {self.parents} WHERE id = {other}"
        if kind < 0.92:
            return f"UPDATE child SET parent_id = {other} WHERE parent_id = {hot} LIMIT 2"
        if kind < 0.97:
            return f"DELETE FROM child WHERE parent_id = {hot} ORDER BY id LIMIT 3"
        return f"DELETE FROM kept WHERE child_parent = {other}"

    @staticmethod
    def mother(rng, other):
        return "NULL" if rng.random() < 0.6 else f"(SELECT id FROM child AS m WHERE m.parent_id = {other} LIMIT 1)"


def check(server):
    wrong = []
    with connection.connect(server, DATABASE) as link, link.cursor() as cursor:
        for name, query in ORPHANS.items():
            cursor.execute(query)
            orphans = cursor.fetchone()[0]
            if orphans:
                wrong.append(f"{name}: {orphans} orphans")
        for table in ("parent", "child", "kept"):
            cursor.execute(f"CHECK TABLE {table} EXTENDED")
            wrong += [f"CHECK TABLE {table}: {row[3]}" for row in cursor.fetchall() if row[3] != "OK"]
        cursor.execute("SELECT (SELECT COUNT(*) FROM parent), (SELECT COUNT(*) FROM child), (SELECT COUNT(*) FROM kept)")
        return wrong, cursor.fetchone()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--parents", type=int, default=300)
    parser.add_argument("--commits", type=int, default=1000000, help="ends with so many")
    parser.add_argument("--minutes", type=float, default=60, help="ends after so many at the latest")
    parser.add_argument("--kill-every", type=float, default=30, help="seconds")
    parser.add_argument("--engine", default="Sluice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], help="of the server; repeatable")
    parser.add_argument("--folder", default=str(BUILD / "run/orphans"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    server = Server(arguments.folder, free_port(), [*OPTIONS, *arguments.option], engine=arguments.engine)
    commits, rounds, refused, wrong = 0, 0, {}, []
    ends = time.monotonic() + arguments.minutes * 60
    try:
        server.start()
        server.sql(f"CREATE DATABASE {DATABASE}")
        server.sql(TABLES, DATABASE)
        while commits < arguments.commits and time.monotonic() < ends and not wrong:
            rounds += 1
            clients = Clients(server, arguments.clients, arguments.parents, arguments.seed + rounds)
            for thread in clients.threads:
                thread.start()
            time.sleep(min(arguments.kill_every, max(1, ends - time.monotonic())))
            server.kill9()
            clients.stop.set()
            for thread in clients.threads:
                thread.join()
            commits += sum(clients.commits)
            for number, times in clients.refused.items():
                refused[number] = refused.get(number, 0) + times
            wrong += [f"a client failed: {error}" for error in clients.failures[:1]]
            server.start()
            found, rows = check(server)
            wrong += found
            display.say(f"round {rounds}: {commits:,} commits, {rows[0]} parents, {rows[1]} children, {rows[2]} kept; refused {dict(sorted(refused.items()))}")
        server.stop()
    except ServerError as error:
        sys.exit(f"error: {error}")
    finally:
        if server.running():
            server.kill9()
    for text in wrong:
        display.say(f"WRONG: {text}")
    display.say(f"{commits:,} commits, {rounds} times kill -9, {'no orphan' if not wrong else 'WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
