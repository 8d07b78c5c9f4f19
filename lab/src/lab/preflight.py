"""Everything that can be wrong with an experiment, found before its first cell: a name that a step, a claim or a preset writes
must be one that exists. The first mistake is told in one line, with what there is instead. Pure but for the engine files."""
import difflib
import re

from . import LabError, engine as engines_, experiment as experiments, factorial, gate, plan
from .experiment import Resolved, fill
from .workload import option, tpch, words

PRESET_WORDS = ("repeats", "arms", "factors", "like")
# What cell.metrics may find; a counter of an engine adds NAME_per_op, a second kind of request NAME_rate, NAME_p99_ms, NAME_max_ms.
METRICS = {
    "rate", "rate_drained", "seconds", "reads_per_op", "read_kb_per_op", "write_kb_per_op", "server_cpu_us_per_op", "client_cpu_us_per_op", "app_cpu_us_per_op",
    "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "stall_s", "worst_second", "data_mb", "tables_mb", "cached_mb", "errors_per_op", "server_cores", "drain_s", "drain_reads_per_op",
    "drain_read_kb_per_op", "drain_write_kb_per_op", "write_kb_drained_per_op", "drain_cpu_us_per_op", "debt_peak_share", "recovery_s", "lost_rows", "query_rate", "server_cpu_us_per_query",
    "insert_rate", "insert_p99_ms", "insert_max_ms", "query_p99_ms", "query_max_ms",
}
# ... and what it finds only in a step that asks for it.
ASKED_FOR = {"drain": ("drain_s", "drain_reads_per_op", "drain_read_kb_per_op", "drain_write_kb_per_op", "drain_cpu_us_per_op", "write_kb_drained_per_op"), "debt": ("debt_peak_share",)}


def check(resolved):
    """Raises a LabError for the first mistake; returns the plan's cells."""
    experiment, name = resolved.experiment, resolved.experiment.name
    unknown = gate.unknown_keys(experiment.gates)
    if unknown:
        raise LabError(f"{name}: [gates] has no {unknown[0]!r}; there are {', '.join([*gate.SWITCHES, *gate.LIMITS])}")
    _preset_keys(resolved)
    cells = plan.cells(resolved)
    engines = engines_.load_all()
    steps, arms, metrics = _steps(experiment), _arms(experiment), METRICS | {f"{counter}_per_op" for one in engines.values() for counter in one.counters}
    for cell in cells:
        engines_.find(engines, cell.arm.engine)
        _cell(cell, resolved, engines)
    for step in experiment.steps:
        where = f"{name}: step {step.name!r}"
        for metric in step.metrics:
            _known(metric, metrics, f"{where}: metrics", "metric")
            _measured(metric, step, f"{where}: metrics")
        for preset in step.runs_in:
            _known(preset, experiment.presets, f"{where}: runs_in", "preset")
        for engine in step.for_engines:
            _known(engine.lower(), engines, f"{where}: for_engines", "engine")
    for claim in resolved.claims():
        _claim(claim, f"{name}: claim {claim.text!r}", steps, arms, metrics, _swept(experiment))
    for gain in experiment.gains:
        where = f"{name}: gain {gain.title!r}"
        _known(gain.metric, metrics, where, "metric")
        _known(gain.step, steps, where, "step")
        _known(gain.over, _swept(experiment), where, "swept parameter")
        for arm in [arm for pair in gain.pairs for arm in pair]:
            _known(arm, arms, where, "arm")
    if experiment.check.after:
        _known(experiment.check.after, steps, f"{name}: [check] after", "step")
    return cells


