#!/usr/bin/env python3
"""Tests VECTOR indexes while clients change rows, definitions change, and the server is killed: scripts/trixie scripts/vectors.py

Needs MariaDB 11.8. Each client has a part of the ids, and knows which of its transactions were acknowledged. It inserts, updates and
deletes rows with savepoints and rollbacks, at all isolation levels, in a table with a primary key, one with a key of varying length, and one
without a key. Other clients search all the time. One client renames, copies, optimizes, and truncates a table of its own. Every
other round ends with a kill at a random moment. The rounds between end with searches, while the server still has the nodes in its cache.
There sluice-backup makes a backup while the clients go on. After each start, and in a server with the restored backup

- every acknowledged row is there with its vector, and no other one; in a backup, all rows of one moment between two commits of a client;
- CHECK TABLE ... EXTENDED finds each row in the graph, and nothing else in it;
- the engine has no graph without a table, and no table of a cut ALTER;
- searches by the index have what a search through all rows has: RECALL of the nearest, in the right order.

Before the rounds a transaction is cut short by a kill, and others change the same graph while the next start rolls it back.
With --stand-in the plugin has InnoDB's name, and takes its place. Exit code 1 at the first failure.
"""
import argparse
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import connection  # noqa: E402
import display  # noqa: E402
import pymysql.err  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

PROGRAMS = BUILD.parent / "target/release"
DIMENSIONS = 8
DATABASE = "vectors"
RECALL = 0.9
NEAREST = 10
SEARCHES = 30
FEW_ROWS = 16
COMMIT_ORDER_SECONDS = 2
CACHE_BYTES = 4 << 20  # at the smallest value, 1 MiB, the server would empty its cache of nodes after each search
ROLLBACK_SECONDS_MAX = 50
OLD_VECTORS_MAX = 0.15  # of all searches beside commits
TABLES = {
    "by_id": "CREATE TABLE by_id (id INT PRIMARY KEY, v VECTOR({n}) NOT NULL, note INT, VECTOR KEY (v))",
    "by_name": "CREATE TABLE by_name (id INT NOT NULL UNIQUE, name VARCHAR(20) NOT NULL DEFAULT (CONCAT('row ', id)), v VECTOR({n}) NOT NULL, note INT, "
               "VECTOR KEY (v), PRIMARY KEY (name))",
    "without_key": "CREATE TABLE without_key (id INT NOT NULL, v VECTOR({n}) NOT NULL, note INT, KEY (id), VECTOR KEY (v))",
}
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
LEVELS_OF_SEARCHES = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ")
# Waits, deadlocks, snapshot conflicts, a table that changed since the snapshot, a killed server.
LOCK_WAIT_TIMEOUT, TABLE_DEFINITION_CHANGED = 1205, 1412
EXPECTED = (LOCK_WAIT_TIMEOUT, 1213, 1020, TABLE_DEFINITION_CHANGED)


class Broken(Exception):
    """The account does not balance; the text says where."""


def packed(vector):
    return struct.pack(f"<{DIMENSIONS}f", *vector)


def digest(rows):
    return hash(frozenset((*key, packed(vector)) for key, vector in rows.items()))


def some_vector(rng):
    return [round(rng.gauss(0, 1), 3) for _ in range(DIMENSIONS)]


