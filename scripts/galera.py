#!/usr/bin/env python3
"""`make galera`: a Galera cluster of three nodes on this machine, with tables of Sluice, under conflicts, DDL, kill -9 and state transfers.

    scripts/galera.py --quick                 what `make test` runs: less than a minute
    scripts/galera.py --minutes 30            12 writers on all nodes, kill -9 of a random node every minute
    scripts/galera.py --sst sluice ...        full transfers by Sluice's hot backup; --sst both: alternately with rsync
    scripts/galera.py --engine InnoDB ...     the control

The first node bootstraps the cluster, and the others join by a full state transfer. Then the test runs:

- statements that must be replicated, and statements that must be refused with a named reason and without a change;
- writers on all nodes, on a few hot rows and many cold ones, with foreign keys, while DDL runs;
- kills of nodes. A killed node gets the write sets that it missed, or, if its files were removed, a full transfer.

At the end all nodes must have the same rows, CHECK TABLE and sluice-check must find nothing, and every acknowledged commit must be there. Exit code 1
at a difference; the nodes' folders are then kept.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import connection  # noqa: E402
import pymysql.err  # noqa: E402
from server import PREFIX, Server, ServerError, SqlError, free_port  # noqa: E402

PROVIDER = PREFIX / "usr/lib/libgalera_smm.so"
HOT_ROWS, COLD_ROWS = 16, 10_000
DELETED_ROW = 1  # by TAKEN
PROGRAMS = ROOT / "target/release"
# What a node logs when a full transfer has ended.
FULL_TRANSFER = ("rsync SST completed on joiner", "sluice: the data directory has the state")
# Errors that a statement in a cluster may get: a conflict; a node that stops, or is not ready yet.
CONFLICT, NOT_THERE = (1213, 1205, 1020), (1047, 1180, 1317, 1205)
JOIN_SECONDS_MAX = 180
SETUP = """CREATE DATABASE d; USE d;
CREATE TABLE parent (id INT PRIMARY KEY, v INT NOT NULL, name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, UNIQUE KEY (name));
CREATE TABLE child (id BIGINT AUTO_INCREMENT PRIMARY KEY, parent INT, v INT NOT NULL, KEY (v),
                    FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);