def _known(name, names, where, kind):
    if name in names:
        return
    near = difflib.get_close_matches(str(name), [str(one) for one in names], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise LabError(f"{where}: there is no {kind} {name!r}; {hint}there are {', '.join(map(str, sorted(names) if isinstance(names, set) else names)) or 'none'}")


def _measured(metric, step, where):
    need = next((need for need, metrics in ASKED_FOR.items() if metric in metrics), None)
    if need and not getattr(step, need):
        raise LabError(f"{where}: step {step.name!r} has no {metric}: it needs {need} = true")


def _preset_keys(resolved):
    """A value that nothing asks for is a typing error, or a `pool` that [server] does not take from the preset."""
    experiment = resolved.experiment
    asked = set(re.findall(r"\{(\w+)\}", experiment.model_dump_json(exclude={"presets"})))
    asked |= {name for step in experiment.steps for name, value in step.foreach.items() if value == ["*"]}
    asked |= {re.sub(r"^(first|middle|last)_", "", name) for name in asked} | {gain.over for gain in experiment.gains}
    for key in experiments.preset_values(experiment, resolved.preset):
        if key not in asked and key not in PRESET_WORDS:
            used = ", ".join(f"{{{name}}}" for name in sorted(asked)) or "none"
            raise LabError(f"{experiment.name}: preset {resolved.preset!r} gives {key!r}, which nothing uses: the file asks for {used}; a preset's own words are {', '.join(PRESET_WORDS)}")


def _cell(cell, resolved, engines):
    """Fills in everything that the cell will fill in while it runs."""
    experiment = resolved.experiment
    server = fill({**experiment.server.model_dump(), **cell.arm.overrides}, cell.values)
    experiments.size_mb(server["pool"])
    for step in resolved.steps:
        filled = fill(step.model_dump(), {**cell.values, "engine": cell.arm.engine})
        for text in filled["expect"]:
            if not gate.understood(text, _arms(experiment)):
                raise LabError(f"{experiment.name}: step {step.name!r} expects {text!r}; what can be expected is 'data > 3 pool', 'data < 1 pool', 'misses' or 'misses in ARM'")
        if filled["tpch"]:
            _tpch(filled["tpch"], f"{experiment.name}: step {filled['name']!r}")
    fill(experiment.check.same, cell.values)


def _tpch(line, where):
    try:
        tpch.parse(line)
    except LabError as error:
        raise LabError(f"{where}: {error}") from None


def _claim(claim, where, steps, arms, metrics, swept):
    _known(claim.metric, metrics, where, "metric")
    for step in filter(None, (claim.step, claim.base_step)):
        _known(step, steps, where, "step")
        _measured(claim.metric, steps[step], where)
    for arm in [*claim.compare, *(arm for pair in claim.also for arm in pair)]:
        _known(arm, arms, where, "arm")
    for key in [*claim.at, *claim.base_at, *claim.than_at]:
        _known(key, swept, f"{where}: at", "swept parameter")


def _steps(experiment):
    """The steps of all presets, by name: a claim may be about one that this preset leaves out."""
    return {step.name: step for preset in experiment.presets for step in Resolved(experiment, preset).steps}


def _arms(experiment):
    made = factorial.arms(experiment.factorial.engine, experiment.factorial.factors) if experiment.factorial else {}
    return [*experiment.arms, *made, *(arm for preset in experiment.presets if experiment.factorial for arm in Resolved(experiment, preset).arms)]


def _swept(experiment):
    return list(dict.fromkeys(key for preset in experiment.presets for key in Resolved(experiment, preset).sweep))


CELL_S, DRAIN_S, ROWS_PER_SECOND, TPCH_ROWS = 6, 4, 20_000, 8_660_000
SECONDS = re.compile(r"--(?:time|seconds)[= ](\d+)")
ROWS = re.compile(r"--(?:table[-_]size|rows|items|(?:small|large)-rows)[= ](\d+)")


def _tpch_s(line):
    """A guess: rows of a load from its scale factor, and a tenth of a second a query where a hundredth of the data is there."""
    if not line:
        return 0.0
    scale = float(option(words(line), "scale", 0.01))
    return scale * TPCH_ROWS / ROWS_PER_SECOND if line.startswith("load") else 10 * scale * int(option(words(line), "runs", 1))


def duration(resolved, cells):
    """'about 12 minutes': what the steps say of their time, and a guess for loads of rows, servers' starts and drains."""
    seconds = 0.0
    for cell in cells:
        seconds += CELL_S
        for step in resolved.steps:
            filled = type(step)(**fill(step.model_dump(), {**cell.values, "engine": cell.arm.engine}))
            line = " ".join([filled.sysbench, filled.client, filled.slap, filled.web])
            seconds += _tpch_s(filled.tpch)
            timed, rows = SECONDS.search(line), sum(map(int, ROWS.findall(line)))
            seconds += float(timed.group(1)) if timed else float(filled.kill_after) or rows / ROWS_PER_SECOND
            seconds += DRAIN_S if filled.drain else 0
    return f"about {seconds / 60:.0f} minutes" if seconds > 90 else f"about {seconds:.0f} s"
