"""The plan of a run: which cells there are, and in which order. Pure.

A cell is an arm, one value of each swept parameter and a repeat. Repeats are blocks that hold every cell once; odd blocks
run backwards (ABBA), so that a drift of the machine meets all arms alike and neighbours in time can be paired.
"""
import dataclasses
import itertools
import re
from typing import Dict, List

from . import LabError
from .experiment import fill


@dataclasses.dataclass(frozen=True)
class Arm:
    """An arm's line, taken apart: 'ENGINE --option=value durability=2 | SQL; SQL'."""
    name: str
    engine: str
    options: List[str]
    overrides: Dict[str, str]
    statements: List[str]


@dataclasses.dataclass(frozen=True)
class Cell:
    number: int
    repeat: int
    arm: Arm
    params: Dict[str, object]
    values: Dict[str, object]

    @property
    def label(self):
        return ", ".join([self.arm.name, *(f"{key} {value}" for key, value in self.params.items())])


OVERRIDES = ("durability", "pool", "binlog", "read_iops", "write_iops", "memory", "direct_io")


def parse_arm(name, line):
    head, _, after = line.partition("|")
    words = head.split()
    if not words:
        raise LabError(f"arm {name!r} is empty: it needs at least an engine's name")
    options = [word for word in words[1:] if word.startswith("--")]
    overrides = {}
    for word in words[1:]:
        if word.startswith("--"):
            continue
        key, equals, value = word.partition("=")
        if not equals or key not in OVERRIDES:
            raise LabError(f"arm {name!r}: {word!r} is neither a server option (--name=value) nor one of {', '.join(OVERRIDES)}")
        overrides[key] = value
    return Arm(name, words[0], options, overrides, [part.strip() for part in after.split(";") if part.strip()])


def cells(resolved):
    names = list(resolved.sweep)
    kinds = []
    for params in itertools.product(*(resolved.sweep[name] for name in names)):
        chosen = dict(zip(names, params))
        values = {**resolved.values, **chosen}
        for name, line in resolved.arms.items():
            kinds.append((parse_arm(name, fill(line, values)), chosen, values))
    ordered = []
    for repeat in range(resolved.repeats):
        block = kinds if repeat % 2 == 0 else list(reversed(kinds))
        for arm, params, values in block:
            ordered.append(Cell(len(ordered) + 1, repeat + 1, arm, params, values))
    return ordered


def slug(text):
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(text)).strip("-").lower()
