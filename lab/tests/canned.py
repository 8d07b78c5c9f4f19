"""A tiny run that no server has made: two arms, three blocks, one step; tests bend it."""
import json

from lab.store import Run
from lab.workload import meter

TEXT = """
title = "Canned"
question = "Is b twice as fast as a?"
[presets.smoke]
repeats = 3
[arms]
a = "InnoDB"
b = "InnoDB --innodb-change-buffering=all"
[[steps]]
name = "run"
sql = ["SELECT 1"]
metrics = ["rate"]
[[claims]]
text = "b is twice as fast"
step = "run"
metric = "rate"
compare = ["b", "a"]
ratio = [1.5, "-"]
"""


def facts(**changed):
    """A sample that passes every gate."""
    return {"arm": "a", "direct_io_wanted": True, "operations": 1000, "elapsed_s": 10.0, "threads": 1, "cores": 2, "client_cpu_s": 2.0, "errors": 0, "reads": 500, "reads_are_own": True,
            "pool_mb": 100, "data_mb": 650.0, "tables_mb": 600.0, "others_cpu": 0.02, "cached_mb": 0.1, "buffered_files": [], "durability": "1", "durability_told": "1", "commits": 1000,
            "syncs": 900, "drain": None, **changed}


def cell(number, arm, repeat, rate, params=None, gates=(), step="run"):
    found = meter(1000, latency_us={"p99": 900}, histogram_us=[[100, 990], [900, 10]], by_second=[100] * 10)
    return {"number": number, "arm": arm, "engine": "InnoDB", "repeat": repeat, "params": params or {}, "cgroup": "yes", "variables": {"x": arm, "y": "1"},
            "probe": {"fdatasync_us": 200, "read_us": 70},
            "samples": [{"step": step, "headline": "row", "elapsed_s": 10.0, "operations": 1000, "metrics": {"rate": rate, "p99_ms": 0.9, "reads_per_op": 0.0},
                         "gates": list(gates), "meters": {"row": found}, "counters": {}, "drain": None, "extra": {}}]}


def cells(ratio=2.0, repeats=3, gates=()):
    made = []
    for repeat in range(1, repeats + 1):
        made.append(cell(len(made) + 1, "a", repeat, 100.0 + repeat))
        made.append(cell(len(made) + 1, "b", repeat, (100.0 + repeat) * ratio * (1 + 0.01 * (repeat % 2)), gates=gates))
    return made


def run(folder, made=None):
    made = cells() if made is None else made
    manifest = {"experiment": "canned", "title": "Canned", "preset": "smoke", "text": TEXT, "repeats": 3, "plan": [[one["number"], one["repeat"], one["arm"], one["params"]] for one in made],
                "sweep": {}, "values": {}, "steps": ["run"], "environment": {"cores": 2, "disk": {"read_us": 70.0}}, "gates": {}}
    stored = Run.create(manifest, folder)
    for one in made:
        stored.add(json.loads(json.dumps(one)))
    stored.finish(seconds=60.0)
    return stored
