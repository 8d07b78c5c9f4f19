#!/usr/bin/env python3
"""`make demo`: what Sluice is for, beside InnoDB: inserts into tables larger than memory, then sysbench, then a crash.

    1. insert benchmark   InnoDB without its change buffer, InnoDB with it, Sluice, one after the other (insert_benchmark.py)
    2. start              a server with both engines, equal in memory and durability (scripts/engines.py)
    3. sysbench           its ten scripts with 1 and 8 threads, the engines in turns, on a table that fits in memory
    4. kill -9            8 clients write, kill -9, restart, and every row is accounted for (scripts/kill/trial.py)

Ends with a verdict of each and leaves the server of the last three running. A glance, not a measurement: `make bench` and the
lab measure. When a step fails the program says which, stops there and ends with exit code 1; the server stays for a look.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import sys
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "bench"), str(HERE.parent / "kill")]
import display  # noqa: E402
import engines  # noqa: E402
from cells import CONSUMING, SCRIPTS, Bench  # noqa: E402
from insert_benchmark import COLUMNS, LEGEND, ROWS_PER_COMMIT, SAMPLE_SECONDS, WARM_UP_SECONDS, InsertBenchmark  # noqa: E402
from server import BUILD, Server, free_port, port_is_taken  # noqa: E402
from trial import Trial  # noqa: E402

YARDSTICK = "InnoDB"
POOL, REDO = "256M", "256M"
THREADS = (1, 8)
SETTLE_SECONDS_MAX = 0.5
ABOUT_AS_FAST = 0.05
KILL_CLIENTS = 8


class Demo:
    def __init__(self, arguments):
        self.arguments = arguments
        self.engine = arguments.engine
        self.engines = (self.engine, YARDSTICK)
        self.inserts = InsertBenchmark(self.engine, arguments.insert_rows, arguments.insert_pool, arguments.insert_seconds)
        self.rows = []  # of sysbench's table: what, ours, InnoDB's, ratio
        self.ratios = {}
        self.verdicts = []  # (what, sentence)
        folder = BUILD / "run/demo"
        self.server = Server(folder, arguments.port if not port_is_taken(arguments.port) else free_port(),
                             [option for engine in self.engines for option in engines.options(engine, POOL, REDO)],
                             plugins=engines.plugins(self.engines), engine=self.engine)

    def run(self):
        """Returns the name of the step that failed and its error, or None."""
        for name, step in (("insert benchmark", self.insert_benchmark), ("start", self.start), ("sysbench", self.sysbench), ("kill -9", self.kill)):
            try:
                step()
            except Exception as error:  # whatever it is, the person must read which step it was
                return name, error
        return None

    def insert_benchmark(self):
        display.say("\n" + wrapped("1. ", f"Insert benchmark: one client inserts rows, {ROWS_PER_COMMIT} a commit, into a table with three secondary "
                                   "indexes whose values come in random order. Each engine runs alone, with the same memory, a sync at every "
                                   "commit, and without the system's page cache (O_DIRECT). MySQL 8.4 turned the change buffer off, MariaDB 11 "
                                   "removed it."))
        self.inserts.run()
        display.table(COLUMNS, [result.row() for result in self.inserts.results])
        display.say(LEGEND)
        self.judge("insert benchmark", self.inserts.verdict())

    def start(self):
        shutil.rmtree(self.server.folder, ignore_errors=True)
        self.server.start()
        version = self.server.sql("SELECT VERSION()")[0][0]
        display.say(f"\n2. sysbench: transactions a second on {self.arguments.rows:,} rows, which fit in memory,\n"
                    f"in one server (MariaDB {version}) with both engines, {self.arguments.seconds} seconds each.")

    def sysbench(self):
        bench = Bench(self.server, self.arguments.rows)
        with display.Progress(1 + len(SCRIPTS) * len(THREADS), "sysbench") as progress:
            progress.working("loading tables")
            took = {engine: bench.prepare(engine) for engine in self.engines}
            progress.done(f"tables loaded: {self.sentence(took, ' s', 1)}")
            for script in SCRIPTS:
                for threads in THREADS:
                    self.cell(bench, progress, script, threads)
        display.table(["transactions a second", self.engine, YARDSTICK, "ratio"], self.rows)
        self.judge("sysbench", sysbench_verdict(self.engine, self.ratios))

    def cell(self, bench, progress, script, threads):
        speeds = {}
        for engine in self.engines[::1 if threads == THREADS[0] else -1]:
            progress.working(f"{script}, {threads} thread{'s' if threads > 1 else ''}, {engine}")
            if script in CONSUMING:
                bench.prepare(engine)
            bench.settle(SETTLE_SECONDS_MAX)
            speeds[engine] = bench.run(script, engine, threads, self.arguments.seconds).per_second
        what = f"{script}, {threads} thread{'s' if threads > 1 else ''}"
        ours, theirs = speeds[self.engine], speeds[YARDSTICK]
        self.ratios[what] = ours / theirs
        self.rows.append([what, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"])
        progress.done(f"{what}: {self.sentence(speeds, '/s', 0)}")

    def kill(self):
        display.say(f"\n3. kill -9: {KILL_CLIENTS} clients write, the server is killed under them and started again,\nand every row is looked for.")
        trial = Trial(self.server, self.engine, clients=KILL_CLIENTS)
        trial.prepare()
        outcome = trial.round(self.arguments.seconds)
        in_doubt = outcome.in_doubt_there + outcome.in_doubt_gone
        display.say(f"The kill came before the answer to {in_doubt} COMMIT{'s' if in_doubt != 1 else ''}: of these transactions {outcome.in_doubt_there} "
                    f"came back whole and {outcome.in_doubt_gone} not at all.\n"
                    f"All {outcome.rows:,} rows were compared with what the clients wrote, every index with its table;\nCHECK TABLE finds nothing.")
        self.judge("kill -9", f"All {outcome.acknowledged:,} acknowledged transactions are there after a restart of {outcome.recovery_seconds:.1f} s, "
                              "and nothing else is.")

    def judge(self, what, sentence):
        self.verdicts.append((what, sentence))
        display.say(wrapped("=> ", sentence))

    def sentence(self, values, unit, digits):
        return ", ".join(f"{engine} {values[engine]:,.{digits}f}{unit}" for engine in self.engines)

    def log(self, step):
        return self.inserts.folder / "*/log" if step == "insert benchmark" else self.server.log

    def report(self, seconds):
        if self.verdicts:
            display.say(f"\n---- Summary, after {seconds:.0f} s " + "-" * 60)
            for what, sentence in self.verdicts:
                display.say(wrapped(f"{what:<18}", sentence))
            display.say("Short runs: on a machine that does something else meanwhile they can be far off. `make bench` measures sysbench;\n"
                        "`lab/lab run ibench-now --preset quick` measures the inserts, with the work that was put off charged.")
        if self.server.running():
            display.say(f"\nA server is running, its default engine is {self.engine}. Connect with:\n  {' '.join(self.server.client())}\n"
                        f"Stop it with:\n  scripts/server.py stop --folder {self.server.folder}")


def wrapped(begin, text):
    """A paragraph that hangs behind its beginning, as wide as the terminal, and in a log as wide as can be read."""
    width = min(shutil.get_terminal_size((120, 24)).columns, 120)
    return textwrap.fill(text, width, initial_indent=begin, subsequent_indent=" " * len(begin), break_long_words=False)


def sysbench_verdict(engine, ratios):
    """How many of the workloads are faster and which are slower, in one sentence."""
    slower = {what: ratio for what, ratio in ratios.items() if ratio < 1 - ABOUT_AS_FAST}
    faster = sum(1 for ratio in ratios.values() if ratio > 1 + ABOUT_AS_FAST)
    told = "; ".join(f"{what} ({ratio:.2f})" for what, ratio in sorted(slower.items(), key=lambda one: one[1]))
    return (f"{engine} has {statistics.median(ratios.values()):.2f} times {YARDSTICK}'s rate in the median of {len(ratios)} workloads that fit in memory: "
            f"faster in {faster}, within {ABOUT_AS_FAST:.0%} in {len(ratios) - faster - len(slower)}, slower in {len(slower)}{': ' + told if told else ''}.")


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="Sluice next to InnoDB: inserts into tables larger than memory, sysbench, a crash.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--engine", default="Sluice", choices=[name for name in engines.NAMES if name != YARDSTICK], help="the one beside InnoDB")
    parser.add_argument("--port", type=int, default=23307, help="another one is taken when it is in use")
    parser.add_argument("--insert-rows", type=int, default=1500000, help="in the table of the insert benchmark when it begins")
    parser.add_argument("--insert-pool", default="32M", help="its buffer pool, in whole MiB")
    parser.add_argument("--insert-seconds", type=int, default=12, help="of inserts with each engine, after %d s in which the pool fills" % WARM_UP_SECONDS)
    parser.add_argument("--rows", type=int, default=100000, help="of the sysbench table")
    parser.add_argument("--seconds", type=int, default=2, help="of each sysbench run, and of the writing before the kill")
    arguments = parser.parse_args()
    if not re.fullmatch(r"[1-9]\d*M", arguments.insert_pool):
        parser.error(f"--insert-pool is a number of MiB, such as 32M, not {arguments.insert_pool}")
    if arguments.insert_seconds < SAMPLE_SECONDS:
        parser.error(f"--insert-seconds is {SAMPLE_SECONDS} or more, not {arguments.insert_seconds}")
    return arguments


def main():
    arguments = arguments_of_command_line()
    Server(BUILD / "run/demo", arguments.port).stop()  # one that an earlier demo left running
    started = time.monotonic()
    demo = Demo(arguments)
    failed = demo.run()
    demo.report(time.monotonic() - started)
    if failed:
        sys.exit(f"\nFAILED in step '{failed[0]}': {failed[1]}\nerror log of the server: {demo.log(failed[0])}")


if __name__ == "__main__":
    main()
