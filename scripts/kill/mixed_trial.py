"""The kill test with tables of two engines in every transaction (`kill.py --mixed`): after a restart both parts are there, or neither.

Half of item0..2, account and ledger belong to InnoDB, so the server commits in two phases, with its binlog as coordinator. A part of
the transactions is XA's: prepared, left so for a moment, committed. After the restart XA RECOVER must list every transaction whose
PREPARE was acknowledged and whose COMMIT was not sent; the trial commits or rolls back those at random. One whose COMMIT was sent is
there, or is still listed and is committed; one whose PREPARE was not answered is rolled back. Beyond that the account of rows
(trial.py) applies: a transaction of which one engine has its half and the other not is found by that.
"""
import json
import time

import connection
import trial
import workload
from trial import Broken

OTHER = "InnoDB"
TABLES_OF_OTHER = ("item1", "account")
XA_SHARE = 0.4
HOLD_SHARE, HOLD_SECONDS = 0.1, 0.05


class Client(workload.Client):
    """As any client of the kill test; some of its transactions are XA's."""

    def begin(self):
        self.xid = None
        if self.random.random() < XA_SHARE:
            self.xid = f"{self.number}.{self.txn}"
            self.xa("START")

    def xa(self, what):
        self.cursor.execute(f"XA {what} '{self.xid}'")

    def roll_back(self):
        if self.xid is None:
            self.link.rollback()
            return
        try:
            self.xa("END")
        except connection.pymysql.err.Error as error:  # a deadlock has ended it already, for rollback only
            if connection.is_lost(error):
                raise
        self.xa("ROLLBACK")

    def commit(self):
        if self.xid is None:
            self.link.commit()
            return
        self.xa("END")
        self.write(["preparing"])
        try:
            self.xa("PREPARE")
        except connection.pymysql.err.Error as error:  # refused: it stays ended, and is to be rolled back
            if not connection.is_lost(error):
                self.xa("ROLLBACK")
            raise
        self.write(["prepared"])
        if self.random.random() < HOLD_SHARE:
            time.sleep(HOLD_SECONDS)
        self.write(["committing"])
        self.xa("COMMIT")


class MixedTrial(trial.Trial):
    def prepare(self):
        self.logs.mkdir(parents=True, exist_ok=True)
        workload.create_tables(self.server, self.engine, self.database, dict.fromkeys(TABLES_OF_OTHER, OTHER))

    def client(self, number, seed):
        known = self.known[number]
        Client(self.server, self.database, number, seed, known.items, known.ledger, known.txn, self.log(number)).run(trial.SECONDS_MAX)

    def verify(self, outcome):
        self.decide()
        super().verify(outcome)

    def decide(self):
        """Ends what XA RECOVER lists, and notes in the clients' logs what must have become of each."""
        with connection.connect(self.server, self.database, autocommit=True) as link, link.cursor() as cursor:
            cursor.execute("XA RECOVER")
            listed = {bytes(row[3]).decode() if not isinstance(row[3], str) else row[3] for row in cursor.fetchall()}
            for number in range(len(self.known)):
                self.decide_client(number, cursor, listed)
        if listed:
            raise Broken(f"XA RECOVER lists what nobody prepared: {sorted(listed)}")

    def decide_client(self, number, cursor, listed):
        phase, txn = self.phase(number)
        if phase not in ("preparing", "prepared", "committing"):
            return
        xid = f"{number}.{txn}"
        is_listed = xid in listed
        listed.discard(xid)
        if phase == "prepared" and not is_listed:
            raise Broken(f"XA transaction {xid} was prepared, acknowledged, and is gone")
        commit = phase == "committing" or phase == "prepared" and self.random.random() < 0.5
        if is_listed:
            cursor.execute(f"XA {'COMMIT' if commit else 'ROLLBACK'} '{xid}'")
        with open(self.log(number), "a") as log:
            log.write(json.dumps(["done" if commit else "failed"]) + "\n")

    def phase(self, number):
        """The last line of the client's log, and the transaction it is about."""
        kind, txn = None, None
        for line in self.log(number).read_text().splitlines():
            kind, *rest = json.loads(line)
            txn = rest[0] if kind == "commit" else txn
        return kind, txn

    def follow_log(self, number, known, outcome):
        log = self.log(number)
        kept = [line for line in log.read_text().splitlines() if json.loads(line)[0] in ("commit", "done", "failed")]
        log.write_text("".join(line + "\n" for line in kept))
        return super().follow_log(number, known, outcome)
