"""The published metric names, on a sample whose figures can be added up by hand."""
import pytest

from canned import cell
from lab import experiment, ibench


def sample(step, headline, operations, seconds, meters, gates=()):
    metrics = {"reads_per_op": 2.0, "read_kb_per_op": 32.0, "write_kb_per_op": 8.0, "server_cpu_us_per_op": 100.0, "client_cpu_us_per_op": 20.0, "data_mb": 1024.0, "max_ms": 250.0, "rate": operations / seconds}
    return {"step": step, "headline": headline, "elapsed_s": seconds, "operations": operations, "metrics": metrics, "gates": list(gates), "meters": meters}


def meter(operations, by_second=()):
    return {"operations": operations, "operations_by_second": list(by_second)}


def test_a_load_step():
    line = ibench.line(sample("l.i1", "insert", 10000, 10.0, {"insert": meter(10000, [1, 1000, 900, 1100, 1])}), cores=2)
    assert (line["ips"], line["qps"], line["rps"], line["rkbps"], line["rpq"], line["wkbpi"], line["cpupq"]) == (1000, None, 2000, 32000, 2, 8, 120)
    assert (line["cpups"], line["dbgb"], line["maxop"], line["p50"], line["p99"]) == (pytest.approx(6.0), 1, 0.25, 1000, 900)


def test_in_a_query_step_writes_are_counted_by_inserted_row():
    line = ibench.line(sample("q100", "query", 10000, 10.0, {"query": meter(10000), "insert": meter(1000)}), cores=2)
    assert (line["ips"], line["qps"], line["wkbpi"]) == (100, 1000, 80)


def test_a_sample_that_failed_a_gate_is_left_out():
    assert ibench.line(sample("l.i1", "insert", 1, 1.0, {"insert": meter(1)}, [{"gate": "x", "verdict": "fail", "reason": ""}]), cores=2) is None


def test_tables_stand_against_the_first_arm_and_the_target():
    resolved = experiment.Resolved(experiment.load("insert-benchmark"), "smoke")
    assert ibench.is_one(resolved)
    made = []
    for number, (arm, rate) in enumerate((("InnoDB off", 1000), ("InnoDB on", 3000)), 1):
        one = cell(number, arm, 1, rate)
        one["samples"] = [sample("l.i1", "insert", rate * 10, 10.0, {"insert": meter(rate * 10)}),
                          sample("q100", "query", 500, 10.0, {"query": meter(500), "insert": meter(900)})]
        made.append(one)
    tables = ibench.tables(made, resolved, 2)
    assert tables["steps"] == ["l.i1", "q100"] and tables["relative"][1]["values"] == [3.0, 1.0]
    assert tables["targets"] == ["q100"] and tables["background"][0]["values"] == [0.9]


def test_another_disk_is_a_sum_of_cpu_and_reads():
    one = cell(1, "InnoDB off", 1, 1000)
    one["probe"] = {"read_us": 50.0, "fdatasync_us": 200.0}
    one["samples"] = [sample("l.i1", "insert", 10000, 2.2, {"insert": meter(10000)})]
    found = ibench.on_another_disk([one])[0]
    assert (found["cpu_us"], found["reads"], found["read_us"]) == (120.0, 2.0, 50.0)
    assert found["error"] == pytest.approx(0.0, abs=0.001)
