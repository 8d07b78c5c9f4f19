#!/usr/bin/env python3
"""What an index costs whose entries are too long for a node of one page: Sluice next to InnoDB in one server, the same table.

Three tables of one row format, which differ in their index: none, one over 100 bytes, and one over --bytes. A wide index is one
whose images with the primary key's may exceed 3,500 bytes (docs/decisions/2026-11-28-wide-keys.md). Of each engine in turn:

    insert         one row a statement, 100 a transaction, in the order of the primary key and none of the index
    point read     one row's primary key by the index

CPU is the server's. Read and written is what it had from the device and sent to it until it came to rest. Rates are not told: the machine is noisy.
"""
import argparse
import pathlib
import random
import shutil
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import engines  # noqa: E402
from cells import Bench, Usage  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

ENGINES = ("Sluice", "InnoDB")
KINDS = ("no index", "short", "wide")
SHORT_BYTES = 100
ROWS_A_TRANSACTION = 100
SETTLE_SECONDS_MAX = 60


def key(number, length):
    """Only the ends differ, as in the worst case for separators."""
    return f"CONCAT(REPEAT('k', {length - 8}), LPAD({number}, 8, '0'))"


class Wide:
    def __init__(self, server, arguments):
        self.server = server
        self.bench = Bench(server, arguments.rows)
        self.rows, self.reads = arguments.rows, arguments.reads
        self.lengths = {"no index": arguments.bytes, "short": SHORT_BYTES, "wide": arguments.bytes}

    def cost(self, work, count):
        """(CPU microseconds, KB read, KB written) of one of `count`."""
        self.bench.settle(SETTLE_SECONDS_MAX)
        before = Usage.of(self.server.pid())
        work()
        self.bench.settle(SETTLE_SECONDS_MAX)
        used = Usage.of(self.server.pid())
        return ((used.cpu_seconds - before.cpu_seconds) * 1e6 / count, (used.read_bytes - before.read_bytes) / 1024 / count,
                (used.written_bytes - before.written_bytes) / 1024 / count)

    def measure(self, engine, kind):
        length = self.lengths[kind]
        index = "" if kind == "no index" else ", KEY (k)"
        self.server.sql(f"DROP DATABASE IF EXISTS wide; CREATE DATABASE wide; CREATE TABLE wide.t (id INT PRIMARY KEY, k VARBINARY({length}){index}) ENGINE={engine}")
        numbers = list(range(self.rows))
        random.Random(1).shuffle(numbers)
        inserts = []
        for at, number in enumerate(numbers):
            inserts += ["BEGIN;"] if at % ROWS_A_TRANSACTION == 0 else []
            inserts.append(f"INSERT INTO t VALUES ({at}, {key(number, length)});")
            inserts += ["COMMIT;"] if at % ROWS_A_TRANSACTION == ROWS_A_TRANSACTION - 1 or at == self.rows - 1 else []
        found = {"insert": self.cost(lambda: self.server.sql("\n".join(inserts), "wide"), self.rows)}
        if kind != "no index":
            asked = random.Random(2).choices(range(self.rows), k=self.reads)
            reads = "\n".join(f"SELECT id FROM t FORCE INDEX (k) WHERE k = {key(number, length)};" for number in asked)
            found["point read"] = self.cost(lambda: self.server.sql(reads, "wide"), self.reads)
        return found


def run(arguments):
    folder = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--innodb", *(option for engine in ENGINES for option in engines.options(engine, arguments.pool, arguments.redo))]
    server = Server(folder, free_port(), options)
    server.start()
    try:
        wide = Wide(server, arguments)
        found = {}
        with display.Progress(arguments.pairs * len(ENGINES) * len(KINDS), "wide index") as progress:
            for pair in range(arguments.pairs):
                for kind in KINDS:
                    for engine in ENGINES[::1 if pair % 2 else -1]:
                        for step, cost in wide.measure(engine, kind).items():
                            found.setdefault((step, kind, engine), []).append(cost)
                        progress.done(f"{engine}, {kind}")
    finally:
        server.stop()
    rows = []
    for step in ("insert", "point read"):
        for kind in KINDS:
            if (step, kind, ENGINES[0]) not in found:
                continue
            costs = [[statistics.median(cost[i] for cost in found[step, kind, engine]) for engine in ENGINES] for i in range(3)]
            rows.append([step, kind, *(" / ".join(f"{value:.{digits}f}" for value in cost) for cost, digits in zip(costs, (0, 1, 1)))])
    pair = " / ".join(ENGINES)
    display.plain_table(["", "index", *(f"{what}, {pair}" for what in ("CPU µs", "KB read", "KB written"))], rows)


def main():
    parser = argparse.ArgumentParser(description="What an index with nodes of four pages costs, next to InnoDB.")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--reads", type=int, default=20000)
    parser.add_argument("--bytes", type=int, default=3000, help="of the wide index's key")
    parser.add_argument("--pool", default="64M")
    parser.add_argument("--redo", default="96M", help="the log's size")
    parser.add_argument("--pairs", type=int, default=3, help="how often each engine is measured; medians are told")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/bench-wide", help="where the server lives")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (ServerError, SqlError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
