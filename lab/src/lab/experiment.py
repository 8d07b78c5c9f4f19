"""The experiment file: its form, its presets, and the values in braces. Pure; used by plan, cell and report.

An experiment is data. `load` checks the whole file at once, so that a typing error costs a second and not an hour; `resolve`
picks a preset and fills in what does not depend on the cell. Values in braces are filled in per cell by `fill`.
"""
import itertools
import re
import sys
from typing import Any, Dict, List, Literal, Optional, Tuple, Union

import pydantic

from . import LAB, LabError, factorial

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = LAB / "experiments"
Value = Union[bool, int, float, str]
Limits = Tuple[Union[float, Literal["-"]], Union[float, Literal["-"]]]
WORKLOADS = ("sysbench", "client", "slap", "sql", "web", "tpch")


class Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Server(Form):
    pool: str = "128M"
    options: List[str] = []
    durability: Union[int, str] = 1
    binlog: bool = False
    read_iops: Union[int, str] = 0
    write_iops: Union[int, str] = 0
    memory: str = ""
    direct_io: Union[bool, str] = True
    nodes: int = 1


class Step(Form):
    name: str
    sysbench: str = ""
    client: str = ""
    slap: str = ""
    sql: List[str] = []
    web: str = ""
    tpch: str = ""
    operations: Union[int, str] = 0
    drain: bool = False
    restart: bool = False
    debt: bool = False  # follow the engine's deferred work by the second
    read_iops: Union[int, str] = 0  # a slower disk from this step on (0 = as it was)
    kill_after: Union[int, float, str] = 0  # seconds until the server is killed; the load must bear it
    metrics: List[str] = []
    expect: List[str] = []
    runs_in: List[str] = []
    for_engines: List[str] = []
    foreach: Dict[str, List[Value]] = {}

    @pydantic.model_validator(mode="after")
    def one_workload(self):
        given = [name for name in WORKLOADS if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"step {self.name!r} needs exactly one of {', '.join(WORKLOADS)}")
        return self

    @property
    def workload(self):
        return next(name for name in WORKLOADS if getattr(self, name))


class Claim(Form):
    text: str
    step: str
    metric: str
    compare: Tuple[str, ...]
    ratio: Optional[Limits] = None  # of two arms
    value: Optional[Limits] = None  # of one arm, in the metric's unit
    published: str = ""
    original: str = ""
    at: Dict[str, Value] = {}
    base_at: Dict[str, Value] = {}
    base_step: str = ""
    than_at: Dict[str, Value] = {}  # the ratio is that of the pair's ratio to its own at these sweep values
    also: List[Tuple[str, ...]] = []
    headline: bool = False  # the one that stands for the experiment at the head of the report

    @pydantic.model_validator(mode="after")
    def one_statement(self):
        where = f"claim {self.text!r}"
        if (self.ratio is None) == (self.value is None):
            raise ValueError(f"{where} needs exactly one of ratio, value")
        kind, arms = ("value", 1) if self.value else ("ratio", 2)
        wrong = next((names for names in [self.compare, *self.also] if len(names) != arms), None)
        if wrong is not None:
            raise ValueError(f"{where}: a {kind} is of {arms} arm{'s' if arms > 1 else ''}, not of {list(wrong)}")
        if self.value and (self.base_at or self.base_step or self.than_at):
            raise ValueError(f"{where}: a value is of one arm: it has no base_at, base_step or than_at")
        if self.than_at and (self.base_at or self.than_at.keys() != self.at.keys() or self.than_at == self.at):
            raise ValueError(f"{where}: at than_at the same pair is compared again: it names what at names, with other values, and goes without base_at")
        low, high = self.limits
        if not low <= high or (low, high) == (0, float("inf")):
            raise ValueError(f"{where}: {kind} = {list(getattr(self, kind))} is no range; a claim needs a lower limit, an upper one (not below it), or both")
        return self

    @property
    def limits(self):
        low, high = self.value or self.ratio
        return (0.0 if low == "-" else low, float("inf") if high == "-" else high)


class Gain(Form):
    """A chart of one arm against another over a swept parameter."""
    title: str
    step: str
    metric: str
    over: str
    pairs: List[Tuple[str, str]]


class Factorial(Form):
    """Arms made of every combination of settings; see factorial.py."""
    engine: str
    factors: Dict[str, str]
    metrics: List[str] = ["rate"]


class Check(Form):
    same: str = ""
    after: str = ""  # the step after which it is asked; the last one when empty


class Experiment(Form):
    title: str
    question: str
    source: str = ""
    notes: str = ""
    prediction: str = ""
    presets: Dict[str, Dict[str, Any]]
    server: Server = Server()
    arms: Dict[str, str] = {}
    factorial: Optional[Factorial] = None
    steps: List[Step]
    claims: List[Claim] = []
    gains: List[Gain] = []
    check: Check = Check()
    gates: Dict[str, Any] = {}
    name: str = ""

    @pydantic.model_validator(mode="after")
    def some_arms(self):
        if not self.arms and not self.factorial:
            raise ValueError("there are no [arms]")
        return self