CREATE TABLE bare (a INT, b VARCHAR(30)) ;
CREATE TABLE noted (writer INT, n INT, PRIMARY KEY (writer, n));"""


class Broken(Exception):
    """The cluster did what it must not do; the text says what."""


class Node(Server):
    def __init__(self, folder, name, group_port, engine, more=(), methods=("rsync",)):
        taken = [group_port]
        self.name, self.group_port = name, group_port
        self.methods, self.starts = methods, 0
        port, self.ist, self.sst = free_port(taken), free_port(taken), free_port(taken)
        self.seeds = ""
        self.fixed = [
            "--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-cluster-name=sluice",
            f"--wsrep-node-name={name}", "--wsrep-node-address=127.0.0.1", f"--wsrep-sst-receive-address=127.0.0.1:{self.sst}",
            f"--wsrep-provider-options=base_port={group_port};gmcast.listen_addr=tcp://127.0.0.1:{group_port};ist.recv_addr=127.0.0.1:{self.ist};"
            "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT3S;evs.inactive_timeout=PT6S;evs.install_timeout=PT6S;gcache.size=128M;pc.recovery=true",
            "--wsrep-slave-threads=4", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=32M", "--innodb-flush-log-at-trx-commit=1",
            "--lock-wait-timeout=60", *more]
        if engine == "Sluice":
            self.fixed += ["--sluice-buffer-pool-size=64M"]
        super().__init__(folder, port, plugins=("ha_sluice",) if engine == "Sluice" else (), engine=engine)

    def go(self, seeds="", bootstrap=False):
        """Starts the node: with the position that it finds in its files, as galera_recovery does."""
        position = self.prepare(seeds, bootstrap)
        self.start(timeout=JOIN_SECONDS_MAX)
        self.wait_synced()
        return position

    def prepare(self, seeds="", bootstrap=False, more=()):
        """All but the start."""
        self.method = self.methods[self.starts % len(self.methods)]
        self.starts += 1
        self.options = [*self.fixed, f"--wsrep-sst-method={self.method}", f"--wsrep-cluster-address=gcomm://{seeds}", *more]
        if bootstrap:
            self.options.append("--wsrep-new-cluster")
        position = self.recovered_position() if (self.data / "grastate.dat").exists() else ""
        if position:
            self.options.append(f"--wsrep-start-position={position}")
        self.install()
        self.open_for_rsync()
        return position

    def _environment(self):
        """With the program of Sluice's state transfer."""
        names = self.folder / "programs"
        names.mkdir(parents=True, exist_ok=True)
        name = names / "wsrep_sst_sluice"
        name.unlink(missing_ok=True)
        name.symlink_to(PROGRAMS / "sluice-backup")
        environment = super()._environment()
        return {**environment, "PATH": f"{names}:{environment['PATH']}"}

    def open_for_rsync(self):
        """The receiving rsync of root writes as nobody."""
        if os.geteuid() == 0 and self.method == "rsync":
            subprocess.run(["chown", "-R", "nobody", self.data], check=True)

    def recovered_position(self):
        log = self.folder / "recovery.log"
        self._make_folders()
        command = [*self.command(), *self.fixed, "--wsrep-cluster-address=gcomm://", "--wsrep-recover", f"--log-error={log}"]
        log.unlink(missing_ok=True)
        subprocess.run(command, env=self._environment(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=JOIN_SECONDS_MAX, check=False)
        found = re.findall(r"WSREP: Recovered position: (\S+)", log.read_text(errors="replace"))
        if not found:
            raise Broken(f"{self.name}: --wsrep-recover found no position (log: {log})")
        return found[-1].rstrip(",")

    def status(self, name):
        return dict(map(tuple, self.sql(f"SHOW STATUS LIKE 'wsrep_{name}'"))).get(f"wsrep_{name}", "")

    def wait_synced(self):
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                if self.status("ready") == "ON" and self.status("local_state_comment") == "Synced":
                    return
            except SqlError:
                if not self.running():
                    raise Broken(f"{self.name} ended (log: {self.log})") from None
            time.sleep(0.1)
        raise Broken(f"{self.name} is not synced after {JOIN_SECONDS_MAX} s (log: {self.log})")


class Cluster:
    def __init__(self, folder, engine, count=3, more=(), methods=("rsync",)):
        ports = []
        for _ in range(count):
            ports.append(free_port(ports))
        self.engine = engine
        self.nodes = [Node(folder / f"node{n}", f"node{n}", port, engine, more, methods) for n, port in enumerate(ports)]
        self.transfers = {"full": 0, "incremental": 0}

    def seeds(self, besides=None):
        return ",".join(f"127.0.0.1:{node.group_port}" for node in self.nodes if node is not besides)

    def start(self):
        self.nodes[0].go(bootstrap=True)
        for node in self.nodes[1:]:
            self.join(node)

    def join(self, node):
        began, log_from = time.monotonic(), node.log.stat().st_size if node.log.exists() else 0
        node.go(self.seeds(node))
        text = node.log.read_bytes()[log_from:].decode(errors="replace")
        kind = "full" if any(line in text for line in FULL_TRANSFER) else "incremental"
        self.transfers[kind] += 1
        return kind, time.monotonic() - began

    def stop(self):
        for node in reversed(self.nodes):
            node.stop()

    def wait_equal(self):
        """Every node has applied what any of them has committed."""
        last = max(int(node.status("last_committed")) for node in self.nodes)
        deadline = time.monotonic() + 60
        while min(int(node.status("last_committed")) for node in self.nodes) < last:
            if time.monotonic() > deadline:
                raise Broken("a node does not apply what others have committed")
            time.sleep(0.1)

    def compare(self, schema="d"):
        self.wait_equal()
        tables = [row[0] for row in self.nodes[0].sql("SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables "
                                                      f"WHERE table_schema = '{schema}' AND table_type = 'BASE TABLE'")]
        sums = [node.sql("CHECKSUM TABLE " + ", ".join(tables)) for node in self.nodes]
        for node, found in zip(self.nodes, sums):
            if found != sums[0]:
                raise Broken(f"{node.name} has other rows than node0: {[pair for pair in zip(found, sums[0]) if pair[0] != pair[1]]}")
        for node in self.nodes:
            bad = [row for row in node.sql("CHECK TABLE " + ", ".join(tables) + " EXTENDED") if row[2:] != ["status", "OK"]]
            if bad:
                raise Broken(f"{node.name}: CHECK TABLE says {bad}")
        return len(tables)


# ---- what must be replicated, and what must be refused ----

TAKEN = (
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, 'c')", "UPDATE t SET b = 20 WHERE a = 2", "UPDATE t SET a = 30 WHERE a = 3",
    "REPLACE INTO t VALUES (1, 1, 'A')", "INSERT INTO t VALUES (1, 5, 'x') ON DUPLICATE KEY UPDATE c = 'again'", "DELETE FROM t WHERE a = 30",
    "INSERT IGNORE INTO t VALUES (1, 9, 'x')", "BEGIN; INSERT INTO t VALUES (7, 7, 'z'); SAVEPOINT s; INSERT INTO t VALUES (8, 8, 'y'); "
    "ROLLBACK TO s; COMMIT", "BEGIN; SELECT COUNT(*) FROM t; SAVEPOINT s; INSERT INTO t VALUES (9, 9, 'undone'); ROLLBACK TO s; "
    "INSERT INTO t VALUES (10, 10, 'kept'); COMMIT", "INSERT INTO bare VALUES (1, 'x'), (1, 'x'), (2, 'y')", "UPDATE bare SET b = 'q' WHERE a = 2", "DELETE FROM bare WHERE a = 1 LIMIT 1",
    "CREATE TABLE copy SELECT * FROM t", "CREATE TABLE nothing SELECT * FROM t WHERE a < 0", "INSERT INTO copy SELECT a + 100, b, c FROM t",
    "ALTER TABLE t ADD COLUMN d INT DEFAULT 4", "ALTER TABLE t ADD KEY (c), ALGORITHM=COPY", "OPTIMIZE TABLE t",
    "CREATE TABLE gone (a INT); INSERT INTO gone VALUES (1); TRUNCATE TABLE gone; INSERT INTO gone VALUES (2); DROP TABLE gone",
    "CREATE TABLE parts (a INT PRIMARY KEY, b INT) PARTITION BY HASH (a) PARTITIONS 3; INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3); DELETE FROM parts WHERE a = 2",
    "INSERT INTO parent VALUES (1, 0, 'p'), (2, 0, 'q'); INSERT INTO child VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3); DELETE FROM parent WHERE id = 1",
    "CREATE TRIGGER tr AFTER INSERT ON bare FOR EACH ROW INSERT INTO copy VALUES (NEW.a + 1000, 1, 'tr'); INSERT INTO bare VALUES (9, 'fires'); DROP TRIGGER tr",
    "ALTER TABLE copy ENGINE=InnoDB; UPDATE copy SET b = 77; ALTER TABLE copy ENGINE=Sluice; UPDATE copy SET b = 78",
)
REFUSED = (
    "BEGIN; INSERT INTO i VALUES (100); INSERT INTO t (a, b, c) VALUES (100, 100, 'm'); COMMIT",
    "BEGIN; INSERT INTO t (a, b, c) VALUES (100, 100, 'm'); INSERT INTO i VALUES (100); COMMIT",
    "UPDATE i, t SET i.a = i.a + 50, t.b = t.b + 50", "INSERT INTO fires VALUES (5)",
    "CREATE SEQUENCE s ENGINE=Sluice",
    "SET SESSION wsrep_trx_fragment_unit='rows', wsrep_trx_fragment_size=1; INSERT INTO t (a, b, c) VALUES (100, 100, 'm')",
)
# Of MariaDB 11.8. Each node has this table for itself.
LOCAL_VECTORS = "SET SESSION wsrep_on=OFF; CREATE TABLE d.near (a INT PRIMARY KEY, v VECTOR(1) NOT NULL, VECTOR KEY (v)); " \
                "INSERT INTO d.near VALUES (1, VEC_FromText('[1]')), (2, VEC_FromText('[2]'))"
