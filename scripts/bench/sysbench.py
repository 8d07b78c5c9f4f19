#!/usr/bin/env python3
"""`make bench`: sysbench on Sluice and InnoDB side by side in one server, with what each operation costs.

Both engines have the same tables, memory, redo log and durability (see scripts/engines.py). For each script the engines take
turns, in the opposite order at every repeat, and between two cells the server comes to rest; the table shows medians, and ratios of
medians. What one start of the server measures is not what the next one does (where the memory lies, in what order the tables came into
it): with --starts there are several, the engines loaded in turn in the one order and the other, and the ratio is the geometric mean of
theirs. The samples, the command and the versions are saved as JSON in build/bench.

    in memory      scripts/bench/sysbench.py --rows 1000000 --pool 1G --threads 8 --seconds 20 --repeats 3
    five times     scripts/bench/sysbench.py --io-bound
    the pool       (--rows 2000000 --pool 96M, four scripts and a full scan unless --scripts names others)
    commits        scripts/bench/sysbench.py --commit   (see commit.py: throughput, stalls, recovery, each against its acceptance line)
    memory         ... --engines Sluice: resident memory of a server in which nothing else has a pool
"""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import engines  # noqa: E402
import commit  # noqa: E402
from cells import CONSUMING, FULL_SCAN, HOT_ROW, SCRIPTS, Bench, CellError, memory_mb  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

IO_BOUND = {"rows": 2000000, "pool": "96M"}
IO_BOUND_SCRIPTS = ["oltp_point_select", "oltp_read_write", "oltp_update_index", "oltp_write_only", FULL_SCAN]
SETTLE_SECONDS_MAX = 15
YARDSTICK = "InnoDB"


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="sysbench on several engines side by side in one server.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--pool", default="1G", help="buffer pool of each engine")
    parser.add_argument("--redo", default="1G", help="redo log of each engine")
    parser.add_argument("--threads", default="8", help="comma separated")
    parser.add_argument("--seconds", type=int, default=20, help="of a cell")
    parser.add_argument("--warm-seconds", type=int, default=3, help="of an unmeasured run before a script's first cell; 0: none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--starts", type=int, default=1, help="so many servers, one after the other, with --repeats cells each")
    parser.add_argument("--engines", default="Sluice,InnoDB", help=f"comma separated, of {', '.join(engines.NAMES)}")
    parser.add_argument("--scripts", default="", help=f"comma separated (all ten; --io-bound: five); also {FULL_SCAN}, {HOT_ROW}")
    parser.add_argument("--io-bound", action="store_true", help="tables of five times the pool; overrides rows and pool")
    parser.add_argument("--commit", action="store_true", help="the acceptance lines of committing, instead of the scripts")
    parser.add_argument("--parts", default=",".join(commit.PARTS), help="with --commit: which of them, comma separated")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/bench", help="where the server lives; made anew")
    parser.add_argument("--json", type=pathlib.Path, help="where the samples go (build/bench/TIME.json)")
    arguments = parser.parse_args()
    usual = IO_BOUND_SCRIPTS if arguments.io_bound else SCRIPTS
    arguments.scripts = [name for name in arguments.scripts.split(",") if name] or list(usual)
    if arguments.io_bound:
        vars(arguments).update(IO_BOUND)
    arguments.engines = arguments.engines.split(",")
    arguments.parts = arguments.parts.split(",")
    arguments.threads = [int(number) for number in arguments.threads.split(",")]
    unknown = [name for name in arguments.engines if name not in engines.NAMES]
    unknown += [name for name in arguments.parts if name not in commit.PARTS]
    unknown += [name for name in arguments.scripts if name not in (*SCRIPTS, FULL_SCAN, HOT_ROW)]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    return arguments


def start_server(arguments):
    shutil.rmtree(arguments.folder, ignore_errors=True)
    options = [option for engine in arguments.engines for option in engines.options(engine, arguments.pool, arguments.redo)]
    if YARDSTICK not in arguments.engines:  # InnoDB is always there for the server's own tables; its pool must not blur the memory
        options += engines.options(YARDSTICK, "8M", "8M")
    server = Server(arguments.folder, free_port(), [*options, *arguments.option], plugins=engines.plugins(arguments.engines),
                    engine=arguments.engines[0])
    server.start()
    return server


def threads_of(script, arguments):
    return [1] if script == FULL_SCAN else arguments.threads


def measure(bench, arguments, start):
    """All samples of a start, and the seconds that loading took; says each on the way."""
    samples, load_seconds = [], {}
    cells = sum(len(threads_of(script, arguments)) for script in arguments.scripts) * arguments.repeats * len(arguments.engines)
    with display.Progress(cells + len(arguments.engines), "sysbench") as progress:
        for engine in arguments.engines[::1 if start % 2 == 0 else -1]:
            progress.working(f"loading {engine}")
            load_seconds[engine] = bench.prepare(engine)
            progress.done(f"{engine}: {arguments.rows} rows loaded in {load_seconds[engine]:.1f} s")
        for script in arguments.scripts:
            for threads in threads_of(script, arguments):
                for repeat in range(arguments.repeats):
                    for engine in arguments.engines[::1 if repeat % 2 == 0 else -1]:
                        progress.working(f"{script}, {threads} threads, {engine}")
                        cell = measure_cell(bench, arguments, script, engine, threads, warm=repeat == 0)
                        samples.append(dataclasses.replace(cell, start=start))
                        progress.done(f"{script}, {threads} threads, {engine}: {samples[-1].per_second:.0f}/s, "
                                      f"{samples[-1].cpu_us:.0f} CPU µs, {samples[-1].memory_mb:.0f} MB")
    return samples, load_seconds


