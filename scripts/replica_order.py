#!/usr/bin/env python3
"""A replica applies chains of dependent transactions by parallel threads, and its binary log does not record them.

Without log_slave_updates the server keeps no order of commits for transactions over two engines: the rows of one, and the GTID position
in the other (plugin/replica_order.h). The rows are in tables of Sluice, of InnoDB, or of both in one transaction; the position is in
either engine. In each round the replica starts on a backlog. It must not stop, must have the primary's rows, and warns of two engines.
Exit code 1 if not.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import display  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

ENGINES = ("Sluice", "InnoDB")
CATCH_UP_SECONDS_MAX = 60
WARNING = "one engine may have it, and not the other"


class Broken(Exception):
    """The replica stopped, or has other rows; the text says how."""


def chains(engines, count):
    """Transactions over a table of each engine, nearly all of which need the one before."""
    statements = [f"CREATE TABLE t{engine} (id INT PRIMARY KEY, n INT) ENGINE={engine}" for engine in engines]
    for i in range(count):
        steps = (f"INSERT INTO t VALUES ({i}, 0)", f"UPDATE t SET id = {i + 1000} WHERE id = {i}", f"UPDATE t SET n = 1 WHERE id = {i + 1000}",
                 f"UPDATE t SET id = {i + 2000} WHERE id = {i + 1000}", f"INSERT INTO t VALUES ({i + 3000}, 9)")
        for step in steps:
            parts = [step.replace(" t ", f" t{engine} ") for engine in engines]
            statements += ["BEGIN", *parts, "COMMIT"] if len(parts) > 1 else parts
    return "; ".join(statements)


class Pair:
    def __init__(self, folder, threads):
        memory = ["--innodb-buffer-pool-size=32M", "--sluice-buffer-pool-size=32M", "--binlog-format=ROW", "--log-bin=binlog"]
        replica = ["--server-id=2", "--skip-slave-start", f"--slave-parallel-threads={threads}", "--slave-parallel-mode=optimistic"]
        self.primary = Server(folder / "primary", free_port(), [*memory, "--server-id=1"])
        self.replica = Server(folder / "replica", free_port((self.primary.port,)), [*memory, *replica])

    def start(self):
        self.primary.start()
        self.replica.start()
        self.primary.sql("CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")
        self.replica.sql(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='repl', "
                         "MASTER_PASSWORD='repl', MASTER_USE_GTID=slave_pos")

    def stop(self, how):
        for server in (self.replica, self.primary):
            getattr(server, how)()

    def error(self):
        shown = subprocess.run(self.replica.client("--vertical", "-e", "SHOW SLAVE STATUS"), capture_output=True, text=True).stdout
        lines = [line.partition(":") for line in shown.splitlines()]
        return next((value.strip() for name, _, value in lines if name.strip() == "Last_SQL_Error"), "")

    def round(self, database, engines, position, count):
        """The replica applies a backlog of so many chains."""
        self.replica.sql(f"STOP SLAVE; SET sql_log_bin=0; ALTER TABLE mysql.gtid_slave_pos ENGINE={position}")
        self.primary.sql(f"CREATE DATABASE {database}")
        self.primary.sql(chains(engines, count), database)
        end = self.primary.sql("SELECT @@gtid_binlog_pos")[0][0]
        self.replica.sql("START SLAVE")
        for _ in range(CATCH_UP_SECONDS_MAX):
            if self.replica.sql(f"SELECT MASTER_GTID_WAIT('{end}', 1)")[0][0] == "0":
                break
            if self.error():
                raise Broken(f"the replica stopped: {self.error()}")
        else:
            raise Broken(f"the replica did not come to {end} in {CATCH_UP_SECONDS_MAX} s")
        for engine in engines:
            rows = [server.sql(f"SELECT * FROM t{engine} ORDER BY id", database) for server in (self.primary, self.replica)]
            if rows[0] != rows[1]:
                missing, more = ([row for row in rows[i] if row not in rows[1 - i]] for i in (0, 1))
                raise Broken(f"the replica's table of {engine} lacks {missing[:3]} and has {more[:3]}")


def main():
    parser = argparse.ArgumentParser(description="Chains of transactions on a replica that does not log them.")
    parser.add_argument("--rounds", type=int, default=4, help="of each combination of engines")
    parser.add_argument("--chains", type=int, default=40, help="in a round")
    parser.add_argument("--threads", type=int, default=4, help="of the replica")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/replica-order", help="where the servers live (made anew)")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    pair, done = Pair(arguments.folder, arguments.threads), 0
    try:
        pair.start()
        for number in range(arguments.rounds):
            for engines in (ENGINES[:1], ENGINES[1:], ENGINES):
                for position in ENGINES:
                    what = f"rows in {' and '.join(engines)}, position in {position}, round {number + 1}"
                    try:
                        pair.round(f"d{done}", engines, position, arguments.chains)
                    except Broken as error:
                        raise Broken(f"{what}: {error}") from error
                    done += 1
        if WARNING not in (arguments.folder / "replica/log").read_text(errors="replace"):
            raise Broken("the error log does not warn of two engines")
        retried = pair.replica.sql("SHOW GLOBAL STATUS LIKE 'Slave_retried_transactions'")[0][1]
        pair.stop("stop")
        display.say(f"{done} backlogs of {arguments.chains} chains applied in order; {retried} transactions were retried")
    except (Broken, ServerError, SqlError) as error:
        pair.stop("kill9")
        sys.exit(f"BROKEN, {error}\nservers' folders: {arguments.folder}")
    except BaseException:
        pair.stop("kill9")
        raise


if __name__ == "__main__":
    main()