VECTORS_REFUSED = (
    "CREATE TABLE v (a INT PRIMARY KEY, v VECTOR(1) NOT NULL, VECTOR KEY (v))", "CREATE TABLE v LIKE near",
    "ALTER TABLE w ADD VECTOR KEY (v)", "CREATE VECTOR INDEX v ON w (v)", "ALTER TABLE x ENGINE=Sluice", "INSERT INTO near VALUES (3, VEC_FromText('[3]'))",
    "UPDATE near SET v = VEC_FromText('[4]') WHERE a = 1", "UPDATE near SET a = 5 WHERE a = 1", "DELETE FROM near", "REPLACE INTO near VALUES (1, VEC_FromText('[6]'))",
    "ALTER TABLE near FORCE", "OPTIMIZE TABLE near",
)


def refuse(cluster, refused, tables):
    """`tables` and the list of tables stay as they are."""
    def state():
        return first.sql(f"CHECKSUM TABLE {tables}; SHOW TABLES FROM d")

    first = cluster.nodes[0]
    before = state()
    for statement in refused:
        try:
            said = first.sql(f"USE d; {statement}")
            if not re.search("Galera", str(said)):  # OPTIMIZE answers with rows
                raise Broken(f"{statement}: was carried out")
        except SqlError as error:
            said = str(error)
            if not re.search("Galera|wsrep|1235|1105", said):
                raise Broken(f"{statement}: {error}") from None
            print(f"  refused: {statement.splitlines()[0][:70]}: {said.splitlines()[-1][:110]}", flush=True)
        if state() != before:
            raise Broken(f"{statement}: it was refused, and changed a table")


