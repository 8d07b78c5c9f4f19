"""Statements, one after the other, each timed. An operation is a statement, unless the step says how many it stands for."""
import time

from . import meter


def run(statements, target, log):
    times_us = []
    begin = time.monotonic()
    with target.node.cursor() as cursor:
        cursor.execute(f"USE {target.database}")
        for statement in statements:
            before = time.monotonic()
            cursor.execute(statement.replace("{engine}", target.engine))
            cursor.fetchall()
            times_us.append((time.monotonic() - before) * 1e6)
    elapsed = time.monotonic() - begin
    ordered = sorted(times_us)
    latency = {"p50": ordered[len(ordered) // 2], "max": ordered[-1]}
    return {"elapsed_s": elapsed, "threads": 1, "headline": "statement", "client_cpu_s": 0.0,
            "statements_us": times_us, "meters": {"statement": meter(len(ordered), len(ordered), latency)}}
