#!/usr/bin/env python3
"""`make monitoring-cost`: what watching a server costs its clients, with all pages in memory.

Cells of sysbench run in pairs, right after each other, without and with one way of watching:

    instruments         performance_schema is ON; all instruments of Sluice are off, or on
    performance_schema  two servers: OFF; ON with all instruments of Sluice. What the server's own instruments cost is in it
    polls               a client asks SHOW ENGINE SLUICE STATUS, SLUICE_METRICS and the status variables once a second, or does not

Prints the medians of the pairs' ratios and their quartiles, and how long each table of INFORMATION_SCHEMA takes to read under load. After
--pairs pairs a script goes on, up to --pairs-max, until the medians' 95 % intervals say which side of --cost they are on. Exit code 1 if
the instruments or the polls cost more than --cost of the rate or of the CPU time of an operation. performance_schema is only reported:
separate servers differ by some percent of themselves, so there are new ones after every few pairs.
"""
import argparse
import pathlib
import shutil
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from cells import Bench, CellError, Usage, database  # noqa: E402
from pairs import are_clear, hold, ratios, with_quartiles  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

SCRIPTS = ("oltp_point_select", "oltp_read_write", "oltp_update_index")
SETTLE_SECONDS_MAX = 5
OBSERVED = ["--performance-schema=ON", "--performance-schema-max-stage-classes=200", "--performance-schema-instrument=memory/sluice/%=ON"]
POLLED = ("SHOW ENGINE SLUICE STATUS", "SELECT * FROM information_schema.SLUICE_METRICS", "SHOW GLOBAL STATUS LIKE 'Sluice%'")
TABLES_OF_SLUICE = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME LIKE 'SLUICE%'"


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="What watching a server costs its clients.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rows", type=int, default=300000)
    parser.add_argument("--pool", default="256M")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=4, help="of a cell")
    parser.add_argument("--pairs", type=int, default=20, help="of each script at least")
    parser.add_argument("--pairs-max", type=int, default=60, help="... and at most")
    parser.add_argument("--pairs-a-server", type=int, default=10, help="after so many, the servers and tables are made anew")
    parser.add_argument("--ways", default=",".join(WAYS), help="comma separated")
    parser.add_argument("--scripts", default=",".join(SCRIPTS), help="comma separated")
    parser.add_argument("--other-tables", type=int, default=200, help="empty tables beside sysbench's, which the reports list")
    parser.add_argument("--reads", type=int, default=20, help="of each table of INFORMATION_SCHEMA; 0: none")
    parser.add_argument("--cost", type=float, default=0.02, help="the greatest share that instruments or polls may cost")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/bench-monitoring", help="where the servers live; made anew")
    arguments = parser.parse_args()
    arguments.ways = [word for word in arguments.ways.split(",") if word]
    arguments.scripts = arguments.scripts.split(",")
    if unknown := [word for word in arguments.ways if word not in WAYS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(WAYS)}")
    arguments.pairs_max = max(arguments.pairs, arguments.pairs_max)
    return arguments


# ---- servers ----

def start_server(arguments, name, options):
    folder = arguments.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    # A commit is written and not synced: the disk hides no CPU.
    server = Server(folder, free_port(), [*engines.options("Sluice", arguments.pool, "1G"), "--sluice-flush-log-at-trx-commit=2", *options],
                    plugins=engines.plugins(["Sluice"]))
    server.start()
    try:
        server.sql("CREATE DATABASE others; " + "".join(f"CREATE TABLE others.t{number} (a INT PRIMARY KEY);"
                                                        for number in range(arguments.other_tables)))
        bench = Bench(server, arguments.rows)
        bench.prepare("Sluice")
    except BaseException:
        server.stop()
        raise
    return bench


def set_instruments(bench, on):
    word = "YES" if on else "NO"
    bench.server.sql("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE 'events_waits%';"
                     f"UPDATE performance_schema.setup_instruments SET ENABLED = '{word}', TIMED = '{word}' WHERE NAME LIKE '%/sluice/%'")


class Poller:
    """Asks once a second while it is open."""

    def __init__(self, server):
        self.link = connection.connect(server, autocommit=True)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with self.link.cursor() as cursor:
            while True:
                for statement in POLLED:
                    cursor.execute(statement)
                    cursor.fetchall()
                if self.ended.wait(1):
                    return

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.link.close()


# ---- the ways of watching: servers(arguments) makes one or two, cell(servers, watched, run) runs a cell ----

class Instruments:
    title = "all instruments of Sluice, on : off"
    judged = True

    @staticmethod
    def servers(arguments):
        return [start_server(arguments, "observed", OBSERVED)]

    @staticmethod
    def cell(benches, watched, run):
        set_instruments(benches[0], watched)
        return run(benches[0])