def vectors(cluster):
    """VECTOR indexes: none is made or changed in the cluster's order. The node's own table is for this node alone."""
    first = cluster.nodes[0]
    first.sql("USE d; CREATE TABLE w (a INT PRIMARY KEY, v VECTOR(1) NOT NULL); CREATE TABLE x (a INT PRIMARY KEY, v VECTOR(1) NOT NULL, VECTOR KEY (v)) ENGINE=InnoDB; "
              "INSERT INTO w VALUES (1, VEC_FromText('[1]')); INSERT INTO x VALUES (1, VEC_FromText('[1]'))")
    for node in cluster.nodes:
        node.sql(LOCAL_VECTORS)
    refuse(cluster, VECTORS_REFUSED, "d.near, d.w, d.x")
    found = first.sql("SELECT a FROM d.near ORDER BY VEC_DISTANCE_EUCLIDEAN(v, VEC_FromText('[1.9]')) LIMIT 1")
    checked = first.sql("CHECK TABLE d.near EXTENDED")
    if found != [["2"]] or checked[0][2:] != ["status", "OK"]:
        raise Broken(f"a node's own table with a VECTOR index: the nearest row is {found}, CHECK TABLE says {checked}")
    for node in cluster.nodes:
        node.sql("SET SESSION wsrep_on=OFF; UPDATE d.near SET v = VEC_FromText('[7]') WHERE a = 1; DELETE FROM d.near WHERE a = 2; DROP TABLE d.near")
    cluster.compare()
    return len(VECTORS_REFUSED)


