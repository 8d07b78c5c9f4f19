"""Several settings at once: which of them matters, and together with which. Pure.

Each factor is off or on; every combination is an arm (from five factors on every second one: the last factor is on where an
odd or even number of the others is, which leaves single effects and effects of two together apart). Effects are ratios, so
they are added as logarithms: an effect of 2 for `flush 2` means twice the rate on average over all settings of the others; an
effect of 0.8 for `a × b` means that each is worth 0.8 of what it would be were they independent (on top of the average).
"""
import dataclasses
import itertools
import math
from typing import List, Optional

import numpy
from scipy import stats

HALF_FROM = 5
NONE = "none of them"


@dataclasses.dataclass
class Effect:
    name: str
    ratio: float
    low: Optional[float]
    high: Optional[float]
    n: int
    how: str


def combinations(factors):
    """Which factors are on, for each arm: a list of {factor: -1 or +1}."""
    factors, found = list(factors), []
    if len(factors) < HALF_FROM:
        for signs in itertools.product((-1, 1), repeat=len(factors)):
            found.append(dict(zip(factors, signs)))
        return found
    for signs in itertools.product((-1, 1), repeat=len(factors) - 1):
        # The product of all signs is that of the arm with nothing on, so that this arm is one of them.
        last = math.prod(signs) * (-1) ** len(factors)
        found.append(dict(zip(factors, (*signs, last))))
    return found


def arm_name(levels):
    return " + ".join(factor for factor, sign in levels.items() if sign > 0) or NONE


def arms(engine, factors):
    """{arm's name: arm's line} from {factor: what it adds to the line, options and after a | statements}."""
    made = {}
    for levels in combinations(factors):
        parts = [factors[factor].partition("|") for factor, sign in levels.items() if sign > 0]
        words = " ".join([engine, *(part[0].strip() for part in parts if part[0].strip())])
        statements = "; ".join(part[2].strip() for part in parts if part[2].strip())
        made[arm_name(levels)] = f"{words} | {statements}" if statements else words
    return made


def effects(factors, values) -> List[Effect]:
    """`values`: {arm: {repeat: value}}. Single effects first, then those of two factors; only repeats that are whole count."""
    design = combinations(factors)
    names = [arm_name(levels) for levels in design]
    if any(name not in values for name in names):
        return []
    whole = sorted(set.intersection(*(set(values[name]) for name in names)))
    whole = [repeat for repeat in whole if all(values[name][repeat] > 0 for name in names)]
    if not whole:
        return []
    logs = numpy.array([[math.log(values[name][repeat]) for name in names] for repeat in whole])
    terms = [(factor,) for factor in factors] + list(itertools.combinations(factors, 2))
    signs = numpy.array([[math.prod(levels[factor] for factor in term) for levels in design] for term in terms])
    contrasts = logs @ signs.T * 2 / len(design)  # one line a repeat, one column a term
    means = contrasts.mean(axis=0)
    margins, how = _margins(contrasts, means)
    return [Effect(" × ".join(term), math.exp(mean), math.exp(mean - margin) if margin is not None else None,
                   math.exp(mean + margin) if margin is not None else None, len(whole), how)
            for term, mean, margin in zip(terms, means, margins)]


def _margins(contrasts, means):
    """Half the width of each 95 % interval: over the repeats from three on, else by Lenth's method, which takes most effects to
    be nothing but noise and needs a handful of them for that."""
    if len(contrasts) >= 3:
        reach = stats.t.ppf(0.975, len(contrasts) - 1)
        return list(reach * contrasts.std(axis=0, ddof=1) / math.sqrt(len(contrasts))), "over repeats"
    if len(means) < 6:
        return [None] * len(means), "too few effects for an interval"
    sizes = numpy.abs(means)
    first = 1.5 * numpy.median(sizes)
    kept = sizes[sizes < 2.5 * first]
    error = 1.5 * numpy.median(kept if len(kept) else sizes)
    return [float(stats.t.ppf(0.975, len(means) / 3) * error)] * len(means), "by Lenth's method"
