"""Store, claims, diff and page, on a canned run."""
import json
import re

import pytest
from rich.console import Console

from canned import TEXT, cell, cells, run
from lab import LabError, chart, claim, diff, experiment, frame as frames, preflight, report, store


def verdict(made, text=TEXT):
    return claim.judge(experiment.parse(text, "canned").claims[0], made)[0]


def test_a_claim_is_judged_by_the_interval():
    assert verdict(cells(2.0, repeats=8)).verdict == "reproduced"
    assert verdict(cells(1.1, repeats=8)).verdict == "not reproduced"
    assert verdict(cells(1.495, repeats=8)).verdict == "not decided"


@pytest.mark.parametrize("ratio, repeats, limits, told", [
    (2.0, 1, '[1.5, "-"]', "inside the claimed range, by 1 repeat;"),
    (1.2, 3, '[1.5, "-"]', "in the claimed direction, but not of the claimed size, by 3 repeats;"),
    (0.8, 5, '[1.5, "-"]', "in the other direction than claimed"),
    (1.0, 3, "[0.9, 1.1]", "inside the claimed range"),
    (2.0, 3, "[0.9, 1.1]", "outside the claimed range"),
])
def test_few_repeats_point_somewhere_and_decide_nothing(ratio, repeats, limits, told):
    found = verdict(cells(ratio, repeats=repeats), TEXT.replace('[1.5, "-"]', limits))
    assert found.verdict == "points only" and found.reason.startswith(told)


VALUE = TEXT.replace('compare = ["b", "a"]', 'compare = ["b"]').replace('ratio = [1.5, "-"]', 'value = [200, "-"]')


@pytest.mark.parametrize("ratio, repeats, told, reason", [
    (2.5, 8, "reproduced", "the interval lies in the claimed range"),
    (1.5, 8, "not reproduced", "the interval lies outside the claimed range; 8 of 8 lie outside the range"),
    (1.92, 8, "not decided", "the interval crosses the edge of the claimed range: more repeats are needed; 4 of 8 lie outside the range"),
    (2.5, 3, "points only", "inside the claimed range, by 3 repeats; a verdict needs 6"),
    (1.5, 1, "points only", "outside the claimed range, by 1 repeat; a verdict needs 6"),
])
def test_a_value_of_one_arm_is_judged_by_the_interval_of_its_median(ratio, repeats, told, reason):
    found = verdict(cells(ratio, repeats=repeats), VALUE)
    assert (found.verdict, found.reason, found.base, found.ratio) == (told, reason, "", None)
    assert found.value.n == repeats and (found.value.low is None) == (repeats < 6)


def test_a_repeat_that_breaks_a_bound_is_told_behind_the_median():
    made = cells(3.0, repeats=12)
    made[7]["samples"][0]["metrics"]["rate"] = 150.0
    found = verdict(made, VALUE)
    assert (found.verdict, found.reason) == ("reproduced", "the interval lies in the claimed range; 1 of 12 lie outside the range")


def test_a_value_is_told_in_its_unit(tmp_path):
    made = cells(gates=[{"gate": "direct_io", "verdict": "fail", "reason": "t.ibd is buffered"}])
    assert "t.ibd is buffered" in verdict(made, VALUE).reason
    stored = run(tmp_path)
    stored.manifest["text"] = VALUE
    card = report.section(stored)["claims"][0]
    assert (card["wanted"], card["verdicts"][0]["words"], card["verdicts"][0]["arm_median"]) == ("at least 200", "points to", pytest.approx(204, abs=0.1))
    page = report.write([stored], tmp_path).read_text()
    assert '<span class="big">204</span> <span class="soft">(3 repeats)</span>' in page and '<p class="soft">b; inside the claimed range' in page


GROWTH = TEXT.replace("repeats = 3", "read_iops = [0, 200]").replace('ratio = [1.5, "-"]', 'ratio = [1, "-"]\nat = { read_iops = 200 }\nthan_at = { read_iops = 0 }')


@pytest.mark.parametrize("slow, repeats, told", [(3.0, 8, "reproduced"), (1.5, 8, "not reproduced"), (3.0, 2, "points only")])
def test_a_gain_that_grows_is_a_ratio_of_two_ratios(slow, repeats, told):
    made = [{**one, "params": {"read_iops": iops}} for iops, ratio in ((0, 2.0), (200, slow)) for one in cells(ratio, repeats)]
    claims = experiment.Resolved(experiment.parse(GROWTH, "canned"), "smoke").claims()
    found = claim.judge(claims[0], made)[0]
    assert len(claims) == 1 and (found.verdict, found.ratio.ratio) == (told, pytest.approx(slow / 2))
    assert (found.arm, found.base) == ("b / a, read IOPS 200", "b / a, read IOPS 0") and found.arm_median / found.base_median == pytest.approx(slow / 2)


