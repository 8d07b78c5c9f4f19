#!/usr/bin/env python3
"""Random instant ALTER TABLEs of one table, with writes between, on Sluice and on InnoDB in one server; then both must hold the same.

Every ALTER is sent to Sluice with ALGORITHM=INSTANT: columns of all types are added at any place with and without defaults, dropped,
moved, made wider and nullable, renamed; virtual columns come, go, and get other expressions. InnoDB may copy. Between them rows are inserted, updated, deleted
and rolled back. Now and then all rows are compared, by the clustered key and by each index, and the server is stopped or killed. In
the end it is restarted, and the dumps and SHOW CREATE TABLE of both tables are compared. With --fixed all columns have a fixed
length: then ROW_FORMAT decides where the server puts the null bits, and the ALTERs change it, too. `make sqltest` has a small variant in SQL
(instant_alter.test). Exit code 1 at the first difference. With --time-on the same ALTERs are timed on a table of so many rows of Sluice
alone, with some writes between; the longest must stay below --ms.
"""
import argparse
import copy
import pathlib
import random
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "fuzz")]
import connection  # noqa: E402
import display  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402
from values import INTEGERS, literal, random_column  # noqa: E402

ENGINES = ("InnoDB", "Sluice")
OPTIONS = ("--innodb-buffer-pool-size=32M", "--sluice-buffer-pool-size=16M", "--max-allowed-packet=64M", "--character-set-server=utf8mb4")
COLUMNS_MAX = 24
INITIAL = "SET SESSION sql_mode='', time_zone='+00:00', timestamp=1700000000"
COMPARED_EVERY = 25
# As InnoDB's rows have it: more columns of full length are refused there.
VARCHAR_MAX = 300
TEXTS = {"TINYTEXT": "TEXT", "TEXT": "MEDIUMTEXT", "TINYBLOB": "BLOB", "BLOB": "LONGBLOB"}
REFUSED_BY_INNODB = (1118, 1067, 1105)


def is_sized(column):
    return column.is_blob() or column.kind in ("VARCHAR", "VARBINARY", "JSON")


class Different(Exception):
    """The engines differ; the text says in what."""


class Sides:
    """The same statements for both tables; {t} is the table's name."""

    def __init__(self, server):
        self.server = server
        self.links = {}
        self.open()

    def open(self):
        for engine in ENGINES:
            self.links[engine] = connection.connect(self.server, autocommit=True)
            with self.links[engine].cursor() as cursor:
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS alters_{engine.lower()}")
                cursor.execute(f"USE alters_{engine.lower()}")
                cursor.execute(INITIAL)

    def run(self, engine, statement):
        with self.links[engine].cursor() as cursor:
            cursor.execute(statement.replace("{E}", engine))
            return cursor.fetchall() if cursor.description else cursor.rowcount

    def both(self, statement):
        """A write: it fails on both sides, or changes as many rows."""
        outcomes = []
        for engine in ENGINES:
            try:
                outcomes.append(self.run(engine, statement))
            except connection.pymysql.err.Error as error:
                if connection.is_lost(error):
                    raise
                outcomes.append(error.args[0])
        if outcomes[0] != outcomes[1]:
            raise Different(f"{statement[:300]}: InnoDB {outcomes[0]!r:.300}, Sluice {outcomes[1]!r:.300}")

    def definition(self, engine):
        """SHOW CREATE TABLE. The server shows the DEFAULT of a BINARY column as it is, which need not be UTF-8."""
        link = self.links[engine]
        link.use_unicode = False
        try:
            shown = self.run(engine, "SHOW CREATE TABLE t")[0][1]
        finally:
            link.use_unicode = True
        return shown.replace(b"ENGINE=" + engine.upper().encode(), b"ENGINE=X").replace(b"ENGINE=InnoDB", b"ENGINE=X")

    def compare(self, keys):
        definitions = [self.definition(engine) for engine in ENGINES]
        if definitions[0] != definitions[1]:
            raise Different(f"SHOW CREATE TABLE: InnoDB {definitions[0]}\nSluice {definitions[1]}")
        for key in keys:
            rows = [self.run(engine, f"SELECT * FROM t FORCE INDEX ({key}) ORDER BY id") for engine in ENGINES]
            if rows[0] != rows[1]:
                found = [(a, b) for a, b in zip(*rows) if a != b][:2]
                raise Different(f"rows by {key}: {len(rows[0])} and {len(rows[1])}; InnoDB, Sluice: {found!r:.2000}")
        checked = self.run("Sluice", "CHECK TABLE t EXTENDED")
        if checked[-1][3] != "OK":
            raise Different(f"CHECK TABLE: {checked}")

    def restart(self, kill):
        (self.server.kill9 if kill else self.server.stop)()
        self.server.start()
        self.open()


