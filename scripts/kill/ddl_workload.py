"""What a client of the DDL kill test does: definitions change while rows do; each statement is logged before it is sent and after.

A client owns a folder of tables: its database ddl_N, and ddl_N_x, which comes and goes as a whole. It knows the state of both as a
plain value (see ddl_model.py), and for each statement the states that are legal after a crash in the middle of it: the one before, and
`legal`, the last of which is the one after.

The log has lines as in workload.py: ["do", sql, [legal states]], then ["done"], or ["failed"] when the server refused.
Beside it a second process, Writer, inserts into the client's table `hot` all the time, so that DDL on it meets open transactions.
Called by ddl_trial.py, in a process per client.
"""
import copy
import json
import os
import random
import time

import connection
import ddl_statements
from ddl_model import HOT, TABLES, database, hot_ids, row

# Locks that could not be had: the statement did nothing.
REFUSALS = (1205, 1213, 1020)
# What a writer meets when its table is renamed or its definition changes under it.
WRITER_REFUSALS = (*REFUSALS, 1146, 1412, 1054)


class Recorder:
    """Appends to a client's log; without a buffer and without sync, as only the server is killed."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def write(self, entry):
        os.write(self.file, json.dumps(entry, separators=(",", ":")).encode() + b"\n")


class Client:
    def __init__(self, server, engine, number, seed, state, log_path, partitions):
        self.server = server
        self.engine = engine
        self.database = database(number)
        self.random = random.Random(seed)
        self.state = copy.deepcopy(state)
        self.recorder = Recorder(log_path)
        self.partitions = partitions

    def run(self, seconds_max):
        """Until the connection is lost, or for so long."""
        deadline = time.monotonic() + seconds_max
        try:
            with connection.connect(self.server, autocommit=True) as link, link.cursor() as self.cursor:
                self.cursor.execute("SET lock_wait_timeout = 10")
                while time.monotonic() < deadline:
                    ddl_statements.choose(self)
        except Exception as error:
            if not connection.is_lost(error):
                raise

    def do(self, sql, *legal):
        """Sends a statement; the client's state is then the last of `legal`. False: refused, nothing happened."""
        self.recorder.write(["do", sql, legal])
        try:
            self.cursor.execute(sql)
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error):
                raise
            if error.args[0] not in REFUSALS:
                raise RuntimeError(f"{sql}: {error}") from None
            self.recorder.write(["failed"])
            return False
        self.recorder.write(["done"])
        self.state = copy.deepcopy(legal[-1])
        return True

    # ---- what the statements are made of ----

    def names(self):
        """Of the tables that may or may not exist."""
        return [f"{self.database}.t{number}" for number in range(TABLES)]

    def free_name(self):
        free = [name for name in self.names() if name not in self.state]
        return self.random.choice(free) if free else None

    def pick(self, wanted=lambda table: True):
        """(name, table) of an existing one that any statement may meet; None if there is none."""
        found = [name for name in self.names() if name in self.state and wanted(self.state[name])]
        if not found:
            return None
        name = self.random.choice(found)
        return name, copy.deepcopy(self.state[name])

    def with_tables(self, tables):
        state = copy.deepcopy(self.state)
        for name, table in tables.items():
            if table is None:
                state.pop(name, None)
            else:
                state[name] = copy.deepcopy(table)
        return state


class Writer:
    """Inserts transactions of three rows into the client's table `hot` and logs the number of each before and after its commit."""

    def __init__(self, server, number, first, log_path):
        self.server = server
        self.table = f"{database(number)}.{HOT}"
        self.txn = first
        self.recorder = Recorder(log_path)

    def run(self, seconds_max):
        deadline = time.monotonic() + seconds_max
        try:
            with connection.connect(self.server) as link, link.cursor() as cursor:
                while time.monotonic() < deadline:
                    self.transaction(link, cursor)
        except Exception as error:
            if not connection.is_lost(error):
                raise

    def transaction(self, link, cursor):
        self.txn += 1
        values = ",".join(f"({row_id},{a},'{b}')" for row_id, a, b in map(row, hot_ids(self.txn), (self.txn,) * 3))
        try:
            cursor.execute(f"INSERT INTO {self.table} (id, a, b) VALUES {values}")
            if self.txn % 7 == 0:
                link.rollback()
                return
            self.recorder.write(["commit", self.txn])
            link.commit()
            self.recorder.write(["done"])
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error) or error.args[0] not in WRITER_REFUSALS:
                raise
            link.rollback()
            self.recorder.write(["failed"])
