#!/usr/bin/env python3
"""`make sharding`: tables of Sluice in several servers, behind the server's own engine Spider, all on this machine.

    scripts/sharding.py                     rates for 1, 2 and 3 shards, then what a crash leaves
    scripts/sharding.py --part rates --seconds 10
    scripts/sharding.py --part crash --kills 5

rates   single-row inserts (oltp_insert) and point reads (oltp_point_select) of sysbench: at one server directly, then through Spider.
crash   transfers between accounts of two shards, and kill -9 of a shard or of the Spider node in the middle: the sum of all accounts, and the
        transactions that stay prepared, first as Spider is by default, then with spider_internal_xa=ON and the prepared ones settled.
Exit code 1 if with spider_internal_xa=ON the sum is wrong after the settlement, or a server loses what it has acknowledged.
Needs the engine Spider (scripts/fetch-lab-tools spider fetches it).
"""
import argparse
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
import pymysql.err  # noqa: E402
from server import PREFIX, Server, ServerError, SqlError, free_port  # noqa: E402

SPIDER = ROOT / "build/lab-tools/spider/usr/lib/mysql/plugin/ha_spider.so"
COLUMNS = "id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY k_1 (k)"
ACCOUNTS, START_BALANCE = 200, 1000


class Broken(Exception):
    """Something is as it must not be."""


class Shard(Server):
    def __init__(self, folder, host, taken):
        port = free_port(taken)
        taken.append(port)
        self.host = host
        super().__init__(folder, port, [f"--bind-address={host}", "--skip-name-resolve", *engines.options("Sluice", "128M", "128M", 10), "--innodb-buffer-pool-size=16M", "--max-connections=500"])

    def prepare(self):
        self.start()
        self.sql("CREATE DATABASE shop; CREATE USER spider@'127.0.0.%' IDENTIFIED BY 'spider'; GRANT ALL ON *.* TO spider@'127.0.0.%'")


class Router(Server):
    """The Spider node. It has no rows of its own."""

    def __init__(self, folder, taken, options=()):
        port = free_port(taken)
        taken.append(port)
        super().__init__(folder, port, ["--innodb-buffer-pool-size=16M", "--max-connections=500", "--innodb-lock-wait-timeout=10",
                                        "--spider-connect-timeout=5", "--spider-net-read-timeout=15", "--spider-remote-sql-log-off=1", *options],
                         plugins=("ha_spider",), engine="InnoDB")

    def _make_folders(self):
        super()._make_folders()
        (self.folder / "plugin" / SPIDER.name).symlink_to(SPIDER)

    def use(self, shards):
        """One server definition for each shard. Each has a host of its own: in mysql.spider_xa_member the host alone names the shard."""
        self.sql("CREATE DATABASE IF NOT EXISTS shop")
        for number, shard in enumerate(shards):
            self.sql(f"CREATE OR REPLACE SERVER shard{number} FOREIGN DATA WRAPPER mysql OPTIONS (HOST '{shard.host}', PORT {shard.port}, "
                     "DATABASE 'shop', USER 'spider', PASSWORD 'spider')")

    def make_table(self, name, columns, count):
        parts = ", ".join(f"PARTITION p{number} COMMENT = 'srv \"shard{number}\"'" for number in range(count))
        self.sql(f"DROP TABLE IF EXISTS shop.{name}; CREATE TABLE shop.{name} ({columns}) ENGINE=SPIDER "
                 f"COMMENT='wrapper \"mysql\", table \"{name}\"' PARTITION BY HASH (id) ({parts})")


def sysbench(server, script, rows, threads, seconds, seed):
    folder = PREFIX / "usr/share/sysbench"
    command = [PREFIX / "usr/bin/sysbench", folder / f"{script}.lua", "run", "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=shop",
               "--tables=1", f"--table-size={rows}", "--auto_inc=off", "--db-ps-mode=disable", "--rand-type=uniform", f"--rand-seed={seed}", f"--threads={threads}",
               f"--time={seconds}", "--mysql-ignore-errors=1062"]  # random keys of inserts meet others
    # The scripts load oltp_common.lua from the folder they are started in.
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"transactions: +\d+ +\(([\d.]+) per sec", result.stdout)
    if not found:
        raise Broken(f"sysbench {script}: {(result.stdout + result.stderr)[-400:]}")
    return float(found.group(1))


