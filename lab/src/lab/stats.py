"""From samples to statements. Pure. The rules are those of careful tools for Go benchmarks: medians, no outlier removed, an
interval only from enough samples, pairs where the order of the run made pairs, and never "no difference" without the
difference that would have been seen.
"""
import dataclasses
import math
from typing import List, Optional

import numpy
from scipy import stats

INTERVAL_SAMPLES_MIN = 6
TEST_SAMPLES_MIN = 4
CONFIDENCE = 0.95
POWER = 0.80
RESAMPLES = 4000


@dataclasses.dataclass
class Centre:
    median: float
    low: Optional[float]
    high: Optional[float]
    n: int


@dataclasses.dataclass
class Ratio:
    """`ratio` = arm / base. `detectable` 0.05 means that 1.05 or 1/1.05 would have been found four times in five."""
    ratio: float
    low: Optional[float]
    high: Optional[float]
    n: int
    detectable: Optional[float]

    @property
    def differs(self):
        """True, False, or None when nothing can be said."""
        if self.low is None:
            return None
        return self.low > 1 or self.high < 1


def centre(values: List[float]) -> Centre:
    """The median with its bootstrap interval."""
    values = numpy.asarray([value for value in values if math.isfinite(value)], dtype=float)
    if len(values) == 0:
        return Centre(float("nan"), None, None, 0)
    median = float(numpy.median(values))
    if len(values) < INTERVAL_SAMPLES_MIN:
        return Centre(median, None, None, len(values))
    medians = numpy.median(_resample(values), axis=1)
    low, high = numpy.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Centre(median, float(low), float(high), len(values))


def paired_ratio(arm: dict, base: dict) -> Optional[Ratio]:
    """Ratio of two arms whose samples are known by block: {block: value}. Only blocks that have both count."""
    blocks = sorted(set(arm) & set(base))
    logs = [math.log(arm[block] / base[block]) for block in blocks if arm[block] > 0 and base[block] > 0]
    if not logs:
        values = [(arm[block], base[block]) for block in blocks]
        if values and all(base_value > 0 for _, base_value in values):
            return Ratio(0.0, None, None, len(values), None)
        return None
    logs = numpy.asarray(logs)
    low = high = None
    if len(logs) >= INTERVAL_SAMPLES_MIN:
        centres = numpy.median(_resample(logs), axis=1)
        low, high = (float(math.exp(value)) for value in numpy.quantile(centres, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    return Ratio(float(math.exp(numpy.median(logs))), low, high, len(logs), detectable(logs))


def detectable(logs) -> Optional[float]:
    """The smallest change that this many pairs with this much noise would show with 80 % power at the 5 % level."""
    n = len(logs)
    if n < 3:
        return None
    spread = float(numpy.std(logs, ddof=1))
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) + stats.t.ppf(POWER, n - 1)
    # The exponent is capped: with three wild pairs the honest answer is "anything".
    return float(math.expm1(min(reach * spread / math.sqrt(n), 20)))


def differ(one: List[float], other: List[float]) -> Optional[float]:
    """Mann-Whitney's p for two independent sets, or None when there are too few samples to say anything."""
    if min(len(one), len(other)) < TEST_SAMPLES_MIN:
        return None
    if len(set([*one, *other])) == 1:
        return 1.0
    return float(stats.mannwhitneyu(one, other, alternative="two-sided").pvalue)


def _resample(values):
    random = numpy.random.default_rng(1)  # the same data give the same interval
    return values[random.integers(0, len(values), size=(RESAMPLES, len(values)))]
