"""TPC-H: the lines of its steps, its queries and its plans; and all 22 queries on both engines, at
the smallest scale factor, which must answer the same. Servers are started only where `make` has
made MariaDB and the plugin."""
import decimal
import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lab import BUILD, ROOT, LabError, cell, experiment, gate, plan, preflight, workload
from lab.workload import tpch

_spec = importlib.util.spec_from_file_location("bench_tpch", ROOT / "scripts/bench/tpch.py")
bench = importlib.util.module_from_spec(_spec)
sys.modules["bench_tpch"] = bench  # its dataclasses look their module up
_spec.loader.exec_module(bench)
plans = bench.plans

has_server = pytest.mark.skipif(not (BUILD / "mariadb/usr/sbin/mariadbd").exists() or not (BUILD / "ha_sluice.so").exists(),
                                reason="there is no MariaDB or no plugin in build: run make")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """make tpch, at its smallest: (exit code, output, samples)."""
    folder = tmp_path_factory.mktemp("tpch")
    samples = folder / "samples.json"
    done = subprocess.run([sys.executable, ROOT / "scripts/bench/tpch.py", "--scale", "0.01", "--repeats", "1", "--seconds", "120", "--pool", "128M", "--redo", "64M", "--folder",
                           folder / "server", "--json", samples], capture_output=True, text=True)
    assert samples.exists(), done.stdout + done.stderr
    return done.returncode, done.stdout, json.loads(samples.read_text())


@has_server
def test_both_engines_answer_all_queries_alike(measured):
    code, told, samples = measured
    results, = samples["results"].values()
    assert [result["query"] for result in results] == list(range(1, 23))
    assert {result["query"]: result["results"] for result in results if result["results"] != "equal"} == {} and code == 0, told


@has_server
def test_a_table_is_told(measured):
    _, told, samples = measured
    mean, = samples["geometric_mean"].values()
    assert "| query |" in told and f"geometric mean of the ratios: {mean:.3f}" in told


def test_a_line_names_what_is_wrong_with_it():
    assert tpch.parse("load --scale 0.3 --analyze") == ("load", 0, "0.3") and tpch.parse("query 22 --scale=1") == ("query", 22, "1")
    for line, told in (("query 23", "a number from 1 to 22, not '23'"), ("query", "not ''"), ("restore", "'load' or 'query NUMBER', not 'restore'"), ("load --scale x", "tpch: 'x' is no scale factor"),
                       ("load --scale 0", "tpch: '0' is no scale factor")):
        with pytest.raises(LabError, match=told):
            tpch.parse(line)


@pytest.mark.parametrize("scale", ["0.001", "0.005", "0.015", "-1", "nan", "inf"])
def test_a_scale_with_a_supplier_twice_and_no_scale_are_refused(scale):
    with pytest.raises(tpch.tpch_data.DataError):
        tpch.tpch_data.check_scale(scale)


@pytest.mark.parametrize("scale", ["0.01", "0.02", "0.03", "0.1", "0.3", "1", "10"])
def test_usual_scales_are_taken(scale):
    tpch.tpch_data.check_scale(scale)


def test_a_mistake_is_found_before_the_first_cell():
    text = 'title = "t"\nquestion = "q"\n[presets.smoke]\n[arms]\na = "InnoDB"\n[[steps]]\nname = "x"\ntpch = "query 23"\n'
    with pytest.raises(LabError, match="step 'x': tpch query needs a number from 1 to 22"):
        preflight.check(experiment.Resolved(experiment.parse(text, "t"), "smoke"))


def test_every_query_is_one_statement_with_no_value_open():
    for number in tpch.tpch_data.QUERIES:
        text = tpch.tpch_data.query(number, "0.3")
        assert ";" not in text and "{" not in text and ("SELECT" in text.splitlines()[1] or "WITH" in text.splitlines()[1]), number


def test_the_share_of_query_11_goes_with_the_scale():
    assert "* 0.0001\n" in tpch.tpch_data.query(11, "1") and "* 0.01\n" in tpch.tpch_data.query(11, "0.01")


def test_every_table_has_a_statement_and_the_engine():
    made = tpch.tpch_data.table_statements("Sluice")
    assert [statement.split()[2] for statement in made] == ["region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem"]
    assert all(statement.endswith(") ENGINE=Sluice") for statement in made)


def test_rows_are_compared_whatever_their_order_and_to_the_last_digit():
    digest = tpch.digest
    one, two = (decimal.Decimal("1.10"), "a"), (None, "b")
    assert digest([one, two]) == digest([two, one])
    assert digest([one]) != digest([(decimal.Decimal("1.1"), "a")]) and digest([one]) != digest([one, one])


class Cursor:
    """Answers a query with the next of these; an exception is raised."""

    def __init__(self, *answers):
        self.answers = iter(answers)

    def execute(self, text):
        self.found = next(self.answers)
        if isinstance(self.found, Exception):
            raise self.found

    def fetchall(self):
        return self.found


def test_a_query_that_is_stopped_counts_as_an_error():
    found = tpch._query(Cursor([(1,)], Exception(1969, "Query execution was interrupted"), [(1,)]), 6, "0.01", 3, 60.0)
    head = found["meters"]["query"]
    assert (head["operations"], head["requests"], head["errors"]) == (2, 3, {"1969": 1}) and found["answer"] == [["query 6", tpch.digest([(1,)])]]


def test_answers_that_change_from_run_to_run_are_refused():
    with pytest.raises(LabError, match="query 6 has given 2 different answers in 2 runs"):
        tpch._query(Cursor([(1,)], [(2,)]), 6, "0.01", 2, 0.0)


