#!/usr/bin/env python3
"""The time and the server's CPU of inserts into a table with a foreign key, Sluice beside InnoDB: one connection, some rows a statement, a
commit after each batch. Everything fits into memory. The engines take turns, each round in new tables; the rows without a foreign key are
measured too. Exit code 1 if Sluice takes more CPU than InnoDB for rows with a foreign key, in the median. The CPU counts, because the
client and other programs of the machine take most of the time.

    scripts/child_inserts.py [--rows 200000] [--rounds 5]
"""
import argparse
import pathlib
import random
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "bench")]
import connection  # noqa: E402
import display  # noqa: E402
from cells import Usage  # noqa: E402
from server import BUILD, Server, free_port  # noqa: E402

OPTIONS = ("--innodb-buffer-pool-size=512M", "--sluice-buffer-pool-size=512M", "--innodb-log-file-size=512M",
           "--sluice-redo-log-capacity=512M", "--innodb-flush-log-at-trx-commit=1", "--sluice-flush-log-at-trx-commit=1", "--skip-log-bin")
PARENTS = 10_000
ENGINES = ("InnoDB", "Sluice")
KINDS = {"with a foreign key": ", FOREIGN KEY (pid) REFERENCES p (id)", "without": ", KEY (pid)"}


def insert(server, link, engine, foreign, arguments, seed):
    """Microseconds a row: passed, and of the server's CPU."""
    chance = random.Random(seed)
    with link.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS c, p")
        cursor.execute(f"CREATE TABLE p (id INT PRIMARY KEY, x INT) ENGINE={engine}")
        cursor.execute(f"INSERT INTO p SELECT seq, seq FROM seq_1_to_{PARENTS}")
        cursor.execute(f"CREATE TABLE c (id INT PRIMARY KEY, pid INT NOT NULL, x CHAR(20){foreign}) ENGINE={engine}")
        cursor.execute("SET autocommit=0")
        begun, before = time.monotonic(), Usage.of(server.pid()).cpu_seconds
        for first in range(0, arguments.rows, arguments.statement):
            rows = range(first, first + arguments.statement)
            cursor.execute("INSERT INTO c VALUES " + ",".join(f"({n}, {chance.randint(1, PARENTS)}, 'some words')" for n in rows))
            if rows.stop % arguments.batch == 0:
                cursor.execute("COMMIT")
        cursor.execute("COMMIT")
        used = Usage.of(server.pid()).cpu_seconds - before
        return (time.monotonic() - begun) * 1e6 / arguments.rows, used * 1e6 / arguments.rows


def main():
    parser = argparse.ArgumentParser(description="Inserts into a table with a foreign key, Sluice beside InnoDB.")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1000, help="rows in a transaction")
    parser.add_argument("--statement", type=int, default=20, help="rows in a statement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/child-inserts")
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    server = Server(arguments.folder, arguments.port or free_port(), OPTIONS)
    server.start()
    try:
        link = connection.connect(server)
        with link.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS inserts")
            cursor.execute("USE inserts")
        found = {(what, engine): [] for what in KINDS for engine in ENGINES}
        for turn in range(arguments.rounds):
            for what, foreign in KINDS.items():
                for engine in ENGINES if turn % 2 else reversed(ENGINES):
                    passed, cpu = insert(server, link, engine, foreign, arguments, turn)
                    found[what, engine].append((passed, cpu))
                    display.say(f"round {turn + 1}, {what}, {engine}: {passed:.1f} us a row, {cpu:.1f} of the server's CPU")
        medians = {key: [statistics.median(column) for column in zip(*rows)] for key, rows in found.items()}
        for what in KINDS:
            ours, theirs = medians[what, "Sluice"], medians[what, "InnoDB"]
            print(f"{what}: Sluice {ours[0]:.1f} us a row, {ours[1]:.1f} of CPU; InnoDB {theirs[0]:.1f}, {theirs[1]:.1f}; "
                  f"{ours[0] / theirs[0]:.2f} of the time, {ours[1] / theirs[1]:.2f} of the CPU")
        with_key = next(iter(KINDS))
        return 0 if medians[with_key, "Sluice"][1] <= medians[with_key, "InnoDB"][1] else 1
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
