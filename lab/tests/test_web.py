"""k6's figures, and what happens when the web application cannot be had."""
import pytest

from canned import TEXT, cells, run
from lab import cell, experiment, gate, plan, report, tools
from lab.workload import web

K6 = """metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status
http_reqs,1000,1,,,,true,,GET,page,HTTP/1.1,default,,200
http_req_duration,1000,500,,,,true,,GET,page,HTTP/1.1,default,,200
http_req_duration,2500,1500,,,,true,,GET,page,HTTP/1.1,default,,200
http_req_duration,2600,100,,,,false,,GET,page,HTTP/1.1,default,,500
"""


def test_k6_requests_become_a_meter():
    rows = web.parse(K6)
    assert rows == [(1.0, 500.0, False), (2.5, 1500.0, False), (2.6, 100.0, True)]
    head, elapsed = web.summary(rows)
    assert (head["operations"], head["requests"], head["errors"], round(elapsed, 3)) == (2, 3, {"http": 1}, 2.1)
    assert head["operations_by_second"] == [1, 0, 1] and head["latency_us"]["max"] == 1_500_000


def test_an_application_at_its_limit_is_told():
    facts = {"app_cpu_s": 9.5, "elapsed_s": 10.0}
    assert gate.app_cpu(facts, [], gate.LIMITS)[0]["verdict"] == "warn"
    assert gate.app_cpu({**facts, "app_cpu_s": 5.0}, [], gate.LIMITS)[0]["verdict"] == "ok"
    assert gate.app_cpu({"app_cpu_s": None}, [], gate.LIMITS) == []


def test_a_program_that_cannot_be_had_is_told_in_one_line():
    with pytest.raises(tools.Missing, match="knows haproxy"):
        tools.prefix("no-such-tool")


def test_a_step_without_its_program_is_marked_in_the_report(tmp_path):
    made = cells()
    for one in made:
        if one["arm"] == "b":
            one["samples"], one["missing"] = [], {"run": "Go is missing: install Go 1.24 or newer"}
    stored = run(tmp_path, made)
    text = report.write([stored], tmp_path).read_text()
    assert "Go is missing" in text and "could not be shown" in text
    assert report.census(stored.cells, stored.manifest) == {"measured": 3, "marked": 3, "empty": 0}


@pytest.mark.parametrize("message, variable", [
    ("the server did not start: unknown variable 'sluice-change-buffering=all'", "sluice_change_buffering"),
    ("the server says: Unknown system variable 'sluice_redo_log'", "sluice_redo_log"),
    ("the server did not start: cannot open file", ""),
])
def test_a_variable_that_an_engine_lacks_is_named(message, variable):
    assert cell.unknown_variable(message) == variable


def test_a_loose_option_that_is_unknown_is_noted():
    assert cell.ignored_options(["--loose-a-b=1", "--loose-c=2", "--d"], {"c": "2"}) == ["this server has no a_b: left out"]


def test_only_some_arms_can_be_run():
    resolved = experiment.Resolved(experiment.parse(TEXT, "t"), "smoke", 1, ["b"])
    assert [one.arm.name for one in plan.cells(resolved)] == ["b"]