class Client(threading.Thread):
    """Rows of its own: (table, id) -> vector. `open` is what the transaction under way would leave: it may come or not. `states` are the
    digests of what its commits have left, one after the other."""

    def __init__(self, server, number, seed, stop, rows):
        super().__init__(daemon=True)
        self.server, self.number, self.rng, self.stop = server, number, random.Random(seed * 1000 + number), stop
        self.rows, self.open, self.commits, self.failure = rows, None, 0, None
        self.states = [digest(rows)]

    def run(self):
        try:
            with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
                while not self.stop.is_set():
                    self.transaction(link, cursor)
        except Exception as error:  # noqa: BLE001  (a killed server shows in many ways)
            if not connection.is_lost(error):
                self.failure = error

    def transaction(self, link, cursor):
        rows = dict(self.rows)
        try:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {self.rng.choice(LEVELS)}")
            cursor.execute("BEGIN")
            table = self.rng.choice(list(TABLES))
            self.change(cursor, rows, table)
            if self.rng.random() < 0.3:
                kept = dict(rows)
                cursor.execute("SAVEPOINT s")
                self.change(cursor, rows, self.rng.choice(list(TABLES)))
                if self.rng.random() < 0.6:
                    cursor.execute("ROLLBACK TO s")
                    rows = kept
                    self.change(cursor, rows, table)
            if self.rng.random() < 0.2:
                link.rollback()
                return
            self.open = rows
            link.commit()
            self.rows, self.open = rows, None
            self.states.append(digest(rows))
            self.commits += 1
        except pymysql.err.MySQLError as error:
            if error.args[0] not in EXPECTED:
                raise
            self.open = None
            link.rollback()

    def change(self, cursor, rows, table):
        mine = [key for key in rows if key[0] == table]
        for _ in range(self.rng.randint(1, 6)):
            what, vector = self.rng.random(), some_vector(self.rng)
            if what < 0.6 or not mine:
                key = (table, self.number * 1000000 + self.rng.randint(1, 3000))
                if key in rows:
                    continue
                cursor.execute(f"INSERT INTO {table} (id, v, note) VALUES (%s, VEC_FromText(%s), 0)", (key[1], str(vector)))
                rows[key] = vector
                mine.append(key)
                continue
            key = self.rng.choice(mine)
            if what < 0.8:
                cursor.execute(f"UPDATE {table} SET v = VEC_FromText(%s) WHERE id = %s", (str(vector), key[1]))
                rows[key] = vector
            elif what < 0.9:
                cursor.execute(f"UPDATE {table} SET note = note + 1 WHERE id = %s", key[1])
            else:
                cursor.execute(f"DELETE FROM {table} WHERE id = %s", key[1])
                del rows[key]
                mine.remove(key)


class Searcher(threading.Thread):
    """No search fails. What it returns is in order, but for a row that is changed at that very moment."""

    def __init__(self, server, seed, stop, tables=tuple(TABLES), levels=LEVELS_OF_SEARCHES):
        super().__init__(daemon=True)
        self.server, self.rng, self.stop, self.failure, self.searches = server, random.Random(seed), stop, None, 0
        self.tables, self.levels, self.out_of_order = tables, levels, 0

    def run(self):
        try:
            with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
                while not self.stop.is_set():
                    cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {self.rng.choice(self.levels)}")
                    cursor.execute("BEGIN")
                    self.search_some(cursor)
                    link.commit()
        except Exception as error:  # noqa: BLE001
            if not connection.is_lost(error):
                self.failure = error

    def search_some(self, cursor):
        for _ in range(self.rng.randint(1, 4)):
            try:
                found = search(cursor, self.rng.choice(self.tables), some_vector(self.rng))
            except pymysql.err.MySQLError as error:
                if error.args[0] != TABLE_DEFINITION_CHANGED:
                    raise
                return  # the copy is younger than the snapshot
            self.searches += 1
            self.out_of_order += not in_order(found)


class Definer(threading.Thread):
    """Changes definitions of a table of its own, and copies those of the others."""

    def __init__(self, server, seed, stop):
        super().__init__(daemon=True)
        self.server, self.rng, self.stop, self.failure, self.statements = server, random.Random(seed), stop, None, 0

    def run(self):
        try:
            with connection.connect(self.server, DATABASE, autocommit=True) as link, link.cursor() as cursor:
                # Long enough for every wait: if an ALTER gives up, and the server is killed while it removes the copy, the server's DDL log
                # has the copy as complete. The next start then drops the table, of any engine.
                cursor.execute("SET lock_wait_timeout = 50")
                while not self.stop.is_set():
                    self.statement(cursor)
        except Exception as error:  # noqa: BLE001
            if not connection.is_lost(error):
                self.failure = error

    def statement(self, cursor):
        other = self.rng.choice(list(TABLES))
        chosen = self.rng.choice([
            "CREATE TABLE IF NOT EXISTS d (id INT AUTO_INCREMENT PRIMARY KEY, v VECTOR({n}) NOT NULL, VECTOR KEY (v))", "TRUNCATE TABLE d",
            "DROP TABLE IF EXISTS d", "RENAME TABLE d TO e", "RENAME TABLE e TO d", "ALTER TABLE d ADD c INT", "ALTER TABLE d DROP c",
            "ALTER TABLE d FORCE", "ALTER TABLE d DROP KEY v", "ALTER TABLE d ADD VECTOR KEY (v)", "DROP TABLE IF EXISTS e",
            f"OPTIMIZE TABLE {other}", f"ALTER TABLE {other} FORCE, LOCK=NONE, ALGORITHM=COPY"] + ["INSERT"] * 6)
        try:
            if chosen == "INSERT":
                cursor.execute("INSERT INTO d (v) VALUES (VEC_FromText(%s)), (VEC_FromText(%s))", (str(some_vector(self.rng)), str(some_vector(self.rng))))
            else:
                cursor.execute(chosen.replace("{n}", str(DIMENSIONS)))
            self.statements += 1
        except pymysql.err.MySQLError as error:
            # No such table, exists, no such key or column, twice, a second VECTOR key, and what waits meet.
            if error.args[0] not in (*EXPECTED, 1146, 1050, 1091, 1060, 1061, 1176, 1054, 1846, 1845, 1235):
                raise


