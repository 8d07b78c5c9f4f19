"""What the load programs print, in the lab's common form."""
import os
from types import SimpleNamespace

import pytest

from lab import LabError, cell, probe, watch, workload
from lab.engine import Engine
from lab.experiment import Step
from lab.workload import slap, sysbench

SYSBENCH = """
[ 1s ] thds: 4 tps: 850.10 qps: 5101.20 (r/w/o: 0.00/3400.10/1701.10) lat (ms,95%): 9.06 err/s: 1.00 reconn/s: 0.00
[ 2s ] thds: 4 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): 0.00 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.000 |*****************                        90
       9.000 |**                                       9
      82.000 |                                         1
SQL statistics:
    queries performed:
        read:                            0
        total:                           3089975
    transactions:                        100    (857.76 per sec.)
    queries:                             600 (5149.91 per sec.)
    ignored errors:                      7      (1.19 per sec.)
General statistics:
    total time:                          2.0029s
Latency (ms):
         min:                                    1.39
         avg:                                    4.66
         max:                                   82.23
         95th percentile:                        9.06
"""


def test_sysbench():
    found = sysbench.parse(SYSBENCH)
    head = found["meters"]["transaction"]
    assert (head["operations"], found["queries"], found["elapsed_s"], head["errors"]) == (100, 600, 2.0029, {"ignored": 7})
    assert head["operations_by_second"] == [850.1, 0.0]
    assert (head["latency_us"]["p50"], head["latency_us"]["p99"], head["latency_us"]["max"]) == (1000, 9000, 82230)


def test_slap():
    assert slap.parse("innodb,write,0.474,0.416,0.652,50,20\n") == [0.474]
    with pytest.raises(LabError):
        slap.parse("nothing")


def test_a_program_that_fails_says_why(tmp_path):
    with pytest.raises(LabError, match="disk on fire"):
        workload.run_program(["sh", "-c", "echo 'FATAL: disk on fire' >&2; exit 3"], tmp_path / "log")


def test_the_first_line_that_complains_is_told(tmp_path):
    """sysbench names a misspelt option in one line, without the word error."""
    with pytest.raises(LabError, match="^sh failed: invalid option: --tiem=1$"):
        workload.run_program(["sh", "-c", "echo 'sysbench 1.0.20'; echo 'warming up' >&2; echo 'invalid option: --tiem=1' >&2; echo 'usage' >&2; exit 1"], tmp_path / "log")
    with pytest.raises(LabError, match="^sh failed: no luck today$"):
        workload.run_program(["sh", "-c", "echo 'no luck today' >&2; echo bye >&2; exit 1"], tmp_path / "log")


