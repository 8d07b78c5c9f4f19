#!/usr/bin/env python3
"""`make loads`: what it costs to fill tables and to build indexes, Sluice next to InnoDB in one server.

    prepare        sysbench prepare: INSERTs of many rows with rising keys, then CREATE INDEX; (redo off): with the log turned off, its
                   turning on again counted in; and into BLACKHOLE, which keeps nothing: what sysbench and the server's SQL layer
                   take by themselves, one after the other. No engine's rate can be higher
    create_index   three indexes of that table, one statement each
    alter_copy     ALTER TABLE ... FORCE, ALGORITHM=COPY of the table with its indexes
    insert_select  INSERT ... SELECT of all rows into an empty table with one index
    load_data      LOAD DATA INFILE of all rows into an empty table with one index

Written is what the server sent to the device until it came to rest, and `of it` the bytes of what was built. The targets, which the last
lines compare with (--check: exit code 1 if one is missed): prepare at twice InnoDB's rate, redo off gains at most 15 %, indexes written
1.5 times at most. They are stated for 3,000,000 rows, pools of 128 MiB and logs of 96 MiB, which are the defaults; smaller runs should
scale all three.
"""
import argparse
import pathlib
import shutil
import sys
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import engines  # noqa: E402
from cells import Bench, CellError, Usage, database  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

STEPS = ("prepare", "create_index", "alter_copy", "insert_select", "load_data")
INDEXES = ("CREATE INDEX by_c ON sbtest1 (c)", "CREATE INDEX by_pad ON sbtest1 (pad)", "CREATE INDEX by_k_pad ON sbtest1 (k, pad)")
EMPTY_TABLE = "DROP TABLE IF EXISTS filled; CREATE TABLE filled (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60), KEY (k)) ENGINE="
SETTLE_SECONDS_MAX = 60
FLOOR = "BLACKHOLE"
RATE_TARGET, REDO_OFF_TARGET, WRITTEN_TARGET = 2.0, 1.15, 1.5


@dataclass
class Step:
    name: str
    engine: str
    rows: int
    seconds: float
    cpu_seconds: float
    written_mb: float
    made_mb: float

    def row(self):
        return [self.name, self.engine, f"{self.seconds:.1f}", f"{self.rows / self.seconds:.0f}", f"{self.cpu_seconds * 1e6 / self.rows:.1f}",
                f"{self.written_mb:.0f}", f"{self.made_mb:.0f}", f"{self.written_mb / self.made_mb:.2f}" if self.made_mb else "-"]


COLUMNS = ["step", "engine", "seconds", "rows/s", "CPU µs a row", "written MB", "of it MB", "times"]


