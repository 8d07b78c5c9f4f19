"""Tampered cells on a real server: an arm that buffers its files, one that syncs less than it claims, a client that uses up
its core. Each is caught by its own gate, and the honest arm by none. Skipped where `make` has not fetched MariaDB yet."""
import stat
import sys

import pytest

from lab import BUILD, cell, experiment, plan
from lab.workload import client

TEXT = """
title = "Tampered"
question = "Is it noticed?"
[presets.smoke]
[server]
pool = "16M"
durability = 1
[gates]
quiet_cpu = false # a test may share its machine
[arms]
honest = "InnoDB"
buffered = "InnoDB --innodb-flush-method=fsync"
unequal = "InnoDB --innodb-flush-log-at-trx-commit=2"
[[steps]]
name = "work"
sql = ["CREATE TABLE t (a INT PRIMARY KEY, b CHAR(200))", "INSERT INTO t SELECT seq, REPEAT('x', 200) FROM seq_1_to_5000"]
"""
BUSY_CLIENT = """#!{python}
import json, time
while time.process_time() < 1: pass  # in CPU time: the test's own machine may be busy
meter = dict(operations=100, requests=100, latency_us={{}}, histogram_us=[], operations_by_second=[], slowest_us_by_second=[], errors={{}})
print(json.dumps(dict(elapsed_s=time.process_time(), threads=1, headline="row", meters=dict(row=meter))))
"""

pytestmark = pytest.mark.skipif(not (BUILD / "mariadb/usr/sbin/mariadbd").exists(), reason="there is no MariaDB in build/mariadb: run make")


def failed_gates(text, arm, folder):
    resolved = experiment.Resolved(experiment.parse(text, "tampered"), "smoke", 1, [arm])
    record = cell.run(plan.cells(resolved)[0], resolved, folder)
    assert "failed" not in record and "skipped" not in record, record
    return {found["gate"] for sample in record["samples"] for found in sample["gates"] if found["verdict"] == "fail"}


@pytest.mark.parametrize("arm, caught_by", [("honest", set()), ("buffered", {"direct_io"}), ("unequal", {"durability"})])
def test_a_tampered_server_is_caught(arm, caught_by, tmp_path):
    assert failed_gates(TEXT, arm, tmp_path) - {"page_cache"} == caught_by


def test_a_client_at_its_limit_is_caught(tmp_path, monkeypatch):
    program = tmp_path / "busy-client"
    program.write_text(BUSY_CLIENT.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(client, "PROGRAM", program)
    text = TEXT[:TEXT.index("sql =")] + 'client = "busy"\n'
    assert failed_gates(text, "honest", tmp_path) == {"client_cpu"}
