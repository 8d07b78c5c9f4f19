"""Experiment files and the plan: every file that is kept here can be planned, and a mistake is told in one line."""
import sys

import pytest

from canned import TEXT
from lab import ROOT, LabError, engine, experiment, plan, preflight
from lab.experiment import Resolved


@pytest.mark.parametrize("name", experiment.names())
def test_every_experiment_can_be_planned_with_every_preset(name):
    one = experiment.load(name)
    assert "smoke" in one.presets
    engines = engine.load_all()
    for preset in one.presets:
        resolved = Resolved(one, preset)
        cells = preflight.check(resolved)
        assert len(cells) == len({(cell.label, cell.repeat) for cell in cells})
        for cell in cells:
            known = engine.find(engines, cell.arm.engine)
            known.server_options("64M", "1")
            for step in resolved.steps:
                filled = experiment.fill(step.model_dump(), {**cell.values, "engine": known.name})
                assert "{" not in filled[step.workload], filled


@pytest.mark.parametrize("name", ["ibench-now", "insert-benchmark"])
def test_large_memtables_take_no_more_memory_than_a_pool(name):
    one = experiment.load(name)
    for preset in one.presets:
        values = {key: experiment.size_mb(value) for key, value in experiment.preset_values(one, preset).items() if key in ("pool", "block_cache", "memtable", "level_base")}
        assert values["block_cache"] + 2 * values["memtable"] == values["pool"], preset
        assert values["level_base"] == 8 * values["memtable"], preset
    assert {"Sluice on", "MyRocks, two thirds memtables"} <= set(Resolved(one, "standard").arms)


@pytest.mark.parametrize("name", ["ibench-now", "insert-benchmark"])
def test_queries_begin_behind_a_load_that_is_not_drained(name):
    steps = Resolved(experiment.load(name), "quick").steps
    assert [(step.name, step.drain) for step in steps[2:5]] == [("l.i1", True), ("l.i2", False), ("q100", False)]


def test_what_is_bounded_is_claimed_of_each_part_of_a_sustained_load():
    one = experiment.load("sustained-inserts")
    quick, durable = (experiment.preset_values(one, preset) for preset in ("quick", "durable"))
    assert durable == {**quick, "durability": 1} and one.server.durability == "{durability}"
    parts = {step.name for step in one.steps if step.debt}
    for metric in ("worst_second", "debt_peak_share"):
        assert {claim.step for claim in one.claims if claim.metric == metric and claim.compare == ("Sluice on",)} == parts


def test_a_gain_is_claimed_to_grow_with_each_slower_disk():
    one = experiment.load("storage-speed")
    growth = [claim for claim in Resolved(one, "check").claims() if claim.than_at]
    assert [(claim.at["read_iops"], claim.than_at["read_iops"]) for claim in growth] == [(3000, 0), (200, 3000)]
    assert {"read_iops": 3000} in [claim.at for claim in one.claims if not claim.than_at and ("Sluice on", "Sluice off") in claim.also]


def test_in_memory_buffering_is_held_against_none_in_each_measurement():
    one = experiment.load("change-buffer")
    held = {(claim.step, claim.metric, claim.limits) for claim in one.claims if claim.compare == ("Sluice all, fits", "Sluice none, fits")}
    assert held == {(step, *of) for step in ("faithful run", "corrected run") for of in (("rate", (0.98, float("inf"))), ("server_cpu_us_per_op", (0, 1.02)))}


def test_blocks_hold_every_cell_once_and_run_back_and_forth():
    text = TEXT.replace("repeats = 3", 'repeats = 3\npool = ["1M", "2M"]')
    cells = plan.cells(Resolved(experiment.parse(text, "t"), "smoke"))
    blocks = [[cell.label for cell in cells if cell.repeat == repeat] for repeat in (1, 2, 3)]
    assert len(blocks[0]) == 4 and blocks[1] == blocks[0][::-1] and blocks[2] == blocks[0]


def test_an_arm_is_one_line():
    arm = plan.parse_arm("x", "RocksDB pool=1G --a=b durability=2 | SET GLOBAL c = 1; SET GLOBAL d = 2")
    assert (arm.engine, arm.options, arm.overrides) == ("RocksDB", ["--a=b"], {"pool": "1G", "durability": "2"})
    assert arm.statements == ["SET GLOBAL c = 1", "SET GLOBAL d = 2"]