class Loads:
    def __init__(self, server, rows):
        self.server = server
        self.rows = rows
        self.bench = Bench(server, rows)
        self.steps = []

    def measure(self, name, engine, made, body):
        """`made`: the bytes built, asked for at the end (and before)."""
        self.bench.settle(SETTLE_SECONDS_MAX)
        before, made_before, started = Usage.of(self.server.pid()), made(engine), time.monotonic()
        body(engine)
        seconds = time.monotonic() - started
        self.bench.settle(SETTLE_SECONDS_MAX)
        used = Usage.of(self.server.pid())
        step = Step(name, engine, self.rows, seconds, used.cpu_seconds - before.cpu_seconds,
                    (used.written_bytes - before.written_bytes) / 1e6, (made(engine) - made_before) / 1e6)
        self.steps.append(step)
        display.say(f"[loads] {dict(zip(COLUMNS, step.row()))}")

    def sizes(self, engine, columns, table="sbtest1"):
        found = self.server.sql(f"ANALYZE TABLE {database(engine)}.{table}; SELECT {columns} FROM information_schema.tables "
                                f"WHERE table_schema = '{database(engine)}' AND table_name = '{table}'")
        return int(found[-1][0])

    def index_bytes(self, engine):
        return self.sizes(engine, "index_length")

    def nothing(self, _engine):
        return 0

    def prepare(self, engine):
        self.measure("prepare", engine, self.nothing, self.bench.prepare)
        self.steps[-1].made_mb = self.sizes(engine, "data_length + index_length") / 1e6

    def prepare_redo_off(self, engine):
        def body(_):
            self.server.sql("SET GLOBAL sluice_redo_log = OFF")
            self.bench.prepare(engine)
            self.server.sql("SET GLOBAL sluice_redo_log = ON")
        self.measure("prepare (redo off)", engine, self.nothing, body)
        self.steps[-1].made_mb = self.sizes(engine, "data_length + index_length") / 1e6

    def sql(self, name, engine, statements, made=None):
        def body(_):
            for statement in statements:
                self.server.sql(statement, database(engine))
        self.measure(name, engine, made or self.nothing, body)

    def create_index(self, engine):
        self.sql("create_index", engine, INDEXES, self.index_bytes)

    def alter_copy(self, engine):
        self.sql("alter_copy", engine, ["ALTER TABLE sbtest1 FORCE, ALGORITHM=COPY"])
        self.steps[-1].made_mb = self.sizes(engine, "data_length + index_length") / 1e6

    def fill(self, name, engine, statement):
        self.server.sql(EMPTY_TABLE + engine, database(engine))
        self.sql(name, engine, [statement])
        self.steps[-1].made_mb = self.sizes(engine, "data_length + index_length", "filled") / 1e6
        self.server.sql("DROP TABLE filled", database(engine))

    def insert_select(self, engine):
        self.fill("insert_select", engine, "INSERT INTO filled SELECT * FROM sbtest1")

    def load_data(self, engine):
        path = self.server.folder / f"rows_{engine}.txt"
        path.unlink(missing_ok=True)
        self.server.sql(f"SELECT * FROM sbtest1 INTO OUTFILE '{path}'", database(engine))
        self.fill("load_data", engine, f"LOAD DATA INFILE '{path}' INTO TABLE filled")
        path.unlink(missing_ok=True)

    def run(self, names, chosen):
        for name in names:
            for engine in chosen:
                getattr(self, name)(engine)
            if name == "prepare" and "Sluice" in chosen:
                self.prepare_redo_off("Sluice")
                self.measure("prepare", FLOOR, self.nothing, self.bench.prepare)

    def of(self, name, engine):
        return next((step for step in self.steps if (step.name, step.engine) == (name, engine)), None)

    def verdicts(self):
        """(text, is met) of each target that was measured."""
        ours, off, theirs = self.of("prepare", "Sluice"), self.of("prepare (redo off)", "Sluice"), self.of("prepare", "InnoDB")
        if ours and theirs:
            ratio = theirs.seconds / ours.seconds
            yield f"prepare: {ratio:.2f} times InnoDB's rate (target {RATE_TARGET})", ratio >= RATE_TARGET
            floor = self.of("prepare", FLOOR)
            if floor:
                yield from self.beyond_floor(ours.seconds, theirs.seconds, floor.seconds)
        if ours and off:
            gain = ours.seconds / off.seconds
            yield f"redo off: {gain:.2f} times the rate with it on (target at most {REDO_OFF_TARGET})", gain <= REDO_OFF_TARGET
        built = self.of("create_index", "Sluice")
        if built:
            times = built.written_mb / built.made_mb
            yield f"CREATE INDEX: {times:.2f} times the indexes' bytes written (target at most {WRITTEN_TARGET})", times <= WRITTEN_TARGET

    @staticmethod
    def beyond_floor(ours, theirs, floor):
        """The target of `prepare`, asked of the part of the time that an engine can do something about."""
        left_ours, left_theirs = max(ours - floor, 0.001), theirs - floor
        text = f"prepare beyond what sysbench and the SQL layer take ({floor:.1f} s; an engine that takes nothing: {theirs / floor:.2f} " \
               f"times InnoDB's rate): {left_ours:.1f} s, InnoDB {left_theirs:.1f} s, {left_theirs / left_ours:.2f} times (target {RATE_TARGET})"
        yield text, left_theirs / left_ours >= RATE_TARGET


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="Loads and index builds, side by side in one server.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000000)
    parser.add_argument("--pool", default="128M")
    parser.add_argument("--redo", default="96M")
    parser.add_argument("--engines", default="Sluice,InnoDB", help=f"comma separated, of {', '.join(engines.NAMES)}")
    parser.add_argument("--steps", default=",".join(STEPS), help="comma separated; prepare makes the table that the others need")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target is missed")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/loads", help="where the server lives; made anew")
    return parser.parse_args()


def main():
    arguments = arguments_of_command_line()
    chosen = arguments.engines.split(",")
    shutil.rmtree(arguments.folder, ignore_errors=True)
    options = [option for engine in chosen for option in engines.options(engine, arguments.pool, arguments.redo)]
    server = Server(arguments.folder, free_port(), [*options, *arguments.option], plugins=[*engines.plugins(chosen), "ha_blackhole"], engine=chosen[0])
    try:
        server.start()
        loads = Loads(server, arguments.rows)
        try:
            loads.run(arguments.steps.split(","), chosen)
        finally:
            server.stop()
    except (ServerError, SqlError, CellError) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/log)")
    display.table(COLUMNS, [step.row() for step in loads.steps], f"{arguments.rows} rows, pools of {arguments.pool}, logs of {arguments.redo}")
    verdicts = list(loads.verdicts())
    for text, is_met in verdicts:
        display.say(("met     " if is_met else "MISSED  ") + text)
    sys.exit(arguments.check and not all(is_met for _, is_met in verdicts))


if __name__ == "__main__":
    main()
