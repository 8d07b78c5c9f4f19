"""The page of one run or of several: claims as cards, the charts a person would look at first, what it cost, what counts and
what does not, the machine, and the raw samples. One file that works offline, on a phone and on paper."""
import json
import pathlib
import re

import jinja2
import vl_convert

from . import chart, claim as claims, experiment as experiments, frame as frames
from .experiment import Resolved, fill

TEMPLATES = pathlib.Path(__file__).parent / "templates"
SERIES_STEP_SECONDS_MIN = 4
TABLE_METRICS = ["rate", "rate_drained", "reads_per_op", "read_kb_per_op", "write_kb_per_op", "syncs_per_op", "server_cpu_us_per_op", "client_cpu_us_per_op",
                 "p50_ms", "p95_ms", "p99_ms", "max_ms", "stall_s", "drain_s", "drain_write_kb_per_op", "drain_cpu_us_per_op", "pool_misses_per_op", "page_splits_per_op", "data_mb", "errors_per_op"]


def write(runs, folder):
    """Writes report.html and summary.json; returns the page's path."""
    sections = [section(run) for run in runs]
    (folder / "summary.json").write_text(json.dumps([{"experiment": part["name"], "preset": part["preset"], "claims": part["claims"], "lines": part["lines"]} for part in sections], indent=1, default=str))
    data = json.dumps([{"manifest": run.manifest, "cells": [slim(cell) for cell in run.cells]} for run in runs], default=str).replace("</", "<\\/")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(figure=figure, json=lambda value: json.dumps(value, default=str).replace("</", "<\\/"))
    page = environment.get_template("report.html.j2").render(sections=sections, data=data, bundle=vl_convert.javascript_bundle(vl_version="6.1"),
                                                             environment=runs[0].manifest["environment"], started=runs[0].manifest["started"])
    path = folder / "report.html"
    path.write_text(page)
    return path


def slim(cell):
    """Without the variables: the page shows those that differ."""
    return {key: value for key, value in cell.items() if key != "variables"}


def section(run):
    manifest, cells = run.manifest, run.cells
    experiment = experiments.parse(manifest["text"], manifest["experiment"])
    resolved = Resolved(experiment, manifest["preset"])
    table, arms = frames.samples(cells), list(dict.fromkeys(cell["arm"] for cell in cells))
    present = set(table["step"].unique().to_list())
    steps = [step for step in resolved.steps if step.name in present]
    lines = frames.summary(cells, [step.name for step in steps], lambda step: _metrics_of(table, step))
    values = {**resolved.values, **{key: "/".join(map(str, value)) for key, value in resolved.sweep.items()}}
    return {
        "name": manifest["experiment"], "title": experiment.title, "question": experiment.question, "source": experiment.source, "notes": experiment.notes,
        "prediction": experiment.prediction, "preset": manifest["preset"], "repeats": manifest["repeats"], "started": manifest["started"],
        "seconds": manifest.get("seconds"), "planned": len(manifest["plan"]), "ran": len(cells), "values": resolved.values, "sweep": resolved.sweep,
        "arms": [{"name": arm, "line": fill(experiment.arms[arm], values, strict=False), "state": _arm_state(cells, arm)} for arm in arms],
        "claims": [_card(one, cells, table) for one in resolved.claims()], "charts": charts(resolved, cells, steps, lines, arms),
        "tables": [_table(step, lines, cells, resolved) for step in steps], "gates": _gates(cells), "differences": differences(cells), "lines": lines,
        "cgroups": all(cell.get("cgroup") == "yes" for cell in cells if "cgroup" in cell), "text": manifest["text"],
    }


def _metrics_of(table, step):
    return table.filter(table["step"] == step)["metric"].unique(maintain_order=True).to_list()


def _arm_state(cells, arm):
    reasons = list(dict.fromkeys(cell.get("skipped") or cell.get("failed") for cell in cells if cell["arm"] == arm and (cell.get("skipped") or cell.get("failed"))))
    return "; ".join(reasons)


