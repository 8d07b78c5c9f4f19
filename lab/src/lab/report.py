"""The page of one run or of several: claims as cards, the charts a person would look at first, what it cost, what counts and
what does not, the machine, and the raw samples. One file that works offline, on a phone and on paper."""
import dataclasses
import json
import pathlib
import re
import zlib

import jinja2
import vl_convert

from . import chart, claim as claims, experiment as experiments, frame as frames, gallery, ibench, stats
from .experiment import Resolved, fill

TEMPLATES = pathlib.Path(__file__).parent / "templates"
NO_VERDICT = "no verdict yet"
VEGA_LITE = "6.1"
DRAWING_WIDTH = 430  # of the plot; axis and labels come to it
ARMS_ACROSS_MAX = 6  # up to so many arms stand side by side, one line a metric; more would be wider than a screen
TABLE_METRICS = ["rate", "rate_drained", "reads_per_op", "read_kb_per_op", "write_kb_per_op", "syncs_per_op", "server_cpu_us_per_op", "client_cpu_us_per_op",
                 "p50_ms", "p95_ms", "p99_ms", "max_ms", "stall_s", "worst_second", "debt_peak_share", "drain_s", "drain_write_kb_per_op", "write_kb_drained_per_op",
                 "drain_cpu_us_per_op", "pool_misses_per_op", "page_splits_per_op", "data_mb", "errors_per_op"]


def write(runs, folder):
    """Writes report.html and summary.json; returns the page's path."""
    sections = [section(run) for run in runs]
    (folder / "summary.json").write_text(json.dumps([{"experiment": part["name"], "preset": part["preset"], "claims": part["claims"], "census": part["census"], "lines": part["lines"]} for part in sections], indent=1, default=str))
    data = json.dumps([{"manifest": run.manifest, "cells": [slim(cell) for cell in run.cells]} for run in runs], default=str).replace("</", "<\\/")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(figure=figure, unit=chart.unit, json=lambda value: json.dumps(value, default=str).replace("</", "<\\/"))
    page = environment.get_template("report.html.j2").render(sections=sections, data=data, bundle=vl_convert.javascript_bundle(vl_version=VEGA_LITE),
                                                             environment=runs[0].manifest["environment"], started=runs[0].manifest["started"])
    path = folder / "report.html"
    path.write_text(page)
    return path


def drawing(spec):
    """A chart as SVG: it is in the page before any script has run, and without one."""
    if not spec:
        return ""
    svg = vl_convert.vegalite_to_svg({**spec, "width": DRAWING_WIDTH}, vl_version=VEGA_LITE)
    # The page gives the width; ids would be those of every other chart, too.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r'\1 width="100%" style="height: auto"', svg, count=1)
    return re.sub(r'(\bid="|url\(#|href="#)', rf'\g<1>d{zlib.crc32(svg.encode()):x}-', svg)


def slim(cell):
    """Without the variables: the page shows those that differ."""
    return {key: value for key, value in cell.items() if key != "variables"}


def section(run):
    manifest, cells = run.manifest, run.cells
    experiment = experiments.parse(manifest["text"], manifest["experiment"])
    resolved = Resolved(experiment, manifest["preset"], manifest["repeats"], list(manifest.get("arms", {})))
    table, arms = frames.samples(cells), list(dict.fromkeys(cell["arm"] for cell in cells))
    present = set(table["step"].unique().to_list())
    refused = {name for cell in cells for name in cell.get("missing", {})}
    steps = [step for step in resolved.steps if step.name in present | refused]
    lines = frames.summary(cells, [step.name for step in steps], lambda step: _metrics_of(table, step))
    values, cards = _all_values(resolved), [_card(one, cells, table) for one in resolved.claims()]
    return {
        "name": manifest["experiment"], "title": experiment.title, "question": experiment.question, "source": experiment.source, "notes": experiment.notes,
        "prediction": experiment.prediction, "preset": manifest["preset"], "repeats": manifest["repeats"], "started": manifest["started"],
        "seconds": manifest.get("seconds"), "planned": len(manifest["plan"]), "ran": len(cells), "conditions": _conditions(resolved, cells), "replay_of": manifest.get("replay_of", ""),
        "arms": [{"name": arm, "line": fill(resolved.arms[arm], values, strict=False), "state": _arm_state(cells, arm)} for arm in arms],
        "claims": cards, "glance": _glance(cards, resolved, lines, steps), "charts": [{**one, "drawing": drawing(one["spec"])} for one in gallery.charts(resolved, cells, steps, lines, arms)],
        "tables": [_table(step, lines, cells, resolved) for step in steps], "gates": _gates(cells), "differences": differences(cells), "lines": lines,
        "ibench": ibench.tables(cells, resolved, manifest["environment"]["cores"]) if ibench.is_one(resolved) else None, "census": census(cells, manifest),
        "busy": busy(cells), "probes": _probes(cells), "cgroups": all(cell.get("cgroup") == "yes" for cell in cells if "cgroup" in cell), "text": manifest["text"],
    }