class Resolved:
    """An experiment with one preset: its values, its sweep, the arms and steps that take part."""

    def __init__(self, experiment, preset, repeats=None, only=None):
        values = dict(preset_values(experiment, preset))
        self.experiment, self.preset = experiment, preset
        told = int(values.pop("repeats", 1))
        self.repeats = repeats or told
        self.factors = _factors(experiment, values.pop("factors", None))
        known = {**experiment.arms, **(factorial.arms(experiment.factorial.engine, self.factors) if self.factors else {})}
        arms = list(only or values.pop("arms", known))
        values.pop("arms", None)
        unknown = [arm for arm in arms if arm not in known]
        if unknown:
            raise LabError(f"{experiment.name} has no arm {unknown[0]!r}; it has {', '.join(known)}")
        self.arms = {arm: known[arm] for arm in arms}
        self.sweep = {key: value for key, value in values.items() if isinstance(value, list)}
        self.values = {key: value for key, value in values.items() if not isinstance(value, list)}
        for key, value in self.sweep.items():
            self.values.update({f"first_{key}": value[0], f"middle_{key}": value[len(value) // 2], f"last_{key}": value[-1]})
        self.steps = [step for step in expand(experiment.steps, self.sweep) if not step.runs_in or preset in step.runs_in]
        in_steps = {key for step in experiment.steps for key, value in step.foreach.items() if value == ["*"]}
        self.sweep = {key: value for key, value in self.sweep.items() if key not in in_steps}

    def claims(self):
        """Claims with their values filled in; one that leaves a swept parameter open becomes one for each of its values."""
        found = []
        for claim in self.experiment.claims:
            open_ = [name for name in self.sweep if name not in claim.at]
            for chosen in itertools.product(*(self.sweep[name] for name in open_)):
                rest = dict(zip(open_, chosen))
                at = {**claim.at, **rest}
                base_at, than_at = ({**rest, **values} if values else {} for values in (claim.base_at, claim.than_at))
                found.append(Claim(**fill({**claim.model_dump(), "at": at, "base_at": base_at, "than_at": than_at}, {**self.values, **rest})))
        return found


def _factors(experiment, names):
    """The factors that take part: all, or those that the preset names."""
    if not experiment.factorial:
        return {}
    factors = experiment.factorial.factors
    unknown = [name for name in names or [] if name not in factors]
    if unknown:
        raise LabError(f"{experiment.name} has no factor {unknown[0]!r}; it has {', '.join(factors)}")
    return {name: factors[name] for name in names or factors}


def expand(steps, lists):
    """Steps with `foreach` become one step for each combination; the value ["*"] takes the preset's list of that name."""
    done = []
    for step in steps:
        names = list(step.foreach)
        choices = [lists.get(name, ["*"]) if step.foreach[name] == ["*"] else step.foreach[name] for name in names]
        for values in itertools.product(*choices):
            chosen = dict(zip(names, values))
            filled = {key: fill(value, chosen, strict=False) for key, value in step.model_dump().items() if key != "foreach"}
            done.append(Step(**filled))
    return done


def preset_values(experiment, preset):
    """A preset's values over those of the preset it is like."""
    if preset not in experiment.presets:
        raise LabError(f"{experiment.name} has no preset {preset!r}; it has {', '.join(experiment.presets)}")
    values, seen = dict(experiment.presets[preset]), {preset}
    while "like" in values:
        parent = values.pop("like")
        if parent in seen or parent not in experiment.presets:
            raise LabError(f"{experiment.name}: preset {preset!r} is like {parent!r}, which does not lead anywhere")
        seen.add(parent)
        values = {**experiment.presets[parent], **values}
    return values


def fill(value, values, strict=True):
    """Replaces {name} in text, and in lists and tables of text."""
    if isinstance(value, list):
        return [fill(item, values, strict) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, values, strict) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def one(match):
        if match.group(1) in values:
            return str(values[match.group(1)])
        if strict:
            raise LabError(f"{{{match.group(1)}}} in {value!r} has no value; the preset gives {', '.join(map(str, values)) or 'none'}")
        return match.group(0)

    return re.sub(r"\{(\w+)\}", one, value)


def parse(text, name):
    try:
        return Experiment(**{**tomllib.loads(text), "name": name})
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{name}: {error}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LabError(f"{name}: {where}: {first['msg']}") from None


def path_of(name):
    path = FOLDER / f"{name}.toml"
    if name.endswith(".toml"):
        import pathlib
        path = pathlib.Path(name)
    if not path.exists():
        near = ", ".join(sorted(names()))
        raise LabError(f"there is no experiment {name!r}; there are {near}")
    return path


def names():
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name):
    path = path_of(name)
    return parse(path.read_text(), path.stem)


def size_mb(text):
    """'128M' as megabytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", str(text).strip(), re.I)
    if not match:
        raise LabError(f"{text!r} is not a size such as 128M")
    return float(match.group(1)) * {"": 1 / 1048576, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1048576}[match.group(2).upper()]
