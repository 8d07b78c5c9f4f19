"""mariadb-slap's five load types: 10 integer and 10 character columns, an AUTO_INCREMENT key, 1000 rows written first, then 1000
queries from 50 clients. Called by demo.py.

    read    scans of the whole table      key     reads by primary key      write   inserts
    update  updates by primary key        mixed   scans and inserts in turn

A load is repeated, but not for long: the rows written first are a commit each, and a slow disk takes its time for that.
"""
import re
import statistics
import subprocess
import time

LOADS = ("key", "read", "write", "mixed", "update")
ROWS = 1000
REPEATS_MAX = 3
SECONDS_MAX = 4  # no further repeat is begun after that


class SlapError(Exception):
    """mariadb-slap failed; the text is its message."""


def seconds(server, engine, load):
    """The time for all queries of the load: the median of the repeats that fit."""
    deadline = time.monotonic() + SECONDS_MAX
    took = []
    while not took or len(took) < REPEATS_MAX and time.monotonic() < deadline:
        took.append(seconds_once(server, engine, load))
    return statistics.median(took)


def seconds_once(server, engine, load):
    result = subprocess.run(
        [server.prefix / "usr/bin/mariadb-slap", "--no-defaults", f"--socket={server.socket}", "--user=root", f"--engine={engine}",
         "--auto-generate-sql", "--auto-generate-sql-add-autoincrement", f"--auto-generate-sql-load-type={load}",
         "--number-int-cols=10", "--number-char-cols=10", f"--auto-generate-sql-write-number={ROWS}", "--number-of-queries=1000",
         "--concurrency=50", "--iterations=1"], capture_output=True, text=True)
    average = re.search(r"Average number of seconds to run all queries: ([\d.]+)", result.stdout)
    if result.returncode != 0 or not average:
        raise SlapError(f"mariadb-slap {load} on {engine}: {(result.stderr or result.stdout).strip()[-300:]}")
    return float(average[1])