def busy(cells):
    """The headline of a run that others disturbed, or ''."""
    judged = [(sample["others_cpu"], found["verdict"]) for cell in cells for sample in cell.get("samples", []) for found in sample["gates"] if found["gate"] == "quiet_cpu"]
    disturbed = [share for share, verdict in judged if verdict != "ok"]
    if not disturbed:
        return ""
    return f"The machine was busy: in {len(disturbed)} of {len(judged)} measured steps other processes used up to {max(disturbed):.0%} of its CPU. Compare costs per operation, not rates."


def _probes(cells):
    """One line a cell: the disk before it, and the busiest of its steps."""
    return [{"kind": frames.label(cell["arm"], cell["params"]), "repeat": cell["repeat"], "fdatasync_us": cell["probe"].get("fdatasync_us"), "read_us": cell["probe"].get("read_us"),
             "others": max((sample["others_cpu"] for sample in cell["samples"] if sample.get("others_cpu") is not None), default=None)} for cell in cells if "probe" in cell]


def census(cells, manifest):
    """How many places (cell x step) were measured, marked with a reason, or left empty without one, which must not be."""
    found = {"measured": 0, "marked": 0, "empty": max(len(manifest["plan"]) - len(cells), 0) * len(manifest["steps"])}
    for cell in cells:
        samples = {sample["step"]: sample for sample in cell.get("samples", [])}
        for step in manifest["steps"]:
            if step in samples and not frames.failed(samples[step]):
                found["measured"] += 1
            elif step in samples or cell.get("skipped") or cell.get("failed") or step in cell.get("missing", {}) or step in cell.get("not_for_arm", []):
                found["marked"] += 1
            else:
                found["empty"] += 1
    return found


def _metrics_of(table, step):
    return table.filter(table["step"] == step)["metric"].unique(maintain_order=True).to_list()


def _arm_state(cells, arm):
    reasons = list(dict.fromkeys(cell.get("skipped") or cell.get("failed") for cell in cells if cell["arm"] == arm and (cell.get("skipped") or cell.get("failed"))))
    reasons += dict.fromkeys(note for cell in cells if cell["arm"] == arm for note in cell.get("notes", []))
    return "; ".join(reasons)


def _card(one, cells, table):
    verdicts = [{**dataclasses.asdict(verdict), "words": _words(verdict.verdict, one.published)} for verdict in claims.judge(one, cells, table)]
    low, high = one.limits
    wanted = f"at least {low:g}" if high == float("inf") else f"at most {high:g}" if low == 0 else f"{low:g} to {high:g}"
    return {"text": one.text, "published": one.published, "original": one.original, "step": one.step, "metric": chart.unit(one.metric), "wanted": wanted,
            "at": ", ".join(f"{frames.words(key)} {value}" for key, value in one.at.items()), "headline": one.headline, "verdicts": verdicts, "verdict": verdicts[0]["verdict"], "words": NO_VERDICT if verdicts[0]["verdict"] == "points only" else verdicts[0]["words"]}


