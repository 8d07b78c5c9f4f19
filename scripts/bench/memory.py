#!/usr/bin/env python3
"""`make memory`: how much memory Sluice takes beyond its pool, stage by stage, on a table of five times the pool.

A server whose InnoDB has next to no pool (8 MiB) is started; its resident memory before the first table is the baseline. (The pool's
memory becomes resident as pages come in.) The table shows the resident memory after each stage and its peak within it, over the
baseline, and what of the peak is beyond the pool: the overhead.

    prepare        sysbench: the rows are loaded (2,000,000 are about 480 MB, five times 96 MiB)
    read_write     oltp_read_write, 8 threads          scan        every row is read
    connections    50 connections, each with an open transaction that has read and changed rows
    big_update     one transaction updates half the rows, and commits
    big_rollback   the same, rolled back
    long_reader    oltp_read_write beside a snapshot that stays open: history that purge may not touch
    drained        after everything has ended: what does not come back
    locked         half the rows locked and not changed: each has an entry in the lock table, so this stage is told by the row

Exit code 1 when the overhead (of all stages but `locked`) is greater than --bound says.
"""
import argparse
import pathlib
import re
import shutil
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from cells import FULL_SCAN_SQL, Bench, CellError, database, memory_mb  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

CONNECTIONS = 50
SAMPLE_SECONDS = 0.1


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="Resident memory of a server in which only one engine works, stage by stage.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--pool", default="96M")
    parser.add_argument("--redo", default="256M")
    parser.add_argument("--seconds", type=int, default=10, help="of each sysbench stage")
    parser.add_argument("--stages", default="", help="comma separated (all)")
    parser.add_argument("--bound", type=int, help="MiB beyond the pool that are allowed")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/memory", help="where the server lives; made anew")
    return parser.parse_args()


class Peak:
    """with Peak(pid) as peak: ...; peak.mb is the greatest resident memory seen."""

    def __init__(self, pid):
        self.pid = pid
        self.mb = memory_mb(pid)
        self._stop = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(SAMPLE_SECONDS):
            self.mb = max(self.mb, memory_mb(self.pid))


class Stages:
    def __init__(self, server, engine, rows, seconds):
        self.server = server
        self.engine = engine
        self.rows = rows
        self.seconds = seconds
        self.bench = Bench(server, rows)

    def link(self):
        return connection.connect(self.server, database(self.engine))

    def read_write_load(self):
        self.bench.sysbench("oltp_read_write", self.engine, ["--threads=8", f"--time={self.seconds}", "--events=0"], "run")

    # ---- the stages, in their order ----

    def prepare(self):
        self.bench.prepare(self.engine)

    def read_write(self):
        self.read_write_load()

    def scan(self):
        self.server.sql(FULL_SCAN_SQL, database(self.engine))

    def connections(self):
        links = [self.link() for _ in range(CONNECTIONS)]
        part = self.rows // CONNECTIONS
        for number, link in enumerate(links):
            with link.cursor() as cursor:
                cursor.execute("SELECT COUNT(*), MAX(c) FROM sbtest1 WHERE id BETWEEN %s AND %s", (number * part, (number + 1) * part))
                cursor.execute("UPDATE sbtest1 SET k = k + 1 WHERE id BETWEEN %s AND %s", (number * part + 1, number * part + 1000))
        for link in links:
            link.rollback()
            link.close()

    def big_update(self):
        self.update_half("COMMIT")

    def big_rollback(self):
        self.update_half("ROLLBACK")

    def update_half(self, end):
        with self.link() as link, link.cursor() as cursor:
            cursor.execute("UPDATE sbtest1 SET k = k + 1, c = REVERSE(c) WHERE id <= %s", (self.rows // 2,))
            cursor.execute(end)

    def long_reader(self):
        with self.link() as link, link.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self.read_write_load()
            cursor.execute("SELECT SUM(LENGTH(c)) FROM sbtest1")
            link.rollback()

    def drained(self):
        self.bench.settle(60)

    def locked(self):
        with self.link() as link, link.cursor() as cursor:
            cursor.execute("UPDATE sbtest1 SET k = k WHERE id <= %s", (self.rows // 2,))
            link.rollback()


STAGES = ("prepare", "read_write", "scan", "connections", "big_update", "big_rollback", "long_reader", "drained", "locked")


def start_server(arguments):
    shutil.rmtree(arguments.folder, ignore_errors=True)
    options = engines.options("InnoDB", "8M", "8M") if arguments.engine != "InnoDB" else []
    options += engines.options(arguments.engine, arguments.pool, arguments.redo)
    server = Server(arguments.folder, free_port(), [*options, "--performance-schema=OFF", "--binlog-format=ROW"],
                    plugins=engines.plugins([arguments.engine]), engine=arguments.engine)
    server.start()
    return server


def megabytes(size):
    number, unit = re.fullmatch(r"(\d+)([MG])", size).groups()
    return int(number) * (1024 if unit == "G" else 1)


def main():
    arguments = arguments_of_command_line()
    pool = megabytes(arguments.pool)
    rows = []
    greatest = 0
    locked_bytes = None
    try:
        server = start_server(arguments)
        try:
            stages = Stages(server, arguments.engine, arguments.rows, arguments.seconds)
            baseline = memory_mb(server.pid())
            chosen = [name for name in arguments.stages.split(",") if name] or STAGES
            with display.Progress(len(chosen), "memory") as progress:
                for name in chosen:
                    progress.working(name)
                    started = time.monotonic()
                    with Peak(server.pid()) as peak:
                        getattr(stages, name)()
                    before = float(rows[-1][2]) if rows else 0
                    now, most = memory_mb(server.pid()) - baseline, peak.mb - baseline
                    if name == "locked":
                        locked_bytes = (most - before) * 2**20 / (arguments.rows // 2)
                    else:
                        greatest = max(greatest, most - pool)
                    rows.append([name, f"{time.monotonic() - started:.0f}", f"{now:.0f}", f"{most:.0f}", f"{most - pool:.0f}"])
                    progress.done(f"{name}: {now:.0f} MiB over the baseline, {most:.0f} at the peak")
        finally:
            server.stop(timeout=300)
    except (ServerError, SqlError, CellError, connection.pymysql.err.Error) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/log)")
    display.table(["stage", "seconds", "MiB over the baseline", "at the peak", "beyond the pool"], rows)
    display.conclude(f"\n{arguments.engine}, {arguments.rows} rows, pool {pool} MiB; the server alone has {baseline:.0f} MiB. Greatest overhead: {greatest:.0f} MiB.")
    if locked_bytes is not None:
        display.say(f"A row that is locked and not changed takes {locked_bytes:.0f} bytes until the transaction ends.")
    if arguments.bound is not None and greatest > arguments.bound:
        sys.exit(f"error: that is more than the {arguments.bound} MiB allowed")


if __name__ == "__main__":
    main()