def test_a_gain_needs_all_four_arms():
    made = [{**one, "params": {"read_iops": 200}} for one in cells()]
    found = claim.judge(experiment.parse(GROWTH, "canned").claims[0], made)[0]
    assert (found.verdict, found.reason) == ("could not be shown", "this run has no arm 'b, read IOPS 0'")
    made += [{**one, "params": {"read_iops": 0}} for one in cells()]
    for one in made:
        if one["arm"] == "a":
            one["samples"][0]["metrics"]["rate"] = 0.0
    assert claim.judge(experiment.parse(GROWTH, "canned").claims[0], made)[0].reason == "there is no ratio: operations/s is 0 in a, read IOPS 200"


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
    for expected in ("Is b twice as fast as a?", "points to", "(3 repeats)", "data-spec", "Run it again"):
        assert expected in text
    assert 'src="http' not in text and 'href="http' not in text
    again = store.find(str(page))[0]
    assert again.manifest["text"] == TEXT and len(again.cells) == len(stored.cells)
    claims = json.loads((stored.folder / "summary.json").read_text())[0]["claims"]
    assert claims[0]["verdict"] == "points only" and claims[0]["verdicts"][0]["ratio"]["ratio"] > 1.5


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


@pytest.mark.parametrize("value, text", [(0, "0"), (12345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.00451, "0.0045"), (0.00012, "1.2e-04"), (None, "")])
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


def test_a_busy_machine_is_the_headline(tmp_path):
    made = cells()
    for one in made:
        one["samples"][0].update(others_cpu=0.63, gates=[{"gate": "quiet_cpu", "verdict": "fail", "reason": "other processes used 63 %"}])
    assert "The machine was busy: in 6 of 6 measured steps other processes used up to 63%" in report.write([run(tmp_path, made)], tmp_path).read_text()
    assert report.busy(cells()) == ""


def test_on_a_busy_machine_costs_count_and_rates_do_not(tmp_path):
    busy = [{"gate": "quiet_cpu", "verdict": "fail", "reason": "other processes used 63 %"}]
    made = cells(gates=busy)
    for one in made:
        one["samples"][0]["others_cpu"] = 0.63
    assert verdict(made).verdict == "could not be shown"
    frame = frames.samples(made)
    assert not frames.by_repeat(frame, "b", "run", "rate") and len(frames.by_repeat(frame, "b", "run", "reads_per_op")) == 3
    spoilt = frames.samples(cells(gates=[*busy, {"gate": "durability", "verdict": "fail", "reason": "level 2"}]))
    assert not frames.by_repeat(spoilt, "b", "run", "reads_per_op")
    table = report.section(run(tmp_path, made))["tables"][0]
    assert table["note"].startswith("Only costs count, rates and latencies do not, in b: other processes")


def stored_as(folder, name, **changed):
    """A canned run in a folder of that name."""
    made = run(folder)
    made.manifest.update(changed)
    made.write("manifest.json", made.manifest)
    return made.folder.rename(folder / name)


def test_a_run_is_found_by_the_exact_name_first(tmp_path):
    for name in ("2026-01-01-000000-log-smoke", "2026-01-02-000000-log-smoke", "2026-01-03-000000-redo-log-smoke", "2026-01-04-000000-log-quick"):
        stored_as(tmp_path, name)
    assert store.find("log-smoke", tmp_path)[0].folder.name == "2026-01-02-000000-log-smoke"
    assert store.find("2026-01-01", tmp_path)[0].folder.name == "2026-01-01-000000-log-smoke"
    assert store.find("redo-log", tmp_path)[0].folder.name == "2026-01-03-000000-redo-log-smoke"
    with pytest.raises(LabError, match="may be any of .*log-quick"):
        store.find("log", tmp_path)


