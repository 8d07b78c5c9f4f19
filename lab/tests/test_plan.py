"""Experiment files and the plan: every file that is kept here can be planned, and a mistake is told in one line."""
import pytest

from canned import TEXT
from lab import LabError, engine, experiment, gate, plan
from lab.experiment import Resolved


@pytest.mark.parametrize("name", experiment.names())
def test_every_experiment_can_be_planned_with_every_preset(name):
    one = experiment.load(name)
    assert "smoke" in one.presets
    assert not gate.unknown_keys(one.gates)
    engines = engine.load_all()
    for preset in one.presets:
        resolved = Resolved(one, preset)
        cells = plan.cells(resolved)
        assert len(cells) == len({(cell.label, cell.repeat) for cell in cells})
        for cell in cells:
            known = engine.find(engines, cell.arm.engine)
            known.server_options("64M", "1")
            for step in resolved.steps:
                filled = experiment.fill(step.model_dump(), {**cell.values, "engine": known.name})
                assert "{" not in filled[step.workload], filled
    steps = {step.name for preset in one.presets for step in Resolved(one, preset).steps}
    for claim in Resolved(one, "smoke").claims():
        assert claim.step in steps and (claim.base_step or claim.step) in steps, claim
        for arm in [*claim.compare, *(arm for pair in claim.also for arm in pair)]:
            assert any(arm in Resolved(one, preset).arms for preset in one.presets), arm


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
])
def test_a_mistake_is_told_in_one_line(change, told):
    with pytest.raises(LabError) as error:
        resolved = Resolved(experiment.parse(TEXT.replace(*change), "t"), "smoke")
        for cell in plan.cells(resolved):
            experiment.fill([step.model_dump() for step in resolved.steps], cell.values)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_presets_inherit_and_steps_multiply():
    text = TEXT.replace("[arms]", '[presets.big]\nlike = "smoke"\nthreads = [1, 4]\n[arms]').replace('name = "run"', 'name = "{script} {threads}"\nforeach = { script = ["r", "w"], threads = ["*"] }')
    resolved = Resolved(experiment.parse(text.replace('step = "run"', 'step = "r 1"'), "t"), "big")
    assert resolved.repeats == 3 and resolved.sweep == {}
    assert [step.name for step in resolved.steps] == ["r 1", "r 4", "w 1", "w 4"]


def test_sizes():
    assert [experiment.size_mb(text) for text in ("1G", "512K", "3m", "1048576")] == [1024, 0.5, 3, 1]
