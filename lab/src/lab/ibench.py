"""The insert benchmark's own tables, under the names that its readers know. Pure.

    ips, qps   rows inserted and queries, a second        rps, rkbps, wkbps   reads, KB read and written, a second
    rpq, rkbpq reads and KB read per row inserted (l steps) or query (q steps)
    wkbpi      KB written per row inserted                cpupq   CPU µs per row or query, client included, as published
    cpupq.s    ... the server's alone                     cpups   CPU of server and client in % of all cores
    dbgb       GB on disk at the end of the step          maxop   longest response, s
    p50, p99   rate that was reached in half and in 99 % of the seconds (rates, not latencies)

The published figures of reads come from the whole device and those of CPU from the whole machine; these are the server's and
the client's. One client, as in the source, so that the rate of "client 1" is the rate.
"""
from . import frame as frames, stats

COLUMNS = ["ips", "qps", "rps", "rkbps", "wkbps", "rpq", "rkbpq", "wkbpi", "cpupq", "cpupq.s", "cpups", "dbgb", "maxop", "p50", "p99"]


def is_one(resolved):
    names = {step.name for step in resolved.steps}
    return {"l.i0", "l.x", "l.i1"} <= names


def line(sample, cores):
    """The metric line of one sample, or None when it does not count."""
    if frames.failed(sample):
        return None
    metrics, seconds, operations = sample["metrics"], max(sample["elapsed_s"], 1e-9), max(sample["operations"], 1)
    queries = sample["headline"] == "query"
    inserted = sample["meters"].get("insert", {}).get("operations", 0) if queries else operations
    cpu_us = (metrics["server_cpu_us_per_op"] + metrics["client_cpu_us_per_op"]) * operations
    by_second = sorted(sample["meters"][sample["headline"]]["operations_by_second"][1:-1], reverse=True)
    return {
        "ips": inserted / seconds, "qps": operations / seconds if queries else None, "rps": metrics["reads_per_op"] * operations / seconds,
        "rkbps": metrics["read_kb_per_op"] * operations / seconds, "wkbps": metrics["write_kb_per_op"] * operations / seconds,
        "rpq": metrics["reads_per_op"], "rkbpq": metrics["read_kb_per_op"], "wkbpi": metrics["write_kb_per_op"] * operations / inserted if inserted else None,
        "cpupq": cpu_us / operations, "cpupq.s": metrics["server_cpu_us_per_op"], "cpups": cpu_us / 1e6 / seconds / cores * 100, "dbgb": metrics["data_mb"] / 1024,
        "maxop": metrics["max_ms"] / 1000 if "max_ms" in metrics else None,
        "p50": by_second[len(by_second) // 2] if by_second else None, "p99": by_second[min(int(len(by_second) * 0.99), len(by_second) - 1)] if by_second else None,
    }


def tables(cells, resolved, cores):
    """For the report: absolute and relative throughput, background inserts against their target, and the metric lines."""
    arms = list(frames.kinds(cells))
    steps = [step for step in resolved.steps if any(sample["step"] == step.name for cell in cells for sample in cell.get("samples", []))]
    found = {(arm, step.name): _medians(cells, arm, step.name, cores) for arm in arms for step in steps}
    rate = {key: (one["qps"] if one.get("qps") else one.get("ips")) for key, one in found.items()}
    throughput, relative, background = [], [], []
    for arm in arms:
        throughput.append({"arm": arm, "values": [rate[arm, step.name] for step in steps]})
        relative.append({"arm": arm, "values": [_ratio(rate[arm, step.name], rate[arms[0], step.name]) for step in steps]})
        targets = [(step, int(step.name[1:])) for step in steps if step.name[:1] == "q" and step.name[1:].isdigit()]
        background.append({"arm": arm, "values": [_ratio(found[arm, step.name].get("ips"), target) for step, target in targets]})
    lines = [{"step": step.name, "rows": [{"arm": arm, "values": [found[arm, step.name].get(name) for name in COLUMNS]} for arm in arms if found[arm, step.name]]} for step in steps]
    return {"steps": [step.name for step in steps], "throughput": throughput, "relative": relative, "background": background,
            "targets": [step.name for step in steps if step.name[:1] == "q" and step.name[1:].isdigit()], "columns": COLUMNS, "lines": lines, "disk": on_another_disk(cells)}


def on_another_disk(cells, step="l.i1"):
    """What the rate of a single client would be, were a read to take another time: a row costs the CPU of server and client and its
    reads, one after the other. For each arm the two terms, and how far the same sum is from what was measured on this disk."""
    found = []
    for arm in frames.kinds(cells):
        chosen = [(cell["probe"], sample) for cell in cells if frames.label(cell["arm"], cell["params"]) == arm and "read_us" in cell.get("probe", {})
                  for sample in cell.get("samples", []) if sample["step"] == step and not frames.failed(sample)]
        if not chosen:
            continue
        metrics = [sample["metrics"] for _, sample in chosen]
        cpu_us = stats.centre([one["server_cpu_us_per_op"] + one["client_cpu_us_per_op"] for one in metrics]).median
        reads, rate = (stats.centre([one[name] for one in metrics]).median for name in ("reads_per_op", "rate"))
        read_us = stats.centre([probe["read_us"] for probe, _ in chosen]).median
        found.append({"arm": arm, "cpu_us": cpu_us, "reads": reads, "measured": rate, "read_us": read_us, "error": 1e6 / (cpu_us + reads * read_us) / rate - 1})
    return found


def _medians(cells, arm, step, cores):
    lines = [line(sample, cores) for cell in cells if frames.label(cell["arm"], cell["params"]) == arm for sample in cell.get("samples", []) if sample["step"] == step]
    lines = [one for one in lines if one]
    if not lines:
        return {}
    return {name: stats.centre([one[name] for one in lines if one[name] is not None]).median if any(one[name] is not None for one in lines) else None for name in COLUMNS}


def _ratio(value, base):
    return value / base if value is not None and base else None
