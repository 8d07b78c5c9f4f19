#!/usr/bin/env python3
"""How long a node of a Galera cluster is away after kill -9, with tables of Sluice and of InnoDB, by turns.

    scripts/galera_rejoin.py                     6 rounds of each engine and transfer: about 15 minutes
    scripts/galera_rejoin.py --rounds 1 --transfer incremental

Two clusters of three nodes, one with each engine, on this machine. A round: writers at a fixed rate on two nodes; kill -9 of the third;
after some seconds it is started again. The time is from that start to wsrep_ready=ON and Synced: with the search for its position
(--wsrep-recover), recovery, and the state transfer. Incremental: the node has its files. Full: its files are gone, and the method is rsync
for both engines. `sluice` is the method of Sluice's hot backup; it is measured beside InnoDB's rsync.
The node is started 8 seconds after the kill. The group waits up to 5 seconds (evs.suspect_timeout) before it drops a silent node; a node
that comes back earlier waits for that, with any engine.
The writers' rate is the same for both engines, so that both have as much to catch up with. Prints each round, the medians, and the median of
the ratios Sluice/InnoDB of the rounds. Exit code 1 when nodes differ in the end, or, with --check, when a ratio is above 1.
"""
import argparse
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import connection  # noqa: E402
import display  # noqa: E402
import pymysql.err  # noqa: E402
from galera import CONFLICT, FULL_TRANSFER, NOT_THERE, Broken, Cluster, check_programs  # noqa: E402
from server import ServerError, SqlError  # noqa: E402

ENGINES = ("Sluice", "InnoDB")
TRANSFERS = ("incremental", "full", "sluice")
TABLE = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT NOT NULL, text VARCHAR(200) NOT NULL, KEY (v))"
ROWS_A_STATEMENT = 5000


class PacedWriter(threading.Thread):
    """Transactions of two updates, so many a second: what is late is made up for."""

    def __init__(self, node, rows, rate, seed):
        super().__init__(daemon=True)
        self.node, self.rows, self.rate, self.rng = node, rows, rate, random.Random(seed)
        self.stopping, self.commits, self.failure = threading.Event(), 0, None

    def run(self):
        try:
            client, began, due = connection.connect(self.node, "d"), time.monotonic(), 0
            while not self.stopping.is_set():
                due += 1
                time.sleep(max(0.0, began + due / self.rate - time.monotonic()))
                try:
                    cursor = client.cursor()
                    for _ in range(2):
                        row = self.rng.randrange(self.rows) + 1
                        cursor.execute(f"UPDATE t SET v = v + 1, text = REPEAT(CHAR(97 + {row % 26}), {100 + row % 100}) WHERE id = {row}")
                    client.commit()
                    self.commits += 1
                except pymysql.err.Error as error:
                    if error.args[0] not in (*CONFLICT, *NOT_THERE) and not connection.is_lost(error):
                        raise
                    client.close()
                    client = connection.connect(self.node, "d")
        except Exception as error:  # the main thread raises it
            self.failure = error


