"""Which charts a run gets, and in which order: what the experiment asks for first, then each step's own. The charts
themselves are in chart.py."""
import re

from . import chart, factorial, frame as frames, stats

SERIES_STEP_SECONDS_MIN = 4
LATENCY_REQUESTS_MIN = 50


def charts(resolved, cells, steps, lines, arms):
    found = []
    glance = _glance(lines, arms, steps)
    if len({line["row"] for line in glance}) > 1:
        found.append({"title": "Step by step", "text": "Each step's rate, against the first arm's in the same repeat.", "spec": chart.relative(glance, arms)})
    found += _gains(resolved, cells) + _effects(resolved, cells)
    shown = [step for step in steps if step.metrics] or steps[:4]
    for step in shown:
        of_step = [line for line in lines if line["step"] == step.name]
        present = {line["metric"] for line in of_step}
        for metric in [name for name in step.metrics or frames.DEFAULT_METRICS if name in present and (step.drain or name != "rate_drained")]:
            found.append({"title": f"{step.name}: {chart.unit(metric)}", "text": _reading(metric), "spec": _one_metric(of_step, cells, step.name, metric, arms, resolved)})
        found += [{"title": f"{step.name}: {chart.unit(metric)}", "text": told, "spec": None} for metric in step.metrics if metric not in present for told in _too_short(cells, step.name, metric)]
        series = _series(cells, step.name)
        if series:
            found.append({"title": f"{step.name}: second by second", "text": "Repeat 1. A line on the ground is a stall.", "spec": chart.seconds(series, arms, "operations")})
        points, ends = _debt(cells, step.name)
        if len(points) > 2:
            found.append({"title": f"{step.name}: work put off", "text": "Repeat 1; the dashed rule is where the load ended and the drain began.", "spec": chart.debt(points, ends, arms)})
            written = _written(cells, step.name)
            found.append({"title": f"{step.name}: written by the second", "text": "Repeat 1. What goes on after the rule is debt being paid.", "spec": chart.debt(written, ends, arms, "MB written a second")})
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
               "counts": frames.counts(sample, metric), "reason": "; ".join(found["reason"] for found in sample["gates"] if found["verdict"] == "fail")}
              for cell in cells for sample in cell.get("samples", []) if sample["step"] == step and metric in sample["metrics"]]
    return chart.bars(chosen, points, metric, arms)


def _too_short(cells, step, metric):
    """One sentence, or none: why this metric has no chart."""
    found = {frames.label(cell["arm"], cell["params"]): why for cell in cells for sample in cell.get("samples", []) if sample["step"] == step
             for why in [frames.too_short(sample, metric)] if why}
    return ["Not told. " + "; ".join(f"{kind}: {why}" for kind, why in found.items()) + "."] if found else []


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
            head = sample["meters"][sample["headline"]]
            series = head["operations_by_second"]
            if cell["repeat"] == 1 and sample["step"] == step and SERIES_STEP_SECONDS_MIN <= len(series) <= head["requests"] / 2:
                rows += [{"kind": frames.label(cell["arm"], cell["params"]), "arm": cell["arm"], "second": second, "operations": count} for second, count in enumerate(series)]
    return rows


def _percentiles(cells, step):
    points = []
    for cell in cells:
        for sample in cell.get("samples", []):
            head = sample["meters"][sample["headline"]]
            histogram = head["histogram_us"]
            if cell["repeat"] == 1 and sample["step"] == step and histogram and head["requests"] >= LATENCY_REQUESTS_MIN:
                points += chart.percentile_points(histogram, frames.label(cell["arm"], cell["params"]), cell["arm"])
    return points


def _debt(cells, step):
    """Points (MB put off in all, by the second) and where each load ended."""
    points, ends = [], []
    for cell in cells:
        for sample in cell.get("samples", []):
            if cell["repeat"] != 1 or sample["step"] != step or not sample.get("debt"):
                continue
            kind = {"kind": frames.label(cell["arm"], cell["params"]), "arm": cell["arm"]}
            points += [{**kind, "second": one["second"], "mb": sum(one["mb"].values()), "parts": ", ".join(f"{name} {value:.1f}" for name, value in one["mb"].items())} for one in sample["debt"]]
            ends.append({**kind, "second": sample.get("load_ended") or round(sample["elapsed_s"], 2)})
    return points, ends


def _written(cells, step):
    return [{"kind": frames.label(cell["arm"], cell["params"]), "arm": cell["arm"], "second": one["second"], "mb": one["write_kb"] / 1024, "parts": ""}
            for cell in cells for sample in cell.get("samples", []) if cell["repeat"] == 1 and sample["step"] == step for one in sample.get("seconds", [])]


def _gains(resolved, cells):
    """The charts of [[gains]]: paired ratios over a swept parameter."""
    frame, found = frames.samples(cells), []
    for gain in resolved.experiment.gains:
        points = []
        for value in resolved.sweep.get(gain.over, []):
            for arm, base in gain.pairs:
                ratio = stats.paired_ratio(*(_at(frame, cells, name, gain, value) for name in (arm, base)))
                if ratio and ratio.ratio > 0:
                    points.append({"arm": f"{arm} / {base}", "x": str(value), "ratio": ratio.ratio, "low": ratio.low, "high": ratio.high})
        if points:
            found.append({"title": gain.title, "text": f"Step {gain.step}; above 1 the first named is ahead. 0 is the machine as it is.",
                          "spec": chart.gain(points, gain.over, gain.metric, list(dict.fromkeys(point["arm"] for point in points)))})
    return found


def _at(frame, cells, arm, gain, value):
    """{repeat: value} of an arm at one value of the swept parameter."""
    params = next((cell["params"] for cell in cells if cell["arm"] == arm and str(cell["params"].get(gain.over)) == str(value)), None)
    return frames.by_repeat(frame, frames.label(arm, params), gain.step, gain.metric) if params else {}


def _effects(resolved, cells):
    """One chart for each step and metric of a factorial plan."""
    if not resolved.factors:
        return []
    frame, found = frames.samples(cells), []
    for step in [step for step in resolved.steps if step.metrics]:
        for metric in resolved.experiment.factorial.metrics:
            values = {arm: frames.by_repeat(frame, arm, step.name, metric) for arm in resolved.arms}
            effects = factorial.effects(resolved.factors, values)
            title = f"{step.name}: what each setting brings, alone and with another"
            if not effects:
                without = [arm for arm in resolved.arms if not values[arm]]
                found.append({"title": title, "spec": None, "text": f"Cannot be told: nothing that counts in {'; '.join(without) or 'any repeat as a whole'}."})
            else:
                found.append({"title": title, "text": f"{effects[0].n} repeat{'s' if effects[0].n > 1 else ''}; intervals {effects[0].how}. An interval that holds 1 shows nothing.", "spec": chart.effects(effects, metric)})
    return found