class Alters:
    """The table's columns, and statements over them. Those of KEYS never change their form."""
    KEYS = {"PRIMARY": "id", "k1": "k1", "k2": "k2"}

    def __init__(self, chance, fixed=False):
        self.chance = chance
        self.fixed = fixed
        self.serial = 0
        self.columns = [self.column() for _ in range(6)]
        self.virtual = []           # names and types
        self.id = 0

    def column(self):
        self.serial += 1
        column = random_column(self.chance, f"c{self.serial}")
        while column.kind in ("GEOMETRY", "POINT") or self.fixed and is_sized(column):  # GEOMETRY: NOT NULL without a default
            column = random_column(self.chance, f"c{self.serial}")
        if column.kind == "JSON":
            column.default = "'{}'"                     # what the column's CHECK is evaluated for
        column.size = min(column.size, 60) if column.kind in ("VARCHAR", "VARBINARY") else column.size
        return column

    def create(self, partitions):
        body = ", ".join(column.sql() for column in self.columns)
        return (f"CREATE TABLE t (id INT PRIMARY KEY, k1 INT, k2 {'' if self.fixed else 'VAR'}CHAR(20) NOT NULL DEFAULT 'k', {body}, KEY k1 (k1), KEY k2 (k2, k1)) "
                f"ENGINE={{E}}{f' PARTITION BY HASH (id) PARTITIONS {partitions}' if partitions else ''}")

    def place(self):
        return self.chance.choice(("", "", " FIRST", f" AFTER {self.chance.choice(self.columns).name}", " AFTER k1"))

    def add(self):
        if len(self.columns) >= COLUMNS_MAX:
            return self.drop()
        column = self.column()
        if column.default is None and self.chance.random() < 0.5:
            column.default = literal(self.chance, column, nice=True) if not column.is_blob() else self.chance.choice(("'b'", "(REPEAT('b', 300))"))
        if column.default == "NULL" and not column.nullable:
            column.default = None
        if column.kind in ("DATETIME", "TIMESTAMP") and self.chance.random() < 0.2:
            column.default = f"CURRENT_TIMESTAMP({column.decimals})"
        place = self.place()
        self.columns.append(column)
        return f"ADD COLUMN {column.sql()}{place}"

    def drop(self):
        if len(self.columns) < 3:
            return None
        column = self.chance.choice(self.columns)
        self.columns.remove(column)
        return f"DROP COLUMN {column.name}"

    def modify(self):
        narrow = [column for column in self.columns if column.kind in INTEGERS and column.kind != "BIGINT"]
        widens = narrow and not self.virtual and self.chance.random() < 0.4
        column = self.chance.choice(narrow if widens else self.columns)
        place = self.place()
        if place.endswith(f" {column.name}"):
            return None
        if self.chance.random() < 0.5:
            column.nullable = True
        if column.kind in ("VARCHAR", "VARBINARY"):
            column.size = min(VARCHAR_MAX, column.size + self.chance.choice((0, 1, 30, 200)))
        elif column.kind in TEXTS and self.chance.random() < 0.5:
            column.kind = TEXTS[column.kind]
        elif widens:
            column.kind = "BIGINT"
        return f"MODIFY COLUMN {column.sql()}{place}"

    def rename(self):
        column = self.chance.choice(self.columns)
        self.serial += 1
        old, column.name = column.name, f"c{self.serial}"
        return f"RENAME COLUMN {old} TO {column.name}"

    def row_format(self):
        return f"ROW_FORMAT={self.chance.choice(('DYNAMIC', 'COMPACT', 'REDUNDANT', 'DEFAULT'))}"

    def computed(self):
        if self.virtual and self.chance.random() < 0.3:
            name, kind = self.chance.choice(self.virtual)
            return f"MODIFY COLUMN {name} {kind} AS (k1 + {self.chance.randint(0, 3)}) VIRTUAL{self.place()}"
        if len(self.virtual) > 2 or self.virtual and self.chance.random() < 0.6:  # beside them no integer becomes wider
            return f"DROP COLUMN {self.virtual.pop()[0]}"
        self.serial += 1
        name, kind = f"v{self.serial}", self.chance.choice(("INT", "BIGINT"))
        self.virtual.append((name, kind))
        return f"ADD COLUMN {name} {kind} AS (k1 + {self.serial % 4}) VIRTUAL{self.place()}"

    def next(self):
        steps = ((self.add, 8), (self.drop, 5), (self.modify, 8), (self.rename, 1), (self.computed, 2), *[(self.row_format, 5)] * self.fixed)
        clause = self.chance.choices([step for step, _ in steps], [weight for _, weight in steps])[0]()
        return f"{clause}, {self.row_format()}" if self.fixed and clause and self.chance.random() < 0.2 else clause

    def row(self, columns):
        self.id += 1
        values = ", ".join(literal(self.chance, column) for column in columns)
        return f"({self.id}, {self.chance.randint(0, 9)}{', ' + values if values else ''})"

    def write(self):
        draw = self.chance.random()
        some = self.chance.sample(self.columns, self.chance.randint(1, len(self.columns)))
        if draw < 0.5:
            rows = ", ".join(self.row(some) for _ in range(self.chance.choice((1, 2, 5))))
            return f"INSERT IGNORE INTO t (id, k1, {', '.join(column.name for column in some)}) VALUES {rows}"
        where = self.chance.choice((f"id % 17 = {self.chance.randint(0, 16)}", f"k1 = {self.chance.randint(0, 9)} AND id % 3 = 0",
                                    f"id > {max(0, self.id - 4)}"))
        if draw < 0.85:
            changes = ", ".join(f"{column.name} = {literal(self.chance, column)}" for column in some[:3])
            return f"UPDATE IGNORE t SET {changes} WHERE {where}"
        return f"DELETE FROM t WHERE {where} AND id % 5 = {self.chance.randint(0, 4)}"


