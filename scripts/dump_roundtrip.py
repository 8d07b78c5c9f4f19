#!/usr/bin/env python3
"""Dumps a Sluice database with mariadb-dump, restores it into InnoDB, dumps that and restores it into Sluice: all three are equal.

The database (dump_tables.py) has every column type at its limits, many collations, long values, generated columns, partitions,
and tables with and without keys. Equal means: the same CHECKSUM TABLE, the same rows in every column, the same SHOW CREATE TABLE
but for the engine. `--engine InnoDB --other Aria` tries the program itself. Exit code 1 when a table cannot be made or differs.
"""
import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from dump_tables import ROWS, TABLES, WITHOUT_CHECKSUM  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

FIRST, SECOND, THIRD = "dump_first", "dump_second", "dump_third"


def fill(link, engine):
    """Makes the tables and their rows; returns what could not be made: {table: error}."""
    chance = random.Random(1)
    refused = {}
    cursor = link.cursor()
    cursor.execute("SET sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'")
    for name, (definition, values) in TABLES.items():
        try:
            cursor.execute(f"CREATE TABLE {name} " + definition.replace("{}", engine))
            for number in range(1, ROWS + 1):
                row = values(chance, number)
                columns, row = (f"({', '.join(row)})", list(row.values())) if isinstance(row, dict) else ("", row)
                cursor.execute(f"INSERT INTO {name} {columns} VALUES ({', '.join(['%s'] * len(row))})", row)
            link.commit()
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error):
                raise
            refused[name] = str(error)
            link.rollback()
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
    return refused


def copy(server, source, target, engine_from, engine_to):
    """mariadb-dump | mariadb, with the engine's name changed on the way."""
    dump = subprocess.run(
        [server.prefix / "usr/bin/mariadb-dump", "--no-defaults", f"--socket={server.socket}", "--user=root", "--single-transaction",
         "--hex-blob", "--triggers", "--default-character-set=utf8mb4", source], capture_output=True)
    if dump.returncode != 0:
        raise ServerError(f"mariadb-dump of {engine_from}: {dump.stderr.decode().strip()}")
    text = re.sub(rb"\bENGINE ?= ?" + engine_from.encode() + rb"\b", b"ENGINE=" + engine_to.encode(), dump.stdout, flags=re.IGNORECASE)
    server.sql(f"CREATE DATABASE {target} CHARACTER SET utf8mb4")
    client = server.client("--default-character-set=utf8mb4", "--max-allowed-packet=1G", target)
    restore = subprocess.run(client, input=text, capture_output=True)
    if restore.returncode != 0:
        raise ServerError(f"restoring the dump of {engine_from} into {engine_to}: {restore.stderr.decode().strip()}")


def picture(cursor, database, name):
    """What must be equal: (number of rows, checksum, definition, rows)."""
    cursor.execute(f"CHECKSUM TABLE {database}.{name} EXTENDED")
    checksum = cursor.fetchone()[1]
    cursor.execute(f"SHOW CREATE TABLE {database}.{name}")
    definition = re.sub(r"ENGINE ?= ?\w+", "ENGINE=", cursor.fetchone()[1])
    cursor.execute("SELECT GROUP_CONCAT(IF(data_type IN ('float', 'double'), CONCAT('`', column_name, '`'), CONCAT('HEX(`', column_name, '`)'))"
                   " ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = %s AND table_name = %s", (database, name))
    columns = cursor.fetchone()[0]
    cursor.execute(f"SELECT {columns} FROM {database}.{name}")
    rows = sorted(cursor.fetchall(), key=repr)
    return len(rows), checksum, definition, rows


def compare(link, names):
    """Rows of the report and the number of tables that differ."""
    cursor = link.cursor()
    cursor.execute("SET group_concat_max_len = 1000000")
    report, wrong = [], 0
    for name in names:
        pictures = [picture(cursor, database, name) for database in (FIRST, SECOND, THIRD)]
        verdicts = []
        for what, index in (("checksum", 1), ("definition", 2), ("rows", 3)):
            if what == "checksum" and name in WITHOUT_CHECKSUM:
                continue
            if any(other[index] != pictures[0][index] for other in pictures[1:]):
                verdicts.append(what)
        wrong += bool(verdicts)
        report.append([name, pictures[0][0], "different: " + ", ".join(verdicts) if verdicts else "equal"])
    return report, wrong


def main():
    parser = argparse.ArgumentParser(description="mariadb-dump from one engine into another and back.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--other", default="InnoDB", help="any engine of the server, such as Aria")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/dump", help="where the server lives; made anew")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    pair = (arguments.engine, arguments.other)
    server = Server(arguments.folder, free_port(), [*(option for engine in pair for option in engines.options(engine, "64M", "64M")),
                                                    "--max-allowed-packet=1G"], plugins=engines.plugins(pair), engine=arguments.engine)
    try:
        server.start()
        try:
            server.sql(f"CREATE DATABASE {FIRST} CHARACTER SET utf8mb4")
            with connection.connect(server, FIRST) as link:
                refused = fill(link, arguments.engine)
                copy(server, FIRST, SECOND, arguments.engine, arguments.other)
                copy(server, SECOND, THIRD, arguments.other, arguments.engine)
                report, wrong = compare(link, [name for name in TABLES if name not in refused])
        finally:
            server.stop()
    except (ServerError, SqlError, connection.pymysql.err.Error) as error:
        sys.exit(f"error: {error} (server's log: {server.log})")
    display.table(["table", "rows", f"{arguments.engine} -> {arguments.other} -> {arguments.engine}"],
                  report + [[name, "-", f"cannot be made: {error}"] for name, error in refused.items()])
    display.say(f"\n{len(report) - wrong} tables equal, {wrong} different, {len(refused)} could not be made")
    sys.exit(1 if wrong or refused else 0)


if __name__ == "__main__":
    main()
