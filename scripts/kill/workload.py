"""What the clients of the kill test do: transactions over five tables, each logged before it is committed and when it is.

    item0, item1, item2   a client inserts, changes and deletes rows of its own, several in a transaction, in tables that differ
                          in their keys: ascending primary key, random primary key with a unique one, no primary key
    account               rows that all clients share: a transfer takes from one and gives to another, so the sum is constant
    ledger                one row for each transfer, in the transfer's transaction: with it every balance can be computed

A client's log is a file of lines, one JSON value each: ["commit", transaction's number, changes] right before COMMIT is sent, then
["done"] when the server has acknowledged it or ["failed"] when it refused. The log is written without a buffer and without
sync: only the server is killed. A client ends when its connection is lost. Called by trial.py, in a process per client.
"""
import json
import os
import random
import time
from dataclasses import dataclass

import connection

ITEM_TABLES = ("item0", "item1", "item2")
ACCOUNTS = 200
BALANCE_AT_START = 1000
ROWS_PER_CLIENT_MAX = 1500  # of one table; more are deleted again
ROWS_PER_TRANSACTION_MAX = 12

COLUMNS = "(id BIGINT NOT NULL, client INT NOT NULL, txn INT NOT NULL, value INT NOT NULL, body MEDIUMTEXT NOT NULL, "
SCHEMA = [
    f"CREATE TABLE item0 {COLUMNS} PRIMARY KEY (id), KEY by_transaction (client, txn), KEY by_value (value))",
    f"CREATE TABLE item1 {COLUMNS} PRIMARY KEY (client, id), UNIQUE KEY by_id (id), KEY by_transaction (txn, value))",
    f"CREATE TABLE item2 {COLUMNS} KEY by_id (id), KEY by_value (client, value))",
    "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL, KEY by_balance (balance))",
    "CREATE TABLE ledger (id BIGINT PRIMARY KEY, client INT NOT NULL, giver INT NOT NULL, taker INT NOT NULL, amount INT NOT NULL,"
    " KEY by_giver (giver, amount), KEY by_taker (taker, amount))",
]