def test_every_step_has_a_seed_of_its_own_unless_it_brings_one(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(sysbench, "run_program", lambda command, log, env: asked.append([word for word in map(str, command) if "rand-seed" in word]) or ("", 1.0, 0.5))
    target = workload.Target(SimpleNamespace(port=1, socket="s"), "InnoDB", 7)
    target.step_seed = 1234
    sysbench.run("oltp_insert prepare", target, tmp_path / "log")
    sysbench.run("oltp_insert prepare --rand-seed=5", target, tmp_path / "log")
    assert asked == [["--rand-seed=1234"], ["--rand-seed=5"]]


def test_a_failure_is_told_without_the_statement(tmp_path):
    with pytest.raises(LabError) as error:
        workload.run_program(["sh", "-c", "echo \"FATAL: returned error 1296 (no such table) for query 'INSERT INTO t VALUES (1)'\"; exit 1"], tmp_path / "log")
    assert str(error.value) == "sh failed: FATAL: returned error 1296 (no such table)"


def test_a_clients_cpu_is_its_own(tmp_path):
    _, elapsed, cpu_s = workload.run_program(["python3", "-c", "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"], tmp_path / "log")
    assert 0.28 < cpu_s <= elapsed + 0.1


def test_stalls_are_seconds_with_next_to_nothing():
    assert cell.stalls([3, 100, 100, 2, 0, 100, 100, 1]) == 2
    assert cell.stalls([3, 100, 100, 100, 1]) == 0 and cell.stalls([100, 0]) is None


def test_the_worst_second_is_a_whole_one():
    assert cell.worst_second([3, 100, 80, 20, 120, 1]) == pytest.approx(20 / 90)
    assert cell.worst_second([3, 100, 0, 100, 1]) == 0
    assert cell.worst_second([3, 100, 20, 1]) is None and cell.worst_second([]) is None
    assert cell.worst_second([0, 0, 0, 0, 0, 5000]) is None  # one statement that took seconds


def measured(drained=None, debt=()):
    """The metrics of a step that inserted 1,024 rows in 5 s."""
    head = workload.meter(1024, by_second=[200, 200, 100, 300, 200, 24])
    result = {"headline": "insert", "elapsed_s": 5.0, "client_cpu_s": 1.0, "meters": {"insert": head}}
    costs = SimpleNamespace(reads=10, read_bytes=0, write_bytes=2 << 20, cpu_us=1e6)
    facts = {"operations": 1024, "errors": 0, "data_mb": 1.0, "tables_mb": 1.0, "cached_mb": 0.0}
    return cell.metrics(facts, result, costs, drained, SimpleNamespace(counters={}), {}, debt)


def test_what_the_drain_writes_is_charged():
    drained = {"seconds": 1.0, "reads": 0, "read_bytes": 0, "write_bytes": 6 << 20, "cpu_us": 0}
    found = measured(drained)
    assert (found["write_kb_per_op"], found["drain_write_kb_per_op"], found["write_kb_drained_per_op"]) == (2, 6, 8)
    assert "write_kb_drained_per_op" not in measured()
    assert measured()["worst_second"] == 0.5


class Gauges:
    """A connection to a server that puts off more and more, and lacks one of the gauges."""

    def __init__(self):
        self.mb = iter([1.0, 12.5, 7.0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def cursor(self):
        return self

    def execute(self, query):
        if query == "lacking":
            raise watch.pymysql.Error()
        self.number = {"buffer": lambda: next(self.mb), "bound": lambda: 10, "no bound": lambda: 0, "undo": lambda: 500.0004}[query]()

    def fetchone(self):
        return (self.number,)


def curve(monkeypatch, engine):
    """Three looks at such a server."""
    gauges = Gauges()
    monkeypatch.setattr(watch.pymysql, "connect", lambda **_: gauges)
    watched = watch.Watch(SimpleNamespace(node=SimpleNamespace(socket="s")), engine, True)
    for _ in range(3):
        watched.look()
    return watched.debt


def test_the_peak_of_a_debt_is_a_share_of_the_engines_own_bound(monkeypatch):
    debts = {"buffer": "buffer", "undo": "undo", "other": "lacking"}
    debt = curve(monkeypatch, Engine(name="X", debt=debts, debt_bounds={"buffer": "bound", "undo": "no bound", "other": "bound"}))
    assert [point["mb"] for point in debt] == [{"buffer": mb, "undo": 500.0} for mb in (1.0, 12.5, 7.0)]
    assert [point["of_bound"] for point in debt] == [{"buffer": 0.1}, {"buffer": 1.25}, {"buffer": 0.7}]
    assert measured(debt=debt)["debt_peak_share"] == 1.25
    assert "debt_peak_share" not in measured() and "debt_peak_share" not in measured(debt=curve(monkeypatch, Engine(name="X", debt=debts)))


def test_a_bound_is_one_of_a_debt():
    with pytest.raises(ValueError, match="'buffer', which \\[debt\\] has not"):
        Engine(name="X", debt={"undo": "undo"}, debt_bounds={"buffer": "bound"})


def test_options_are_found_however_they_are_written():
    assert workload.option(["--table_size=5", "--threads", "3"], "table-size", 1) == "5"
    assert workload.option(["--table_size=5", "--threads", "3"], "threads", 1) == "3"


def test_a_buffered_file_is_seen(tmp_path):
    (tmp_path / "t.ibd").write_bytes(b"x" * 8192)
    plain = os.open(tmp_path / "t.ibd", os.O_RDWR)
    assert probe.buffered_files(os.getpid(), tmp_path, ["*.ibd"]) == ["t.ibd"]
    os.close(plain)
    assert probe.cached_bytes(tmp_path / "t.ibd", 8192) in (0, 4096, 8192)
    try:
        direct = os.open(tmp_path / "t.ibd", os.O_RDWR | os.O_DIRECT)
    except OSError:
        pytest.skip("this file system has no direct I/O")
    assert probe.buffered_files(os.getpid(), tmp_path, ["*.ibd"]) == []
    os.close(direct)


def test_a_step_has_one_workload():
    with pytest.raises(ValueError, match="exactly one"):
        Step(name="x", sql=["SELECT 1"], client="keys")