def _card(one, cells, table):
    verdicts = [verdict.__dict__ for verdict in claims.judge(one, cells, table)]
    low, high = one.limits
    wanted = f"at least {low:g}" if high == float("inf") else f"at most {high:g}" if low == 0 else f"{low:g} to {high:g}"
    return {"text": one.text, "published": one.published, "original": one.original, "step": one.step, "metric": chart.unit(one.metric), "wanted": wanted,
            "at": ", ".join(f"{key} {value}" for key, value in one.at.items()), "verdicts": verdicts, "verdict": verdicts[0]["verdict"]}


# ---- charts ----

def charts(resolved, cells, steps, lines, arms):
    found = []
    glance = _glance(lines, arms, steps)
    if len({line["row"] for line in glance}) > 1:
        found.append({"title": "At a glance", "text": "Each step's rate, against the first arm's in the same repeat.", "spec": chart.relative(glance, arms)})
    shown = [step for step in steps if step.metrics] or steps[:4]
    for step in shown:
        of_step = [line for line in lines if line["step"] == step.name]
        present = {line["metric"] for line in of_step}
        for metric in [name for name in step.metrics or frames.DEFAULT_METRICS if name in present]:
            found.append({"title": f"{step.name}: {chart.unit(metric)}", "text": _reading(metric), "spec": _one_metric(of_step, cells, step.name, metric, arms, resolved)})
        series = _series(cells, step.name)
        if series:
            found.append({"title": f"{step.name}: second by second", "text": "Repeat 1. A line on the ground is a stall.", "spec": chart.seconds(series, arms, "operations")})
        points = _percentiles(cells, step.name)
        if len({point["kind"] for point in points}) > 1:
            found.append({"title": f"{step.name}: latency", "text": "Repeat 1, by percentile.", "spec": chart.latencies(points, arms)})
    return found


def _reading(metric):
    return "More is better." if metric in frames.HIGHER_IS_BETTER else "Less is better." if metric in frames.LOWER_IS_BETTER else ""


def _one_metric(lines, cells, step, metric, arms, resolved):
    chosen = [line for line in lines if line["metric"] == metric]
    numeric = [name for name, values in resolved.sweep.items() if len(values) >= 3 and all(re.fullmatch(r"\d+(\.\d+)?[KMGT]?", str(value)) for value in values)]
    if len(resolved.sweep) == 1 and numeric:
        return chart.sweep(chosen, numeric[0], metric, arms)
    points = [{"kind": frames.label(cell["arm"], cell["params"]), "arm": cell["arm"], "repeat": cell["repeat"], "value": sample["metrics"][metric],
               "counts": not frames.failed(sample), "reason": "; ".join(found["reason"] for found in sample["gates"] if found["verdict"] == "fail")}
              for cell in cells for sample in cell.get("samples", []) if sample["step"] == step and metric in sample["metrics"]]
    return chart.bars(chosen, points, metric, arms)


def _glance(lines, arms, steps):
    rows = []
    for line in lines:
        if line["metric"] != "rate":
            continue
        ratio = line["ratio"]["ratio"] if line["ratio"] else 1.0
        if ratio <= 0 or (not line["ratio"] and line["arm"] != arms[0]):
            continue
        rows.append({"row": frames.label(line["step"], line["params"]), "arm": line["arm"], "ratio": ratio})
    return rows


def _series(cells, step):
    rows = []
    for cell in cells:
        for sample in cell.get("samples", []):
            series = sample["meters"][sample["headline"]]["operations_by_second"]
            if cell["repeat"] == 1 and sample["step"] == step and len(series) >= SERIES_STEP_SECONDS_MIN:
                rows += [{"kind": frames.label(cell["arm"], cell["params"]), "arm": cell["arm"], "second": second, "operations": count} for second, count in enumerate(series)]
    return rows


def _percentiles(cells, step):
    points = []
    for cell in cells:
        for sample in cell.get("samples", []):
            histogram = sample["meters"][sample["headline"]]["histogram_us"]
            if cell["repeat"] == 1 and sample["step"] == step and histogram:
                points += chart.percentile_points(histogram, frames.label(cell["arm"], cell["params"]), cell["arm"])
    return points


# ---- tables ----