def test_a_query_is_warmed_up_before_costs_are_counted(monkeypatch):
    asked = []
    monkeypatch.setattr(tpch, "_asked", lambda target, what: asked.append(what))
    for line in ("query 6 --scale 0.01", "query 6 --scale 0.01 --warm"):
        with workload.ready(SimpleNamespace(workload="tpch", tpch=line), None, None) as helper:
            assert helper == (None,)
    assert len(asked) == 1


def explained(database, **changed):
    row = {"id": 1, "select_type": "SIMPLE", "table": "orders", "type": "ref", "key": "o_customer", "key_len": "4", "ref": f"{database}.customer.c_custkey", "rows": 10, "Extra": "Using where; Using index"}
    return plans.Plan([{**row, **changed}])


@pytest.mark.parametrize("changed, told", [({}, "same"), ({"rows": 5}, "same"), ({"Extra": "Using index; Using where"}, "same"), ({"Extra": "Using where"}, "extra"), ({"key": "PRIMARY"}, "other"),
                                           ({"type": "ALL"}, "other"), ({"table": "lineitem"}, "other")])
def test_plans_are_compared_by_what_is_read_and_not_by_estimates(changed, told):
    assert plans.compare(explained("ours"), "ours", explained("theirs", **changed), "theirs") == told


def judged(gate, *results):
    return list(bench.verdicts({"after ANALYZE TABLE": list(results)}, SimpleNamespace(gate=gate, seconds=60.0)))


def result(query, ours=(), theirs=(), results="equal", late=()):
    return bench.Result(query, "same", results, {"Sluice": list(ours), "InnoDB": list(theirs)}, {"Sluice": list(ours), "InnoDB": list(theirs)}, late=list(late))


def test_the_ratio_is_of_pairs():
    one = result(3, [10, 40, 30], [20, 40, 10])
    assert one.ratio() == 1.0 and one.row() == [3, "30.0", "20.0", "1.00", "0.50 to 3.00", "1.00", "same", "equal"]
    assert result(3).ratio() is None and result(3, theirs=[9], late=["Sluice"]).row()[1:4] == ["stopped", "9.0", "-"]


class Stopped(bench.Tpch):
    """Two engines of which one is stopped at its run number `at`."""

    def __init__(self, at):
        self.at, self.runs = at, 0
        self.arguments = SimpleNamespace(scale="1", repeats=3)

    def plan(self, engine, query):
        return explained(bench.database(engine))

    def run(self, engine, query):
        self.runs += 1
        return None if self.runs == self.at else bench.Answer(5.0, 4.0, ((1,),))


def test_a_query_that_is_stopped_has_no_ratio():
    whole, first, later = (Stopped(at).measure(6) for at in (0, 1, 4))
    assert whole.ratio() == 1.0 and whole.late == [] and len(whole.ratios()) == 3
    assert first.late == ["Sluice"] and first.row()[1:4] == ["stopped", "5.0", "-"] and first.results == "not compared"
    assert later.late == ["InnoDB"] and later.row()[1:4] == ["5.0", "stopped", "-"]


def test_results_that_differ_fail_with_and_without_the_gate():
    for gate in (False, True):
        assert judged(gate, result(4, [1.0], [2.0], "DIFFERENT")) == ["query 4, after ANALYZE TABLE: the engines' results differ"]


def test_the_gate_holds_each_query_and_the_mean():
    assert judged(True, result(1, [10.9], [10]), result(2, [2], [10])) == []
    assert judged(True, result(1, [11.1], [10]), result(2, [2], [10])) == ["query 1, after ANALYZE TABLE: 1.11 times InnoDB's time (at most 1.1)"]
    assert judged(True, result(1, [7], [10])) == ["after ANALYZE TABLE: a geometric mean of 0.700 times InnoDB's time (at most 0.6)"]
    assert judged(False, result(1, [30], [10])) == []


def test_the_gate_fails_where_our_engine_alone_was_stopped():
    assert judged(True, result(1, theirs=[10], late=["Sluice"])) == ["query 1, after ANALYZE TABLE: stopped on Sluice after 60 s (--seconds)"]
    assert judged(True, result(1, [10], late=["InnoDB"])) == []


@has_server
def test_an_arm_that_answers_otherwise_is_caught(tmp_path):
    """A server that rounds divisions earlier gives other digits in query 1, which has an average.
    Query 6 has none, and the same digits."""
    text = """
title = "Tampered"
question = "Is it noticed?"
[presets.smoke]
[server]
pool = "64M"
[arms]
honest = "Sluice"
other = "InnoDB --div-precision-increment=0"
[[steps]]
name = "load"
tpch = "load --scale 0.01"
[[steps]]
name = "query {query}"
foreach = { query = [1, 6] }
tpch = "query {query} --scale 0.01"
"""
    resolved = experiment.Resolved(experiment.parse(text, "tampered"), "smoke")
    records = [cell.run(one, resolved, tmp_path) for one in plan.cells(resolved)]
    assert [record.get("failed") or record.get("skipped") for record in records] == [None, None]
    one, other = (dict(record["answer"]) for record in records)
    same = {name for name in one if one[name] == other[name]}
    assert same == {*tpch.tpch_data.TABLES, "query 6"} and one.keys() - same == other.keys() - same == {"query 1"}
    verdicts = gate.same_data({number: ("all", repr(record["answer"])) for number, record in enumerate(records)})
    assert {verdict["verdict"] for verdict in verdicts.values()} == {"fail"}
