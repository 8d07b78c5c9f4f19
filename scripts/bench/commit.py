"""`make bench BENCH=--commit`: what committing costs, against its acceptance lines, in one command.

    throughput   single-statement transactions, each durable, at 1, 8 and 50 clients, times InnoDB's; and at 50 clients against
                 Sluice itself when it only writes at commit (flush_log_at_trx_commit=2)
    stalls       oltp_write_only on a table of five times the pool, second by second
    recovery     kill -9 under load with a redo log of equal size; how long the next start takes beyond an idle one

Each part has servers of its own. Of repeats the median counts, in throughput that of the ratios of cells that ran right after each other. Called
by sysbench.py, which knows the arguments.
"""
import re
import shutil
import statistics
import time
from dataclasses import dataclass

import display
import engines
from cells import Bench, found
from server import BUILD, Server, free_port

PARTS = ("throughput", "stalls", "recovery")
SCRIPTS = ("oltp_insert", "oltp_update_non_index")
CLIENTS = {1: 1.0, 8: 1.3, 50: 1.3}  # and the least that Sluice must reach, times InnoDB
WRITTEN_CLIENTS, WRITTEN_SHARE = 50, 0.8
STALL = {"rows": 2000000, "pool": "96M", "seconds": 60, "threads": 8}
STALL_WARM_SECONDS = 10
RECOVERY = {"redo": "256M", "seconds": 20, "threads": 8}
ENGINES = ("Sluice", "InnoDB")


@dataclass
class Line:
    what: str
    wanted: str
    found: str
    held: bool


def run(arguments):
    """Runs the parts, prints what they found, and returns whether every line held."""
    lines = []
    for part in arguments.parts:
        lines += {"throughput": throughput, "stalls": stalls, "recovery": recovery}[part](arguments)
    rows = [[line.what, line.wanted, line.found, "held" if line.held else "NOT HELD"] for line in lines]
    display.say("")
    display.plain_table(["line", "wanted", "found", ""], rows)
    return all(line.held for line in lines)


def start(arguments, name, pool, redo):
    options = [option for engine in ENGINES for option in engines.options(engine, pool, redo)]
    folder = BUILD / f"run/bench-commit-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    server = Server(folder, free_port(), [*options, *arguments.option], plugins=engines.plugins(ENGINES))
    server.start()
    return server


# ---- throughput ----

def throughput(arguments):
    server = start(arguments, "throughput", arguments.pool, arguments.redo)
    try:
        bench = Bench(server, arguments.rows)
        cells = {}  # (script, clients, engine or "written") -> [operations a second]
        costs = {}
        pairs = [(script, clients) for script in SCRIPTS for clients in CLIENTS]
        with display.Progress(2 + arguments.repeats * len(pairs), "commit: throughput") as progress:
            for engine in ENGINES:
                bench.prepare(engine)
                progress.done(f"{engine} loaded")
            for repeat in range(arguments.repeats):
                for script, clients in pairs:
                    for engine in cell_order(clients, repeat):
                        sample, syncs = commit_cell(bench, script, engine, clients, arguments.seconds)
                        cells.setdefault((script, clients, engine), []).append(sample.per_second)
                        costs.setdefault((script, clients, engine), []).append((sample.cpu_us, syncs))
                    speeds = ", ".join(f"{engine} {cells[script, clients, engine][-1]:.0f}/s" for engine in cell_order(clients, 0))
                    progress.done(f"{script}, {clients} clients: {speeds}")
        show_costs(cells, costs)
        return throughput_lines(cells)
    finally:
        server.stop()


def cell_order(clients, repeat):
    """Sluice's cell with flush 2 ("written") stands beside the one with flush 1."""
    order = ["InnoDB", "Sluice", "written"] if clients == WRITTEN_CLIENTS else ["InnoDB", "Sluice"]
    return order[::1 if repeat % 2 == 0 else -1]


def commit_cell(bench, script, engine, clients, seconds):
    """The sample, and how many log syncs an operation took (InnoDB 10.11 does not count those of its log alone: None)."""
    written = engine == "written"
    if written:
        engine = "Sluice"
        bench.server.sql("SET GLOBAL sluice_flush_log_at_trx_commit=2")
    bench.settle(5)
    before = log_syncs(bench.server)
    sample = bench.run(script, engine, clients, seconds)
    syncs = (log_syncs(bench.server) - before) / sample.operations
    if written:
        bench.server.sql("SET GLOBAL sluice_flush_log_at_trx_commit=1")
    return sample, syncs if engine == "Sluice" else None


def log_syncs(server):
    return int(server.sql("SHOW GLOBAL STATUS LIKE 'Sluice_redo_log_fsyncs'")[0][1])


def ratio_of_pairs(cells, script, clients, engine, other):
    """The median, and the quartiles as text, of the ratios of cells that ran right after each other: the machine's speed changes over
    minutes, for both."""
    ratios = [a / b for a, b in zip(cells[script, clients, engine], cells[script, clients, other])]
    if len(ratios) < 4:
        return statistics.median(ratios), ""
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return middle, f" ({lower:.2f} to {upper:.2f})"


