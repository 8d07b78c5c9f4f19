"""Claims of a source, judged by a run's samples. Pure.

    reproduced         the measured ratio (its interval, where there is one) lies in the claimed range
    not reproduced     it lies outside
    not decided        the interval crosses the range's edge
    points only        there are too few repeats for an interval: the ratio is told, and no verdict
    could not be shown the cells that it needs are missing, were skipped, or failed a gate
"""
import dataclasses
from typing import List, Optional

from . import frame as frames, stats


@dataclasses.dataclass
class Verdict:
    verdict: str
    reason: str
    ratio: Optional[stats.Ratio]
    arm: str
    base: str
    arm_median: Optional[float]
    base_median: Optional[float]


def judge(claim, cells, frame=None) -> List[Verdict]:
    """One verdict for the claim's own pair, then one for each further pair."""
    frame = frames.samples(cells) if frame is None else frame
    return [_judge_pair(claim, arm, base, cells, frame) for arm, base in [claim.compare, *claim.also]]


def _judge_pair(claim, arm, base, cells, frame):
    arm_at = _params(claim.at)
    base_at = _params(claim.base_at or claim.at)
    base_step = claim.base_step or claim.step
    values = []
    for name, at, step in ((arm, arm_at, claim.step), (base, base_at, base_step)):
        found, why = _values(cells, frame, name, at, step, claim.metric)
        if not found:
            return Verdict("could not be shown", why, None, arm, base, None, None)
        values.append(found)
    ratio = stats.paired_ratio(*values)
    medians = [stats.centre(list(found.values())).median for found in values]
    if ratio is None:
        return Verdict("could not be shown", f"there is no ratio: {claim.metric} is 0 in {base}", None, arm, base, *medians)
    return Verdict(*_place(claim.limits, ratio), ratio, arm, base, *medians)


def _place(limits, ratio):
    low, high = limits
    if ratio.low is None:
        return _direction(low, high, ratio)
    if low <= ratio.low and ratio.high <= high:
        return "reproduced", "the interval lies in the claimed range"
    if ratio.high < low or ratio.low > high:
        return "not reproduced", "the interval lies outside the claimed range"
    return "not decided", "the interval crosses the edge of the claimed range: more repeats are needed"


def _direction(low, high, ratio):
    """Too few repeats for an interval: where the ratio lies is told, in words, and is no verdict."""
    repeats = f"{ratio.n} repeat{'s' if ratio.n > 1 else ''}; a verdict needs {stats.INTERVAL_SAMPLES_MIN}"
    if low <= ratio.ratio <= high:
        where = "inside the claimed range"
    elif low <= 1 <= high:
        where = "outside the claimed range"
    elif (ratio.ratio > 1) == (low > 1):
        where = "in the claimed direction, but not of the claimed size"
    else:
        where = "in the other direction than claimed"
    return "points only", f"{where}, by {repeats}"


def _params(at):
    """Sweep values as the cells have them; a claim may name only some of them when the others do not vary."""
    return {key: str(value) for key, value in at.items()}


def _matches(cell, arm, at):
    return cell["arm"] == arm and all(str(cell["params"].get(key)) == value for key, value in at.items())


def _values(cells, frame, arm, at, step, metric):
    """{repeat: value}, or {} and the reason."""
    chosen = [cell for cell in cells if _matches(cell, arm, at)]
    if not chosen:
        return {}, f"this run has no arm {frames.label(arm, at)!r}"
    found = {}
    for cell in chosen:
        found.update({repeat: value for repeat, value in frames.by_repeat(frame, frames.label(arm, cell["params"]), step, metric).items() if repeat == cell["repeat"]})
    if found:
        return found, ""
    for cell in chosen:
        why = cell.get("skipped") or cell.get("failed")
        if why:
            return {}, f"{arm}: {why}"
        if step in cell.get("missing", {}):
            return {}, f"{arm}: {cell['missing'][step]}"
        for sample in cell["samples"]:
            if sample["step"] == step:
                broken = next((verdict for verdict in sample["gates"] if verdict["verdict"] == "fail"), None)
                if broken:
                    return {}, f"{arm}: the gate {broken['gate']} failed: {broken['reason']}"
                return {}, f"{arm}: the step has no {metric}"
    return {}, f"{arm}: the step {step!r} did not run"