def _table(step, lines, cells, resolved):
    of_step = [line for line in lines if line["step"] == step.name]
    present = {line["metric"] for line in of_step}
    known = [metric for metric in TABLE_METRICS if metric in present] + [metric for metric in step.metrics if metric in present and metric not in TABLE_METRICS]
    known = [metric for metric in known if any(line["median"] for line in of_step if line["metric"] == metric)]
    rows = []
    for kind, (arm, params) in frames.kinds(cells).items():
        columns = []
        for metric in known:
            line = next((one for one in of_step if one["kind"] == kind and one["metric"] == metric), None)
            columns.append(_column(line, metric))
        rows.append({"kind": kind, "columns": columns, "why": "" if any(columns) else _why_empty(cells, kind, step.name)})
    return {"step": step.name, "metrics": [chart.unit(metric) for metric in known], "rows": rows, "command": " ".join([step.sysbench, step.client, step.slap, *step.sql]).strip()}


def _column(line, metric):
    if line is None:
        return None
    text, mood = "", ""
    if line["ratio"]:
        ratio = line["ratio"]
        text = f"×{ratio['ratio']:.2f}"
        if ratio["low"] is not None:
            if ratio["low"] <= 1 <= ratio["high"]:
                text += f" ~ (±{ratio['detectable']:.0%} would show)" if ratio["detectable"] is not None else " ~"
            else:
                better = (ratio["ratio"] > 1) == (metric in frames.HIGHER_IS_BETTER)
                mood = ("better" if better else "worse") if metric in frames.HIGHER_IS_BETTER | frames.LOWER_IS_BETTER else ""
    spread = f"{figure(line['low'])} to {figure(line['high'])}" if line["low"] is not None else ""
    return {"median": line["median"], "ratio": text, "spread": spread, "mood": mood}


def _why_empty(cells, kind, step):
    for cell in cells:
        if frames.label(cell["arm"], cell["params"]) != kind:
            continue
        if cell.get("skipped") or cell.get("failed"):
            return cell.get("skipped") or cell.get("failed")
        for sample in cell["samples"]:
            if sample["step"] == step:
                return "does not count: " + "; ".join(found["reason"] for found in sample["gates"] if found["verdict"] == "fail")
    return "this step is not for this arm"


def _gates(cells):
    """Everything that is not ok, and how often the rest was."""
    trouble, fine = {}, {}
    for cell in cells:
        for sample in cell.get("samples", []):
            for found in sample["gates"]:
                if found["verdict"] == "ok":
                    fine[found["gate"]] = fine.get(found["gate"], 0) + 1
                else:
                    key = (found["gate"], found["verdict"], frames.label(cell["arm"], cell["params"]), sample["step"])
                    trouble.setdefault(key, {"gate": key[0], "verdict": key[1], "kind": key[2], "step": key[3], "reason": found["reason"], "times": 0})["times"] += 1
    return {"trouble": sorted(trouble.values(), key=lambda one: (one["verdict"] != "fail", one["gate"])), "fine": fine}


IGNORED_VARIABLES = {"port", "socket", "datadir", "tmpdir", "pid_file", "plugin_dir", "timestamp", "hostname", "general_log_file", "slow_query_log_file", "log_bin_basename",
                     "log_bin_index", "innodb_version", "server_uid", "slave_load_tmpdir", "basedir", "character_sets_dir", "lc_messages_dir", "version_malloc_library", "rand_seed1", "rand_seed2"}


def differences(cells):
    """Server variables that are not the same in all arms, one column an arm."""
    columns = {frames.label(cell["arm"], cell["params"]): cell["variables"] for cell in cells if cell.get("variables")}
    if len(columns) < 2:
        return None
    names = sorted(set.intersection(*(set(variables) for variables in columns.values())) - IGNORED_VARIABLES)
    rows = [{"name": name, "values": [variables[name] for variables in columns.values()]} for name in names if len({variables[name] for variables in columns.values()}) > 1]
    return {"columns": list(columns), "rows": rows}


def figure(value):
    """A number as a person would write it: three digits that count."""
    if value is None:
        return ""
    value = float(value)
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 0.01:
        return f"{value:.3g}"
    return f"{value:.1e}"