def test_diff_tells_what_is_compared_and_refuses_what_cannot_be(tmp_path):
    told = Console(record=True, width=160)
    old, new = store.Run.read(stored_as(tmp_path, "1", started="2026-01-01")), store.Run.read(stored_as(tmp_path, "2", started="2026-01-02", values={"rows": 5}))
    diff.show(old, new, None, told)
    text = told.export_text()
    assert "2026-01-01 canned, preset smoke" in text and "rows is not given in the old run and 5 in the new one" in text
    with pytest.raises(LabError, match="the same run"):
        diff.show(old, old, None, told)
    with pytest.raises(LabError, match="'speed'; there are p99_ms, rate"):
        diff.show(old, new, ["speed"], told)
    other = store.Run.read(stored_as(tmp_path, "3", started="2026-01-03", experiment="tinned"))
    assert diff.warnings(old, other) == ["these are two experiments: canned and tinned"]


def test_the_end_of_a_run_is_told_in_a_line_a_step(tmp_path):
    assert report.in_lines(run(tmp_path)) == ["run, operations/s: a 102; b 204 (×2.02)"]
    busy = [{"gate": "quiet_cpu", "verdict": "fail", "reason": "other processes used 63 %"}]
    made = [{**one, "samples": [{**one["samples"][0], "gates": busy, "others_cpu": 0.63, "metrics": {"rate": 1.0, "server_cpu_us_per_op": 7.0}}]} for one in cells()]
    assert report.in_lines(run(tmp_path / "busy", made))[1:] == ["run, server CPU µs per operation: a 7; b 7 (×1.00)"]


def test_a_prediction_of_ones_own_is_not_reproduced_but_as_predicted():
    assert [report._words(word, "") for word in ("reproduced", "not reproduced", "not decided", "points only")] == ["as predicted", "not as predicted", "not decided", "points to"]
    assert report._words("reproduced", "4 times") == "reproduced"


def test_of_a_few_maxima_no_ratio_is_printed():
    line = {"median": 9.0, "low": None, "high": None, "n": 5, "ratio": {"ratio": 3.0, "low": None}}
    assert report._column(line, "max_ms")["ratio"] == "" and report._column(line, "p99_ms")["ratio"] == "×3.00"
    assert report._column({**line, "n": 6}, "max_ms")["ratio"] == "×3.00"


def test_what_was_run_stands_there_with_its_values(tmp_path):
    stored = run(tmp_path)
    stored.manifest["text"] = TEXT.replace("repeats = 3", "repeats = 3\nrows = 7").replace("SELECT 1", "SELECT {rows}").replace('metrics = ["rate"]', "drain = true")
    table = report.section(stored)["tables"][0]
    assert table["command"] == "SELECT 7, then the drain" and report.section(stored)["conditions"] == "rows 7"


def test_variables_that_always_differ_are_no_difference():
    made = cells(repeats=1)
    for number, one in enumerate(made):
        one["variables"].update(report_port=str(number), gtid_current_pos=str(number), z=str(number))
    assert [row["name"] for row in report.differences(made)["rows"]] == ["x", "z"]


def test_many_arms_stand_below_each_other_and_a_replay_says_so(tmp_path):
    made = [cell(number, f"arm {number}", 1, 100.0) for number in range(1, 8)]
    stored = run(tmp_path, made)
    stored.manifest.update(replay_of="2026-01-01-000000", text=TEXT.replace('a = "InnoDB"', "\n".join(f'"arm {number}" = "InnoDB"' for number in range(1, 8))))
    assert report.section(stored)["tables"][0]["across"] is False
    assert "A replay of the run of 2026-01-01-000000" in report.write([stored], tmp_path).read_text()