def altered(sides, alters, times):
    """One ALTER on both sides; False: InnoDB refuses it, and nothing is done."""
    kept = copy.deepcopy((alters.columns, alters.virtual))
    clause = alters.next()
    if not clause:
        return False
    try:
        sides.run("InnoDB", f"ALTER TABLE t {clause}")
    except connection.pymysql.err.Error as error:
        if connection.is_lost(error) or error.args[0] not in REFUSED_BY_INNODB:
            raise Different(f"InnoDB: ALTER TABLE t {clause}: {error}") from error
        alters.columns, alters.virtual = kept
        return False
    begin = time.monotonic()
    try:
        sides.run("Sluice", f"ALTER TABLE t {clause}, ALGORITHM=INSTANT")
    except connection.pymysql.err.Error as error:
        raise Different(f"Sluice: ALTER TABLE t {clause}, ALGORITHM=INSTANT: {error}") from error
    times.append(time.monotonic() - begin)
    return True


def write(sides, alters, chance):
    if chance.random() < 0.1:
        sides.both("BEGIN")
        sides.both(alters.write())
        sides.both("ROLLBACK")
    for _ in range(chance.choice((1, 2, 4))):
        sides.both(alters.write())


def dump(server, engine):
    done = subprocess.run([server.prefix / "usr/bin/mariadb-dump", "--no-defaults", f"--socket={server.socket}", "--user=root", "--compact", "--hex-blob",
                           "--order-by-primary", "--default-character-set=utf8mb4", f"alters_{engine.lower()}"], capture_output=True)
    if done.returncode:
        raise ServerError(f"mariadb-dump of {engine}: {done.stderr.decode().strip()}")
    return done.stdout.replace(b"ENGINE=" + engine.encode(), b"ENGINE=X").replace(b"ENGINE=SLUICE", b"ENGINE=X")