@pytest.mark.parametrize("change, told", [
    (('question', 'qestion'), "question"),
    (('sql = ["SELECT 1"]', ''), "exactly one of"),
    (('a = "InnoDB"', 'a = "InnoDB memory_size=1"'), "memory_size"),
    (('sql = ["SELECT 1"]', 'sql = ["SELECT {rows}"]'), "{rows}"),
    (('[arms]', '[arms'), "t:"),
    (('repeats = 3', 'repeat = 3'), "'repeat', which nothing uses"),
    (('repeats = 3', 'pool = "24M"'), "'pool', which nothing uses"),
    (('a = "InnoDB"', 'a = "InoDB"'), "did you mean InnoDB?"),
    (('a = "InnoDB"', 'a = "Aria"'), "there is no engine 'Aria'"),
    (('metrics = ["rate"]', 'metrics = ["rates"]'), "did you mean 'rate'?"),
    (('metric = "rate"', 'metric = "speed"'), "there is no metric 'speed'"),
    (('compare = ["b", "a"]', 'compare = ["c", "a"]'), "there is no arm 'c'; there are a, b"),
    (('step = "run"', 'step = "ran"'), "did you mean 'run'?"),
    (('metrics = ["rate"]', 'expect = ["data > 3pools"]'), "what can be expected"),
    (('metrics = ["rate"]', 'expect = ["misses in c"]'), "what can be expected"),
    (('metrics = ["rate"]', 'runs_in = ["smok"]'), "did you mean 'smoke'?"),
    (('metrics = ["rate"]', 'for_engines = ["Inodb"]'), "did you mean 'innodb'?"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nat = { threads = 1 }'), "there is no swept parameter 'threads'"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nat = { threads = 1 }\nthan_at = { threads = 8 }'), "there is no swept parameter 'threads'"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nat = { threads = 1 }\nthan_at = { threads = 1 }'), "with other values"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nthan_at = { threads = 1 }'), "it names what at names"),
    (('ratio = [1.5, "-"]', 'ratio = ["-", "-"]'), "ratio = ['-', '-'] is no range"),
    (('ratio = [1.5, "-"]', 'ratio = [3, 2]'), "ratio = [3.0, 2.0] is no range"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "more"]'), "claims.0.ratio.1"),
    (('ratio = [1.5, "-"]', ''), "claim 'b is twice as fast' needs exactly one of ratio, value"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nvalue = [1, "-"]'), "exactly one of ratio, value"),
    (('ratio = [1.5, "-"]', 'value = [1, "-"]'), "a value is of 1 arm, not of ['b', 'a']"),
    (('compare = ["b", "a"]', 'compare = ["b"]'), "a ratio is of 2 arms, not of ['b']"),
    (('compare = ["b", "a"]\nratio', 'compare = ["c"]\nvalue'), "there is no arm 'c'; there are a, b"),
    (('compare = ["b", "a"]\nratio', 'also = [["a", "b"]]\ncompare = ["b"]\nvalue'), "a value is of 1 arm, not of ['a', 'b']"),
    (('compare = ["b", "a"]\nratio', 'base_step = "run"\ncompare = ["b"]\nvalue'), "it has no base_at, base_step or than_at"),
    (('metric = "rate"', 'metric = "write_kb_drained_per_op"'), "step 'run' has no write_kb_drained_per_op: it needs drain = true"),
    (('metrics = ["rate"]', 'metrics = ["debt_peak_share"]'), "step 'run' has no debt_peak_share: it needs debt = true"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\n[gates]\nmises = false'), "'mises'"),
    (('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\n[check]\nsame = "SELECT {rows}"'), "{rows}"),
])
def test_a_mistake_is_told_in_one_line_before_the_first_cell(change, told):
    with pytest.raises(LabError) as error:
        preflight.check(Resolved(experiment.parse(TEXT.replace(*change, 1), "t"), "smoke"))
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_claim_that_leaves_a_swept_parameter_open_is_made_for_each_value():
    """It used to be judged at whichever value came last."""
    text = TEXT.replace("repeats = 3", "threads = [1, 8]").replace("SELECT 1", "SELECT {threads}").replace("b is twice as fast", "b at {threads}")
    claims = Resolved(experiment.parse(text, "t"), "smoke").claims()
    assert [(one.text, one.at) for one in claims] == [("b at 1", {"threads": 1}), ("b at 8", {"threads": 8})]
    at = text.replace('ratio = [1.5, "-"]', 'ratio = [1.5, "-"]\nat = { threads = 8 }').replace("b at {threads}", "b")
    assert [one.at for one in Resolved(experiment.parse(at, "t"), "smoke").claims()] == [{"threads": 8}]


def test_innodb_keeps_no_large_share_of_a_small_pool_free():
    """Depth is a number of pages: 1536 of them are all of 24 MB. The lab and scripts/bench have the same rule."""
    innodb = engine.find(engine.load_all(), "InnoDB")
    sys.path.insert(0, str(ROOT / "scripts"))
    import engines as of_scripts
    for pool, page, depth in (("24M", 16384, 100), ("96M", 16384, 384), ("24M", 4096, 384), ("1G", 16384, 1536)):
        assert f"--innodb-lru-scan-depth={depth}" in innodb.server_options(pool, 1, [f"--innodb-page-size={page}"])
        assert page != 16384 or of_scripts.innodb_free_pages(pool) == depth


def test_the_duration_of_a_run_is_guessed():
    text = TEXT.replace('sql = ["SELECT 1"]', 'client = "insert --seconds 60"')
    resolved = Resolved(experiment.parse(text, "t"), "smoke")
    assert preflight.duration(resolved, plan.cells(resolved)) == "about 7 minutes"


def test_presets_inherit_and_steps_multiply():
    text = TEXT.replace("[arms]", '[presets.big]\nlike = "smoke"\nthreads = [1, 4]\n[arms]').replace('name = "run"', 'name = "{script} {threads}"\nforeach = { script = ["r", "w"], threads = ["*"] }')
    resolved = Resolved(experiment.parse(text.replace('step = "run"', 'step = "r 1"'), "t"), "big")
    assert resolved.repeats == 3 and resolved.sweep == {}
    assert [step.name for step in resolved.steps] == ["r 1", "r 4", "w 1", "w 4"]


def test_sizes():
    assert [experiment.size_mb(text) for text in ("1G", "512K", "3m", "1048576")] == [1024, 0.5, 3, 1]
