"""One trial of the DDL kill test: clients change definitions and rows, the server is killed, and every table is accounted for.

What must hold after the restart, for each client: its tables are exactly those of a legal state (see ddl_model.py), with exactly
its columns, indexes, partitions and rows; every index holds what the table holds; CHECK TABLE finds nothing; the table that was
written all the time has every acknowledged transaction whole. The engine's folder has one data file per table or partition and no
other; no temporary name is left in a database's folder; every name that is free can be created. Called by kill.py.
"""
import itertools
import json
import re
import time
from dataclasses import dataclass

import connection
import ddl_model
import ddl_workload
import trial
from trial import Broken

SYSTEM_FILES = {"00000001.slu", "00000002.slu"}
ENGINE_FOLDER = "#sluice"


@dataclass
class Outcome(trial.Outcome):
    statements: int = 0


class DdlTrial(trial.Trial):
    outcome_class = Outcome

    def __init__(self, server, engine, clients=4, seed=None, partitions=False):
        super().__init__(server, engine, clients=clients, seed=seed)
        self.partitions = partitions
        self.states = [{} for _ in range(clients)]
        self.committed = [0] * clients  # the last transaction of each writer that anything is known of
        self.hot_rows = [set() for _ in range(clients)]

    def prepare(self):
        self.logs.mkdir(parents=True, exist_ok=True)
        with connection.connect(self.server, autocommit=True) as link, link.cursor() as cursor:
            for number in range(len(self.states)):
                name = ddl_model.database(number)
                cursor.execute(f"CREATE DATABASE {name}")
                cursor.execute(f"CREATE TABLE {name}.hot (id BIGINT NOT NULL, a INT NOT NULL, b VARCHAR(600) CHARACTER SET latin1 NOT NULL,"
                               f" PRIMARY KEY (id)) ENGINE={self.engine}")
                self.states[number] = {f"{name}.hot": ddl_model.new_table()}

    def processes(self):
        numbers = range(len(self.states))
        return [*((self.client, (number, self.random.random())) for number in numbers), *((self.writer, (number,)) for number in numbers)]

    def client(self, number, seed):
        ddl_workload.Client(self.server, self.engine, number, seed, self.states[number], self.log(number),
                            self.partitions).run(trial.SECONDS_MAX)

    def writer(self, number):
        ddl_workload.Writer(self.server, number, self.committed[number], self.log(f"-writer{number}")).run(trial.SECONDS_MAX)

    # ---- judging ----

    def verify(self, outcome):
        with connection.connect(self.server, autocommit=True) as link, link.cursor() as cursor:
            for number in range(len(self.states)):
                self.follow_writer(number, outcome)
                self.states[number] = self.verify_client(cursor, number, outcome)
                self.verify_hot(cursor, number)
            self.verify_no_leftovers(cursor)
            for number in range(len(self.states)):
                self.verify_names_are_free(cursor, number)

    def follow_writer(self, number, outcome):
        """The acknowledged transactions, and the one in doubt."""
        self.in_doubt = None
        for line in self.log(f"-writer{number}").read_text().splitlines():
            kind, *rest = json.loads(line)
            if kind == "commit":
                self.in_doubt = rest[0]
                continue
            if kind == "done":
                self.hot_rows[number].update(ddl_model.hot_ids(self.in_doubt))
                outcome.acknowledged += 1
            self.in_doubt = None
        # Numbers above may have been used by transactions that left nothing; they are never used again.
        self.committed[number] += 10**6

    def verify_client(self, cursor, number, outcome):
        """Which of the legal states is there; Broken if none."""
        legal, sql = self.follow_client(number, outcome)
        try:
            found = found_state(cursor, number)
        except connection.pymysql.err.Error as error:
            raise Broken(f"client {number}, in doubt: {sql}: {error}") from error
        complaints = []
        for state in legal:
            complaint = difference(state, found)
            if complaint is None:
                for name in state:
                    verify_indexes(cursor, name)
                outcome.rows += sum(len(rows) for *_, rows in found.values())
                return state
            complaints.append(complaint)
        raise Broken(f"client {number}, in doubt: {sql}: no legal state is there: " + " / ".join(complaints))

    def follow_client(self, number, outcome):
        """(legal states, the statement in doubt or None)"""
        state, legal, sql = self.states[number], None, None
        for line in self.log(number).read_text().splitlines():
            kind, *rest = json.loads(line)
            if kind == "do":
                sql, legal = rest
                continue
            outcome.statements += 1
            state = legal[-1] if kind == "done" else state
            sql = legal = None
        self.log(number).unlink()
        if legal is None:
            return [state], None
        if sql.startswith("DROP DATABASE"):
            legal = [*parts_left(state, legal[-1]), *legal]
        return [*legal[::-1], state], sql

    def verify_hot(self, cursor, number):
        name = f"{ddl_model.database(number)}.hot"
        cursor.execute(f"SELECT id, a, b FROM {name}")
        found = {row[0]: row for row in cursor.fetchall()}
        expected = self.hot_rows[number]
        if self.in_doubt is not None and found.keys() != expected:
            expected = expected | set(ddl_model.hot_ids(self.in_doubt))
        if found.keys() != expected:
            raise Broken(f"{name}: lost {sorted(expected - found.keys())[:5]}, there that should not be {sorted(found.keys() - expected)[:5]}")
        wrong = [row_id for row_id, row in found.items() if row != ddl_model.row(row_id, row_id // 3)]
        if wrong:
            raise Broken(f"{name}: {len(wrong)} rows are not as written, such as {found[wrong[0]]}")
        cursor.execute(f"DELETE FROM {name}")  # the next round begins with an empty one
        self.hot_rows[number] = set()

    def verify_no_leftovers(self, cursor):
        if self.engine != "Sluice":
            return
        # The server forgets .par files when it is killed while it makes or renames a partitioned table; they are in nobody's way.
        temporary = [str(path) for path in self.server.data.glob("ddl_*/*sql*") if path.suffix != ".par"]
        if temporary:
            raise Broken(f"temporary files are left: {temporary}")
        cursor.execute("SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema LIKE 'ddl%'")
        tables = cursor.fetchone()[0]
        files = {path.name for path in (self.server.data / ENGINE_FOLDER).glob("*.slu")} - SYSTEM_FILES
        if len(files) != tables:
            raise Broken(f"{tables} tables and partitions, but {len(files)} data files: {sorted(files)}")

    def verify_names_are_free(self, cursor, number):
        for name in (f"{ddl_model.database(number)}.t{at}" for at in range(ddl_model.TABLES)):
            if name not in self.states[number]:
                cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE={self.engine}")
                cursor.execute(f"DROP TABLE {name}")


def parts_left(before, after):
    """DROP DATABASE cut short: any part of its tables may be left."""
    doomed = sorted(before.keys() - after.keys())
    for count in range(1, len(doomed)):
        for left in itertools.combinations(doomed, count):
            yield {**after, **{name: before[name] for name in left}}


def found_state(cursor, number):
    """{name: (columns, keys, partitions, rows)} of the client's tables, as the server tells."""
    schemas = (ddl_model.database(number), f"{ddl_model.database(number)}_x")
    cursor.execute("SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN %s", (schemas,))
    found = {}
    for name, in cursor.fetchall():
        cursor.execute(f"SHOW COLUMNS FROM {name}")
        columns = [row[0] for row in cursor.fetchall()]
        cursor.execute(f"SHOW INDEX FROM {name}")
        keys = {}
        for index in cursor.fetchall():
            key = keys.setdefault(index[2], [[], not index[1]])
            key[0].append(index[4])
        keys.pop("PRIMARY", None)
        cursor.execute("SELECT partition_name, CAST(partition_description AS UNSIGNED) FROM information_schema.partitions WHERE"
                       " CONCAT(table_schema, '.', table_name) = %s AND partition_name IS NOT NULL ORDER BY partition_ordinal_position", (name,))
        parts = [list(row) for row in cursor.fetchall()]
        cursor.execute(f"SELECT id, a, b FROM {name}")
        rows = cursor.fetchall()
        if len(rows) != len({row[0] for row in rows}):
            raise Broken(f"{name}: rows are there twice")
        found[name] = (columns, keys, parts or None, {row[0]: row for row in rows})
    return found


def difference(state, found):
    """In words, or None."""
    if state.keys() != found.keys():
        return f"missing {sorted(state.keys() - found.keys())}, there {sorted(found.keys() - state.keys())}"
    for name, table in state.items():
        columns, keys, parts, found_rows = found[name]
        for what, expected, there in (("columns", table["cols"], columns), ("indexes", table["keys"], keys), ("partitions", table["parts"], parts)):
            if expected != there:
                return f"{name} has {what} {there}, expected {expected}"
        if name.endswith(f".{ddl_model.HOT}"):
            continue  # written all the time: verify_hot
        rows = ddl_model.rows_of(table)
        if rows != found_rows:
            lost, extra = sorted(rows.keys() - found_rows.keys()), sorted(found_rows.keys() - rows.keys())
            other = [row_id for row_id in rows.keys() & found_rows.keys() if rows[row_id] != found_rows[row_id]]
            return f"{name}: lost rows {lost[:5]} ({len(lost)}), there that should not be {extra[:5]} ({len(extra)}), other {other[:5]}"
    return None


def verify_indexes(cursor, name):
    database, table = re.fullmatch(r"(\w+)\.(\w+)", name).groups()
    cursor.execute(f"USE {database}")
    trial.verify_indexes(cursor, database, table)
    trial.verify_check_table(cursor, table)
