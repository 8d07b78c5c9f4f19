"""Statistics on data whose answer is known."""
import numpy
import pytest

from lab import stats


def test_no_interval_from_few_samples():
    centre = stats.centre([1, 2, 3, 4, 100])
    assert (centre.median, centre.low, centre.n) == (3, None, 5)


def test_the_interval_holds_the_median_about_as_often_as_it_says():
    random = numpy.random.default_rng(7)
    held = 0
    for _ in range(200):
        centre = stats.centre(list(random.lognormal(0, 0.3, 12)))
        held += centre.low <= 1.0 <= centre.high
    assert held >= 0.88 * 200


def test_pairs_cancel_a_drift():
    base = {block: 100.0 * block for block in range(1, 9)}
    ratio = stats.paired_ratio({block: value * 1.1 for block, value in base.items()}, base)
    assert ratio.ratio == pytest.approx(1.1) and ratio.low == pytest.approx(1.1) and ratio.differs
    assert ratio.detectable == pytest.approx(0, abs=1e-9)


def test_only_blocks_that_have_both_count():
    assert stats.paired_ratio({1: 2.0, 2: 3.0}, {2: 1.0, 3: 5.0}).n == 1
    assert stats.paired_ratio({1: 2.0}, {2: 1.0}) is None


def test_the_detectable_effect_shrinks_with_repeats_and_is_unknown_for_two():
    random = numpy.random.default_rng(3)
    logs = random.normal(0, 0.1, 40)
    assert stats.detectable(logs[:2]) is None
    assert stats.detectable(logs) < stats.detectable(logs[:6])
    assert 0.03 < stats.detectable(logs) < 0.07


def test_u_test_needs_four_and_finds_what_is_there():
    assert stats.differ([1, 2, 3], [4, 5, 6]) is None
    assert stats.differ([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) < 0.05
    assert stats.differ([1, 2, 3, 4, 5], [1.1, 2.1, 2.9, 4.2, 4.8]) > 0.05
    assert stats.differ([3] * 5, [3] * 5) == 1.0
