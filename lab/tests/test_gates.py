"""A tampered cell is caught by its gate; an honest one passes all."""
import time

import pytest

from canned import facts
from lab import cell, gate, probe


def failing(expect=(), settings=None, **changed):
    return {found["gate"] for found in gate.judge(facts(**changed), list(expect), settings or {}) if found["verdict"] == "fail"}


def test_an_honest_cell_passes():
    assert failing(["data > 3 pool", "misses"]) == set()


@pytest.mark.parametrize("caught_by, tampered", [
    ("direct_io", {"buffered_files": ["lab/t.ibd"]}),
    ("page_cache", {"cached_mb": 300.0}),
    ("client_cpu", {"client_cpu_s": 10.0}),
    ("durability", {"durability_told": "2"}),
    ("durability", {"syncs": 3}),
    ("data_over_pool", {"tables_mb": 50.0}),
    ("quiet_cpu", {"others_cpu": 0.5}),
    ("misses", {"reads": 0}),
    ("errors", {"errors": 900}),
    ("nothing_lost", {"crash": {"lost": 3, "torn": 0, "check": "OK", "acknowledged": 100}}),
    ("nothing_lost", {"crash": {"lost": 0, "torn": 4, "check": "OK", "acknowledged": 100}}),
    ("nothing_lost", {"crash": {"lost": 0, "torn": 0, "check": "Corrupt", "acknowledged": 100}}),
    ("drained", {"drain": {"done": False, "left_after": {"history": 9.0}}}),
])
def test_a_tampered_cell_is_caught(caught_by, tampered):
    assert failing(["data > 3 pool", "misses"], **tampered) == {caught_by}


def test_a_gate_can_be_switched_off_and_a_limit_moved():
    assert failing(settings={"direct_io": False}, buffered_files=["lab/t.ibd"]) == set()
    assert failing(settings={"client_cpu_max": 1.0}, client_cpu_s=9.0) == set()


def test_many_client_threads_can_use_many_cores():
    assert failing(threads=8, client_cpu_s=15.0) == set()
    assert failing(threads=8, client_cpu_s=17.0) == {"client_cpu"}


def test_data_that_differ_between_arms_are_caught():
    found = gate.same_data({1: ("g", "42"), 2: ("g", "42"), 3: ("g", "41"), 4: ("other", "7")})
    assert {number: verdict["verdict"] for number, verdict in found.items()} == {1: "ok", 2: "ok", 3: "fail", 4: "ok"}


def test_of_two_that_differ_neither_counts():
    found = gate.same_data({1: ("g", "42"), 2: ("g", "41")})
    assert [verdict["verdict"] for verdict in found.values()] == ["fail", "fail"]


FAST, SLOW, SLOWER = ({"fdatasync_us": micros, "read_us": 70} for micros in (200, 500, 2000))


def steadiness(probes, blocks=None):
    found = gate.steady_disk(dict(enumerate(probes, 1)), dict(enumerate(blocks or [1] * len(probes), 1)))
    return {number: verdict["verdict"] for number, verdict in found.items()}


def test_a_cell_after_a_slow_disk_is_caught():
    assert steadiness([FAST, FAST, FAST, SLOW, SLOWER]) == {4: "warn", 5: "fail"}


def test_a_cell_after_a_fast_disk_is_caught_too():
    """The disk was slow throughout but for one cell: that one would have won every comparison."""
    assert steadiness([SLOWER, SLOWER, FAST, SLOWER]) == {3: "fail"}
    assert steadiness([SLOW, SLOW, FAST]) == {3: "warn"}


def test_of_two_disks_in_a_block_neither_is_the_right_one():
    assert steadiness([FAST, SLOW]) == {1: "warn", 2: "warn"}
    assert steadiness([FAST, SLOWER]) == {1: "fail", 2: "fail"}


def test_cells_are_compared_within_their_block():
    """A drift between blocks as large as this meets all arms alike; inside a block it does not."""
    drift = [{"fdatasync_us": micros, "read_us": 70} for micros in (200, 200, 390, 390)]
    assert steadiness(drift, [1, 1, 2, 2]) == {}
    spread = [{"fdatasync_us": micros, "read_us": 70} for micros in (290, 290, 200, 420)]
    assert set(steadiness(spread, [1, 1, 2, 2]).values()) == {"warn"}


def test_a_busy_machine_is_told_from_a_busy_cell(monkeypatch):
    """Two seconds on two cores; the cell used 1.5 of the 3 s of CPU, so that others had 1.5 of 4."""
    monkeypatch.setattr(probe.os, "cpu_count", lambda: 2)
    people, clock = iter([10.0, 13.0]), iter([100.0, 102.0])
    monkeypatch.setattr(probe, "people_cpu_s", lambda: next(people))
    monkeypatch.setattr(probe.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(probe.time, "process_time", lambda: 0.0)
    assert probe.Neighbours().share(own_cpu_s=1.5) == pytest.approx(0.375)


def test_the_machines_cpu_is_read():
    before, end = probe.people_cpu_s(), time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert probe.people_cpu_s() - before > 0.1


def test_no_gate_passes_on_nothing():
    nothing = {"data_mb": 0.0, "tables_mb": 0.0, "cached_mb": 0.0}
    found = {one["gate"]: one["verdict"] for one in gate.judge(facts(**nothing), ["data < 1 pool"], {})}
    assert [found[name] for name in ("direct_io", "page_cache", "data_over_pool")] == ["warn"] * 3
    assert failing(["data > 3 pool"], **nothing) == {"data_over_pool"}


def test_undo_and_system_tablespace_are_no_data():
    """A table of 5 MB whose updates had filled 100 MB of undo passed for more than three pools of 24 MB."""
    assert failing(["data > 3 pool"], data_mb=105.0, tables_mb=5.0, pool_mb=24) == {"data_over_pool"}


def test_misses_are_asked_of_the_arms_that_must_have_them():
    assert failing(["misses in a"], reads=0) == {"misses"}
    assert failing(["misses in b"], reads=0) == set()


def test_what_is_buffered_on_purpose_is_a_warning():
    assert failing(direct_io_wanted=False, buffered_files=["lab/t.ibd"], cached_mb=600.0) == set()


def test_what_level_0_loses_is_told_and_not_held_against_it():
    crash = {"lost": 3, "torn": 0, "check": "OK", "acknowledged": 100}
    assert failing(crash=crash, durability="0", durability_told="0") == set()


def test_a_burst_that_has_ended_is_not_held_against_a_cell(tmp_path, monkeypatch):
    usual, slow = {"fdatasync_us": 200.0, "read_us": 70.0}, {"fdatasync_us": 9000.0, "read_us": 70.0}
    for after, kept in ((usual, 200.0), (slow, 9000.0)):
        monkeypatch.setattr(cell.probe, "disk_probe", lambda place, after=after: after)
        record = {"probe": dict(slow)}
        cell._probe_again(record, tmp_path, usual)
        assert record["probe"]["fdatasync_us"] == kept
