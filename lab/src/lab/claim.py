"""Claims of a source, judged by a run's samples. Pure.

    reproduced         what was measured (the interval of a ratio, or of one arm's value) lies in the claimed range
    not reproduced     it lies outside
    not decided        the interval crosses the range's edge
    points only        there are too few repeats for an interval: ratio or value is told, and no verdict
    could not be shown the cells that it needs are missing, were skipped, or failed a gate
"""
import dataclasses
from typing import List, Optional

from . import chart, frame as frames, stats


@dataclasses.dataclass
class Verdict:
    verdict: str
    reason: str
    ratio: Optional[stats.Ratio]
    arm: str
    base: str = ""
    arm_median: Optional[float] = None
    base_median: Optional[float] = None
    value: Optional[stats.Centre] = None


class Unshown(Exception):
    """Why there is nothing to judge."""


def judge(claim, cells, frame=None) -> List[Verdict]:
    """One verdict for the claim's own pair (or arm, where it claims a value), then one for each further one."""
    frame = frames.samples(cells) if frame is None else frame
    return [_judge(claim, arms, cells, frame) for arms in [claim.compare, *claim.also]]


def _judge(claim, arms, cells, frame):
    kind = _judge_value if claim.value else _judge_growth if claim.than_at else _judge_pair
    try:
        return kind(claim, *arms, cells, frame)
    except Unshown as why:
        return Verdict("could not be shown", str(why), None, *arms)


def _judge_value(claim, arm, cells, frame):
    """A median hides a repeat that breaks a bound: those that do are told."""
    values = list(_values(cells, frame, arm, claim.at, claim.step, claim.metric).values())
    centre, (low, high) = stats.centre(values), claim.limits
    verdict, reason = _place(claim.limits, centre, centre.median)
    outside = sum(1 for value in values if not low <= value <= high)
    told = f"{reason}; {outside} of {len(values)} lie outside the range" if outside and len(values) > 1 else reason
    return Verdict(verdict, told, None, arm, arm_median=centre.median, value=centre)


def _judge_pair(claim, arm, base, cells, frame):
    return _judge_ratio(claim, arm, base, *_of_both(claim, arm, base, claim.at, cells, frame))


def _judge_growth(claim, arm, base, cells, frame):
    """The pair's ratio against the same pair's at other sweep values, within each repeat."""
    names, gains = [frames.label(f"{arm} / {base}", at) for at in (claim.at, claim.than_at)], []
    for at in (claim.at, claim.than_at):
        values, bases = _of_both(claim, arm, base, at, cells, frame)
        gains.append({repeat: values[repeat] / bases[repeat] for repeat in values if bases.get(repeat)})
        if not gains[-1]:
            raise Unshown(f"there is no ratio: {chart.unit(claim.metric)} is 0 in {frames.label(base, at)}")
    return _judge_ratio(claim, *names, *gains)


def _of_both(claim, arm, base, at, cells, frame):
    return (_values(cells, frame, arm, at, claim.step, claim.metric),
            _values(cells, frame, base, claim.base_at or at, claim.base_step or claim.step, claim.metric))


def _judge_ratio(claim, arm, base, *values):
    ratio, medians = stats.paired_ratio(*values), [stats.centre(list(found.values())).median for found in values]
    if ratio is None:
        return Verdict("could not be shown", f"there is no ratio: {chart.unit(claim.metric)} is 0 in {base}", None, arm, base, *medians)
    return Verdict(*_place(claim.limits, ratio, ratio.ratio), ratio, arm, base, *medians)


def _place(limits, found, middle):
    """Of a ratio or a centre, whose middle is given."""
    low, high = limits
    if found.low is None:
        return _direction(low, high, middle, found)
    if low <= found.low and found.high <= high:
        return "reproduced", "the interval lies in the claimed range"
    if found.high < low or found.low > high:
        return "not reproduced", "the interval lies outside the claimed range"
    return "not decided", "the interval crosses the edge of the claimed range: more repeats are needed"


def _direction(low, high, middle, found):
    """Too few repeats for an interval: where the middle lies is told, in words, and is no verdict."""
    repeats = f"{found.n} repeat{'s' if found.n > 1 else ''}; a verdict needs {stats.INTERVAL_SAMPLES_MIN}"
    if low <= middle <= high:
        where = "inside the claimed range"
    elif low <= 1 <= high or isinstance(found, stats.Centre):
        where = "outside the claimed range"
    elif (middle > 1) == (low > 1):
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
    """{repeat: value}; Unshown where there is none."""
    at = _params(at)
    chosen = [cell for cell in cells if _matches(cell, arm, at)]
    if not chosen:
        raise Unshown(f"this run has no arm {frames.label(arm, at)!r}")
    found = {}
    for cell in chosen:
        found.update({repeat: value for repeat, value in frames.by_repeat(frame, frames.label(arm, cell["params"]), step, metric).items() if repeat == cell["repeat"]})
    if found:
        return found
    for cell in chosen:
        why = cell.get("skipped") or cell.get("failed")
        if why:
            raise Unshown(f"{arm}: {why}")
        if step in cell.get("missing", {}):
            raise Unshown(f"{arm}: {cell['missing'][step]}")
        for sample in cell["samples"]:
            if sample["step"] == step:
                broken = next((verdict for verdict in sample["gates"] if verdict["verdict"] == "fail"), None)
                if broken:
                    raise Unshown(f"{arm}: the gate {broken['gate'].replace('_', ' ')} failed: {broken['reason']}")
                short = frames.too_short(sample, metric)
                raise Unshown(f"{arm}: the step “{step}” was {short}" if short else f"{arm}: the step “{step}” does not tell: {chart.unit(metric)}")
    raise Unshown(f"{arm}: the step {step!r} did not run")
