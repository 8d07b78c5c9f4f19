"""sysbench: prepare, run and cleanup of all of its OLTP scripts."""
import re

from application import PASSWORD, Application
from debian_root import Failed

SCRIPTS = ("oltp_read_write", "oltp_read_only", "oltp_write_only", "oltp_point_select", "oltp_update_index", "oltp_update_non_index", "oltp_insert",
           "oltp_delete", "select_random_points", "select_random_ranges")
TABLES, ROWS, SECONDS = 2, 20_000, 5
COLUMNS = "id, k, c, pad"


class Sysbench(Application):
    name = "sysbench"
    packages = ("sysbench",)
    databases = ("sbtest",)

    def run(self, script, action, more=""):
        return self.root.run(f"sysbench {script} --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port={self.server.port} --mysql-user={self.database} "
                             f"--mysql-password={PASSWORD} --mysql-db={self.database} --tables={TABLES} --table-size={ROWS} --threads=4 {more} {action}")

    def timed(self, script, more=""):
        said = self.run(script, "run", f"--time={SECONDS} --events=0 {more}")
        queries = int(re.search(r"queries: +(\d+)", said)[1])
        if not queries or "FATAL" in said:
            raise Failed(f"{script}: {said[-300:]}")

    def install(self):
        with self.step(f"prepare: {TABLES} tables of {ROWS} rows; prewarm"):
            self.run("oltp_read_write", "prepare")
            self.run("oltp_read_write", "prewarm")

    def use(self):
        for script in SCRIPTS:
            with self.step(f"{script}, {SECONDS} s with 4 threads"):
                self.timed(script)
        with self.step("oltp_read_write with --skip-trx, and with foreign statements prepared off"):
            self.timed("oltp_read_write", "--skip-trx=on")
            self.timed("oltp_read_write", "--db-ps-mode=disable")
        with self.step("cleanup; bulk_insert; prepare again with CREATE INDEX and without AUTO_INCREMENT"):
            self.run("oltp_read_write", "cleanup")
            self.run("bulk_insert", "prepare")
            self.timed("bulk_insert")
            self.run("bulk_insert", "cleanup")
            self.run("oltp_read_write", "prepare", "--auto_inc=off --secondary=on")
            self.run("oltp_read_write", "cleanup")
            self.run("oltp_read_write", "prepare")
        with self.step("oltp_read_write keeps the number of rows, and both indexes agree"):
            self.timed("oltp_read_write")
            self.agree()
        return []

    def agree(self):
        for table in range(1, TABLES + 1):
            counts = {self.sql(f"SELECT COUNT(*) FROM sbtest{table} FORCE INDEX ({index})")[0][0] for index in ("PRIMARY", f"k_{table}")}
            if counts != {str(ROWS)}:
                raise Failed(f"sbtest{table} has {counts} rows, and not {ROWS}")

    def serves(self):
        self.timed("oltp_read_write")
        self.agree()
