"""Store, claims, diff and page, on a canned run."""
import json

import pytest

from canned import TEXT, cell, cells, run
from lab import LabError, claim, diff, experiment, report, store


def verdict(made, text=TEXT):
    return claim.judge(experiment.parse(text, "canned").claims[0], made)[0]


def test_a_claim_is_judged_by_the_interval():
    assert verdict(cells(2.0, repeats=8)).verdict == "reproduced"
    assert verdict(cells(1.1, repeats=8)).verdict == "not reproduced"
    assert verdict(cells(1.495, repeats=8)).verdict == "not decided"


def test_few_repeats_show_a_direction_and_no_absence():
    found = verdict(cells(2.0, repeats=1))
    assert found.verdict == "reproduced" and "direction only" in found.reason
    assert verdict(cells(1.2, repeats=1)).verdict == "not decided"
    assert verdict(cells(0.8, repeats=1)).verdict == "not reproduced"
    assert verdict(cells(1.0, repeats=3), TEXT.replace('[1.5, "-"]', "[0.95, 1.05]")).verdict == "not decided"


def test_a_cell_that_failed_a_gate_shows_nothing():
    found = verdict(cells(gates=[{"gate": "direct_io", "verdict": "fail", "reason": "t.ibd is buffered"}]))
    assert found.verdict == "could not be shown" and "t.ibd is buffered" in found.reason


def test_a_skipped_arm_tells_why():
    made = [cell(1, "a", 1, 100.0), {"number": 2, "arm": "b", "engine": "Sluice", "repeat": 1, "params": {}, "samples": [], "skipped": "Sluice is not built"}]
    found = verdict(made)
    assert found.verdict == "could not be shown" and "not built" in found.reason


def test_a_run_is_read_as_it_was_written(tmp_path):
    stored = run(tmp_path)
    again = store.find(str(stored.folder))[0]
    assert again.cells == stored.cells and again.manifest == stored.manifest
    assert store.find("canned-smoke", tmp_path)[0].cells == stored.cells
    assert (stored.folder / "samples.csv").read_text().startswith("arm,engine,repeat,step,counts,rate")
    with pytest.raises(LabError):
        store.find("nothing like it", tmp_path)


def test_the_page_holds_everything_and_nothing_from_elsewhere(tmp_path):
    stored = run(tmp_path)
    page = report.write([stored], stored.folder)
    text = page.read_text()
    for expected in ("Is b twice as fast as a?", "reproduced", "data-spec", "Run it again"):
        assert expected in text
    assert 'src="http' not in text and 'href="http' not in text
    again = store.find(str(page))[0]
    assert again.manifest["text"] == TEXT and len(again.cells) == len(stored.cells)
    claims = json.loads((stored.folder / "summary.json").read_text())[0]["claims"]
    assert claims[0]["verdict"] == "reproduced" and claims[0]["verdicts"][0]["ratio"]["ratio"] > 1.5


def test_an_empty_place_tells_its_reason(tmp_path):
    made = cells(gates=[{"gate": "client_cpu", "verdict": "fail", "reason": "the client used 100 %"}])
    text = report.write([run(tmp_path, made)], tmp_path).read_text()
    assert "hatched" in text and "the client used 100 %" in text


def test_several_runs_make_one_page(tmp_path):
    one = run(tmp_path / "1")
    assert "2 experiments" in report.write([one, run(tmp_path / "2")], tmp_path).read_text()


def test_diff_says_nothing_where_nothing_was_shown():
    few = diff.compare(cells(repeats=3), cells(repeats=3), ["rate"])
    assert all(diff.change(line).startswith("~ (n = 3") for line in few)
    same = diff.compare(cells(repeats=6), cells(repeats=6), ["rate"])
    assert all(diff.change(line).startswith("~ (p") for line in same)
    faster = diff.compare(cells(1.0, repeats=6), cells(2.0, repeats=6), ["rate"])
    assert [diff.change(line)[:2] for line in faster] == ["~ ", "+1"]


@pytest.mark.parametrize("value, text", [(0, "0"), (12345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.00012, "1.2e-04"), (None, "")])
def test_figures_have_three_digits(value, text):
    assert report.figure(value) == text


def test_deferred_work_is_drawn_until_the_drain_has_ended(tmp_path):
    made = cells()
    for one in made:
        one["samples"][0]["debt"] = [{"second": second, "mb": {"dirty pages": 10.0 * second, "change buffer": 1.0}} for second in range(4)]
    text = report.write([run(tmp_path, made)], tmp_path).read_text()
    assert "work put off" in text and "dirty pages 30.0, change buffer 1.0" in text


def test_a_gain_is_drawn_over_the_swept_parameter(tmp_path):
    gains = '[[gains]]\ntitle = "Gain by disk"\nstep = "run"\nmetric = "rate"\nover = "read_iops"\npairs = [["b", "a"]]\n'
    made = [cell(2 * number + place + 1, arm, 1, 100.0 * (1 + place * number), params={"read_iops": iops})
            for number, iops in enumerate((0, 200), 1) for place, arm in enumerate("ab")]
    text = TEXT.replace("repeats = 3", "repeats = 1\nread_iops = [0, 200]") + gains
    stored = run(tmp_path, made)
    stored.manifest["text"] = text
    page = report.write([stored], tmp_path).read_text()
    assert "Gain by disk" in page and "b / a" in page


def test_cells_that_were_not_run_are_empty(tmp_path):
    stored = run(tmp_path)
    assert report.census(stored.cells[:4], stored.manifest)["empty"] == 2