class PerformanceSchema:
    title = "performance_schema with them, ON : OFF"
    judged = False

    @staticmethod
    def servers(arguments):
        plain = start_server(arguments, "plain", ["--performance-schema=OFF"])
        try:
            observed = start_server(arguments, "observed", OBSERVED)
        except BaseException:
            plain.server.stop()
            raise
        set_instruments(observed, True)
        return [plain, observed]

    @staticmethod
    def cell(benches, watched, run):
        return run(benches[watched])


class Polls:
    title = "three reports a second : none"
    judged = True

    @staticmethod
    def servers(arguments):
        return [start_server(arguments, "plain", ["--performance-schema=OFF"])]

    @staticmethod
    def cell(benches, watched, run):
        if not watched:
            return run(benches[0])
        with Poller(benches[0].server):
            return run(benches[0])


WAYS = {"instruments": Instruments, "performance_schema": PerformanceSchema, "polls": Polls}


# ---- measuring ----

def measure_pairs(way, script, arguments, progress):
    """[(sample without, sample with)]"""
    found, benches = [], []

    def run(bench):
        bench.settle(SETTLE_SECONDS_MAX)
        return bench.run(script, "Sluice", arguments.threads, arguments.seconds)

    try:
        for number in range(arguments.pairs_max):
            progress.working(f"{script}, pair {number + 1}")
            if number % arguments.pairs_a_server == 0:
                stop(benches)
                benches = WAYS[way].servers(arguments)
                for bench in benches:
                    run(bench)  # warms it up
            order = (False, True) if number % 2 == 0 else (True, False)
            samples = {watched: WAYS[way].cell(benches, watched, run) for watched in order}
            found.append((samples[False], samples[True]))
            progress.done(f"{way}, {script}: " + ", ".join(f"{word} {sample.per_second:.0f}/s, {sample.cpu_us:.1f} CPU µs"
                                                           for word, sample in zip(("without", "with"), found[-1])))
            if len(found) >= arguments.pairs and are_clear(found, arguments.cost):
                break
    finally:
        stop(benches)
    return found


def stop(benches):
    while benches:
        benches.pop().server.stop()


def measure(arguments):
    """{(way, script): pairs}"""
    count = len(arguments.ways) * len(arguments.scripts) * arguments.pairs_max
    with display.Progress(count, "monitoring") as progress:
        return {(way, script): measure_pairs(way, script, arguments, progress) for way in arguments.ways for script in arguments.scripts}


def reports(arguments):
    """[statement, rows, median ms, CPU ms] of each report, beside no load: the server's CPU time is the report's."""
    bench = start_server(arguments, "plain", ["--performance-schema=OFF"])
    rows = []
    try:
        server = bench.server
        bench.settle(SETTLE_SECONDS_MAX)
        statements = ["SHOW ENGINE SLUICE STATUS", "SHOW GLOBAL STATUS LIKE 'Sluice%'",
                      *(f"SELECT * FROM information_schema.{name}" for (name,) in server.sql(TABLES_OF_SLUICE))]
        with connection.connect(server, database("Sluice"), autocommit=True) as link, link.cursor() as cursor:
            for statement in statements:
                times, before = [], Usage.of(server.pid()).cpu_seconds
                for _ in range(arguments.reads):
                    started = time.monotonic()
                    cursor.execute(statement)
                    count = len(cursor.fetchall())
                    times.append((time.monotonic() - started) * 1000)
                cpu_ms = (Usage.of(server.pid()).cpu_seconds - before) * 1000 / arguments.reads
                rows.append([statement.removeprefix("SELECT * FROM information_schema."), count, f"{statistics.median(times):.1f}",
                             f"{cpu_ms:.1f}"])
    finally:
        bench.server.stop()
    return rows


def judge(found, arguments):
    rows, all_held = [], True
    for (way, script), pairs in found.items():
        held = hold(pairs, arguments.cost)
        judged = WAYS[way].judged
        all_held = all_held and (held or not judged)
        rows.append([WAYS[way].title, script, len(pairs), with_quartiles(ratios(pairs, "per_second")),
                     with_quartiles(ratios(pairs, "cpu_us")), ("held" if held else "NOT HELD") if judged else ""])
    display.say("")
    display.plain_table(["watched : not watched", "script", "pairs", "rate", "server CPU an operation", ""], rows)
    display.conclude(f"\n{arguments.rows} rows, pool of {arguments.pool}, {arguments.threads} threads, pairs of {arguments.seconds} s; "
                     "medians of the pairs' ratios (quartiles).")
    return all_held


def main():
    arguments = arguments_of_command_line()
    try:
        found = measure(arguments)
        read = reports(arguments) if arguments.reads else []
    except (ServerError, SqlError, CellError) as error:
        sys.exit(f"error: {error} (the servers' logs: {arguments.folder}/*/log)")
    held = judge(found, arguments)
    if read:
        display.table(["report", "rows", "ms", "CPU ms"], read, f"One report each, {arguments.other_tables + 1} tables")
    sys.exit(0 if held else "error: watching costs more than it may")


if __name__ == "__main__":
    main()
