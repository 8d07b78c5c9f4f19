#!/usr/bin/env python3
"""What kill -9 leaves of write sets that are made durable after their turn (G9, G10 in docs/decisions/2026-11-29-galera-durability.md).

    scripts/galera_durability.py              about 20 seconds

A cluster of three nodes, and one client of the first node. Each row is a write set of its own, so its number in the cluster's order is known.
When all nodes make write sets durable after their turn, each gets kill -9 a moment after a commit:

- the second node, when it has applied a row of Sluice;
- the third one, when it has applied a row of Sluice and then one of InnoDB;
- the first one at the same time: the client has been answered.

Then their files are examined without the cluster. `mariadbd --wsrep-recover` says up to which number a node has everything. The rows must be
those up to this number, or the number is unknown, and the node would get a full transfer. The client's node must have every row that it
acknowledged. Exit code 1 if not; the nodes' folders are then kept. `make plugin-mutants` shows that it finds planted bugs.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import connection  # noqa: E402
from galera import Broken, Cluster  # noqa: E402
from server import ServerError, SqlError  # noqa: E402

# A node looks once a second whether it can make write sets durable after their turn, and then stores that.
SECONDS_TO_TURN = 2.2
# The log is synced once a second if nobody waits for it. What is decisive is written soon after that, and the kill comes before the next sync.
SECONDS_AFTER_SYNC_MAX = 0.5
SECONDS_TO_APPLY_MAX = 60
LONE = ("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=32M", "--sluice-buffer-pool-size=64M")


def together(steps):
    """Runs the functions in threads; raises what one of them raised."""
    failures = []

    def run(step):
        try:
            step()
        except Exception as error:  # raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def status(link, name):
    with link.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
        return int(cursor.fetchone()[1])


def last_write_set(link):
    return status(link, "wsrep_last_committed")


class Client:
    """One row in each transaction."""

    def __init__(self, node):
        self.link, self.numbers = connection.connect(node, "d", autocommit=True), {}

    def write(self, table):
        """Returns the number of the write set."""
        row = (table, len(self.numbers) + 1)
        with self.link.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES ({row[1]})")
        self.numbers[row] = last_write_set(self.link)
        return self.numbers[row]

    def write_until_after_turn(self, appliers):
        """Until the nodes have made write sets durable after their turn for a while, and the appliers have just synced their logs."""
        # This one may wait until the group has dropped a killed node. A node that wrote nothing meanwhile begins anew.
        self.write("s")
        began, syncs, synced = time.monotonic(), {}, {}
        while True:
            self.write("s")
            for link in appliers:
                count, now = status(link, "Sluice_redo_log_fsyncs"), time.monotonic()
                if count != syncs.get(link):
                    syncs[link], synced[link] = count, now
            now = time.monotonic()
            if now - began > SECONDS_TO_TURN and all(now - at < SECONDS_AFTER_SYNC_MAX for at in synced.values()):
                return
            time.sleep(0.01)


def wait_applied(link, number):
    deadline = time.monotonic() + SECONDS_TO_APPLY_MAX
    while last_write_set(link) < number:
        if time.monotonic() > deadline:
            raise Broken(f"write set {number} is not applied after {SECONDS_TO_APPLY_MAX} s")
    # InnoDB syncs its log after the turn.
    time.sleep(0.02)


def start(cluster):
    together([node.install for node in cluster.nodes])
    cluster.nodes[0].go(bootstrap=True)
    together([lambda node=node: cluster.join(node) for node in cluster.nodes[1:]])


class Remains:
    """What the files of a killed node have."""

    def __init__(self, node):
        position = node.recovered_position()
        # -1: unknown.
        self.name, self.position = node.name, int(position.rpartition(":")[2])
        node.options = list(LONE)
        node.start()
        self.rows = {(table, int(row[0])) for table in ("s", "i") for row in node.sql(f"SELECT id FROM d.{table}")}
        node.stop()

    def judge(self, numbers, answered):
        """What is wrong. `answered`: this node has acknowledged all rows."""
        known = self.position >= 0
        said = f"{self.name}: its files are complete up to write set {self.position}" if known else f"{self.name}: its position is unknown"
        print(f"  {said}; it has {len(self.rows)} of {len(numbers)} rows, the last one is of write set {max(numbers[row] for row in self.rows)}", flush=True)
        wrong = []
        below = {row for row, number in numbers.items() if number <= self.position}
        if known and below - self.rows:
            wrong.append(f"{said}, and rows of write sets below are missing: {sorted(numbers[row] for row in below - self.rows)[:5]}")
        if known and self.rows - below:
            wrong.append(f"{said}, and has rows of later write sets: {sorted(numbers[row] for row in self.rows - below)[:5]}")
        if answered and len(self.rows) < len(numbers):
            wrong.append(f"{self.name}: acknowledged rows are lost: {sorted(set(numbers) - self.rows)[:5]}")
        return wrong


def kill(*nodes):
    """At the same moment."""
    for pid in [node.pid() for node in nodes]:
        os.kill(pid, signal.SIGKILL)
    for node in nodes:
        node.kill9()


def run(cluster):
    """What is wrong."""
    began = time.monotonic()
    start(cluster)
    first, second, third = cluster.nodes
    first.sql("CREATE DATABASE d; USE d; CREATE TABLE s (id INT PRIMARY KEY); CREATE TABLE i (id INT PRIMARY KEY) ENGINE=InnoDB")
    client, to_second, to_third = Client(first), connection.connect(second), connection.connect(third)
    print(f"{time.monotonic() - began:6.1f} s  three nodes", flush=True)
    client.write_until_after_turn([to_second, to_third])
    wait_applied(to_second, client.write("s"))
    kill(second)
    before, remains = dict(client.numbers), {}

    def examine(node):
        remains[node] = Remains(node)

    def go_on():
        # The group waits some seconds for the killed node.
        client.write_until_after_turn([to_third])
        client.write("s")
        wait_applied(to_third, client.write("i"))
        kill(first, third)

    together([lambda: examine(second), go_on])
    together([lambda node=node: examine(node) for node in (first, third)])
    wrong = remains[second].judge(before, False) + remains[third].judge(client.numbers, False) + remains[first].judge(client.numbers, True)
    if remains[second].position < 0:
        wrong.append(f"{second.name}: a cluster that has changed no table of InnoDB has left no position")
    print(f"{time.monotonic() - began:6.1f} s  {len(client.numbers)} rows, three nodes killed", flush=True)
    return wrong


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-galera-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, "Sluice")
    try:
        wrong = run(cluster)
    except (Broken, ServerError, SqlError) as error:
        wrong = [str(error)]
    finally:
        for node in cluster.nodes:
            node.kill9()
    for line in wrong:
        print(f"WRONG: {line}", flush=True)
    if wrong:
        sys.exit(f"the nodes' folders stay: {folder}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
