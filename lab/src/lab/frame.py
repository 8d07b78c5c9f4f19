"""A run's cells as tables: one line a sample and metric, and what is asked of them. Pure."""
import polars

from . import stats

# What a larger value means; metrics that are not here are shown without a judgement.
HIGHER_IS_BETTER = {"rate", "rate_drained", "query_rate", "insert_rate", "worst_second"}
LOWER_IS_BETTER = {
    "reads_per_op", "read_kb_per_op", "write_kb_per_op", "syncs_per_op", "server_cpu_us_per_op", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "stall_s",
    "drain_s", "drain_read_kb_per_op", "drain_write_kb_per_op", "write_kb_drained_per_op", "drain_cpu_us_per_op", "data_mb", "errors_per_op", "page_splits_per_op",
    "pool_misses_per_op", "redo_bytes_per_op", "seconds", "recovery_s", "lost_rows", "app_cpu_us_per_op",
}
TIME_GATES = {"quiet_cpu", "steady_disk"}
# What needs whole seconds: the first and the last of a step are parts of one.
BY_THE_SECOND, SECONDS_MIN = ("stall_s", "worst_second"), 5
DEFAULT_METRICS = ["rate", "rate_drained", "reads_per_op", "write_kb_per_op", "server_cpu_us_per_op", "p99_ms"]


def words(parameter):
    """A parameter of an experiment file as prose has it."""
    return parameter.replace("_iops", "_IOPS").replace("_", " ")


def label(arm, params):
    return ", ".join([arm, *(f"{words(key)} {value}" for key, value in params.items())])


def too_short(sample, metric):
    """Why a sample has none of these metrics, or '': they are told by whole seconds, of which there are too few."""
    if metric not in BY_THE_SECOND or len(sample["meters"][sample["headline"]]["operations_by_second"]) >= SECONDS_MIN:
        return ""
    return f"too short: {sample['elapsed_s']:.1f} s, and {SECONDS_MIN - 2} whole seconds are needed"


def failed(sample):
    return any(found["verdict"] == "fail" for found in sample["gates"])


def counts(sample, metric):
    """Whether a metric of a sample takes part in comparisons. A busy machine or a disk of another speed spoils rates and
    latencies, and leaves what an operation costs and how much is on disk nearly as it is."""
    gates = {found["gate"] for found in sample["gates"] if found["verdict"] == "fail"}
    return not gates or (gates <= TIME_GATES and (metric.endswith("_per_op") or metric in ("data_mb", "tables_mb")))


def samples(cells):
    """arm, kind (arm with its sweep values), step, repeat, metric, value, counts."""
    rows = [
        {"arm": cell["arm"], "engine": cell["engine"], "kind": label(cell["arm"], cell["params"]), "params": repr(sorted(cell["params"].items())),
         "step": sample["step"], "repeat": cell["repeat"], "metric": metric, "value": float(value), "counts": counts(sample, metric)}
        for cell in cells for sample in cell.get("samples", []) for metric, value in sample["metrics"].items()
    ]
    schema = {"arm": polars.String, "engine": polars.String, "kind": polars.String, "params": polars.String, "step": polars.String,
              "repeat": polars.Int64, "metric": polars.String, "value": polars.Float64, "counts": polars.Boolean}
    return polars.DataFrame(rows, schema=schema)


def by_repeat(frame, kind, step, metric, counts=True):
    """{repeat: value} of one arm and sweep value."""
    found = frame.filter((polars.col("kind") == kind) & (polars.col("step") == step) & (polars.col("metric") == metric))
    if counts:
        found = found.filter(polars.col("counts"))
    return dict(zip(found["repeat"].to_list(), found["value"].to_list()))


def kinds(cells):
    """Arms with their sweep values, in the order of the experiment."""
    seen = {}
    for cell in sorted(cells, key=lambda cell: (cell["repeat"], cell["number"])):
        seen.setdefault(label(cell["arm"], cell["params"]), (cell["arm"], cell["params"]))
    return seen


def summary(cells, steps, metrics):
    """For each step and metric: the centre of every kind, and its ratio to the first kind with the same sweep values."""
    frame, all_kinds, lines = samples(cells), kinds(cells), []
    for step in steps:
        for metric in metrics(step):
            for kind, (arm, params) in all_kinds.items():
                values = by_repeat(frame, kind, step, metric)
                base = next(name for name, (_, other) in all_kinds.items() if other == params)
                centre = stats.centre(list(values.values()))
                if not centre.n:
                    continue
                ratio = stats.paired_ratio(values, by_repeat(frame, base, step, metric)) if base != kind else None
                lines.append({"step": step, "metric": metric, "kind": kind, "arm": arm, "params": params, "median": centre.median, "low": centre.low,
                              "high": centre.high, "n": centre.n, "base": base if ratio else "", "ratio": ratio.__dict__ if ratio else None})
    return lines
