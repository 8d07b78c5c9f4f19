#!/usr/bin/env python3
"""Dumps a Sluice database with mariadb-dump, restores it into InnoDB, dumps that and restores it into Sluice: all three are equal.

The database (dump_tables.py) has every column type at its limits, many collations, long values, generated columns, partitions,
tables with and without keys, and foreign keys: a circle, a table that refers to itself. Equal means: the same CHECKSUM TABLE, the
same rows in every column, the same SHOW CREATE TABLE but for the engine. Then statements that foreign keys refuse or carry out are
run in all three databases: with the same outcome and the same rows. `--other Aria` tries the program itself: it has no foreign keys.
Exit code 1 when a table cannot be made or differs.
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
from dump_tables import CHANGES, FAMILIES, ROWS, TABLES, WITHOUT_CHECKSUM  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

FIRST, SECOND, THIRD = "dump_first", "dump_second", "dump_third"


def fill(link, engine):
    """Makes the tables and their rows; returns what could not be made: {table: error}."""
    chance = random.Random(1)
    refused = {}
    cursor = link.cursor()
    cursor.execute("SET sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', foreign_key_checks = 0")
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


def change_all(link, names):
    """Runs CHANGES in all three databases: rows of the report, and how many differ."""
    cursor = link.cursor()
    cursor.execute("SET foreign_key_checks = 1, sql_mode = 'STRICT_ALL_TABLES'")
    report, wrong = [], 0
    for statement in CHANGES:
        outcomes = []
        for database in (FIRST, SECOND, THIRD):
            cursor.execute(f"USE {database}")
            try:
                outcomes.append(f"{cursor.execute(statement)} rows")
            except connection.pymysql.err.MySQLError as error:
                if connection.is_lost(error):
                    raise
                outcomes.append(f"error {error.args[0]}")
            link.commit()
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", FIRST)
        left = {row[0] for row in cursor.fetchall()}
        rows = [name for name in names if name in left and any(
            picture(cursor, database, name)[3] != picture(cursor, FIRST, name)[3] for database in (SECOND, THIRD))]
        different = [f"different: {', '.join(outcomes)}"] if len(set(outcomes)) > 1 else []
        different += [f"other rows in {', '.join(rows)}"] if rows else []
        wrong += bool(different)
        report.append([statement, "; ".join(different) or outcomes[0]])
    return report, wrong


def orphans(link, names):
    """What CHECK TABLE tells of rows without a parent."""
    cursor = link.cursor()
    told = []
    for database in (FIRST, THIRD):
        for name in names:
            cursor.execute(f"CHECK TABLE {database}.{name} EXTENDED")
            told += [f"{database}.{name}: {row[3]}" for row in cursor.fetchall() if row[3].startswith("foreign key")]
    return told


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
                names = [name for name in TABLES if name not in refused]
                report, wrong = compare(link, names)
                without_parent = orphans(link, names)
                changes, wrong_changes = change_all(link, [name for name in names if name in FAMILIES])
        finally:
            server.stop()
    except (ServerError, SqlError, connection.pymysql.err.Error) as error:
        sys.exit(f"error: {error} (server's log: {server.log})")
    display.table(["table", "rows", f"{arguments.engine} -> {arguments.other} -> {arguments.engine}"],
                  report + [[name, "-", f"cannot be made: {error}"] for name, error in refused.items()])
    display.table(["statement", "in all three"], changes, "Foreign keys, after the comparison")
    for told in without_parent:
        display.say(f"CHECK TABLE: {told}")
    display.say(f"\n{len(report) - wrong} tables equal, {wrong} different, {len(refused)} could not be made; "
                f"{len(changes) - wrong_changes} changes equal, {wrong_changes} different")
    sys.exit(1 if wrong or refused or wrong_changes or without_parent else 0)


if __name__ == "__main__":
    main()
