"""Effects of several settings, found again in values that were made with known effects."""
import pytest

from lab import factorial

FACTORS = {"a": "--a=1", "b": "durability=2", "c": "| SET GLOBAL c = 1"}


def test_every_combination_is_an_arm():
    arms = factorial.arms("InnoDB", FACTORS)
    assert len(arms) == 8 and arms["none of them"] == "InnoDB"
    assert arms["a + b + c"] == "InnoDB --a=1 durability=2 | SET GLOBAL c = 1"


def made(factors, repeats, noise=0.0):
    """a doubles, b adds half, together they bring a fifth less than they should; everything else does nothing."""
    values = {}
    for number, levels in enumerate(factorial.combinations(factors)):
        value = 100.0 * (2.0 if levels["a"] > 0 else 1) * (1.5 if levels["b"] > 0 else 1)
        value *= 0.8 ** 0.5 if levels["a"] * levels["b"] > 0 else 0.8 ** -0.5
        values[factorial.arm_name(levels)] = {repeat: value * (1 + noise * ((number * 7 + repeat * 5) % 3 - 1)) for repeat in range(1, repeats + 1)}
    return values


@pytest.mark.parametrize("factors", [FACTORS, {**FACTORS, "d": "--d=1", "e": "--e=1"}])
def test_known_effects_are_found(factors):
    found = {one.name: one for one in factorial.effects(factors, made(factors, 3, noise=0.01))}
    assert found["a"].ratio == pytest.approx(2.0, rel=0.03) and found["a"].low > 1.5
    assert found["b"].ratio == pytest.approx(1.5, rel=0.03)
    assert found["a × b"].ratio == pytest.approx(0.8, rel=0.03) and found["a × b"].high < 1
    assert found["c"].low < 1 < found["c"].high


def test_five_factors_take_half_of_the_combinations():
    design = factorial.combinations("abcde")
    assert len(design) == 16 and factorial.arm_name(design[0]) == factorial.NONE
    for one, other in [("a", "b"), ("a", "e"), ("d", "e")]:  # no two are mixed up
        assert sum(levels[one] * levels[other] for levels in design) == 0


def test_one_repeat_has_an_interval_by_lenth():
    found = factorial.effects(FACTORS, made(FACTORS, 1, noise=0.01))
    assert found[0].low > 1 and found[0].how == "by Lenth's method"


def test_an_arm_that_is_missing_leaves_nothing_to_say():
    values = made(FACTORS, 2)
    values["a + b"] = {}
    assert factorial.effects(FACTORS, values) == []
