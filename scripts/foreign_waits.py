#!/usr/bin/env python3
"""Who waits for whom over a foreign key: pairs of transactions on Sluice and on InnoDB, compared.

Of each pair one transaction has run a statement and is open; the other runs one, then the first commits or rolls back. Compared are
whether the second statement waits, its error, and the rows in the end. Each pair runs under each isolation level and each action of the
foreign key. Differences are printed by pair; exit code 1 if there is one that STATED does not name.

usage: foreign_waits.py [--levels rc,rr,si,ser] [--actions RESTRICT,CASCADE,SET-NULL] [--pairs PATTERN]
"""
import argparse
import fnmatch
import pathlib
import shutil
import signal
import sys
import threading

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
import connection  # noqa: E402
import display  # noqa: E402
from connection import pymysql  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

ENGINES = ("InnoDB", "Sluice")
# A statement that has not answered by then waits.
WAIT_SECONDS = 0.25
LOCK_WAIT_SECONDS = 20
LEVELS = {"rc": ("READ COMMITTED", 0), "rr": ("REPEATABLE READ", 0), "si": ("REPEATABLE READ", 1), "ser": ("SERIALIZABLE", 0)}
ACTIONS = {"RESTRICT": "", "CASCADE": " ON DELETE CASCADE ON UPDATE CASCADE", "SET-NULL": " ON DELETE SET NULL ON UPDATE SET NULL"}
# Parents 1 and 2 have a child, parent 3 has none, parent 4 is missing.
STATEMENTS = {
    "child of a parent": "INSERT INTO c VALUES (9, 3, 0)",
    "child of a parent with children": "INSERT INTO c VALUES (8, 1, 0)",
    "child of no parent": "INSERT INTO c VALUES (7, 4, 0)",
    "child gets a parent": "UPDATE c SET pid = 3 WHERE id = 1",
    "child gets no parent": "UPDATE c SET pid = 4 WHERE id = 1",
    "child gets NULL": "UPDATE c SET pid = NULL WHERE id = 1",
    "child's other column": "UPDATE c SET y = y + 1 WHERE id = 1",
    "child goes": "DELETE FROM c WHERE id = 1",
    "child is replaced": "REPLACE INTO c VALUES (1, 1, 5)",
    "parent comes": "INSERT INTO p VALUES (4, 0)",
    "parent goes": "DELETE FROM p WHERE id = 3",
    "parent with child goes": "DELETE FROM p WHERE id = 1",
    "parent's key": "UPDATE p SET id = 5 WHERE id = 3",
    "parent's key, with child": "UPDATE p SET id = 5 WHERE id = 1",
    "parent's other column": "UPDATE p SET x = x + 1 WHERE id = 3",
    "parent's other column, with child": "UPDATE p SET x = x + 1 WHERE id = 1",
    "parent locked": "SELECT * FROM p WHERE id = 3 FOR UPDATE",
    "parent locked shared": "SELECT * FROM p WHERE id = 3 LOCK IN SHARE MODE",
}
# ((pair, level, action), each a pattern, and why the engines differ).
STATED = (
    (("child* no parent, then parent comes, *", "*", "*"), "InnoDB locks the gap in which a parent is missing; the refused row needs no lock"),
    (("child* no parent, then parent's key, *", "*", "*"), "InnoDB locks the gap in which a parent is missing; the refused row needs no lock"),
    (("child is replaced, then parent*", "*", "*"), "the parent of a new row is locked before REPLACE finds the row's duplicate"),
    (("parent*, then child is replaced, *", "*", "*"), "the parent of a new row is locked before REPLACE finds the row's duplicate"),
    (("parent*with child*, then child*", "r?", "RESTRICT"), "below SERIALIZABLE a refused change of a parent locks no child"),
    (("parent*with child*, then child*", "si", "RESTRICT"), "below SERIALIZABLE a refused change of a parent locks no child"),
    (("parent's key, then parent's key, with child, *", "*", "*"), "a key that may be a duplicate is waited for before children are looked for"),
)


class Statement(threading.Thread):
    """A statement that may wait."""

    def __init__(self, link, sql):
        super().__init__(daemon=True)
        self.link, self.sql, self.answer = link, sql, None
        self.start()

    def run(self):
        self.answer = answer(self.link, self.sql)

    def waits(self):
        self.join(WAIT_SECONDS)
        return self.is_alive()


def answer(link, sql):
    try:
        with link.cursor() as cursor:
            cursor.execute(sql)
            return sorted(cursor.fetchall(), key=repr) if cursor.description else f"{cursor.rowcount} rows"
    except pymysql.err.Error as error:
        return f"error {error.args[0]}"


