#!/usr/bin/env python3
"""`make tpch`: TPC-H's 22 queries on Sluice and InnoDB in one server: results, plans, times.

Both engines have the same tables, rows and memory (see scripts/engines.py), by default enough for
all data. Each query is run once on each engine: that compares the results and brings the pages
into memory. Then the engines take turns, in the opposite order at every repeat. A time is the
median of the repeats, a ratio the median of the pairs' ratios (Sluice over InnoDB: below 1 Sluice
is faster). The ratio of CPU is that of the server's process, which neighbours on the machine change
less. `plan` is same, extra (the same tables, accesses and keys, another Extra), or other.

    all            make tpch
    some           make tpch BENCH='--scale 0.1 --queries 2,11,21 --explain'
    judged         make tpch BENCH=--gate   (exit code 1 when a query takes more than 1.1 times
                   InnoDB's time, or all of them more than 0.6 times it, as a geometric mean)
    no statistics  make tpch BENCH='--no-analyze --restart'

A result that differs makes the exit code 1, too. Samples, plans and versions are saved as JSON in
build/bench.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import engines  # noqa: E402
import plans  # noqa: E402
import tpch_data  # noqa: E402
from cells import Bench  # noqa: E402
from connection import connect, pymysql  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

OURS, THEIRS = "Sluice", "InnoDB"
ENGINES = (OURS, THEIRS)
QUERY_RATIO_MAX, MEAN_RATIO_MAX = 1.1, 0.6
SETTLE_SECONDS_MAX = 60
COLUMNS = ["query", "Sluice ms", "InnoDB ms", "ratio", "of pairs", "CPU", "plan", "results"]
EQUAL, DIFFERENT, UNKNOWN = "equal", "DIFFERENT", "not compared"


class TpchError(Exception):
    """The benchmark cannot go on; the text says why, in one line."""


@dataclass
class Answer:
    ms: float
    cpu_ms: float  # of the server's process
    rows: tuple


@dataclass
class Result:
    """One query. `times` and `cpu` are milliseconds of each engine, by repeat. `late` are the
    engines that the time limit has stopped; the others then have one time and no pair."""
    query: int
    plan: str
    results: str
    times: dict = field(default_factory=lambda: {engine: [] for engine in ENGINES})
    cpu: dict = field(default_factory=lambda: {engine: [] for engine in ENGINES})
    plan_texts: dict = field(default_factory=dict)
    late: list = field(default_factory=list)

    def ratios(self, of=None):
        of = of or self.times
        return [ours / theirs for ours, theirs in zip(of[OURS], of[THEIRS])]

    def add(self, engine, answer):
        self.times[engine].append(answer.ms)
        self.cpu[engine].append(answer.cpu_ms)

    def ratio(self):
        """None when one of the engines was stopped."""
        return statistics.median(self.ratios()) if self.ratios() else None

    def row(self):
        ratios = self.ratios()
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        times = ["stopped" if engine in self.late else f"{statistics.median(self.times[engine]):.1f}" if self.times[engine] else "-"
                 for engine in ENGINES]
        cpu = f"{statistics.median(self.ratios(self.cpu)):.2f}" if ratios else "-"
        return [self.query, *times, f"{self.ratio():.2f}" if ratios else "-", spread, cpu, self.plan, self.results]


def database(engine):
    return f"tpch_{engine.lower()}"


class Tpch:
    def __init__(self, server, arguments):
        self.server = server
        self.arguments = arguments
        self.connections = {}

    def connect(self):
        """A connection for each engine, so that neither meets what the other has set."""
        self.cpu_clock = (~self.server.pid() << 3) | 2  # of that process, see clock_gettime(3)
        for engine in ENGINES:
            connection = connect(self.server, database(engine), autocommit=True)
            self.connections[engine] = connection
            if self.arguments.seconds:
                self.ask(engine, f"SET SESSION max_statement_time = {self.arguments.seconds}")

    def disconnect(self):
        for connection in self.connections.values():
            with contextlib.suppress(pymysql.err.Error):
                connection.close()
        self.connections = {}

    def ask(self, engine, statement):
        with self.connections[engine].cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def load(self, engine, folder):
        """Seconds that LOAD DATA took. A warning ends the benchmark: both engines would get the
        same value, cut off, and answer alike."""
        with connect(self.server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {database(engine)}")
            cursor.execute(f"CREATE DATABASE {database(engine)}")
            cursor.execute(f"USE {database(engine)}")
            for statement in tpch_data.table_statements(engine):
                cursor.execute(statement)
            started = time.monotonic()
            for table in tpch_data.TABLES:
                cursor.execute(tpch_data.load_statement(table, folder))
                cursor.execute("SHOW WARNINGS")
                warnings = cursor.fetchall()
                if warnings:
                    raise TpchError(f"LOAD DATA of {table} on {engine} warns: {warnings[0][2]}")
            return time.monotonic() - started

    def analyze(self):
        for engine in ENGINES:
            for statement in tpch_data.analyze_statements():
                answer = self.ask(engine, statement)
                if answer[-1][-1] not in ("OK", "Table is already up to date"):
                    raise TpchError(f"{statement} on {engine}: {answer[-1][-1]}")

    def run(self, engine, query):
        """An Answer; None of a query that was stopped at the limit."""
        cpu, started = time.clock_gettime(self.cpu_clock), time.monotonic()
        try:
            rows = self.ask(engine, query)
        except pymysql.err.Error as error:
            if error.args[0] == tpch_data.TIME_LIMIT_ERROR:
                return None
            raise
        return Answer((time.monotonic() - started) * 1000, (time.clock_gettime(self.cpu_clock) - cpu) * 1000, rows)

    def plan(self, engine, query):
        with self.connections[engine].cursor() as cursor:
            return plans.Plan.of(cursor, query)

    def measure(self, number):
        query = tpch_data.query(number, self.arguments.scale)
        found = {engine: self.plan(engine, query) for engine in ENGINES}
        plan = plans.compare(found[OURS], database(OURS), found[THEIRS], database(THEIRS))
        first = {engine: self.run(engine, query) for engine in ENGINES}
        late = [engine for engine in ENGINES if first[engine] is None]
        result = Result(number, plan, UNKNOWN if late else self.compared(first), late=late)
        result.plan_texts = {engine: found[engine].text(database(engine)) for engine in ENGINES}
        for repeat in range(0 if late else self.arguments.repeats):
            pair = {engine: self.run(engine, query) for engine in ENGINES[::1 if repeat % 2 == 0 else -1]}
            late = [engine for engine in ENGINES if pair[engine] is None]
            if late:
                result.late = late
                break
            if self.compared(pair) != EQUAL:
                result.results = DIFFERENT
            for engine in ENGINES:
                result.add(engine, pair[engine])
        for engine in ENGINES if late else ():
            result.times[engine], result.cpu[engine] = [], []
            if engine not in late and first[engine] is not None:
                result.add(engine, first[engine])
        return result

    @staticmethod
    def compared(answers):
        ours, theirs = (tpch_data.comparable(answers[engine].rows) for engine in ENGINES)
        return EQUAL if ours == theirs else DIFFERENT

    def measure_all(self, title):
        results = []
        with display.Progress(len(self.arguments.queries), title) as progress:
            for number in self.arguments.queries:
                progress.working(f"query {number}")
                results.append(self.measure(number))
                progress.done(" | ".join(map(str, results[-1].row())))
        return results


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="TPC-H's 22 queries on Sluice and InnoDB side by side in one server.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--scale", default="0.3", help="scale factor: 1 is 1 GB of data, 6 million rows in the largest table")
    parser.add_argument("--queries", default="", help="comma separated numbers (all)")
    parser.add_argument("--repeats", type=int, default=5, help="measured pairs of each query")
    parser.add_argument("--seconds", type=float, default=300, help="a query is stopped after so many; 0: never")
    parser.add_argument("--pool", default="1G", help="buffer pool of each engine")
    parser.add_argument("--redo", default="1G", help="redo log of each engine")
    parser.add_argument("--no-analyze", dest="analyze", action="store_false", help="no ANALYZE TABLE after the load")
    parser.add_argument("--restart", action="store_true", help="measure again after a restart of the server, without ANALYZE TABLE")
    parser.add_argument("--explain", action="store_true", help="print both plans where they differ")
    parser.add_argument("--gate", action="store_true",
                        help=f"exit code 1 when a query takes more than {QUERY_RATIO_MAX} times InnoDB's time, or the geometric mean is "
                             f"above {MEAN_RATIO_MAX}")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    parser.add_argument("--again", action="store_true", help="the server and the tables that --keep has left, with no load and no ANALYZE TABLE")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/tpch", help="where the server lives; made anew")
    parser.add_argument("--json", type=pathlib.Path, help="where the samples go (build/bench/tpch-TIME.json)")
    arguments = parser.parse_args()
    try:
        arguments.queries = tpch_data.numbers(arguments.queries)
        tpch_data.check_scale(arguments.scale)
    except tpch_data.DataError as error:
        parser.error(str(error))
    if arguments.repeats < 1:
        parser.error("--repeats: at least one pair is measured")
    return arguments


def start_server(arguments):
    if not arguments.again:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    options = [option for engine in ENGINES for option in engines.options(engine, arguments.pool, arguments.redo)]
    server = Server(arguments.folder, free_port(), [*options, "--secure-file-priv=", *arguments.option], plugins=engines.plugins(ENGINES), engine=OURS)
    server.start()
    return server


def measurements(server, arguments):
    """{title: results}, and the seconds that each engine's load took."""
    tpch, settle, load_seconds = Tpch(server, arguments), Bench(server, 0).settle, {}
    if not arguments.again:
        folder = tpch_data.generate(arguments.scale)
        load_seconds = {engine: tpch.load(engine, folder) for engine in ENGINES}
        display.say("loaded: " + ", ".join(f"{engine} {seconds:.1f} s" for engine, seconds in load_seconds.items()))
    tpch.connect()
    title = "as it was left" if arguments.again else "after ANALYZE TABLE" if arguments.analyze else "without ANALYZE TABLE"
    if arguments.analyze and not arguments.again:
        tpch.analyze()
    settle(SETTLE_SECONDS_MAX)
    found = {title: tpch.measure_all(title)}
    if arguments.restart:
        tpch.disconnect()
        server.stop()
        server.start()
        tpch.connect()
        settle(SETTLE_SECONDS_MAX)
        found["after a restart"] = tpch.measure_all("after a restart")
    tpch.disconnect()
    return found, load_seconds