def fill(server, rows):
    for at in range(0, rows, 5000):
        server.sql(f"USE shop; INSERT INTO sbtest1 SELECT seq, seq % 1000, REPEAT('c', 119), REPEAT('p', 59) FROM seq_{at + 1}_to_{min(at + 5000, rows)}")


def rates(router, shards, options):
    places = [("one server, no Spider", shards[0], 1)] + [(f"Spider, {n} shard{'s' if n > 1 else ''}", router, n) for n in range(1, len(shards) + 1)]
    found = {name: {"oltp_insert": [], "oltp_point_select": []} for name, _, _ in places}
    for repeat in range(options.repeats):
        for name, server, count in places if repeat % 2 == 0 else reversed(places):
            for shard in shards:
                shard.sql(f"CREATE OR REPLACE TABLE shop.sbtest1 ({COLUMNS}) ENGINE=Sluice")
            router.make_table("sbtest1", COLUMNS, count)
            fill(server, options.rows)
            for script in ("oltp_point_select", "oltp_insert"):
                found[name][script].append(sysbench(server, script, options.rows, options.threads, options.seconds, options.seed + repeat))
    rows = [[name, *(f"{statistics.median(of[script]):,.0f}" for script in ("oltp_insert", "oltp_point_select"))] for name, of in found.items()]
    display.table(["where the rows are", "inserts/s", "point reads/s"], rows, f"medians of {options.repeats}, {options.threads} clients")


# ---- crashes ----

class Mover(threading.Thread):
    """Moves money between two accounts, which mostly are in two shards. Notes each commit that was acknowledged."""

    def __init__(self, router, number, seed):
        super().__init__(daemon=True)
        self.router, self.number, self.rng = router, number, random.Random(seed)
        self.stopping, self.moved, self.refused, self.failure = threading.Event(), [], 0, None

    def run(self):
        client, n = None, 0
        while not self.stopping.is_set():
            try:
                client = client or connection.connect(self.router, "shop")
                n += 1
                cursor = client.cursor()
                one, other = self.rng.sample(range(1, ACCOUNTS + 1), 2)
                cursor.execute("BEGIN")
                for account, amount in sorted(((one, -1), (other, 1))):
                    cursor.execute(f"UPDATE account SET balance = balance + {amount} WHERE id = {account}")
                cursor.execute(f"INSERT INTO noted VALUES ({self.number * 1_000_000 + n}, {one}, {other})")
                client.commit()
                self.moved.append(self.number * 1_000_000 + n)
            except (pymysql.err.Error, OSError):
                self.refused += 1
                if client:
                    try:
                        client.close()
                    except (pymysql.err.Error, OSError):
                        pass
                client = None
                time.sleep(0.05)


def names(shard):
    """The prepared transactions of a shard as XA COMMIT takes them."""
    return [row[3] for row in shard.sql("XA RECOVER FORMAT='SQL'")]


def decided(router):
    """The transactions that Spider has decided to commit: (gtrid, bqual) in hexadecimal."""
    rows = router.sql("SELECT gtrid_length, bqual_length, LOWER(HEX(data)) FROM mysql.spider_xa WHERE status = 'COMMIT'")
    return {(data[:2 * int(gtrid)], data[2 * int(gtrid):2 * (int(gtrid) + int(bqual))]) for gtrid, bqual, data in rows}


def name_parts(name):
    """(gtrid, bqual) of a name, in hexadecimal. XA RECOVER writes 'f','1' where the bytes are letters and digits, else X'0a',X'31',1."""
    return tuple(digits or text.encode().hex() for digits, text in re.findall(r"X'([0-9A-Fa-f]*)'|'([^']*)'", name))[:2]