def statements(cluster):
    """Each on another node than the one before."""
    first = cluster.nodes[0]
    first.sql("""USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE, c VARCHAR(20) COLLATE utf8mb4_general_ci);
                 CREATE TABLE i (a INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO i VALUES (1);
                 CREATE TABLE fires (a INT PRIMARY KEY) ENGINE=InnoDB;
                 CREATE TRIGGER fr AFTER INSERT ON fires FOR EACH ROW INSERT INTO t (a, b, c) VALUES (NEW.a + 200, NULL, 'f')""")
    for number, statement in enumerate(TAKEN):
        node = cluster.nodes[number % len(cluster.nodes)]
        cluster.wait_equal()
        try:
            node.sql(f"USE d; {statement}")
        except SqlError as error:
            raise Broken(f"{statement}: {error}") from None
    cluster.compare()
    if cluster.engine != "Sluice":
        return
    refuse(cluster, REFUSED, "d.t, d.i, d.fires")
    if cluster.nodes[0].sql("SHOW VARIABLES LIKE 'mhnsw_max_cache_size'"):
        print(f"  {vectors(cluster)} statements about VECTOR indexes refused", flush=True)
    cluster.compare()


def conflict_is_logged(cluster):
    """wsrep_log_conflicts: a transaction that holds a row lock, aborted by a write set, is in the error log of its node."""
    first, second = cluster.nodes[:2]
    second.sql("SET GLOBAL wsrep_log_conflicts=ON")
    log_from = second.log.stat().st_size
    client = connection.connect(second, "d")
    cursor = client.cursor()
    cursor.execute("BEGIN")
    cursor.execute("UPDATE parent SET v = v + 1 WHERE id = 3")
    first.sql("UPDATE d.parent SET v = v + 10 WHERE id = 3")
    cluster.wait_equal()
    try:
        client.commit()
        raise Broken("a transaction was committed whose row another node had changed")
    except pymysql.err.Error as error:
        if error.args[0] not in CONFLICT:
            raise
    second.sql("SET GLOBAL wsrep_log_conflicts=OFF")
    text = second.log.read_bytes()[log_from:].decode(errors="replace")
    for line in (r"cluster conflict due to high priority abort for threads:", r"waits for a row lock and wins: thread \d+, mode: high priority, .* seqno: \d+, "
                 r"statement: UPDATE d.parent SET v = v \+ 10 WHERE id = 3$",
                 rf"holds the row lock and is aborted: thread {client.thread_id()}, mode: local, state: idle, .* statement: none at this moment"):
        if cluster.engine == "Sluice" and not re.search(line, text, flags=re.MULTILINE):
            raise Broken(f"{second.name}: the error log has no line {line} ({second.log})")
    client.close()


# ---- writers ----

def rolled_back(client):
    """The connection after ROLLBACK, or None: an abort by another node can hit that statement too, which then answers 1213 or 1317."""
    try:
        client.rollback()
        return client
    except pymysql.err.Error as error:
        if error.args[0] not in (*CONFLICT, *NOT_THERE) and not connection.is_lost(error):
            raise
        return None


