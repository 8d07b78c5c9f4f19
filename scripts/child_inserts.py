#!/usr/bin/env python3
"""The time of inserts into a table with a foreign key, Sluice beside InnoDB: one connection, one row a statement, a commit after each
batch. Everything fits into memory. The engines take turns, each round in new tables; the rows without a foreign key are measured too.

    scripts/child_inserts.py [--rows 200000] [--rounds 3]
"""
import argparse
import pathlib
import random
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
import connection  # noqa: E402
import display  # noqa: E402
from server import BUILD, Server, free_port  # noqa: E402

OPTIONS = ("--innodb-buffer-pool-size=512M", "--sluice-buffer-pool-size=512M", "--innodb-log-file-size=512M",
           "--sluice-redo-log-capacity=512M", "--innodb-flush-log-at-trx-commit=1", "--sluice-flush-log-at-trx-commit=1", "--skip-log-bin")
PARENTS = 10_000
KINDS = {"with a foreign key": ", FOREIGN KEY (pid) REFERENCES p (id)", "without": ", KEY (pid)"}


def seconds(link, engine, foreign, arguments, seed):
    chance = random.Random(seed)
    with link.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS c, p")
        cursor.execute(f"CREATE TABLE p (id INT PRIMARY KEY, x INT) ENGINE={engine}")
        cursor.execute(f"INSERT INTO p SELECT seq, seq FROM seq_1_to_{PARENTS}")
        cursor.execute(f"CREATE TABLE c (id INT PRIMARY KEY, pid INT NOT NULL, x CHAR(20){foreign}) ENGINE={engine}")
        cursor.execute("SET autocommit=0")
        begun = time.monotonic()
        for n in range(arguments.rows):
            cursor.execute(f"INSERT INTO c VALUES ({n}, {chance.randint(1, PARENTS)}, 'some words')")
            if n % arguments.batch == arguments.batch - 1:
                cursor.execute("COMMIT")
        cursor.execute("COMMIT")
        return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description="Inserts into a table with a foreign key, Sluice beside InnoDB.")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1000, help="rows in a transaction")
    parser.add_argument("--rounds", type=int, default=3)
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
        for turn in range(arguments.rounds):
            for what, foreign in KINDS.items():
                for engine in ("InnoDB", "Sluice"):
                    taken = seconds(link, engine, foreign, arguments, turn)
                    display.say(f"round {turn + 1}, {what}, {engine}: {taken:.1f} s, {taken * 1e6 / arguments.rows:.1f} us a row")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
