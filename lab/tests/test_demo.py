"""What `make demo` says, from figures that no server has made; and that its insert benchmark has the lab's settings."""
import sys
import tomllib

import pytest

from lab import LAB, ROOT

sys.path[:0] = [str(ROOT / "scripts" / place) for place in ("demo", "bench", "kill", "")]
demo = pytest.importorskip("demo", reason="PyMySQL comes with the private MariaDB")
import insert_benchmark as inserts  # noqa: E402
from cells import Usage  # noqa: E402


def results(ours, with_buffer, without):
    return [inserts.Result(name, rate, 1.0, 50.0) for name, rate in ((inserts.WITHOUT.name, without), (inserts.WITH.name, with_buffer), ("Sluice", ours)) if rate]


def test_the_insert_benchmark_ends_with_one_sentence():
    assert inserts.verdict("Sluice", results(60000, 15000, 5000), 7.24) == (
        "Sluice inserts 4.0 times as fast as InnoDB with its change buffer and 12 times as fast as InnoDB without a change buffer, "
        "into tables 7.2 times the buffer pool.")
    assert inserts.verdict("Sluice", results(4000, None, 5000), 12.0) == (
        "Sluice inserts 0.8 times as fast as InnoDB without a change buffer, into tables 12 times the buffer pool.")


def test_rates_and_reads_are_those_between_two_moments():
    first, last = (10.0, 1000, Usage(1.0, 16384, 0)), (20.0, 51000, Usage(3.0, 16384 * 100001, 0))
    found = inserts.result("Sluice", first, last, 3.0)
    assert (found.rows_per_second, found.reads_per_row, found.cpu_us_per_row) == (5000, 2.0, pytest.approx(40.0))
    with pytest.raises(inserts.InsertError, match="Sluice: not one row in 10 s"):
        inserts.result("Sluice", first, (20.0, 1000, Usage(3.0, 0, 0)), 0)


def test_sysbench_names_what_is_slower_the_slowest_first():
    assert demo.sysbench_verdict("Sluice", {"a": 0.9, "b": 0.5, "c": 1.02, "d": 1.2, "e": 1.4}) == (
        "Sluice has 1.02 times InnoDB's rate in the median of 5 workloads that fit in memory: faster in 2, within 5% in 1, slower in 2: b (0.50); a (0.90).")


@pytest.mark.parametrize("engine", ["InnoDB", "Sluice"])
def test_the_settings_are_the_labs(engine):
    wanted = tomllib.loads((LAB / "engines" / f"{engine.lower()}.toml").read_text())["options"]
    made = inserts.InsertBenchmark(engine, 1, "32M", 2).server("x", engine, "32M").options
    assert set(wanted) <= set(made) and f"--{'loose-' if engine == 'Sluice' else ''}{engine.lower()}-flush-log-at-trx-commit=1" in made



def test_a_verdict_hangs_behind_its_name(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = demo.wrapped("kill -9    ", "All 12 acknowledged transactions are there after a restart.").splitlines()
    assert lines[0].startswith("kill -9    All 12") and lines[1].startswith(" " * 11 + "t") and max(map(len, lines)) <= 40
