#!/usr/bin/env python3
"""The buffer pool in operation, Sluice and InnoDB in turns: `pool.py resize`, `pool.py warm`, `pool.py scan`.

    resize   the pool changes between 96 MiB and 1 GiB ten times under oltp_read_write. Two probes, a reader and a writer, time each of
             their statements. Shown: the longest one with and without resizes, errors, how long each SET took, and the resident memory
             after each.
    warm     oltp_point_select on a table that fits into the pool, to its warm rate. Then a restart that loads the pool's page list. Shown:
             the rate of the first --seconds after the start as a share of the warm one, and how long the load took.
    scan     oltp_point_select on a table that fits into the pool, alone, and beside mariadb-dump of one of four times the pool. Shown: the
             rate beside the dump as a share of that alone, and the point reads' share that found their page in memory.

Exit code 1 if Sluice misses its line: a statement failed, or was longer than 200 ms with resizes and was not without; the first rate below
0.9 of the warm one; the rate beside the dump below 0.8. The load of the machine is printed: figures of a busy one say little.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import engines  # noqa: E402
from cells import Bench, CellError, database, memory_mb  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

MIB = 1 << 20
SMALL, LARGE = 96 * MIB, 1024 * MIB
STALL_MS = 200
ROUNDS = 10


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="The buffer pool resized, restarted and scanned, beside InnoDB.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("what", choices=("resize", "warm", "scan"))
    parser.add_argument("--engines", default="Sluice,InnoDB")
    parser.add_argument("--rows", type=int, default=1000000, help="of the table that is read and changed (some 240 bytes each)")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=60, help="of each measurement")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/pool", help="where the servers live; made anew")
    return parser.parse_args()


def load():
    return f"load {os.getloadavg()[0]:.1f}"


class Trial:
    """One engine in a server of its own."""

    def __init__(self, arguments, engine, pool):
        self.arguments = arguments
        self.engine = engine
        self.prefix = "sluice" if engine == "Sluice" else "innodb"
        options = engines.options(engine, f"{pool // MIB}M", "512M")
        options += [f"--{self.prefix}-buffer-pool-dump-pct=100"]
        if engine == "InnoDB":
            options += [f"--innodb-buffer-pool-size-max={LARGE}"]
        else:
            options += ["--innodb-buffer-pool-size=8M"]
        folder = arguments.folder / engine.lower()
        shutil.rmtree(folder, ignore_errors=True)
        self.server = Server(folder, free_port(), options, plugins=["ha_sluice"] if engine == "Sluice" else [], engine=engine)
        self.bench = Bench(self.server, arguments.rows)

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def status(self, name):
        rows = self.server.sql(f"SHOW GLOBAL STATUS LIKE '{self.prefix}_{name}'")
        return rows[0][1] if rows else "?"

    def warm_up(self):
        """Every row once, by its key."""
        self.server.sql("SELECT SUM(LENGTH(c)) FROM sbtest1", database(self.engine))

    def rate(self, seconds, script="oltp_point_select"):
        return self.bench.run(script, self.engine, self.arguments.threads, seconds).per_second

    def set_pool(self, size):
        started = time.monotonic()
        self.server.sql(f"SET GLOBAL {self.prefix}_buffer_pool_size = {size}")
        return time.monotonic() - started


class Probe(threading.Thread):
    """Times its statements, one after the other."""

    def __init__(self, trial, statement):
        super().__init__()
        self.link = connection.connect(trial.server, database(trial.engine))
        self.statement = statement
        self.rows = trial.arguments.rows
        self.ends = threading.Event()
        self.times_ms = []
        self.errors = []

    def run(self):
        number = 1
        with self.link.cursor() as cursor:
            while not self.ends.is_set():
                number = (number * 48271) % 2147483647
                started = time.monotonic()
                try:
                    cursor.execute(self.statement, (number % self.rows + 1,))
                    self.link.commit()
                except Exception as error:  # noqa: BLE001: whatever it is, it is a finding
                    code = error.args[0] if error.args else 0
                    if str(code) not in ("1205", "1213", "1020"):
                        self.errors.append(str(error))
                    self.link.rollback()
                self.times_ms.append((time.monotonic() - started) * 1000)

    def end(self):
        self.ends.set()
        self.join()
        self.link.close()
        return self


PROBES = ("SELECT c FROM sbtest1 WHERE id = %s", "UPDATE sbtest1 SET pad = REVERSE(pad) WHERE id = %s")


def probed(trial, body):
    """Runs `body` beside the probes and sysbench; (longest of each probe in ms, statements over STALL_MS, errors)."""
    probes = [Probe(trial, statement) for statement in PROBES]
    failed = []

    def sysbench():
        try:
            trial.bench.sysbench("oltp_read_write", trial.engine,
                                 [f"--threads={trial.arguments.threads}", f"--time={trial.arguments.seconds}", "--events=0"], "run")
        except CellError as error:
            failed.append(str(error))

    background = threading.Thread(target=sysbench)
    background.start()
    [probe.start() for probe in probes]
    body()
    background.join()
    [probe.end() for probe in probes]
    slow = sum(sum(ms > STALL_MS for ms in probe.times_ms) for probe in probes)
    return [max(probe.times_ms) for probe in probes], slow, failed + [error for probe in probes for error in probe.errors]


def resize(arguments, engine):
    with Trial(arguments, engine, SMALL) as trial:
        trial.bench.prepare(engine)
        trial.bench.settle(60)
        without, slow_without, errors = probed(trial, lambda: time.sleep(1))
        print(f"{engine:7} no resizes: longest read {without[0]:.0f} ms, change {without[1]:.0f} ms, {slow_without} over {STALL_MS} ms ({load()})",
              flush=True)
        steps = []

        def resizes():
            pause = arguments.seconds / (2 * ROUNDS + 1)
            for _ in range(ROUNDS):
                for size in (LARGE, SMALL):
                    due = time.monotonic() + pause
                    before = memory_mb(trial.server.pid())
                    took = trial.set_pool(size)
                    steps.append((size, took, before, memory_mb(trial.server.pid())))
                    if size == LARGE:
                        trial.warm_up()
                    time.sleep(max(0, due - time.monotonic()))

        with_them, slow, more = probed(trial, resizes)
        errors += more
        for size in (LARGE, SMALL):
            of_size = [step for step in steps if step[0] == size]
            times, before, after = [[step[column] for step in of_size] for column in (1, 2, 3)]
            print(f"{engine:7} SET to {size // MIB:4} MiB: {len(times)} times, {min(times):.2f} to {max(times):.2f} s; resident before it "
                  f"{min(before):.0f} to {max(before):.0f} MiB, after it {min(after):.0f} to {max(after):.0f} MiB")
        print(f"{engine:7} {len(steps)} resizes: longest read {with_them[0]:.0f} ms, change {with_them[1]:.0f} ms, {slow} over {STALL_MS} ms, "
              f"{len(errors)} errors ({load()})", flush=True)
        [print(f"        {error}") for error in errors[:5]]
        return not errors and (slow == 0 or slow_without > 0)


def warm(arguments, engine):
    with Trial(arguments, engine, LARGE // 2) as trial:
        trial.bench.prepare(engine)
        trial.warm_up()
        trial.rate(10)
        before = trial.rate(arguments.seconds)
        trial.server.stop()
        started = time.monotonic()
        trial.server.start()
        took = time.monotonic() - started
        first = trial.rate(arguments.seconds)
        print(f"{engine:7} warm {before:.0f}/s; start {took:.1f} s; the first {arguments.seconds} s after it {first:.0f}/s, "
              f"{first / before:.2f} of the warm rate; {trial.status('buffer_pool_load_status')} ({load()})", flush=True)
        return first >= 0.9 * before


def hits(trial, body):
    """Runs `body`; (its result, of a thousand requests how many found their page)."""
    names = ("buffer_pool_reads", "buffer_pool_read_requests")
    before = [int(trial.status(name)) for name in names]
    result = body()
    reads, requests = [int(trial.status(name)) - old for name, old in zip(names, before)]
    return result, 1000 * (1 - reads / max(requests, 1))


def scan(arguments, engine):
    pool = max(SMALL, arguments.rows * 300 // MIB * MIB * 5 // 4)
    with Trial(arguments, engine, pool) as trial:
        trial.bench.prepare(engine)
        large = Bench(trial.server, pool * 4 // 240)
        trial.server.sql("CREATE DATABASE large")
        trial.server.sql(f"CREATE TABLE large.t LIKE {database(engine)}.sbtest1")
        step = arguments.rows
        for first in range(0, large.rows, step):
            trial.server.sql(f"INSERT INTO large.t SELECT id + {first}, k, c, pad FROM {database(engine)}.sbtest1")
        trial.bench.settle(120)
        trial.warm_up()
        trial.rate(10)
        alone, alone_hits = hits(trial, lambda: trial.rate(arguments.seconds))
        command = [str(trial.server.base / "bin/mariadb-dump"), "--no-defaults", f"--socket={trial.server.socket}", "--user=root",
                   "--single-transaction", "--quick", "large"]
        dumps = []
        ends = threading.Event()

        def dump():
            while not ends.is_set():
                started = time.monotonic()
                process = subprocess.Popen(["nice", *command], stdout=subprocess.DEVNULL)
                while process.poll() is None:
                    if ends.wait(0.2):
                        process.terminate()
                        process.wait()
                        return
                dumps.append(time.monotonic() - started)

        thread = threading.Thread(target=dump)
        thread.start()
        beside, beside_hits = hits(trial, lambda: trial.rate(arguments.seconds))
        ends.set()
        thread.join()
        after = trial.rate(10)
        print(f"{engine:7} alone {alone:.0f}/s, {alone_hits:.1f} hits of 1000; beside mariadb-dump {beside:.0f}/s, {beside_hits:.1f} hits (the "
              f"dump's own requests too), {beside / alone:.2f} of the rate alone; {len(dumps)} whole dumps; after it {after:.0f}/s ({load()})",
              flush=True)
        return beside >= 0.8 * alone


def main():
    arguments = arguments_of_command_line()
    body = {"resize": resize, "warm": warm, "scan": scan}[arguments.what]
    try:
        passed = {engine: body(arguments, engine) for engine in arguments.engines.split(",")}
    except (ServerError, SqlError, CellError) as error:
        print(f"pool.py: {error}", file=sys.stderr)
        return 1
    return 0 if passed.get("Sluice", True) else 1


if __name__ == "__main__":
    sys.exit(main())
