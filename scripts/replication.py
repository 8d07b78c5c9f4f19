#!/usr/bin/env python3
"""`make replication`: a primary under sysbench oltp_read_write, a replica with 8 optimistic threads, kill -9 of either at random; at the
end both must hold the same rows.

The replica keeps its GTID position in mysql.gtid_slave_pos, made a table of the engine: so a transaction and the note that it was
applied are one transaction of one engine. The primary has its binlog synced at each commit; binlog and engine then commit in two
phases, and a kill comes anywhere in them. Besides the checksums: no replication error was met, CHECK TABLE finds nothing, and the
replica has no row twice or behind (it waits for the primary's last GTID). `--engine InnoDB` is the control. Exit code 1 at a difference;
the servers' folders then stay, for a look.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts/bench")]
import cells  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

POOL, REDO = "64M", "32M"
CATCH_UP_SECONDS_MAX = 300
# Of SHOW ALL SLAVES STATUS: what the SQL threads and the I/O thread complain of. A primary that is down is no complaint.
PRIMARY_DOWN = (0, 2002, 2003, 2013, 1053, 1158, 1159, 1160, 1161, 1927)


class Broken(Exception):
    """Replication stopped, or the two differ; the text says how."""


class Pair:
    def __init__(self, engine, folder, parallel, mode):
        self.engine, self.parallel, self.mode = engine, parallel, mode
        self.primary = self.server(folder / "primary", 1, ["--binlog-row-image=MINIMAL"])
        # The log of applied transactions is the replica's too: it is killed in the same two phases.
        self.replica = self.server(folder / "replica", 2, ["--log-slave-updates", "--skip-slave-start", "--slave-parallel-threads="
                                                          f"{parallel}", f"--slave-parallel-mode={mode}", "--slave-net-timeout=10"])

    def server(self, folder, number, more):
        options = engines.options(self.engine, POOL, REDO, 50)
        binlog = ["--log-bin=binlog", "--sync-binlog=1", "--binlog-format=ROW", f"--server-id={number}", "--gtid-strict-mode=ON"]
        return Server(folder, free_port(), [*options, *binlog, *more], plugins=engines.PLUGINS[self.engine], engine=self.engine)

    def start(self):
        self.primary.start()
        self.replica.start()
        # Not in its binlog: with a GTID of its own there the strict mode would refuse the primary's.
        self.replica.sql(f"SET sql_log_bin=0; ALTER TABLE mysql.gtid_slave_pos ENGINE={self.engine}")
        self.primary.sql("CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")
        self.replica.sql(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='repl', "
                         "MASTER_PASSWORD='repl', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos; START SLAVE")

    def kill(self, server):
        server.kill9()
        server.start(timeout=120)
        if server is self.replica:
            server.sql("START SLAVE")

    def status(self):
        """{name: value} of SHOW ALL SLAVES STATUS."""
        lines = subprocess.run(self.replica.client("--vertical", "-e", "SHOW ALL SLAVES STATUS"), capture_output=True, text=True).stdout
        pairs = (line.partition(":") for line in lines.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def check_running(self):
        status = self.status()
        if int(status.get("Last_SQL_Errno") or 0) or status.get("Slave_SQL_Running") != "Yes":
            raise Broken(f"the replica's SQL thread: {status.get('Last_SQL_Errno')} {status.get('Last_SQL_Error')}")
        if int(status.get("Last_IO_Errno") or 0) not in PRIMARY_DOWN:
            raise Broken(f"the replica's I/O thread: {status['Last_IO_Errno']} {status['Last_IO_Error']}")
        return status

    def catch_up(self):
        position = self.primary.sql("SELECT @@gtid_binlog_pos")[0][0]
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        while self.replica.sql(f"SELECT MASTER_GTID_WAIT('{position}', 5)")[0][0] != "0":
            self.check_running()
            if time.monotonic() > deadline:
                raise Broken(f"the replica did not come to {position} in {CATCH_UP_SECONDS_MAX} s")
        return position

    def compare(self, database, tables):
        names = [f"{database}.sbtest{number + 1}" for number in range(tables)]
        sums = []
        for server in (self.primary, self.replica):
            checked = [row for row in server.sql("; ".join(f"CHECK TABLE {name} EXTENDED" for name in names)) if row[-1] != "OK"]
            if checked:
                raise Broken(f"CHECK TABLE: {checked[:3]}")
            sums.append(server.sql(f"CHECKSUM TABLE {', '.join(names)} EXTENDED"))
        if sums[0] != sums[1]:
            different = [f"{a[0]}: {a[1]} and {b[1]}" for a, b in zip(*sums) if a != b]
            raise Broken(f"checksums differ: {', '.join(different)}")
        counts = self.primary.sql("; ".join(f"SELECT COUNT(*) FROM {name}" for name in names))
        return sum(int(row[0]) for row in counts)

    def engine_of_positions(self):
        rows = self.replica.sql("SELECT engine, COUNT(*) FROM information_schema.tables WHERE table_schema = 'mysql' AND "
                                "table_name LIKE 'gtid_slave_pos%' GROUP BY engine")
        if rows != [[self.engine.upper() if self.engine == "SLUICE" else self.engine, "1"]] and len(rows) != 1:
            raise Broken(f"positions are kept in {rows}")
        return rows[0][0]

    def stop(self, how):
        for server in (self.replica, self.primary):
            getattr(server, how)()


def sysbench(server, engine, rows, tables, threads, seconds):
    """A run that ends by itself, or when the server is gone."""
    folder = server.prefix / "usr/share/sysbench"
    return subprocess.Popen(
        [server.prefix / "usr/bin/sysbench", f"{folder}/oltp_read_write.lua", "--db-driver=mysql", f"--mysql-socket={server.socket}",
         "--mysql-user=root", f"--mysql-db={cells.database(engine)}", f"--mysql-ignore-errors={cells.ERRORS_IGNORED}", f"--tables={tables}",
         f"--table-size={rows}", "--rand-type=pareto", f"--threads={threads}", f"--time={seconds:.0f}", "--events=0", "run"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(pair, arguments, rng):
    engine, tables = arguments.engine, arguments.tables
    cells.Bench(pair.primary, arguments.rows, tables).prepare(engine)
    deadline = time.monotonic() + 60 * arguments.minutes
    killed = {pair.primary: 0, pair.replica: 0}
    load = None
    try:
        while time.monotonic() < deadline:
            if load is None or load.poll() is not None:
                load = sysbench(pair.primary, engine, arguments.rows, tables, arguments.threads, deadline - time.monotonic() + 1)
            time.sleep(rng.uniform(*arguments.life))
            pair.check_running()
            server = rng.choice((pair.primary, pair.replica)) if arguments.kill == "either" else getattr(pair, arguments.kill)
            pair.kill(server)
            killed[server] += 1
    finally:
        if load is not None:
            load.kill()
            load.wait()
    written = pair.catch_up()
    rows = pair.compare(cells.database(engine), tables)
    status = pair.check_running()
    retried = pair.replica.sql("SHOW GLOBAL STATUS LIKE 'Slave_retried_transactions'")[0][1]
    return (f"{engine}: primary killed {killed[pair.primary]} times, replica {killed[pair.replica]}; {rows} rows in {tables} tables equal at "
            f"{written} (positions in {pair.engine_of_positions()}, {status['Parallel_Mode']}, {retried} retried since the last start)")


def main():
    parser = argparse.ArgumentParser(description="A primary and a replica under load, killed at random, compared.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kill", default="either", choices=("either", "primary", "replica"))
    parser.add_argument("--life", type=float, nargs=2, default=(3, 12), metavar="SECONDS", help="between two kills")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8, help="of sysbench")
    parser.add_argument("--parallel", type=int, default=8, help="threads of the replica")
    parser.add_argument("--mode", default="optimistic", choices=("optimistic", "conservative", "aggressive"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--folder", type=pathlib.Path, help="where the servers live (build/run/replication-ENGINE, made anew)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    folder = arguments.folder or BUILD / f"run/replication-{arguments.engine}"
    shutil.rmtree(folder, ignore_errors=True)
    pair = Pair(arguments.engine, folder, arguments.parallel, arguments.mode)
    try:
        pair.start()
        display.say(run(pair, arguments, random.Random(seed)))
        pair.stop("stop")
    except (Broken, ServerError, SqlError, cells.CellError) as error:
        pair.stop("kill9")
        sys.exit(f"BROKEN, {arguments.engine}, seed {seed}: {error}\nservers' folders: {folder}")
    except BaseException:
        pair.stop("kill9")
        raise


if __name__ == "__main__":
    main()