def run(server, arguments, seed):
    chance = random.Random(seed)
    alters = Alters(chance, arguments.fixed)
    for engine in ENGINES:
        server.sql(f"DROP DATABASE IF EXISTS alters_{engine.lower()}")
    sides = Sides(server)
    sides.both(alters.create(arguments.partitions))
    times = []
    for _ in range(30):
        write(sides, alters, chance)
    with display.Progress(arguments.alters // COMPARED_EVERY, "instant ALTERs") as progress:
        while len(times) < arguments.alters:
            if not altered(sides, alters, times):
                continue
            write(sides, alters, chance)
            if len(times) % COMPARED_EVERY == 0:
                sides.compare(Alters.KEYS)
                progress.done(f"{len(times)}, the same")
            if chance.random() < 3 / arguments.alters:
                sides.restart(chance.random() < 0.5)
    sides.restart(False)
    sides.compare(Alters.KEYS)
    dumps = [dump(server, engine) for engine in ENGINES]
    if dumps[0] != dumps[1]:
        raise Different("the dumps differ")
    print(f"seed {seed}: {len(times)} instant ALTERs, {sides.run('Sluice', 'SELECT COUNT(*) FROM t')[0][0]} rows, the dumps are equal "
          f"({len(dumps[0])} bytes); an ALTER took {statistics.median(times) * 1000:.1f} ms (median), at most {max(times) * 1000:.1f} ms")


def time_on(server, arguments):
    """The ALTERs on a table of many rows: what they take depends on the columns, not on the rows."""
    chance = random.Random(arguments.seed)
    alters = Alters(chance)
    server.sql("DROP DATABASE IF EXISTS alters_sluice; DROP DATABASE IF EXISTS alters_innodb")
    sides = Sides(server)
    sides.run("Sluice", alters.create(arguments.partitions))
    sides.run("Sluice", f"INSERT INTO t (id, k1, k2) SELECT seq, seq % 1000, CONCAT('k', seq % 77) FROM seq_1_to_{arguments.time_on}")
    alters.id = arguments.time_on
    times = []
    with display.Progress(arguments.alters // COMPARED_EVERY, "instant ALTERs") as progress:
        while len(times) < arguments.alters:
            kept = copy.deepcopy((alters.columns, alters.virtual))
            clause = alters.next()
            if not clause:
                continue
            begin = time.monotonic()
            try:
                sides.run("Sluice", f"ALTER TABLE t {clause}, ALGORITHM=INSTANT")
            except connection.pymysql.err.Error as error:
                if error.args[0] not in REFUSED_BY_INNODB:
                    raise Different(f"ALTER TABLE t {clause}, ALGORITHM=INSTANT: {error}") from error
                alters.columns, alters.virtual = kept
                continue
            times.append(time.monotonic() - begin)
            key = chance.randint(1, arguments.time_on)
            some = chance.choice(alters.columns)
            sides.run("Sluice", f"UPDATE IGNORE t SET {some.name} = {literal(chance, some)} WHERE id BETWEEN {key} AND {key + 5}")
            sides.run("Sluice", f"INSERT IGNORE INTO t (id, k1) VALUES ({alters.id + len(times)}, 1)")
            if len(times) % COMPARED_EVERY == 0:
                progress.done(f"{len(times)}")
    rows = sides.run("Sluice", "SELECT COUNT(*) FROM t")[0][0]
    print(f"{len(times)} instant ALTERs on {rows} rows: {statistics.median(times) * 1000:.1f} ms (median), at most {max(times) * 1000:.1f} ms")
    if max(times) * 1000 >= arguments.ms:
        raise Different(f"an ALTER took {max(times) * 1000:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description="Random instant ALTERs on Sluice and on InnoDB, compared.")
    parser.add_argument("--alters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="seeds, one after the other")
    parser.add_argument("--partitions", type=int, default=0, help="of the table (0: it has none)")
    parser.add_argument("--fixed", action="store_true", help="no columns of varying length; the ALTERs change ROW_FORMAT, too")
    parser.add_argument("--time-on", type=int, default=0, metavar="ROWS", help="time the ALTERs on so many rows of Sluice, and compare nothing")
    parser.add_argument("--ms", type=float, default=50, help="with --time-on: what an ALTER may take")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/instant", help="where the server lives (made anew)")
    arguments = parser.parse_args()
    server = Server(arguments.folder, port=free_port(), options=OPTIONS)
    try:
        server.install()
        server.start()
        if arguments.time_on:
            time_on(server, arguments)
            return
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            run(server, arguments, seed)
    except Different as different:
        sys.exit(f"different: {different}")
    except ServerError as error:
        sys.exit(f"error: {error}")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