class Subject:
    """A cluster with one engine."""

    def __init__(self, folder, engine, options):
        self.engine, self.options = engine, options
        # The same memory and log for both.
        same = {"Sluice": ["--sluice-redo-log-capacity=32M"], "InnoDB": ["--innodb-buffer-pool-size=64M"]}
        self.cluster = Cluster(folder / engine, engine, more=[*same[engine], *options.option])
        self.first, self.second, self.third = self.cluster.nodes

    def start(self):
        self.cluster.start()
        self.first.sql(TABLE)
        for at in range(0, self.options.rows, ROWS_A_STATEMENT):
            last = min(at + ROWS_A_STATEMENT, self.options.rows)
            self.first.sql(f"USE d; INSERT INTO t SELECT seq, seq % 97, REPEAT('x', 100 + seq % 100) FROM seq_{at + 1}_to_{last}")
        self.cluster.wait_equal()

    def round(self, transfer, seed):
        """Seconds from start to synced, and of them those of the search for the position."""
        node, others = self.third, (self.first, self.second)
        rate = self.options.rate / self.options.writers
        writers = [PacedWriter(others[n % 2], self.options.rows, rate, seed + n) for n in range(self.options.writers)]
        for writer in writers:
            writer.start()
        time.sleep(self.options.before)
        node.kill9()
        node.methods = ("sluice",) if transfer == "sluice" and self.engine == "Sluice" else ("rsync",)
        if transfer != "incremental":
            shutil.rmtree(node.data)
            node.install()
        time.sleep(self.options.apart)
        log_from = node.log.stat().st_size
        began = time.monotonic()
        node.prepare(self.cluster.seeds(node))
        found = time.monotonic() - began
        node.start(timeout=300)
        up = time.monotonic() - began
        node.wait_synced()
        seconds = time.monotonic() - began
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(60)
            if writer.failure:
                raise Broken(f"a writer on {self.engine}: {writer.failure!r}")
        text = node.log.read_bytes()[log_from:].decode(errors="replace")
        kind = "full" if any(line in text for line in FULL_TRANSFER) else "incremental"
        if (kind == "incremental") != (transfer == "incremental"):
            raise Broken(f"{self.engine}: the transfer was {kind}, not {transfer} (log: {node.log})")
        self.cluster.wait_equal()
        commits = sum(writer.commits for writer in writers)
        print(f"  {transfer:11} {self.engine:6} {seconds:6.2f} s (position {found:.2f}, answers at {up:.2f}); {commits} commits of the writers", flush=True)
        return seconds


def measure(subjects, options):
    worst, rows = 0.0, []
    for transfer in options.transfer or TRANSFERS:
        times = {engine: [] for engine in ENGINES}
        for number in range(options.rounds):
            for subject in subjects if number % 2 == 0 else reversed(subjects):
                times[subject.engine].append(subject.round(transfer, options.seed + 100 * number))
        ratios = [ours / theirs for ours, theirs in zip(times["Sluice"], times["InnoDB"])]
        ours, theirs, ratio = (statistics.median(values) for values in (times["Sluice"], times["InnoDB"], ratios))
        beside = "InnoDB by rsync" if transfer == "sluice" else "InnoDB"
        print(f"{transfer}: Sluice {ours:.2f} s, {beside} {theirs:.2f} s, median of the ratios {ratio:.2f} of {len(ratios)} rounds", flush=True)
        rows.append([transfer, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.2f}"])
        worst = max(worst, ratio)
    display.table(["state transfer", "Sluice, s", "InnoDB, s", "median of the ratios"], rows, "From the start of the killed node to Synced")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--transfer", action="append", choices=TRANSFERS, help="only this one; repeatable")
    parser.add_argument("--rows", type=int, default=200_000, help="of 170 bytes (%(default)s)")
    parser.add_argument("--rate", type=float, default=300, help="commits a second of all writers (%(default)s)")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--before", type=float, default=3, help="seconds of writing before the kill (%(default)s)")
    parser.add_argument("--apart", type=float, default=8, help="seconds from kill to start (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit code 1 when Sluice's node is away longer")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="of all nodes; repeatable")
    options = parser.parse_args()
    check_programs(("sluice",))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-rejoin-"))
    folder.chmod(0o755)
    subjects = [Subject(folder, engine, options) for engine in ENGINES]
    try:
        for subject in subjects:
            subject.start()
        worst = measure(subjects, options)
        for subject in subjects:
            subject.cluster.compare()
            subject.cluster.stop()
    except (Broken, ServerError, SqlError) as error:
        for node in (node for subject in subjects for node in subject.cluster.nodes):
            node.kill9()
        sys.exit(f"error: {error}\nthe nodes' folders stay: {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    if options.check and worst > 1:
        sys.exit(f"error: Sluice's node is away {worst:.2f} times as long as InnoDB's")


if __name__ == "__main__":
    main()
