"""One trial of the kill test: clients write, the server is killed with SIGKILL and started again, and every row is accounted for.

What must hold after the restart, for each client: its rows are exactly those of the transactions that were acknowledged, in
order; and of the one transaction whose COMMIT was sent but not answered (there is at most one) either all changes are there or
none. Every account has the balance that the ledger says, and all together have what they had at the start. Every index holds
what the table holds, and CHECK TABLE finds nothing. Called by kill.py and by scripts/demo.
"""
import copy
import json
import multiprocessing
import random
import time
from dataclasses import dataclass, field

import connection
import workload

SECONDS_MAX = 600


class Broken(Exception):
    """Something is lost, or there that should not be; the text says what."""


@dataclass
class Outcome:
    seconds_written: float = 0
    acknowledged: int = 0
    in_doubt_there: int = 0
    in_doubt_gone: int = 0
    recovery_seconds: float = 0
    recoveries_killed: int = 0
    rows: int = 0


@dataclass
class Known:
    """What is known of a client's rows: verified, and then as its log says."""
    items: dict = field(default_factory=lambda: {table: {} for table in workload.ITEM_TABLES})
    ledger: dict = field(default_factory=dict)
    txn: int = 0


class Trial:
    """Repeated rounds on one server: the rows that a round leaves are what the next one starts from."""

    outcome_class = Outcome

    def __init__(self, server, engine, database="kill_test", clients=8, seed=None):
        self.server = server
        self.engine = engine
        self.database = database
        self.random = random.Random(seed)
        self.known = [Known() for _ in range(clients)]
        self.logs = server.folder / "client-logs"

    def prepare(self):
        self.logs.mkdir(parents=True, exist_ok=True)
        workload.create_tables(self.server, self.engine, self.database)

    def round(self, seconds, kill_recovery=False, sabotage=None):
        """Write, kill, restart, verify; raises Broken. `sabotage` is a statement that damages the data, to see that it is noticed."""
        outcome = self.outcome_class()
        self.write_and_kill(seconds, outcome)
        self.restart(kill_recovery, outcome)
        if sabotage:
            self.server.sql(sabotage, self.database)
        self.verify(outcome)
        return outcome

    def write_and_kill(self, seconds, outcome):
        processes = [multiprocessing.get_context("fork").Process(target=target, args=arguments) for target, arguments in self.processes()]
        started = time.monotonic()
        for process in processes:
            process.start()
        time.sleep(seconds)
        died = not self.server.running()
        self.server.kill9()
        outcome.seconds_written = time.monotonic() - started
        for process in processes:
            process.join(60)
        if died:
            raise Broken(f"the server died by itself (log: {self.server.log})")
        for number, process in enumerate(processes):
            if process.exitcode != 0:
                raise Broken(f"client {number} met an error that is not a lost connection, see above")

    def processes(self):
        """(function, arguments) of each process that writes until the server is gone."""
        return [(self.client, (number, self.random.random())) for number in range(len(self.known))]

    def client(self, number, seed):
        known = self.known[number]
        workload.Client(self.server, self.database, number, seed, known.items, known.ledger, known.txn, self.log(number)).run(SECONDS_MAX)

    def log(self, number):
        return self.logs / f"client{number}"

    def restart(self, kill_recovery, outcome):
        if kill_recovery:
            try:
                self.server.start(timeout=self.random.uniform(0.05, 0.6))
            except Exception as error:
                if "not ready" not in str(error):
                    raise
            self.server.kill9()
            outcome.recoveries_killed += 1
        started = time.monotonic()
        self.server.start(timeout=300)
        outcome.recovery_seconds = time.monotonic() - started

    # ---- judging ----

    def verify(self, outcome):
        with connection.connect(self.server, self.database) as link, link.cursor() as cursor:
            found = read_items(cursor)
            ledger = read_ledger(cursor)
            for number, known in enumerate(self.known):
                self.verify_client(number, known, found, ledger, outcome)
            expected_rows = sum(len(rows) for known in self.known for rows in known.items.values())
            outcome.rows = sum(len(rows) for rows in found.values())
            if outcome.rows != expected_rows:
                raise Broken(f"{outcome.rows} rows are there, {expected_rows} belong to the clients")
            verify_accounts(cursor, ledger)
            for table in (*workload.ITEM_TABLES, "account", "ledger"):
                verify_indexes(cursor, self.database, table)
                verify_check_table(cursor, table)

    def verify_client(self, number, known, found, ledger, outcome):
        in_doubt = self.follow_log(number, known, outcome)
        there = {table: {row_id: row for (client, row_id), row in found[table].items() if client == number} for table in found}
        there_ledger = {row_id: columns for row_id, (client, *columns) in ledger.items() if client == number}
        there_ledger = {row_id: tuple(columns) for row_id, columns in there_ledger.items()}
        if matches(known, there, there_ledger):
            outcome.in_doubt_gone += in_doubt is not None
            return
        if in_doubt is not None:
            with_it = copy.deepcopy(known)
            workload.apply(in_doubt, with_it.items, with_it.ledger)
            if matches(with_it, there, there_ledger):
                known.items, known.ledger = with_it.items, with_it.ledger
                outcome.in_doubt_there += 1
                return
        raise Broken(f"client {number}: " + "; ".join(differences(known, there, there_ledger, in_doubt)))

    def follow_log(self, number, known, outcome):
        """Applies the acknowledged transactions; returns the changes of the one whose fate is open, or None."""
        in_doubt = None
        for line in self.log(number).read_text().splitlines():
            kind, *rest = json.loads(line)
            if kind == "commit":
                known.txn, in_doubt = rest
            else:
                if kind == "done":
                    workload.apply(in_doubt, known.items, known.ledger)
                    outcome.acknowledged += 1
                in_doubt = None
        self.log(number).unlink()
        return in_doubt


