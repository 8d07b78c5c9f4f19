"""Pairs of cells that ran right after each other, and how clear the median of their ratios is.

On a shared machine the speed changes by a third from one cell to the next. So a cost is the median of many pairs' ratios, and the pairs go
on until its 95 % interval says which side of a bound it is on. Called by buffering.py, monitoring_cost.py.
"""
import math
import statistics


def ratios(pairs, column):
    """Of each pair's second sample to its first."""
    return [getattr(second, column) / getattr(first, column) for first, second in pairs]


def asked(pairs, cost):
    """[(ratios, the bound that their median is judged by)]: of the rate, and of the server's CPU time of an operation."""
    return [(ratios(pairs, "per_second"), 1 - cost), (ratios(pairs, "cpu_us"), 1 + cost)]


def is_clear(values, bound):
    """The median's 95 % interval, by order (whatever the distribution), has the bound outside."""
    from_the_ends = math.floor(len(values) / 2 - 0.98 * math.sqrt(len(values)))
    if from_the_ends < 1:
        return False
    values = sorted(values)
    return not values[from_the_ends - 1] <= bound <= values[-from_the_ends]


def are_clear(pairs, cost):
    return all(is_clear(values, bound) for values, bound in asked(pairs, cost))


def hold(pairs, cost):
    (rates, rate_min), (costs, cost_max) = asked(pairs, cost)
    return statistics.median(rates) >= rate_min and statistics.median(costs) <= cost_max


def with_quartiles(values):
    text = f"{statistics.median(values):.3f}"
    if len(values) < 4:
        return text
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return f"{text} ({lower:.3f} to {upper:.3f})"
