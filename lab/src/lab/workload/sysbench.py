"""sysbench, as it is: the step's line gives script, command and options; connection, engine, seed (unless the
line has one), histogram and the report by the second are added. Its output is text; `parse` is pure."""
import re

from .. import BUILD, LabError
from . import meter, option, run_program, words

PREFIX = BUILD / "mariadb" / "usr"
SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([\d.]+) .*lat \(ms,\d+%\): ([\d.]+) err/s: ([\d.]+)")
BUCKET = re.compile(r"^\s*([\d.]+) \|\**\s*(\d+)$")


def run(line, target, log):
    arguments = words(line)
    scripts = [word for word in arguments if not word.startswith("-")]
    if len(scripts) != 2 or scripts[1] not in ("prepare", "run"):
        raise LabError(f"sysbench needs a script and 'prepare' or 'run', not {' '.join(scripts)!r}")
    script, command = scripts
    options = [word for word in arguments if word.startswith("-")]
    path = PREFIX / "share" / "sysbench" / f"{script}.lua"
    where = [f"--mysql-socket={target.socket}"] if target.socket else [f"--mysql-host={target.host}", f"--mysql-port={target.port}"]
    added = [f"--mysql-db={target.database}", "--mysql-user=root", "--db-driver=mysql", f"--mysql-storage-engine={target.engine}",
             *([] if option(options, "rand-seed", "") else [f"--rand-seed={target.step_seed}"]), "--mysql-ignore-errors=1213,1205,1020,1180,1062,1062"]
    if command == "run":
        added += ["--histogram=on", "--report-interval=1"]
    # The scripts find each other beside themselves.
    env = {"LUA_PATH": f"{path.parent}/?.lua;;", "PATH": "/usr/bin:/bin"}
    output, elapsed, cpu_s = run_program([PREFIX / "bin" / "sysbench", *where, *added, *options, path, command], log, env)
    threads = int(option(options, "threads", 1))
    if command == "prepare":
        rows = int(option(options, "table-size", 10000)) * int(option(options, "tables", 1))
        return {"elapsed_s": elapsed, "threads": threads, "headline": "row", "client_cpu_s": cpu_s, "meters": {"row": meter(rows)}}
    found = parse(output)
    return {**found, "threads": threads, "client_cpu_s": cpu_s}


def parse(text):
    by_second, slowest, histogram = [], [], []
    for line in text.splitlines():
        second = SECOND.match(line)
        if second:
            by_second.append(float(second.group(2)))
            slowest.append(float(second.group(3)) * 1000)
        bucket = BUCKET.match(line)
        if bucket:
            histogram.append([float(bucket.group(1)) * 1000, int(bucket.group(2))])

    def number(pattern):
        found = re.search(pattern, text)
        if not found:
            raise LabError("sysbench's output has no " + pattern.split("\\")[0].strip())
        return float(found.group(1))

    latency = {"p50": quantile(histogram, 0.5), "p95": quantile(histogram, 0.95), "p99": quantile(histogram, 0.99),
               "mean": number(r"avg:\s+([\d.]+)") * 1000, "max": number(r"max:\s+([\d.]+)") * 1000}
    errors = {"ignored": int(number(r"ignored errors:\s+(\d+)"))}
    transactions = int(number(r"transactions:\s+(\d+)"))
    head = meter(transactions, transactions, latency, histogram, by_second, slowest, errors)
    return {"elapsed_s": number(r"total time:\s+([\d.]+)s"), "headline": "transaction", "queries": int(number(r"queries:\s+(\d+) ")), "meters": {"transaction": head}}


def quantile(histogram, share):
    """The upper bound of the bucket that holds a quantile."""
    total, seen = sum(count for _, count in histogram), 0
    for upper, count in histogram:
        seen += count
        if total and seen >= share * total:
            return upper
    return 0.0