def read_items(cursor):
    """{table: {(client, id): (txn, value, body)}}, read through the table itself, not an index."""
    found = {}
    for table in workload.ITEM_TABLES:
        cursor.execute(f"SELECT id, client, txn, value, body FROM {table}")
        rows = cursor.fetchall()
        found[table] = {(client, row_id): (txn, value, body) for row_id, client, txn, value, body in rows}
        if len(found[table]) != len(rows):
            raise Broken(f"{table}: {len(rows) - len(found[table])} rows are there twice")
    return found


def read_ledger(cursor):
    cursor.execute("SELECT id, client, giver, taker, amount FROM ledger")
    return {row_id: columns for row_id, *columns in cursor.fetchall()}


def matches(known, there, there_ledger):
    return known.ledger == there_ledger and all(
        known.items[table].keys() == there[table].keys()
        and all(there[table][row_id] == (row.txn, row.value, row.body(row_id)) for row_id, row in known.items[table].items())
        for table in there)


def differences(known, there, there_ledger, in_doubt):
    """The first few things that are not as the log says, in words."""
    yield f"in doubt is a transaction of {len(in_doubt)} changes" if in_doubt is not None else "nothing is in doubt"
    for table in there:
        lost = sorted(known.items[table].keys() - there[table].keys())
        extra = sorted(there[table].keys() - known.items[table].keys())
        other = [row_id for row_id, row in known.items[table].items()
                 if row_id in there[table] and there[table][row_id] != (row.txn, row.value, row.body(row_id))]
        for what, ids in (("lost", lost), ("there that should not be", extra), ("not as acknowledged", other)):
            if ids:
                yield f"{table}: {len(ids)} rows {what}, such as id {ids[:3]}"
        for row_id in other[:1]:
            txn, value, body = there[table][row_id]
            yield f"{table} {row_id}: expected {known.items[table][row_id]}, found txn={txn} value={value} body of {len(body)}"
    if known.ledger != there_ledger:
        lost, extra = known.ledger.keys() - there_ledger.keys(), there_ledger.keys() - known.ledger.keys()
        yield f"ledger: lost {sorted(lost)[:3]}, there that should not be {sorted(extra)[:3]}"


def verify_accounts(cursor, ledger):
    expected = dict.fromkeys(range(workload.ACCOUNTS), workload.BALANCE_AT_START)
    for _, giver, taker, amount in ledger.values():
        expected[giver] -= amount
        expected[taker] += amount
    cursor.execute("SELECT id, balance FROM account")
    found = dict(cursor.fetchall())
    wrong = [number for number in expected if found.get(number) != expected[number]]
    if wrong or found.keys() != expected.keys():
        raise Broken(f"{len(wrong)} accounts do not have the balance that the ledger says, such as {wrong[:3]}: "
                     f"found {[found.get(number) for number in wrong[:3]]}, expected {[expected[number] for number in wrong[:3]]}")
    if sum(found.values()) != workload.ACCOUNTS * workload.BALANCE_AT_START:
        raise Broken(f"all balances together are {sum(found.values())}")


def verify_indexes(cursor, database, table):
    """Every index, read by itself, has the same content as the table has in its columns."""
    cursor.execute("SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics "
                   "WHERE table_schema = %s AND table_name = %s AND index_name <> 'PRIMARY' GROUP BY index_name", (database, table))
    for index, columns in cursor.fetchall():
        content = f"SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS(',', {columns}))), 0) FROM {table}"
        cursor.execute(f"{content} FORCE INDEX ({index})")
        by_index = cursor.fetchone()
        cursor.execute(f"{content} USE INDEX ()")
        by_table = cursor.fetchone()
        if by_index != by_table:
            cursor.execute("SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                           (database, table))
            engine, = cursor.fetchone()
            raise Broken(f"{table}.{index} and the table differ: (rows, checksum) {by_index} and {by_table}; the table is {engine}'s")


def verify_check_table(cursor, table):
    cursor.execute(f"CHECK TABLE {table} EXTENDED")
    messages = [row[2:] for row in cursor.fetchall() if row[2:] != ("status", "OK")]
    if messages:
        raise Broken(f"CHECK TABLE {table}: {messages}")
