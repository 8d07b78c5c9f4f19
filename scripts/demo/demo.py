#!/usr/bin/env python3
"""`make demo`: a MariaDB server whose default engine is Sluice, real workloads on it and on InnoDB beside it, and a crash.

    1. start       a server with both engines, equal in memory and durability (scripts/engines.py)
    2. sysbench    its ten scripts with 1 and 8 threads, the engines in turns
    3. slap        mariadb-slap's five load types
    4. crash       8 clients write, kill -9, restart, and every row is accounted for (scripts/kill/trial.py)

Prints one table and leaves the server running. A glance, not a measurement: the cells are short; `make bench` measures. When a
step fails the program says which, stops there and ends with exit code 1; the server stays for a look.
"""
import argparse
import pathlib
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "bench"), str(HERE.parent / "kill")]
import display  # noqa: E402
import engines  # noqa: E402
import slap  # noqa: E402
from cells import CONSUMING, SCRIPTS, Bench  # noqa: E402
from server import BUILD, Server, free_port, port_is_taken  # noqa: E402
from trial import Trial  # noqa: E402

YARDSTICK = "InnoDB"
POOL, REDO = "256M", "256M"
THREADS = (1, 8)
SETTLE_SECONDS_MAX = 0.5


class Demo:
    def __init__(self, arguments):
        self.arguments = arguments
        self.engine = arguments.engine
        self.engines = (self.engine, YARDSTICK)
        self.rows = []  # of the table: what, ours, InnoDB's, ratio
        self.crash = ""
        folder = BUILD / "run/demo"
        self.server = Server(folder, arguments.port if not port_is_taken(arguments.port) else free_port(),
                             [option for engine in self.engines for option in engines.options(engine, POOL, REDO)],
                             plugins=engines.plugins(self.engines), engine=self.engine)

    def steps(self):
        cells = len(SCRIPTS) * len(THREADS)
        yield "start", 1, self.start
        yield "sysbench", 1 + cells, self.sysbench
        yield "mariadb-slap", len(slap.LOADS), self.slap
        yield "kill -9", 1, self.kill

    def run(self):
        """Returns the name of the step that failed and its error, or None."""
        steps = list(self.steps())
        with display.Progress(sum(count for _, count, _ in steps), "demo") as progress:
            for name, _, step in steps:
                try:
                    step(progress)
                except Exception as error:  # whatever it is, the person must read which step it was
                    return name, error
        return None

    def start(self, progress):
        progress.working("starting the server")
        shutil.rmtree(self.server.folder, ignore_errors=True)
        started = time.monotonic()
        self.server.start()
        version = self.server.sql("SELECT VERSION()")[0][0]
        progress.done(f"MariaDB {version} with {self.engine} as default engine is up in {time.monotonic() - started:.1f} s")

    def sysbench(self, progress):
        bench = Bench(self.server, self.arguments.rows)
        progress.working("loading tables")
        took = {engine: bench.prepare(engine) for engine in self.engines}
        self.add(f"load {self.arguments.rows} rows, s", took, smaller_is_better=True)
        progress.done(f"sysbench tables loaded: {self.sentence(took, ' s', 1)}")
        for script in SCRIPTS:
            for threads in THREADS:
                speeds = {}
                for engine in self.engines[::1 if threads == THREADS[0] else -1]:
                    progress.working(f"{script}, {threads} threads, {engine}")
                    if script in CONSUMING:
                        bench.prepare(engine)
                    bench.settle(SETTLE_SECONDS_MAX)
                    speeds[engine] = bench.run(script, engine, threads, self.arguments.seconds).per_second
                what = f"{script}, {threads} thread{'s' if threads > 1 else ''}"
                self.add(f"{what}, 1/s", speeds)
                progress.done(f"{what}: {self.sentence(speeds, '/s', 0)}")

    def slap(self, progress):
        for load in slap.LOADS:
            progress.working(f"mariadb-slap {load}")
            took = {engine: slap.seconds(self.server, engine, load) for engine in self.engines}
            self.add(f"mariadb-slap {load}, s", took, smaller_is_better=True)
            progress.done(f"mariadb-slap {load}: {self.sentence(took, ' s', 3)}")

    def kill(self, progress):
        progress.working("8 clients write")
        trial = Trial(self.server, self.engine)
        trial.prepare()
        outcome = trial.round(self.arguments.seconds)
        self.crash = (f"kill -9 under {len(trial.known)} writing clients: all {outcome.acknowledged} acknowledged transactions are there "
                      f"after a restart of {outcome.recovery_seconds:.1f} s and nothing else is; of "
                      f"{outcome.in_doubt_there + outcome.in_doubt_gone} that were being committed, {outcome.in_doubt_there} are there whole "
                      f"and {outcome.in_doubt_gone} not at all. {outcome.rows} rows, balances, indexes and CHECK TABLE agree.")
        progress.done("killed and restarted: every row is accounted for")

    def add(self, what, values, smaller_is_better=False):
        ours, theirs = values[self.engine], values[YARDSTICK]
        ratio = (theirs / ours if smaller_is_better else ours / theirs) if ours and theirs else float("nan")
        digits = 3 if smaller_is_better else 0
        self.rows.append([what, f"{ours:.{digits}f}", f"{theirs:.{digits}f}", f"{ratio:.2f}"])

    def sentence(self, values, unit, digits):
        return ", ".join(f"{engine} {values[engine]:.{digits}f}{unit}" for engine in self.engines)

    def report(self):
        if self.rows:
            display.table(["workload", self.engine, YARDSTICK, f"times {YARDSTICK}'s speed"], self.rows)
        if self.crash:
            display.say(f"\n{self.crash}")
        if self.server.running():
            display.say(f"\nThe server is running, {self.engine} is its default engine. Connect with:\n  {' '.join(self.server.client())}\n"
                        f"Stop it with:\n  scripts/server.py stop --folder {self.server.folder}")


def main():
    parser = argparse.ArgumentParser(description="Sluice next to InnoDB in one server: sysbench, mariadb-slap, a crash.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--port", type=int, default=23307, help="another one is taken when it is in use")
    parser.add_argument("--rows", type=int, default=100000, help="of the sysbench table")
    parser.add_argument("--seconds", type=int, default=3, help="of a sysbench cell, and of the writing before the kill")
    arguments = parser.parse_args()
    Server(BUILD / "run/demo", arguments.port).stop()  # one that an earlier demo left running
    started = time.monotonic()
    demo = Demo(arguments)
    failed = demo.run()
    demo.report()
    if failed:
        sys.exit(f"\nFAILED in step '{failed[0]}': {failed[1]}\nserver's log: {demo.server.log}")
    display.say(f"\nThe demo took {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