class Writer(threading.Thread):
    """Transactions on one node after the other. Notes each commit that was acknowledged."""

    def __init__(self, cluster, number, seed):
        super().__init__(daemon=True)
        self.cluster, self.number, self.rng = cluster, number, random.Random(seed)
        self.stopping, self.commits, self.conflicts, self.noted, self.failure = threading.Event(), 0, 0, [], None
        # Not decided: the connection went in COMMIT.
        self.unknown = set()

    def run(self):
        try:
            self.write()
        except Exception as error:  # the main thread raises it
            self.failure = error

    def write(self):
        node, client, n = self.cluster.nodes[self.number % len(self.cluster.nodes)], None, 0
        while not self.stopping.is_set():
            try:
                client = client or connection.connect(node, "d")
                n += 1
                cursor = client.cursor()
                cursor.execute("BEGIN")
                self.transaction(cursor)
                cursor.execute(f"INSERT INTO noted VALUES ({self.number}, {n})")
                self.unknown.add(n)
                client.commit()
                self.unknown.discard(n)
                self.noted.append(n)
                self.commits += 1
            except pymysql.err.Error as error:
                code = error.args[0] if error.args else 0
                if code in CONFLICT:
                    self.conflicts += 1
                    self.unknown.discard(n)
                    client = rolled_back(client)
                elif code in NOT_THERE or connection.is_lost(error):
                    client = None
                    time.sleep(0.2)
                elif code in (1452, 1062):
                    self.unknown.discard(n)
                    client = rolled_back(client)
                else:
                    raise
            except OSError:
                client = None
                time.sleep(0.2)

    def transaction(self, cursor):
        hot, cold = self.rng.randrange(HOT_ROWS), self.rng.randrange(HOT_ROWS, HOT_ROWS + COLD_ROWS)
        for _ in range(self.rng.randrange(1, 4)):
            what = self.rng.randrange(6)
            if what == 0:
                cursor.execute(f"UPDATE parent SET v = v + 1 WHERE id = {hot}")
                if cursor.rowcount != 1 and hot != DELETED_ROW:
                    raise Broken(f"an UPDATE of row {hot} of parent was answered, and changed {cursor.rowcount} rows")
            elif what == 1:
                cursor.execute(f"UPDATE parent SET v = v + 1 WHERE id = {cold}")
            elif what == 2:
                cursor.execute(f"INSERT INTO child (parent, v) VALUES ({self.rng.choice((hot, cold))}, {self.rng.randrange(100)})")
            elif what == 3:
                cursor.execute(f"DELETE FROM child WHERE v = {self.rng.randrange(100)} LIMIT 3")
            elif what == 4:
                cursor.execute(f"UPDATE child SET parent = {cold}, v = v + 1 WHERE v = {self.rng.randrange(100)} LIMIT 2")
            elif self.rng.randrange(4):
                cursor.execute(f"SELECT v FROM parent WHERE id = {hot} FOR UPDATE")
                cursor.execute(f"UPDATE parent SET name = CONCAT('n', {cold}, '-', {self.rng.randrange(5)}) WHERE id = {cold}")
            else:
                cursor.execute(f"DELETE FROM parent WHERE id = {cold}")
                cursor.execute(f"INSERT INTO parent VALUES ({cold}, 0, NULL)")


def fill(cluster):
    cluster.nodes[0].sql(SETUP)
    rows = ", ".join(f"({n}, 0, NULL)" for n in range(10, HOT_ROWS + COLD_ROWS)) + ", " + ", ".join(f"({n}, 0, NULL)" for n in (0, *range(3, 10)))
    cluster.nodes[0].sql(f"USE d; INSERT INTO parent VALUES {rows}")


def begin_writers(cluster, count, seed):
    writers = [Writer(cluster, number, seed + number) for number in range(count)]
    for writer in writers:
        writer.start()
    return writers


def end_writers(cluster, writers):
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(60)
        if writer.is_alive():
            raise Broken(f"writer {writer.number} hangs")
        if writer.failure:
            raise Broken(f"writer {writer.number}: {writer.failure!r}")
    cluster.wait_equal()
    for writer in writers:
        found = {int(row[0]) for row in cluster.nodes[0].sql(f"SELECT n FROM d.noted WHERE writer = {writer.number}")}
        lost = set(writer.noted) - found
        if lost:
            raise Broken(f"writer {writer.number}: {len(lost)} acknowledged commits are lost, for example {sorted(lost)[:5]}")
        extra = found - set(writer.noted) - writer.unknown
        if extra:
            raise Broken(f"writer {writer.number}: commits that were refused are there: {sorted(extra)[:5]}")
    return sum(w.commits for w in writers), sum(w.conflicts for w in writers)


def definitions(cluster, seconds):
    """DDL under the writers."""
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        node = random.choice([node for node in cluster.nodes if node.running()])
        number += 1
        for statement in (f"ALTER TABLE child ADD COLUMN x{number} INT", f"ALTER TABLE child DROP COLUMN x{number}", "ALTER TABLE bare ADD KEY (a)",
                          "ALTER TABLE bare DROP KEY a"):
            try:
                node.sql(f"USE d; {statement}", timeout=60)
            except SqlError as error:
                if "1213" not in str(error):
                    raise Broken(f"{statement}: {error}") from None
            time.sleep(0.3)