def measure_cell(bench, arguments, script, engine, threads, warm):
    if script in CONSUMING:
        bench.prepare(engine)
    elif warm and arguments.warm_seconds:
        bench.run(script, engine, threads, arguments.warm_seconds)
    bench.settle(SETTLE_SECONDS_MAX)
    return bench.run(script, engine, threads, arguments.seconds)


def median(samples, script, engine, threads, column):
    return statistics.median(getattr(sample, column) for sample in samples
                             if (sample.script, sample.engine, sample.threads) == (script, engine, threads))


def ratio(samples, script, engines_compared, threads):
    """Of the medians of one start; of several starts the geometric mean."""
    of_start = {start: [sample for sample in samples if sample.start == start] for start in {sample.start for sample in samples}}
    one, other = engines_compared
    return statistics.geometric_mean(median(part, script, one, threads, "per_second") / median(part, script, other, threads, "per_second")
                                     for part in of_start.values())


def report(samples, arguments):
    """(columns, rows): throughput of each engine and its ratio to InnoDB's, then the costs of an operation, engine by engine."""
    first, *others = arguments.engines
    compared = [YARDSTICK] if YARDSTICK in others else others[:1]
    columns = ["script", "threads", *(f"{engine}/s" for engine in arguments.engines), *(f"{first}:{other}" for other in compared)]
    costs = [("CPU µs", "cpu_us", "{:.0f}"), ("p95 ms", "p95_ms", "{:.2f}"), ("read KB", "read_kb", "{:.1f}"),
             ("written KB", "written_kb", "{:.1f}")]
    columns += [f"{title} {'/'.join(arguments.engines)}" for title, _, _ in costs]
    rows = []
    for script in arguments.scripts:
        for threads in threads_of(script, arguments):
            speeds = {engine: median(samples, script, engine, threads, "per_second") for engine in arguments.engines}
            row = [script, threads, *(f"{speed:.1f}" if speed < 100 else f"{speed:.0f}" for speed in speeds.values())]
            row += [f"{ratio(samples, script, (first, other), threads):.2f}" for other in compared]
            row += [" / ".join(form.format(median(samples, script, engine, threads, column)) for engine in arguments.engines)
                    for _, column, form in costs]
            rows.append(row)
    return columns, rows


def save(path, samples, load_seconds, server, memory_peak_mb):
    path = path or BUILD / time.strftime("bench/%Y-%m-%d-%H%M%S.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    sysbench = subprocess.run([server.prefix / "usr/bin/sysbench", "--version"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    path.write_text(json.dumps({
        "command": " ".join(["scripts/bench/sysbench.py", *sys.argv[1:]]), "commit": commit, "sysbench": sysbench,
        "server": server.sql("SELECT VERSION()")[0][0], "server_options": server.options,
        "machine": {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
        "load_seconds": load_seconds, "memory_peak_mb": memory_peak_mb, "samples": [dataclasses.asdict(sample) for sample in samples],
    }, indent=1) + "\n")
    return path


def main_commit(arguments):
    try:
        held = commit.run(arguments)
    except (ServerError, SqlError, CellError) as error:
        sys.exit(f"error: {error} (logs: {BUILD}/run/bench-commit-*/log)")
    sys.exit(0 if held else "error: a line was not held")


def main():
    arguments = arguments_of_command_line()
    if arguments.commit:
        return main_commit(arguments)
    samples, path = [], arguments.json
    try:
        for start in range(arguments.starts):
            server = start_server(arguments)
            try:
                of_start, load_seconds = measure(Bench(server, arguments.rows, arguments.tables), arguments, start)
                samples += of_start
                peak = memory_mb(server.pid(), "VmHWM")
                path = save(path, samples, load_seconds, server, peak)
            finally:
                server.stop()
    except (ServerError, SqlError, CellError) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/log)")
    columns, rows = report(samples, arguments)
    display.say("")
    display.plain_table(columns, rows)
    loads = ", ".join(f"{seconds:.1f} s ({engine})" for engine, seconds in load_seconds.items())
    display.conclude(f"\n{arguments.rows} rows, pools of {arguments.pool}, {arguments.starts} x {arguments.repeats} x {arguments.seconds} s, medians; costs are per "
                f"operation.\nLoaded in {loads}. Server's memory at its peak: {peak:.0f} MB with {len(arguments.engines)} pool(s) of "
                f"{arguments.pool}.")
    display.say(f"Samples: {path}")


if __name__ == "__main__":
    main()