@dataclass(frozen=True)
class Row:
    txn: int
    value: int
    body_bytes: int

    def body(self, row_id):
        """Made from the row's other columns, so that the log stays small and a mixed-up page cannot pass for the right one."""
        unit = f"{row_id}.{self.txn}.{self.value};"
        return (unit * (self.body_bytes // len(unit) + 1))[:self.body_bytes]


def create_tables(server, engine, database, others=None):
    """`others`: {table: engine} of those that are another engine's."""
    with connection.connect(server) as link, link.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        for statement in SCHEMA:
            table = statement.split()[2]
            cursor.execute(f"{statement} ENGINE={(others or {}).get(table, engine)}")
        cursor.execute("INSERT INTO account VALUES " + ",".join(f"({number},{BALANCE_AT_START})" for number in range(ACCOUNTS)))
        link.commit()


class Client:
    """`items` are the client's rows as last verified: {table: {id: Row}}; `txn` is its last transaction's number."""

    def __init__(self, server, database, number, seed, items, ledger, txn, log_path):
        self.server = server
        self.database = database
        self.number = number
        self.random = random.Random(seed)
        self.items = {table: dict(rows) for table, rows in items.items()}
        self.ledger = dict(ledger)
        self.txn = txn
        self.log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def run(self, seconds_max):
        """Until the connection is lost, or for so long."""
        deadline = time.monotonic() + seconds_max
        try:
            with connection.connect(self.server, self.database) as self.link, self.link.cursor() as self.cursor:
                while time.monotonic() < deadline:
                    self.transaction()
        except Exception as error:
            if not connection.is_lost(error):
                raise

    def transaction(self):
        self.txn += 1
        changes = []
        self.begin()
        try:
            if self.random.random() < 0.25:
                self.transfer(changes)
            for _ in range(self.random.randint(1, 3)):
                self.change_items(changes)
            if self.random.random() < 0.1:
                self.roll_back()
                return
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error):
                raise
            self.roll_back()  # a deadlock or a lock wait that took too long
            return
        self.write(["commit", self.txn, changes])
        try:
            self.commit()
        except connection.pymysql.err.Error as error:
            if connection.is_lost(error):
                raise
            self.write(["failed"])
            return
        self.write(["done"])
        apply(changes, self.items, self.ledger)

    def begin(self):
        """PyMySQL's connections begin transactions by themselves."""

    def roll_back(self):
        self.link.rollback()

    def commit(self):
        self.link.commit()

    def write(self, entry):
        os.write(self.log, json.dumps(entry, separators=(",", ":")).encode() + b"\n")

    # ---- parts of a transaction; each notes in `changes` what it did ----

    def transfer(self, changes):
        giver, taker = self.random.sample(range(ACCOUNTS), 2)
        amount = self.random.randint(1, 50)
        self.cursor.execute("UPDATE account SET balance = balance - %s WHERE id = %s", (amount, giver))
        self.cursor.execute("UPDATE account SET balance = balance + %s WHERE id = %s", (amount, taker))
        row_id = self.number * 10**9 + self.txn
        self.cursor.execute("INSERT INTO ledger VALUES (%s, %s, %s, %s, %s)", (row_id, self.number, giver, taker, amount))
        changes.append(["ledger", row_id, giver, taker, amount])

    def change_items(self, changes):
        table = self.random.choice(ITEM_TABLES)
        known = self.now(table, changes)
        draw = self.random.random()
        if len(known) > ROWS_PER_CLIENT_MAX or known and draw < 0.25:
            self.delete(table, known, changes)
        elif known and draw < 0.55:
            self.update(table, known, changes)
        else:
            self.insert(table, known, changes)

    def now(self, table, changes):
        """The client's rows of a table as its open transaction sees them."""
        rows = self.items[table]
        if any(change[0] == table for change in changes):
            rows = dict(rows)
            apply([change for change in changes if change[0] == table], {table: rows}, {})
        return rows

    def insert(self, table, known, changes):
        values = []
        for _ in range(self.random.randint(1, ROWS_PER_TRANSACTION_MAX)):
            row = Row(self.txn, self.random.randint(0, 10**6), self.body_bytes())
            row_id = self.new_id(table, known, changes)
            values.append((row_id, self.number, row.txn, row.value, row.body(row_id)))
            changes.append([table, row_id, row.txn, row.value, row.body_bytes])
        self.cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s)", values)

    def new_id(self, table, known, changes):
        if table != "item1":
            return self.number * 10**9 + self.txn * 1000 + len(changes)
        while True:
            row_id = self.number * 10**9 + self.random.randrange(10**9)
            if row_id not in known and not any(change[:2] == [table, row_id] for change in changes):
                return row_id

    def body_bytes(self):
        """Mostly short; some that a page cannot hold."""
        return self.random.randint(10000, 60000) if self.random.random() < 0.01 else self.random.randint(0, 300)

    def update(self, table, known, changes):
        for row_id in self.choose(known):
            row = Row(self.txn, self.random.randint(0, 10**6), self.body_bytes())
            self.cursor.execute(f"UPDATE {table} SET txn = %s, value = %s, body = %s WHERE client = %s AND id = %s",
                                (row.txn, row.value, row.body(row_id), self.number, row_id))
            changes.append([table, row_id, row.txn, row.value, row.body_bytes])

    def delete(self, table, known, changes):
        chosen = self.choose(known)
        self.cursor.execute(f"DELETE FROM {table} WHERE client = %s AND id IN %s", (self.number, chosen))
        changes.extend([table, row_id] for row_id in chosen)

    def choose(self, known):
        return self.random.sample(list(known), min(len(known), self.random.randint(1, ROWS_PER_TRANSACTION_MAX)))


def apply(changes, items, ledger):
    """Brings a client's rows up to date with a transaction's changes: [table, id] deletes, [table, id, columns...] sets."""
    for table, row_id, *columns in changes:
        if table == "ledger":
            ledger[row_id] = tuple(columns)
        elif columns:
            items[table][row_id] = Row(*columns)
        else:
            items[table].pop(row_id, None)