def show_costs(cells, costs):
    rows = []
    for (script, clients, engine), samples in costs.items():
        cpu_us = statistics.median(cpu_us for cpu_us, _ in samples)
        syncs = "" if samples[0][1] is None else f"{statistics.median(syncs for _, syncs in samples):.3f}"
        rate = statistics.median(cells[script, clients, engine])
        rows.append([script, clients, "Sluice, flush 2" if engine == "written" else engine, f"{rate:.0f}", f"{cpu_us:.1f}", syncs])
    display.say("")
    display.plain_table(["script", "clients", "engine", "commits/s", "server CPU µs a commit", "log syncs a commit"], rows)


def throughput_lines(cells):
    lines = []
    for script in SCRIPTS:
        for clients, least in CLIENTS.items():
            ratio, spread = ratio_of_pairs(cells, script, clients, "Sluice", "InnoDB")
            lines.append(Line(f"{script}, {clients} clients, times InnoDB", f">= {least}", f"{ratio:.2f}{spread}", ratio >= least))
        share, spread = ratio_of_pairs(cells, script, WRITTEN_CLIENTS, "Sluice", "written")
        lines.append(Line(f"{script}, {WRITTEN_CLIENTS} clients, durable against written", f">= {WRITTEN_SHARE}", f"{share:.2f}{spread}",
                          share >= WRITTEN_SHARE))
    return lines


# ---- stalls ----

@dataclass
class Run:
    rates: list  # transactions of each second
    p99_ms: float
    worst_ms: float


def stalls(arguments):
    server = start(arguments, "stalls", STALL["pool"], arguments.redo)
    runs = {}
    try:
        bench = Bench(server, STALL["rows"])
        with display.Progress(len(ENGINES), "commit: stalls") as progress:
            for engine in reversed(ENGINES):
                bench.prepare(engine)
                bench.settle(15)
                bench.run("oltp_write_only", engine, STALL["threads"], STALL_WARM_SECONDS)
                runs[engine] = stall_run(bench, engine)
                rates = runs[engine].rates
                progress.done(f"{engine}: median {statistics.median(rates):.0f}/s, worst second {min(rates):.0f}/s, "
                              f"p99 {runs[engine].p99_ms:.1f} ms, worst {runs[engine].worst_ms:.0f} ms")
    finally:
        server.stop()
    lines = []
    for engine, run_ in runs.items():
        lowest = min(run_.rates) / statistics.median(run_.rates)
        beside = "" if engine == "Sluice" else " (to compare)"
        lines.append(Line(f"oltp_write_only, five times the pool, {engine}{beside}: worst second of {len(run_.rates)}, of the median",
                          ">= 0.5", f"{lowest:.2f}", lowest >= 0.5 or bool(beside)))
    times = runs["Sluice"].worst_ms / runs["InnoDB"].p99_ms
    lines.append(Line("the same: Sluice's worst transaction, times InnoDB's p99", "< 10", f"{times:.1f}", times < 10))
    times = runs["InnoDB"].worst_ms / runs["InnoDB"].p99_ms
    lines.append(Line("the same: InnoDB's worst transaction (to compare)", "", f"{times:.1f}", True))
    return lines


def stall_run(bench, engine):
    output = bench.sysbench("oltp_write_only", engine, [f"--threads={STALL['threads']}", f"--time={STALL['seconds']}", "--events=0",
                                                        "--report-interval=1", "--percentile=99"], "run")
    rates = [float(rate) for rate in re.findall(r"^\[ \d+s \] thds: \d+ tps: ([\d.]+)", output, re.MULTILINE)]
    return Run(rates, float(found(r"^\s+99th percentile:\s+([\d.]+)", output)), float(found(r"^\s+max:\s+([\d.]+)", output)))


# ---- recovery ----

def recovery(arguments):
    seconds = {}
    with display.Progress(len(ENGINES), "commit: recovery") as progress:
        for engine in ENGINES:
            server = start(arguments, f"recovery-{engine}", arguments.pool, RECOVERY["redo"])
            try:
                bench = Bench(server, arguments.rows)
                bench.prepare(engine)
                server.stop()
                idle = timed_start(server)
                rate = bench.run("oltp_write_only", engine, RECOVERY["threads"], RECOVERY["seconds"]).per_second
                server.kill9()
                seconds[engine] = timed_start(server) - idle
                rows = int(server.sql(f"SELECT COUNT(*) FROM sysbench_{engine.lower()}.sbtest1")[0][0])
                progress.done(f"{engine}: {rate:.0f}/s, then kill -9: {seconds[engine]:.2f} s more than an idle start, {rows} rows")
            finally:
                server.stop()
    times = seconds["Sluice"] / max(seconds["InnoDB"], 0.01)
    return [Line(f"recovery after {RECOVERY['seconds']} s of oltp_write_only with {RECOVERY['redo']} of redo, times InnoDB's",
                 "<= 1.0", f"{times:.2f} ({seconds['Sluice']:.2f} s : {seconds['InnoDB']:.2f} s)", times <= 1.0)]


def timed_start(server):
    started = time.monotonic()
    server.start(timeout=300)
    return time.monotonic() - started