class Side:
    def __init__(self, server, engine):
        self.database = f"waits_{engine.lower()}"
        self.links = [connection.connect(server, autocommit=True) for _ in range(3)]
        self.engine = engine
        for link in self.links:
            self.run(link, f"CREATE DATABASE IF NOT EXISTS {self.database}", f"USE {self.database}",
                     f"SET innodb_lock_wait_timeout={LOCK_WAIT_SECONDS}, sluice_lock_wait_timeout={LOCK_WAIT_SECONDS}")

    @staticmethod
    def run(link, *statements):
        with link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def begin(self, level, action):
        isolation, snapshot = LEVELS[level]
        self.run(self.links[0], "DROP TABLE IF EXISTS c, p", f"CREATE TABLE p (id INT PRIMARY KEY, x INT) ENGINE={self.engine}",
                 "CREATE TABLE c (id INT PRIMARY KEY, pid INT, y INT, FOREIGN KEY (pid) REFERENCES p (id)"
                 f"{ACTIONS[action]}) ENGINE={self.engine}",
                 "INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)", "INSERT INTO c VALUES (1, 1, 0), (2, 2, 0)")
        for link in self.links[1:]:
            self.run(link, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}",
                     f"SET innodb_snapshot_isolation={snapshot}, sluice_snapshot_isolation={snapshot}")

    def pair(self, first, second, end):
        """What happens, in words."""
        one, other = self.links[1:]
        self.run(one, "BEGIN")
        self.run(other, "BEGIN")
        told = [f"first: {answer(one, STATEMENTS[first])}"]
        statement = Statement(other, STATEMENTS[second])
        told.append("second waits" if statement.waits() else "second goes on")
        told.append(f"{end}: {answer(one, end)}")
        statement.join(LOCK_WAIT_SECONDS + 10)
        told.append(f"second: {statement.answer}")
        told.append(f"COMMIT: {answer(other, 'COMMIT')}")
        told += [f"{table}: {answer(one, f'SELECT * FROM {table}')}" for table in ("p", "c")]
        return told


def compare(sides, level, action, first, second, end):
    told = []
    for side in sides:
        side.begin(level, action)
        told.append(side.pair(first, second, end))
    if told[0] == told[1]:
        return None
    return "; ".join(f"InnoDB {one} / Sluice {other}" for one, other in zip(*told) if one != other)


def reason(name, level, action):
    return next((why for patterns, why in STATED if all(map(fnmatch.fnmatch, (name, level, action), patterns))), None)


def main():
    parser = argparse.ArgumentParser(description="Who waits for whom over a foreign key, on Sluice and on InnoDB.")
    parser.add_argument("--levels", type=lambda text: text.split(","), default=list(LEVELS))
    parser.add_argument("--actions", type=lambda text: text.split(","), default=list(ACTIONS))
    parser.add_argument("--pairs", default="*", metavar="PATTERN", help="such as 'parent goes, then child*'")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/foreign-waits", help="where the server lives (made anew)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    shutil.rmtree(arguments.folder, ignore_errors=True)
    server = Server(arguments.folder, free_port(), ["--innodb-flush-log-at-trx-commit=0", "--sluice-flush-log-at-trx-commit=0"])
    names = [(first, second, end, f"{first}, then {second}, {end}") for first in STATEMENTS for second in STATEMENTS for end in ("COMMIT", "ROLLBACK")]
    names = [entry for entry in names if fnmatch.fnmatch(entry[3], arguments.pairs)]
    stated, unstated = 0, 0
    try:
        server.start()
        sides = [Side(server, engine) for engine in ENGINES]
        with display.Progress(len(names) * len(arguments.levels) * len(arguments.actions), "pairs") as progress:
            for level in arguments.levels:
                for action in arguments.actions:
                    for first, second, end, name in names:
                        difference = compare(sides, level, action, first, second, end)
                        why = difference and reason(name, level, action)
                        stated += bool(why)
                        unstated += bool(difference and not why)
                        if difference and not why:
                            display.say(f"{name} ({level}, {action}): {difference}")
                        progress.done("")
    except ServerError as error:
        sys.exit(f"error: {error}")
    finally:
        server.stop()
    display.say(f"{len(names) * len(arguments.levels) * len(arguments.actions)} pairs: {stated} different for a stated reason, {unstated} different")
    sys.exit(1 if unstated else 0)


if __name__ == "__main__":
    main()