def _glance(cards, resolved, lines, steps):
    """What stands for the experiment at the head of the page: the claim that its file calls the headline, else the first that
    could be shown; without claims the last arm's rate in the first step that counts. {words, figure, text, verdict}."""
    card = next((one for one in cards if one["headline"]), None) or next((one for one in cards if one["verdict"] != "could not be shown"), None) or next(iter(cards), None)
    if card:
        first = card["verdicts"][0]
        number = f"×{first['ratio']['ratio']:.2f}" if first["ratio"] else figure(first["value"]["median"]) if first["value"] else ""
        pair = first["arm"] + (f" against {first['base']}" if first["base"] else "")
        why = first["reason"] if first["verdict"] in ("could not be shown", "points only", "not decided") else ""
        return {"words": card["words"], "verdict": first["verdict"], "figure": number, "text": f"{pair}: {card['metric']} in “{card['step']}”", "claim": card["text"], "why": why}
    for step in [step for step in steps if step.metrics] + steps:
        ratios = [line for line in lines if (line["step"], line["metric"]) == (step.name, "rate") and line["ratio"]]
        if ratios:
            return {"words": "no claim", "verdict": "", "figure": f"×{ratios[-1]['ratio']['ratio']:.2f}", "claim": "", "why": "",
                    "text": f"{ratios[-1]['kind']} against {ratios[-1]['base']}: {chart.unit('rate')} in “{step.name}”"}
    return {"words": "nothing to compare", "verdict": "", "figure": "", "text": "no two arms have figures that count", "claim": "", "why": ""}


def _words(verdict, published):
    """Where no source has published anything, a claim is the person's own prediction."""
    own = {"reproduced": "as predicted", "not reproduced": "not as predicted"}
    return "points to" if verdict == "points only" else verdict if published else own.get(verdict, verdict)


# ---- tables ----

def _table(step, lines, cells, resolved):
    of_step = [line for line in lines if line["step"] == step.name]
    present = {line["metric"] for line in of_step}
    known = [metric for metric in TABLE_METRICS if metric in present] + [metric for metric in step.metrics if metric in present and metric not in TABLE_METRICS]
    known = [metric for metric in known if step.drain or metric != "rate_drained"]
    known = [metric for metric in known if any(line["median"] for line in of_step if line["metric"] == metric)]
    rows = []
    for kind, (arm, params) in frames.kinds(cells).items():
        columns = []
        for metric in known:
            line = next((one for one in of_step if one["kind"] == kind and one["metric"] == metric), None)
            columns.append(_column(line, metric) or _short_column(cells, kind, step.name, metric))
        rows.append({"kind": kind, "columns": columns, "why": "" if any(column and "median" in column for column in columns) else _why_empty(cells, kind, step.name)})
    return {"step": step.name, "metrics": [chart.unit(metric) for metric in known], "rows": rows, "command": _as_run(step, resolved),
            "note": _spoilt_times(cells, step.name), "across": len(rows) <= ARMS_ACROSS_MAX}


def _spoilt_times(cells, step):
    """Why rates and latencies are missing where costs are there, or ''."""
    found = {}
    for cell in cells:
        for sample in cell.get("samples", []):
            if sample["step"] == step and frames.failed(sample) and frames.counts(sample, "write_kb_per_op"):
                found.setdefault(frames.label(cell["arm"], cell["params"]), "; ".join(one["reason"] for one in sample["gates"] if one["verdict"] == "fail"))
    return "Only costs count, rates and latencies do not, in " + "; in ".join(f"{kind}: {why}" for kind, why in found.items()) + "." if found else ""


def _as_run(step, resolved):
    """What was run, with its values; those of a swept parameter stand side by side."""
    line = "; ".join([line for line in (step.sysbench, step.client, step.slap, step.web) if line] + step.sql)
    return fill(line, _all_values(resolved), strict=False) + (", then the drain" if step.drain else "")


def _all_values(resolved):
    return {**resolved.values, **{key: "/".join(map(str, value)) for key, value in resolved.sweep.items()}}


