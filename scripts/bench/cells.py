"""One cell of a benchmark: one sysbench script on one engine with so many threads for so many seconds, measured from outside.

Each engine has a database of its own in the same server, with the same tables. What a cell costs is read from the server's
process: CPU from /proc/PID/stat, device traffic from /proc/PID/io, memory from /proc/PID/status. An operation is what sysbench
calls a transaction: one statement in the simple scripts, some 20 in oltp_read_write. Called by sysbench.py and scripts/demo.
"""
import os
import pathlib
import re
import subprocess
import time
from dataclasses import dataclass

SCRIPTS = ("oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges", "oltp_read_write", "oltp_write_only",
           "oltp_update_index", "oltp_update_non_index", "oltp_insert", "oltp_delete")
HOT_ROW = "hot_row"  # oltp_update_non_index of one row: every client waits for the same lock
FULL_SCAN = "full_scan"  # not sysbench's: reads every row for an expression that no index answers
FULL_SCAN_SQL = "SELECT COUNT(*) FROM sbtest1 WHERE CHAR_LENGTH(c) + CHAR_LENGTH(pad) = k"
# oltp_delete leaves ever fewer rows to delete: it gets fresh tables each time.
CONSUMING = ("oltp_delete",)
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A deadlock or a lock wait timeout is an answer, not a failure of the benchmark.
ERRORS_IGNORED = "1205,1213,1020"
# What a server does in the background, it begins when it has been idle for a second.
REST_SECONDS = 1.5


class CellError(Exception):
    """sysbench failed; the text is its last words."""


@dataclass
class Sample:
    script: str
    engine: str
    threads: int
    seconds: float
    operations: int
    per_second: float
    p95_ms: float
    cpu_us: float  # of the server, per operation
    read_kb: float  # from the device, per operation
    written_kb: float
    memory_mb: float  # resident, after the cell
    start: int = 0  # which of several servers, one after the other


@dataclass
class Usage:
    cpu_seconds: float
    read_bytes: int
    written_bytes: int

    @classmethod
    def of(cls, pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())
        return cls((int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND, int(io["read_bytes"]), int(io["write_bytes"]))


def memory_mb(pid, which="VmRSS"):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{which}:\s+(\d+)", status, re.MULTILINE)[1]) / 1024


def database(engine):
    return f"sysbench_{engine.lower()}"


class Bench:
    def __init__(self, server, rows, tables=1):
        self.server = server
        self.rows = rows
        self.tables = tables

    def prepare(self, engine):
        """Fresh tables; returns the seconds that the load took."""
        self.server.sql(f"DROP DATABASE IF EXISTS {database(engine)}; CREATE DATABASE {database(engine)}")
        started = time.monotonic()
        self.sysbench("oltp_read_write", engine, [f"--mysql-storage-engine={engine}"], "prepare")
        return time.monotonic() - started

    def run(self, script, engine, threads, seconds):
        pid = self.server.pid()
        before, started = Usage.of(pid), time.monotonic()
        if script == FULL_SCAN:
            operations, p95_ms = self.full_scans(engine, seconds)
            elapsed = time.monotonic() - started
        else:
            name, more = ("oltp_update_non_index", ["--table-size=1"]) if script == HOT_ROW else (script, [])
            output = self.sysbench(name, engine, [*more, f"--threads={threads}", f"--time={seconds}", "--events=0"], "run")
            operations = int(found(r"^\s+transactions:\s+(\d+)", output))
            p95_ms = float(found(r"^\s+95th percentile:\s+([\d.]+)", output))
            elapsed = float(found(r"^\s+total time:\s+([\d.]+)s", output))
        if operations == 0:
            raise CellError(f"{script} on {engine}: not one transaction in {elapsed:.0f} s")
        used = Usage.of(pid)
        return Sample(script, engine, threads, elapsed, operations, operations / elapsed, p95_ms,
                      (used.cpu_seconds - before.cpu_seconds) * 1e6 / operations,
                      (used.read_bytes - before.read_bytes) / 1024 / operations,
                      (used.written_bytes - before.written_bytes) / 1024 / operations, memory_mb(pid))

    def full_scans(self, engine, seconds):
        """As many scans as fit, at least one; (scans, milliseconds of the slowest)."""
        deadline = time.monotonic() + seconds
        durations = []
        while not durations or time.monotonic() < deadline:
            started = time.monotonic()
            self.server.sql(FULL_SCAN_SQL, database(engine))
            durations.append(time.monotonic() - started)
        return len(durations), max(durations) * 1000

    def settle(self, seconds_max):
        """Waits until the server has done next to nothing for REST_SECONDS, so that one engine's flushing and merging is not charged
        to the other."""
        deadline = time.monotonic() + seconds_max
        rests_since = time.monotonic()
        while time.monotonic() < deadline:
            before = Usage.of(self.server.pid()).cpu_seconds
            time.sleep(0.25)
            if Usage.of(self.server.pid()).cpu_seconds - before > 0.01:
                rests_since = time.monotonic()
            elif time.monotonic() - rests_since >= REST_SECONDS:
                return

    def sysbench(self, script, engine, options, action):
        folder = self.server.prefix / "usr/share/sysbench"
        command = [self.server.prefix / "usr/bin/sysbench", f"{folder}/{script}.lua", "--db-driver=mysql",
                   f"--mysql-socket={self.server.socket}", "--mysql-user=root", f"--mysql-db={database(engine)}",
                   f"--mysql-ignore-errors={ERRORS_IGNORED}", f"--tables={self.tables}", f"--table-size={self.rows}",
                   "--rand-type=uniform", "--percentile=95", *options, action]
        # The scripts load oltp_common.lua from the folder they are started in.
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            lines = [line for line in (result.stdout + result.stderr).splitlines() if "FATAL" in line]
            lines += result.stderr.splitlines()[-1:] or [f"it said nothing (exit code {result.returncode})"]
            raise CellError(f"sysbench {script} {action} on {engine}: {lines[0].removeprefix('FATAL: ')}")
        return result.stdout


def found(pattern, output):
    match = re.search(pattern, output, re.MULTILINE)
    if not match:
        raise CellError(f"sysbench's report has no {pattern!r}: {output[-300:]}")
    return match[1]