def search(cursor, table, vector, limit=NEAREST):
    cursor.execute(f"SELECT id, v, VEC_DISTANCE_EUCLIDEAN(v, VEC_FromText(%s)) d FROM {table} ORDER BY d LIMIT {limit}", str(vector))
    return [(row[0], math.dist(struct.unpack(f"<{DIMENSIONS}f", row[1]), vector), row[2]) for row in cursor.fetchall()]


def in_order(found):
    return all(before[2] <= after[2] * 1.05 + 1e-2 for before, after in zip(found, found[1:]))  # the index compares rounded vectors


def check_order(found):
    for number, distance, said in found:
        if abs(distance - said) > 1e-3:
            raise Broken(f"row {number} is at {distance}, not {said}")
    if not in_order(found):
        raise Broken(f"rows come in the order of {[row[2] for row in found]}")
    if len({row[0] for row in found}) != len(found):
        raise Broken(f"a row comes twice: {[row[0] for row in found]}")


def check_rows(cursor, clients):
    for table in TABLES:
        cursor.execute(f"SELECT id, v FROM {table} USE INDEX ()")
        there = {number: tuple(struct.unpack(f"<{DIMENSIONS}f", v)) for number, v in cursor.fetchall()}
        for client in clients:
            mine = {number: v for number, v in there.items() if number // 1000000 == client.number}
            wanted = [{number: tuple(struct.unpack(f"<{DIMENSIONS}f", packed(v))) for (of, number), v in rows.items() if of == table}
                      for rows in (client.rows, client.open) if rows is not None]
            if mine not in wanted:
                raise Broken(f"table {table}, client {client.number}: {len(mine)} rows, not the {[len(rows) for rows in wanted]} acknowledged ones")


def rows_of_client(cursor, client):
    there = {}
    for table in TABLES:
        cursor.execute(f"SELECT id, v FROM {table} USE INDEX () WHERE id DIV 1000000 = %s", client.number)
        there.update({(table, number): v for number, v in cursor.fetchall()})
    return there


def settle(cursor, clients):
    """A transaction whose acknowledgement was cut off has come, or not, as a whole."""
    for client in clients:
        if client.open is None:
            continue
        there = rows_of_client(cursor, client)
        came = there == {key: packed(v) for key, v in client.open.items()}
        if not came and there != {key: packed(v) for key, v in client.rows.items()}:
            raise Broken(f"client {client.number}: a part of its last transaction is there")
        client.rows, client.open = (client.open if came else client.rows), None


def check_states(cursor, clients):
    """Of a backup. Clients are not compared with one another: a commit of each may have come or not."""
    for client in clients:
        there = rows_of_client(cursor, client)
        if hash(frozenset((*key, vector) for key, vector in there.items())) not in client.states:
            raise Broken(f"the backup has {len(there)} rows of client {client.number}, which none of its commits has left")


def check_tables(cursor, server):
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", DATABASE)
    tables = [row[0] for row in cursor.fetchall()]
    for table in tables:
        cursor.execute(f"CHECK TABLE {table} EXTENDED")
        result = cursor.fetchall()
        if [row[3] for row in result] != ["OK"]:
            raise Broken(f"CHECK TABLE {table}: {result}")
    cursor.execute(f"SELECT name FROM information_schema.{server.engine}_tables WHERE name LIKE %s", f"{DATABASE}/%")
    names = [row[0].split("/")[1] for row in cursor.fetchall()]
    alone = [name for name in names if name.split("#i#")[0] not in tables]
    if alone:
        raise Broken(f"tables without a definition: {alone}")


def check_searches(cursor, rng):
    """The part of the nearest rows that searches by the index found."""
    found, wanted = 0, 0
    for table in TABLES:
        cursor.execute(f"SELECT id, v FROM {table} USE INDEX ()")
        rows = {number: struct.unpack(f"<{DIMENSIONS}f", v) for number, v in cursor.fetchall()}
        for _ in range(SEARCHES):
            vector = some_vector(rng)
            by_index = search(cursor, table, vector)
            check_order(by_index)
            by_hand = sorted(rows, key=lambda number: math.dist(rows[number], vector))[:NEAREST]
            if len(by_index) != len(by_hand):
                raise Broken(f"table {table}: {len(by_index)} rows of {len(by_hand)}")
            found += len({row[0] for row in by_index} & set(by_hand))
            wanted += len(by_hand)
    if found < wanted * RECALL:
        raise Broken(f"searches found {found} of the {wanted} nearest rows")
    return found / wanted if wanted else 1


def check_all(server, rng, check):
    """`check` compares the rows. Returns the recall."""
    with connection.connect(server, DATABASE, autocommit=True) as link, link.cursor() as cursor:
        check(cursor)
        check_tables(cursor, server)
        return check_searches(cursor, rng)


class Backup:
    """A backup made and restored while clients go on."""

    def __init__(self, server):
        self.source, self.folder = server, server.folder.with_name(server.folder.name + "-restored")

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        programs = self.source.base / "bin"
        self.run("backup", self.folder / "backup.slb", f"--socket={self.source.socket}", "--user=root", f"--client={programs}/mariadb",
                 f"--mariadb-backup={programs}/mariadb-backup")
        self.run("restore", self.folder / "backup.slb", f"--to={self.folder}/data", f"--mbstream={programs}/mbstream",
                 f"--sluice-check={PROGRAMS}/sluice-check", f"--mariadb-backup={programs}/mariadb-backup")

    def run(self, *arguments):
        done = subprocess.run([PROGRAMS / "sluice-backup", *arguments, "--quiet"], capture_output=True, text=True)
        if done.returncode:
            raise Broken(f"sluice-backup {arguments[0]}: {done.stderr}")

    def check(self, clients, rng):
        copy = server_of(self.source.stand_in, self.folder, self.source.options)
        copy.start()
        try:
            recall = check_all(copy, rng, lambda cursor: check_states(cursor, clients))
        except BaseException:
            copy.kill9()
            raise
        copy.stop()
        return recall


class CrashedWriter:
    """A transaction that the next start rolls back in the background, its changes of a graph last. No other change of the graph may come before."""

    ROWS, LARGE, CLIENTS = 40, 1_000_000, 4

    def __init__(self, server):
        self.server, self.kept, self.failure = server, [], None

    def insert(self, cursor, number):
        cursor.execute("INSERT INTO cut VALUES (%s, VEC_FromText(%s))", (number, str([round(random.gauss(0, 1), 3) for _ in range(DIMENSIONS)])))

    def insert_at_last(self, cursor, number):
        until = time.monotonic() + ROLLBACK_SECONDS_MAX
        while True:
            try:
                return self.insert(cursor, number)
            except pymysql.err.MySQLError as error:
                if error.args[0] != LOCK_WAIT_TIMEOUT or time.monotonic() > until:
                    raise

    def crash(self):
        with connection.connect(self.server, DATABASE) as link, link.cursor() as cursor:
            cursor.execute(f"CREATE TABLE cut (id INT PRIMARY KEY, v VECTOR({DIMENSIONS}) NOT NULL, VECTOR KEY (v))")
            cursor.execute("CREATE TABLE large (id INT PRIMARY KEY)")
            cursor.execute("INSERT INTO large VALUES (0)")  # a load of an empty table would need no rollback of rows
            for number in range(self.ROWS):
                self.insert(cursor, number)
            link.commit()
            for number in range(self.ROWS):
                self.insert(cursor, 1000 + number)
            cursor.execute("DELETE FROM cut WHERE id < 10")
            cursor.execute(f"INSERT INTO large SELECT seq FROM seq_1_to_{self.LARGE}")
            # What is committed later is in the log before it, so all of the cut transaction is there after the crash.
            with connection.connect(self.server, DATABASE, autocommit=True) as other, other.cursor() as synced:
                synced.execute("CREATE TABLE later (id INT PRIMARY KEY)")
                synced.execute("INSERT INTO later VALUES (1)")
            self.server.kill9()

    def client(self, number):
        try:
            with connection.connect(self.server, DATABASE, autocommit=True) as link, link.cursor() as cursor:
                for n in range(self.ROWS):
                    self.insert_at_last(cursor, 10000 * number + n)
                    self.kept.append(10000 * number + n)
        except Exception as error:  # noqa: BLE001
            self.failure = error

    def run(self):
        self.crash()
        self.server.start()
        threads = [threading.Thread(target=self.client, args=(n + 1,), daemon=True) for n in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            if self.failure or thread.is_alive():
                raise Broken(f"beside the rollback of a crashed transaction: {self.failure or 'hangs'!r}")
        with connection.connect(self.server, DATABASE, autocommit=True) as link, link.cursor() as cursor:
            cursor.execute("SELECT id FROM cut USE INDEX () ORDER BY id")
            there = [row[0] for row in cursor.fetchall()]
            if there != sorted([*range(self.ROWS), *self.kept]):
                raise Broken(f"after the rollback of a crashed transaction {len(there)} rows are there, not {self.ROWS + len(self.kept)}")
            check_tables(cursor, self.server)
            cursor.execute("SET mhnsw_ef_search = 200")
            found = search(cursor, "cut", [0] * DIMENSIONS, len(there))
            if len(found) < len(there) * RECALL:
                raise Broken(f"after the rollback of a crashed transaction a search finds {len(found)} of {len(there)} rows")
            cursor.execute("DROP TABLE cut, large, later")


def check_commit_order(server, rng):
    """One client changes the vectors of few rows, so that each search finds most of them. Only a search during which a commit takes place
    may show a row by its old vector. After each the nodes in the server's cache are the committed ones."""
    with connection.connect(server, DATABASE, autocommit=True) as link, link.cursor() as cursor:
        cursor.execute(f"CREATE TABLE few (id INT PRIMARY KEY, v VECTOR({DIMENSIONS}) NOT NULL, VECTOR KEY (v))")
        rows = {number: some_vector(rng) for number in range(FEW_ROWS)}
        for row in rows.items():
            cursor.execute("INSERT INTO few VALUES (%s, VEC_FromText(%s))", (row[0], str(row[1])))
        stop = threading.Event()
        searchers = [Searcher(server, rng.randrange(10**6), stop, ["few"], ["READ COMMITTED"]) for _ in range(2)]
        for searcher in searchers:
            searcher.start()
        until, changes = time.monotonic() + COMMIT_ORDER_SECONDS, 0
        while time.monotonic() < until:
            number, vector = rng.randrange(FEW_ROWS), some_vector(rng)
            cursor.execute("UPDATE few SET v = VEC_FromText(%s) WHERE id = %s", (str(vector), number))
            changes += 1
            nearest, second = search(cursor, "few", rows[number])[:2]
            if nearest[0] == number and not in_order([nearest, second]):
                raise Broken(f"row {number} was changed, and is found by its old vector afterwards")
            rows[number] = vector
        stop.set()
        for searcher in searchers:
            searcher.join(60)
            if searcher.failure or searcher.is_alive():
                raise Broken(f"search beside commits: {searcher.failure or 'hangs'!r}")
        searches, wrong = sum(s.searches for s in searchers), sum(s.out_of_order for s in searchers)
        if wrong > searches * OLD_VECTORS_MAX:
            raise Broken(f"{wrong} of {searches} searches beside {changes} commits show a row by its old vector")
        cursor.execute("DROP TABLE few")
    return f"{wrong} of {searches} searches beside {changes} commits showed a row by its old vector"


def one_round(server, clients, seed, seconds, rng, kills, backs_up):
    stop = threading.Event()
    fresh = [Client(server, client.number, seed, stop, client.rows) for client in clients]
    others = [*(Searcher(server, seed * 7 + n, stop) for n in range(2)), Definer(server, seed, stop)]
    for thread in (*fresh, *others):
        thread.start()
    time.sleep(rng.uniform(seconds / 2, seconds))
    backup = Backup(server) if backs_up else None
    if backup:
        backup.make()
    if kills:
        server.kill9()
    stop.set()
    for thread in (*fresh, *others):
        thread.join(60)
        if thread.failure or thread.is_alive():
            raise Broken(f"{type(thread).__name__}: {thread.failure or 'hangs'!r}")
    if sum(s.out_of_order for s in others[:2]) > 2 + sum(s.searches for s in others[:2]) / 100:
        raise Broken(f"{[s.out_of_order for s in others[:2]]} of {[s.searches for s in others[:2]]} searches are out of order")

    def check(cursor):
        settle(cursor, fresh)
        check_rows(cursor, fresh)

    if kills:
        server.start()
    else:
        check_all(server, rng, check)
        server.stop()
        server.start()
    recalls = [check_all(server, rng, check)]
    if backup:
        recalls.append(backup.check(fresh, rng))
    return fresh, f"{'kill' if kills else 'stop'}{', backup' if backup else ''}; {sum(c.commits for c in fresh)} commits, " \
                  f"{sum(s.searches for s in others[:2])} searches ({sum(s.out_of_order for s in others[:2])} out of order), " \
                  f"{others[2].statements} definitions, {len(sum((list(c.rows) for c in fresh), []))} rows, " \
                  f"recall {' and '.join(f'{recall:.3f}' for recall in recalls)}"


def server_of(stand_in, folder, options):
    return Server(folder, free_port(), options, stand_in=stand_in)


def main():
    parser = argparse.ArgumentParser(description="VECTOR indexes under changes, definitions and kill -9.")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--binlog", action="store_true", help="every other two rounds")
    parser.add_argument("--stand-in", action="store_true", help="the plugin in InnoDB's place: build/ha_innodb.so")
    parser.add_argument("--no-backups", action="store_true", help="without sluice-backup")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/vectors", help="where the server lives")
    arguments = parser.parse_args()
    folder = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    of_engine = ["--innodb-log-file-size=16M"] if arguments.stand_in else [
        "--sluice-buffer-pool-size=32M", "--sluice-redo-log-capacity=16M", "--sluice-lock-wait-timeout=3"]
    options = [*of_engine, "--innodb-buffer-pool-size=32M", "--innodb-lock-wait-timeout=3", f"--mhnsw-max-cache-size={CACHE_BYTES}", "--mhnsw-ef-search=60"]
    server = server_of(arguments.stand_in, folder, options)
    rng = random.Random(arguments.seed)
    try:
        server.start()
        server.sql(f"CREATE DATABASE {DATABASE}; USE {DATABASE}; " + "; ".join(table.replace("{n}", str(DIMENSIONS)) for table in TABLES.values()))
        CrashedWriter(server).run()
        display.say("other changes waited for the rollback of a crashed transaction")
        display.say(check_commit_order(server, rng))
        clients = [Client(server, number + 1, arguments.seed, None, {}) for number in range(arguments.clients)]
        for number in range(arguments.rounds):
            clients, what = one_round(server, clients, arguments.seed + number, arguments.seconds, rng, kills=number % 2 == 0,
                                      backs_up=number % 2 and not arguments.no_backups)
            display.say(f"round {number + 1}: {what}")
            if arguments.binlog:
                server.stop()
                server.options = options + (["--log-bin=binlog", "--binlog-format=ROW", "--server-id=1"] if number % 4 == 1 else [])
                server.start()
        server.stop()
    except (Broken, ServerError, pymysql.err.Error) as error:
        server.kill9()
        sys.exit(f"BROKEN, seed {arguments.seed}: {error}\nserver's folder: {folder}")
    display.say(f"{arguments.rounds} rounds: every acknowledged row is there, and in its graph (seed {arguments.seed})")


if __name__ == "__main__":
    main()