def _conditions(resolved, cells):
    """The preset's values, and what the servers had: one line."""
    derived = re.compile(r"(first|middle|last)_(\w+)")
    values = {key: value for key, value in _all_values(resolved).items() if not (derived.fullmatch(key) and derived.fullmatch(key).group(2) in _all_values(resolved))}
    told = [f"{frames.words(key)} {value}" for key, value in values.items()]
    for key in ("pool", "durability"):
        used = list(dict.fromkeys(str(cell[key]) for cell in cells if key in cell))
        told += [f"{key} {'/'.join(used)}"] if used and key not in values else []
    return ", ".join(told)


def in_lines(run):
    """What a person at the terminal wants to know at once: a line a step, with each arm against the first. Where rates do not
    count, what an operation writes or computes."""
    part = section(run)
    found = [_in_short(table, part["lines"]) for table in part["tables"]]
    return ([part["busy"]] if part["busy"] else []) + found


def _in_short(table, lines):
    for metric in ("rate", "write_kb_per_op", "server_cpu_us_per_op"):
        of_metric = {line["kind"]: line for line in lines if line["step"] == table["step"] and line["metric"] == metric}
        if of_metric:
            told = [_against_first(row["kind"], of_metric.get(row["kind"])) for row in table["rows"]]
            return f"{table['step']}, {chart.unit(metric)}: {'; '.join(told)}"
    return f"{table['step']}: nothing that counts"


def _against_first(kind, line):
    if line is None:
        return f"{kind} does not count"
    return f"{kind} {figure(line['median'])}" + (f" (×{line['ratio']['ratio']:.2f})" if line["ratio"] else "")


def _short_column(cells, kind, step, metric):
    """Words in the place of a figure that the step was too short for."""
    told = [frames.too_short(sample, metric) for cell in cells if frames.label(cell["arm"], cell["params"]) == kind
            for sample in cell.get("samples", []) if sample["step"] == step]
    return {"words": told[0]} if any(told) else None


def _column(line, metric):
    if line is None:
        return None
    text, mood = "", ""
    if line["ratio"] and not (_is_maximum(metric) and line["n"] < stats.INTERVAL_SAMPLES_MIN):
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


def _is_maximum(metric):
    """One unlucky request or second decides it: of a few of them no ratio is worth printing."""
    return metric in ("max_ms", "stall_s", "worst_second") or metric.endswith("_max_ms")


def _why_empty(cells, kind, step):
    for cell in cells:
        if frames.label(cell["arm"], cell["params"]) != kind:
            continue
        if cell.get("skipped") or cell.get("failed"):
            return cell.get("skipped") or cell.get("failed")
        if step in cell.get("missing", {}):
            return cell["missing"][step]
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


# Paths, ports, and what every server makes up for itself.
IGNORED_VARIABLES = {"port", "socket", "datadir", "tmpdir", "pid_file", "plugin_dir", "timestamp", "hostname", "general_log_file", "slow_query_log_file", "log_bin_basename",
                     "log_bin_index", "innodb_version", "server_uid", "slave_load_tmpdir", "basedir", "character_sets_dir", "lc_messages_dir", "version_malloc_library", "rand_seed1", "rand_seed2",
                     "aria_log_dir_path", "report_port", "wsrep_data_home_dir", "version", "innodb_data_home_dir", "innodb_log_group_home_dir", "relay_log_basename", "relay_log_index"}


def _is_noise(name):
    return name in IGNORED_VARIABLES or name.startswith("gtid_")


def differences(cells):
    """Server variables that are not the same in all arms, one column an arm."""
    columns = {frames.label(cell["arm"], cell["params"]): cell["variables"] for cell in cells if cell.get("variables")}
    if len(columns) < 2:
        return None
    names = sorted(set.intersection(*(set(variables) for variables in columns.values())))
    rows = [{"name": name, "values": [variables[name] for variables in columns.values()]} for name in names if not _is_noise(name) and len({variables[name] for variables in columns.values()}) > 1]
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
    if abs(value) >= 0.001:
        return f"{value:.2g}"
    return f"{value:.1e}"