def page_of(stored):
    """(the whole page, what a person reads of it without scripts, tables of settings and code)."""
    page = report.write([stored], stored.folder).read_text()
    return page, re.sub(r"<(script|style|svg|code|pre)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)


def test_the_page_begins_at_a_glance_with_verdict_and_ratio(tmp_path):
    _, told = page_of(run(tmp_path, cells(2.0, repeats=8)))
    glance = " ".join(told.split("Is b twice as fast as a?")[0].split())
    assert "At a glance Canned ×2.01 as predicted b against a: operations/s in “run”. Claim: b is twice as fast. 1 claim: 1 as predicted." in glance
    few = report.section(run(tmp_path / "few"))["glance"]
    assert (few["figure"], few["words"]) == ("×2.02", "no verdict yet") and few["why"] == "inside the claimed range, by 3 repeats; a verdict needs 6"


SECOND_CLAIM = """
[[claims]]
text = "b reads nothing"
headline = true
step = "run"
metric = "reads_per_op"
compare = ["b"]
value = ["-", 1]
"""


def test_the_headline_is_the_claim_that_the_file_calls_so(tmp_path):
    stored = run(tmp_path)
    stored.manifest["text"] = TEXT + SECOND_CLAIM
    glance = report.section(stored)["glance"]
    assert (glance["claim"], glance["figure"], glance["text"]) == ("b reads nothing", "0", "b: disk reads per operation in “run”")
    stored.manifest["text"] = TEXT.split("[[claims]]")[0]
    assert report.section(stored)["glance"]["text"] == "b against a: operations/s in “run”"


def test_charts_are_in_the_page_before_a_script_runs(tmp_path):
    page, _ = page_of(run(tmp_path))
    places = re.findall(r'data-spec="[^"]*">(.{5})', page)
    assert len(places) >= 3 and set(places) == {"<svg "}
    ids = re.findall(r'\bid="([^"]+)"', page.split('<script type="application/json"')[0])
    assert len(ids) == len(set(ids)) and set(re.findall(r"url\(#([^)]+)\)", page.split("<script")[0])) <= set(ids)


def test_no_name_of_a_metric_or_parameter_is_in_the_prose(tmp_path):
    gates = [{"gate": "direct_io", "verdict": "ok", "reason": ""}, {"gate": "page_cache", "verdict": "warn", "reason": "the step cached 6 %"}]
    made = [{**one, "params": {"read_iops": 200}} for one in cells(gates=gates)]
    for one in made:
        one["samples"][0]["metrics"].update(redo_kb_per_op=1.0, query_p99_ms=2.0, server_cpu_us_per_op=0.0, flushed_bytes=3.0, drain_reads_per_op=1.0)
    stored = run(tmp_path, made)
    stored.manifest["text"] = GROWTH.replace('metric = "rate"\ncompare', 'metric = "server_cpu_us_per_op"\ncompare').replace("read_iops = [0, 200]", "read_iops = [0, 200]\nbuffer_rows = 5").replace(
        "SELECT 1", "SELECT {buffer_rows}").replace('metrics = ["rate"]', 'metrics = ["rate", "redo_kb_per_op", "query_p99_ms", "flushed_bytes"]')
    _, told = page_of(stored)
    assert not re.findall(r"[a-z]+_[a-z_]+", told), re.findall(r".{30}\b[a-z]+_[a-z_]+.{30}", told)
    assert "redo, KB per operation" in told and "query p99, ms" in told and "buffer rows 5" in told


def test_a_step_that_is_too_short_for_a_claim_says_so(tmp_path):
    made = cells()
    for one in made:
        if one["arm"] == "a":
            one["samples"][0]["metrics"].update(worst_second=0.5, stall_s=1.0)
        else:
            one["samples"][0].update(elapsed_s=2.2)
            one["samples"][0]["meters"]["row"]["operations_by_second"] = [100, 100, 5]
    text = TEXT.replace('metric = "rate"', 'metric = "worst_second"')
    short = "too short: 2.2 s, and 3 whole seconds are needed"
    assert verdict(made, text).reason == f"b: the step “run” was {short}"
    stored = run(tmp_path, made)
    stored.manifest["text"] = text.replace('metrics = ["rate"]', 'metrics = ["rate", "worst_second"]')
    table = report.section(stored)["tables"][0]
    assert {column["words"] for column in table["rows"][1]["columns"] if column and "words" in column} == {short}
    page, told = page_of(stored)
    assert f"b: the step “run” was {short}" in told and f"<small>{short}</small>" in page
    for one in made:
        one["samples"][0]["metrics"] = {"rate": 1.0}
    only = run(tmp_path / "only", [one for one in made if one["arm"] == "b"])
    only.manifest["text"] = stored.manifest["text"]
    assert f"Not told. b: {short}." in page_of(only)[1]


@pytest.mark.parametrize("name", sorted(path.stem for path in experiment.FOLDER.glob("*.toml")))
def test_the_words_of_the_experiments_hold_no_name_of_a_metric(name):
    found = experiment.load(name)
    texts = [found.title, found.question, found.source, found.notes, found.prediction, *(one for claim in found.claims for one in (claim.text, claim.published, claim.original))]
    names = {metric for metric in (*chart.UNITS, *preflight.METRICS) if "_" in metric}
    assert not [word for text in texts for word in re.findall(r"[a-z]+(?:_[a-z]+)+", text) if word in names]