def kill_and_rejoin(cluster, node, loses_files=False, apart=1.0):
    node.kill9()
    if loses_files:
        shutil.rmtree(node.data)
    time.sleep(apart)
    kind, seconds = cluster.join(node)
    print(f"  {node.name} was killed{' and lost its files' if loses_files else ''}: {kind} transfer, back in {seconds:.1f} s", flush=True)
    return kind


def aborts(cluster):
    return sum(int(node.status("local_bf_aborts")) + int(node.status("local_cert_failures")) for node in cluster.nodes)


def run(cluster, options):
    began = time.monotonic()

    def say(text):
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    cluster.start()
    say(f"three nodes; transfers: {cluster.transfers}")
    fill(cluster)
    statements(cluster)
    conflict_is_logged(cluster)
    say(f"{len(TAKEN)} statements replicated, {len(REFUSED)} refused")
    quick = options.quick
    writers = begin_writers(cluster, 6 if quick else 12, options.seed)
    if quick:
        time.sleep(4)
        definitions(cluster, 2)
        # The second time the node has seen no write set of InnoDB since its start: its commits are durable after their turn (G9).
        for _ in range(2):
            if kill_and_rejoin(cluster, cluster.nodes[2], apart=0.5) != "incremental":
                raise Broken("a node that was killed for a moment asked for a full transfer")
            time.sleep(3)
    else:
        until, round_number = time.monotonic() + options.minutes * 60, 0
        while time.monotonic() < until:
            time.sleep(options.every * 0.7)
            definitions(cluster, options.every * 0.2)
            round_number += 1
            kill_and_rejoin(cluster, random.choice(cluster.nodes), loses_files=round_number % 3 == 0)
            for writer in writers:
                if writer.failure:
                    raise Broken(f"writer {writer.number}: {writer.failure!r}")
    commits, conflicts = end_writers(cluster, writers)
    say(f"{commits} commits, {conflicts} conflicts; the nodes count {aborts(cluster)} aborts; transfers: {cluster.transfers}")
    tables = cluster.compare()
    say(f"{tables} tables are equal on all nodes, CHECK TABLE finds nothing")
    for table, checksum in cluster.nodes[0].sql("CHECKSUM TABLE d.parent, d.child, d.noted, d.bare"):
        print(f"  checksum of {table} on all nodes: {checksum}", flush=True)
    cluster.stop()
    if cluster.engine == "Sluice":
        for node in cluster.nodes:
            check_files(node)
        say("sluice-check finds nothing in the files of any node")


def check_files(node):
    """Of a stopped node, by a program that shares no code with the engine."""
    result = subprocess.run([PROGRAMS / "sluice-check", node.data], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Broken(f"{node.name}: sluice-check: {(result.stdout + result.stderr)[-600:]}")


def check_programs(methods):
    if not PROVIDER.exists():
        sys.exit(f"error: there is no {PROVIDER}: run make first")
    if not (PROGRAMS / "sluice-check").exists():
        sys.exit(f"error: there is no {PROGRAMS}/sluice-check: run make sluice-check first")
    if "sluice" in methods and not (PROGRAMS / "sluice-backup").exists():
        sys.exit(f"error: there is no {PROGRAMS}/sluice-backup: run make sluice-backup first")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the part of make test")
    parser.add_argument("--minutes", type=float, default=5, help="of writers and kills (%(default)s)")
    parser.add_argument("--every", type=float, default=60, help="seconds from kill to kill (%(default)s)")
    parser.add_argument("--engine", default="Sluice", choices=("Sluice", "InnoDB"))
    parser.add_argument("--sst", default="rsync", choices=("rsync", "sluice", "both"), help="how full transfers are made (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="of all nodes; repeatable")
    options = parser.parse_args()
    methods = ("rsync", "sluice") if options.sst == "both" else (options.sst,)
    check_programs(methods)
    random.seed(options.seed)
    print(f"seed {options.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-galera-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, options.engine, more=options.option, methods=methods)
    try:
        run(cluster, options)
    except (Broken, ServerError, SqlError) as error:
        for node in cluster.nodes:
            node.kill9()
        sys.exit(f"error: {error}\nthe nodes' folders stay: {folder}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
