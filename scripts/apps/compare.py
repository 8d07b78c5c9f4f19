"""What must be equal between the database that InnoDB has and the one that Sluice has, and between a dump and its restored copy."""
import subprocess

import load
import packages
from server import SqlError

# Of every view of INFORMATION_SCHEMA the columns that do not name the database or count rows.
VIEWS = {
    "TABLES": ("table_name", "table_type", "table_collation", "create_options", "auto_increment", "table_comment"),
    "COLUMNS": ("table_name", "ordinal_position", "column_name", "column_type", "column_key", "extra", "is_nullable", "column_default"),
    "STATISTICS": ("table_name", "index_name", "seq_in_index", "non_unique", "column_name", "collation", "sub_part", "nullable", "index_type"),
    "REFERENTIAL_CONSTRAINTS": ("table_name", "constraint_name", "unique_constraint_name", "match_option", "update_rule", "delete_rule",
                                "referenced_table_name"),
    "KEY_COLUMN_USAGE": ("table_name", "constraint_name", "ordinal_position", "column_name", "position_in_unique_constraint",
                         "referenced_table_name", "referenced_column_name"),
    "TABLE_CONSTRAINTS": ("table_name", "constraint_name", "constraint_type"),
    "TRIGGERS": ("event_object_table", "trigger_name", "action_timing", "event_manipulation", "action_statement"),
    "ROUTINES": ("routine_name", "routine_type", "routine_definition"),
}
SCHEMA_COLUMN = {"REFERENTIAL_CONSTRAINTS": "constraint_schema", "TRIGGERS": "trigger_schema", "ROUTINES": "routine_schema"}


def tables_of(cursor, database, kind="BASE TABLE"):
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = %s ORDER BY table_name",
                   (database, kind))
    return [row[0] for row in cursor.fetchall()]


def picture(cursor, database, table):
    """{what: value} of one table."""
    cursor.execute(f"SHOW CREATE TABLE `{database}`.`{table}`")
    definition = load.neutral(cursor.fetchone()[1], database)
    cursor.execute(f"SELECT COUNT(*) FROM `{database}`.`{table}`")
    rows = cursor.fetchone()[0]
    return {"definition": definition, "number of rows": rows, "checksum": checksum(cursor, database, table)}


def checksum(cursor, database, table):
    cursor.execute(f"CHECKSUM TABLE `{database}`.`{table}` EXTENDED")
    return cursor.fetchone()[1]


def views(cursor, database):
    """{view: set of rows}, and the definitions of SQL views."""
    result = {}
    for view, columns in VIEWS.items():
        cursor.execute(f"SELECT {', '.join(columns)} FROM information_schema.{view} WHERE {SCHEMA_COLUMN.get(view, 'table_schema')} = %s",
                       (database,))
        result[view] = {tuple(load.neutral(str(value), database) for value in row) for row in cursor.fetchall()}
    result["views"] = set()
    for name in tables_of(cursor, database, "VIEW"):
        cursor.execute(f"SHOW CREATE VIEW `{database}`.`{name}`")
        result["views"].add((name, load.neutral(cursor.fetchone()[1], database)))
    return result


def differences(cursor, one, other):
    """{table: [what differs]} between two databases; what belongs to no table has the name of its view."""
    result = {}
    tables, others = tables_of(cursor, one), tables_of(cursor, other)
    for table in sorted(set(tables) ^ set(others)):
        result[table] = ["is missing" if table in tables else "is there though InnoDB has none"]
    for table in sorted(set(tables) & set(others)):
        mine, theirs = picture(cursor, one, table), picture(cursor, other, table)
        for what in mine:
            if mine[what] != theirs[what]:
                note = first_change(mine[what], theirs[what]) if what == "definition" else f"{mine[what]} / {theirs[what]}"
                result.setdefault(table, []).append(f"{what}: {note}")
    mine, theirs = views(cursor, one), views(cursor, other)
    for view in mine:
        for row in sorted(mine[view] ^ theirs[view]):
            if row[0] in result and result[row[0]][0].startswith("is "):
                continue
            note = f"{view} {'lacks' if row in mine[view] else 'has also'} {', '.join(row[1:])[:160]}"
            result.setdefault(row[0], []).append(note)
    return result


def first_change(one, other):
    """The first line that only one has, and the first that only the other has. A comma at a line's end does not count."""
    ones, others = ([line.strip().rstrip(",") for line in text.splitlines()] for text in (one, other))
    lines = [next((line for line in mine if line not in set(theirs)), "nothing")[:160] for mine, theirs in ((ones, others), (others, ones))]
    return " / ".join(lines) if lines != ["nothing", "nothing"] else "the same lines in another order"


# ---- dumps ----

def dump(server, database):
    done = subprocess.run(
        [server.base / "bin/mariadb-dump", "--no-defaults", f"--socket={server.socket}", "--user=root", "--single-transaction", "--hex-blob",
         "--routines", "--triggers", "--events", "--skip-comments", "--default-character-set=utf8mb4", database],
        capture_output=True, check=False)
    if done.returncode != 0:
        raise SqlError(f"mariadb-dump: {done.stderr.decode(errors='replace').strip()}")
    text = done.stdout.decode("utf-8", errors="surrogateescape").replace(database, "DATABASE")
    return packages.in_engine(text, "SLUICE", "Sluice")  # as packages.in_engine writes it


def restored(server, cursor, application, database, engine, text):
    """The dump of a fresh database that a dump was loaded into. Raises SqlError when a statement of the dump is refused."""
    make_database(cursor, application, database)
    run = load.run(server, database, engine, [("dump", text)])
    if run.refusals:
        first = run.refusals[0]
        raise SqlError(f"{len(run.refusals)} statements of the dump are refused in {engine}; the first: {first.code} {first.message} ({first.statement})")
    return dump(server, database)


def round_trip(server, cursor, application, database, engine, other):
    """Why a dump of `database` does not come back from a copy, and from a copy in another engine; "" if it does."""
    try:
        text = dump(server, database)
        again = restored(server, cursor, application, "apps_copy", engine, text)
        if again != text:
            return f"the copy's dump differs: {first_change(text, again)}"
        elsewhere = packages.in_engine(restored(server, cursor, application, "apps_copy", other, packages.in_engine(text, engine, other)), other, engine)
        if elsewhere != text:
            return f"the dump from {other} differs: {first_change(text, elsewhere)}"
        again = restored(server, cursor, application, "apps_copy", engine, elsewhere)
        return "" if again == text else f"the dump back from {other} differs: {first_change(text, again)}"
    except SqlError as error:
        return str(error)


def make_database(cursor, application, database):
    cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
    cursor.execute(f"CREATE DATABASE `{database}` CHARACTER SET {application.charset} COLLATE {application.collation}")