def mean_ratio(results):
    ratios = [result.ratio() for result in results if result.ratio() is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def report(title, results, arguments):
    display.table(COLUMNS, [result.row() for result in results], f"TPC-H, scale factor {arguments.scale}, {title}")
    mean = mean_ratio(results)
    display.conclude(f"\ngeometric mean of the ratios: {f'{mean:.3f}' if mean is not None else 'none'}; "
                f"plans: {', '.join(f'{sum(result.plan == kind for result in results)} {kind}' for kind in (plans.SAME, plans.EXTRA, plans.OTHER))}")
    if arguments.explain:
        for result in results:
            if result.plan != plans.SAME:
                for engine in ENGINES:
                    display.say(f"\nquery {result.query} on {engine}\n{result.plan_texts[engine]}")


def verdicts(found, arguments):
    """What makes the exit code 1, a line each."""
    for title, results in found.items():
        for result in results:
            if result.results == DIFFERENT:
                yield f"query {result.query}, {title}: the engines' results differ"
            if arguments.gate and result.late and result.late != [THEIRS]:
                yield f"query {result.query}, {title}: stopped on {' and '.join(result.late)} after {arguments.seconds:g} s (--seconds)"
            elif arguments.gate and result.ratio() is not None and result.ratio() > QUERY_RATIO_MAX:
                yield f"query {result.query}, {title}: {result.ratio():.2f} times InnoDB's time (at most {QUERY_RATIO_MAX})"
        mean = mean_ratio(results)
        if arguments.gate and mean is not None and mean > MEAN_RATIO_MAX:
            yield f"{title}: a geometric mean of {mean:.3f} times InnoDB's time (at most {MEAN_RATIO_MAX})"


def save(path, found, load_seconds, server):
    path = path or BUILD / time.strftime("bench/tpch-%Y-%m-%d-%H%M%S.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    path.write_text(json.dumps({
        "command": " ".join(["scripts/bench/tpch.py", *sys.argv[1:]]), "commit": commit, "server": server.sql("SELECT VERSION()")[0][0],
        "server_options": server.options, "load_seconds": load_seconds, "data": (tpch_data.TOOLS / ".set").read_text().strip(),
        "machine": {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
        "geometric_mean": {title: mean_ratio(results) for title, results in found.items()},
        "results": {title: [asdict(result) for result in results] for title, results in found.items()},
    }, indent=1) + "\n")
    return path


def main():
    arguments = arguments_of_command_line()
    try:
        server = start_server(arguments)
        try:
            found, load_seconds = measurements(server, arguments)
            path = save(arguments.json, found, load_seconds, server)
        finally:
            if not arguments.keep:
                server.stop()
    except (ServerError, TpchError, tpch_data.DataError, pymysql.err.Error) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/log)")
    for title, results in found.items():
        report(title, results, arguments)
    display.say(f"\npools of {arguments.pool}, {arguments.repeats} pairs a query. Samples and plans: {path}")
    failed = list(verdicts(found, arguments))
    for line in failed:
        display.say(f"FAILED  {line}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
