"""A tampered cell is caught by its gate; an honest one passes all."""
import pytest

from canned import facts
from lab import cell, gate


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
    ("data_over_pool", {"data_mb": 50.0}),
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


def test_a_cell_after_a_slow_disk_is_caught():
    fast = {"fdatasync_us": 200, "read_us": 70}
    found = gate.steady_disk({1: fast, 2: fast, 3: fast, 4: {"fdatasync_us": 500, "read_us": 70}, 5: {"fdatasync_us": 2000, "read_us": 70}})
    assert {number: verdict["verdict"] for number, verdict in found.items()} == {4: "warn", 5: "fail"}


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