def settle(router, shards):
    """Ends what stays prepared: commits what Spider's log has as decided, rolls the others back. Returns (commits, rollbacks).
    The log is then emptied: a Spider node that starts counts its transactions from 1 again, and would meet the old names."""
    log, counts = decided(router), [0, 0]
    for shard in shards:
        for name in names(shard):
            commits = name_parts(name) in log
            shard.sql(f"XA {'COMMIT' if commits else 'ROLLBACK'} {name}")
            counts[0 if commits else 1] += 1
    router.sql("DELETE FROM mysql.spider_xa; DELETE FROM mysql.spider_xa_member")
    return counts


def crash(router, shards, options, internal_xa):
    for shard in shards:
        shard.sql("CREATE OR REPLACE TABLE shop.account (id BIGINT PRIMARY KEY, balance INT NOT NULL) ENGINE=Sluice; "
                  "CREATE OR REPLACE TABLE shop.noted (id BIGINT PRIMARY KEY, one INT, other INT) ENGINE=Sluice")
    router.make_table("account", "id BIGINT PRIMARY KEY, balance INT NOT NULL", len(shards))
    router.make_table("noted", "id BIGINT PRIMARY KEY, one INT, other INT", len(shards))
    router.sql(f"SET GLOBAL spider_internal_xa = {internal_xa}; USE shop; INSERT INTO account SELECT seq, {START_BALANCE} FROM seq_1_to_{ACCOUNTS}")
    rng, wrong, left, settled = random.Random(options.seed), 0, 0, [0, 0]
    commits = refused = lost = 0
    for number in range(options.kills):
        movers = [Mover(router, 100 * number + n, options.seed + 100 * number + n) for n in range(8)]
        for mover in movers:
            mover.start()
        time.sleep(2 + rng.random())
        victim = router if number % 3 == 2 else rng.choice(shards)
        victim.kill9()
        time.sleep(0.5)
        victim.start()
        if victim is router:
            router.sql(f"SET GLOBAL spider_internal_xa = {internal_xa}")
        time.sleep(1)
        for mover in movers:
            mover.stopping.set()
        for mover in movers:
            mover.join(60)
        # Connections that Spider keeps hold what they have prepared, or changed.
        router.stop()
        router.start()
        router.sql(f"SET GLOBAL spider_internal_xa = {internal_xa}")
        found = sum(len(names(shard)) for shard in shards)
        left += found
        done = settle(router, shards)
        settled = [a + b for a, b in zip(settled, done)]
        total = sum(int(shard.sql("SELECT COALESCE(SUM(balance), 0) FROM shop.account")[0][0]) for shard in shards)
        if total != ACCOUNTS * START_BALANCE:
            wrong += 1
        there = {int(row[0]) for shard in shards for row in shard.sql("SELECT id FROM shop.noted")}
        acknowledged = {n for mover in movers for n in mover.moved}
        lost += len(acknowledged - there)
        commits += len(acknowledged)
        refused += sum(mover.refused for mover in movers)
        router.sql(f"UPDATE shop.account SET balance = {START_BALANCE}")
    print(f"spider_internal_xa={internal_xa}: {options.kills} kills, {commits} commits, {refused} refused; the sum was wrong {wrong} times; "
          f"{left} transactions stayed prepared, of which {settled[0]} were committed and {settled[1]} rolled back; {lost} acknowledged rows lost", flush=True)
    if internal_xa == "ON" and wrong or lost:
        raise Broken("a transaction over two shards was half done, or an acknowledged one was lost")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=("rates", "crash"))
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the servers' folders")
    options = parser.parse_args()
    subprocess.run([ROOT / "scripts/fetch-lab-tools", "spider"], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-sharding-"))
    taken = []
    shards = [Shard(folder / f"shard{n}", f"127.0.0.{n + 1}", taken) for n in range(options.shards)]
    router = Router(folder / "router", taken)
    try:
        for shard in shards:
            shard.prepare()
        router.start()
        router.use(shards)
        parts = options.part or ("rates", "crash")
        if "rates" in parts:
            rates(router, shards, options)
        if "crash" in parts:
            for internal_xa in ("OFF", "ON"):
                crash(router, shards[:2], options, internal_xa)
    except (Broken, ServerError, SqlError) as error:
        for server in (router, *shards):
            server.kill9()
        sys.exit(f"error: {error}\nthe folders stay: {folder}")
    for server in (router, *shards):
        server.stop()
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
