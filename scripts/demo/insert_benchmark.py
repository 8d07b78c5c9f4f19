"""The insert benchmark, small: rows arrive in a table whose secondary indexes are larger than the buffer pool. Called by demo.py.

Client and workload are the lab's (lab/client, lab/experiments/ibench-now.toml). Three turns, one after the other, each on a
server of its own with only one engine at work: InnoDB without its change buffer, InnoDB with it, Sluice. A table is filled
with SQL on a server with more memory, which is then shut down: every turn begins with a cold pool and with nothing left to
write. Both turns of InnoDB begin with copies of the same files. The figures leave out the first seconds, in which the pool fills.
"""
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import connection
import display
import engines
from cells import Usage
from server import BUILD, Server, free_port

CLIENT = BUILD / "lab/target/release/lab-client"
DATABASE, TABLE = "lab", "pi1"
ROWS_PER_COMMIT = 50
LOAD_POOL, REDO = "256M", "256M"
WARM_UP_SECONDS, SAMPLE_SECONDS = 6, 2
PAGE_BYTES = 16384
NAME_WIDTH = 25

# The same settings as in lab/engines/*.toml; a test compares them.
TUNING = {
    "InnoDB": ["--innodb-flush-neighbors=0", "--innodb-io-capacity=2000", "--innodb-io-capacity-max=4000", "--innodb-adaptive-hash-index=OFF",
               "--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF"],
    "Sluice": ["--sluice-io-capacity=2000"],
}
IDLE = {"InnoDB": [], "Sluice": ["--innodb-buffer-pool-size=8M"]}

FILL = (f"SET unique_checks=0, foreign_key_checks=0; INSERT INTO {TABLE} SELECT seq, NOW(), FLOOR(RAND() * 1000), FLOOR(RAND() * 100000), "
        "FLOOR(RAND() * 10000), FLOOR(RAND() * 500), REPEAT('a', 15) FROM seq_1_to_{rows}")
WAITING = {
    "InnoDB": "SELECT ((VARIABLE_VALUE & 0xFFFFFFFF) - 1) * @@innodb_page_size FROM INFORMATION_SCHEMA.GLOBAL_STATUS "
              "WHERE VARIABLE_NAME LIKE 'INNODB_IBUF_SIZE'",
    "Sluice": "SELECT VARIABLE_VALUE FROM INFORMATION_SCHEMA.GLOBAL_STATUS WHERE VARIABLE_NAME LIKE 'SLUICE_CHANGE_BUFFER_BYTES'",
}


class InsertError(Exception):
    """The load client failed or no row arrived; the text says which."""


@dataclass
class Turn:
    name: str
    engine: str
    options: tuple = ()


@dataclass
class Result:
    name: str
    rows_per_second: float
    reads_per_row: float
    cpu_us_per_row: float
    waiting_mb: float = 0  # changes of indexes that wait in the change buffer

    def row(self):
        return [self.name, f"{self.rows_per_second:,.0f}", f"{self.reads_per_row:.2f}", f"{self.cpu_us_per_row:.0f}", f"{self.waiting_mb:.1f}"]


COLUMNS = ["insert benchmark", "rows/s", "reads/row", "CPU µs/row", "buffered MB"]
LEGEND = """reads/row: pages of 16 KiB that the server read from the disk; CPU: the server's;
buffered MB: changes of indexes that wait in the change buffer at the end."""
WITHOUT, WITH = Turn("InnoDB, no change buffer", "InnoDB", ("--loose-innodb-change-buffering=none",)), \
    Turn("InnoDB, change buffer", "InnoDB", ("--innodb-change-buffering=all", "--innodb-change-buffer-max-size=25"))


class InsertBenchmark:
    def __init__(self, engine, rows, pool, seconds, folder=BUILD / "run/demo-inserts"):
        self.engine, self.rows, self.pool, self.seconds, self.folder = engine, rows, pool, seconds, folder
        self.results = []
        self.times_pool = 0

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        Server(self.folder / "empty", 0).install()
        self.live("loading InnoDB")
        if self.load("InnoDB"):
            self.turn(WITHOUT)
            self.turn(WITH)
        else:
            display.say("This server's InnoDB has no change buffer: MariaDB removed it in version 11.")
            self.turn(WITHOUT)
        if self.engine != "InnoDB":
            self.live(f"loading {self.engine}")
            self.load(self.engine)
            self.turn(Turn(self.engine, self.engine))
        shutil.rmtree(self.folder, ignore_errors=True)

    def server(self, name, engine, pool, options=()):
        every = [*engines.options(engine, pool, REDO), *TUNING.get(engine, []), *IDLE.get(engine, IDLE["Sluice"]), *options]
        return Server(self.folder / name, free_port(), every, plugins=engines.plugins([engine]), engine=engine)

    def load(self, engine):
        """Leaves a filled table in a data directory of a server that is shut down; returns whether InnoDB has a change buffer."""
        server = self.server(f"loaded-{engine}", engine, LOAD_POOL)
        shutil.copytree(self.folder / "empty/data", server.data)
        server.start()
        try:
            server.sql(f"CREATE DATABASE {DATABASE}")
            self.finish(self.client(server, engine, "insert", "--schema", "now", "--setup", "--rows", "0"))
            server.sql(FILL.format(rows=self.rows), DATABASE)
            self.finish(self.client(server, engine, "index", "--schema", "now"))
            has_change_buffer = bool(server.sql("SHOW GLOBAL VARIABLES LIKE 'innodb_change_buffering'"))
            size = int(server.sql(f"ANALYZE TABLE {TABLE}; SELECT data_length + index_length FROM information_schema.tables "
                                  f"WHERE table_schema = '{DATABASE}'", DATABASE)[-1][0])
        finally:
            server.stop()
        if not self.times_pool:
            self.times_pool = size / 2**20 / int(self.pool.removesuffix("M"))
            self.live("")
            display.say(f"The table has {self.rows:,} rows: with its indexes {size / 2**20:.0f} MB,\n{self.times_pool:.1f} times the buffer pool of {self.pool.removesuffix('M')} MB.\n"
                        f"Rows inserted a second, every {SAMPLE_SECONDS} seconds:")
        return has_change_buffer

    def turn(self, turn):
        server = self.server(turn.name.replace(", ", "-").replace(" ", "-"), turn.engine, self.pool, turn.options)
        self.live(f"{turn.name}: the pool fills")
        shutil.copytree(self.folder / f"loaded-{turn.engine}/data", server.data)
        server.start()
        try:
            self.measure(server, turn)
        finally:
            server.stop()
        shutil.rmtree(server.folder)  # after a failure it stays, with the server's log

    def measure(self, server, turn):
        samples = self.seconds // SAMPLE_SECONDS
        client = self.client(server, turn.engine, "insert", "--schema", "now", "--rows-per-commit", ROWS_PER_COMMIT,
                             "--seconds", WARM_UP_SECONDS + samples * SAMPLE_SECONDS + 0.5)
        with connection.connect(server, autocommit=True) as link, link.cursor() as cursor:
            start = time.monotonic() + WARM_UP_SECONDS
            points = []
            for number in range(samples + 1):
                time.sleep(max(0, start + number * SAMPLE_SECONDS - time.monotonic()))
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Handler_write'")
                points.append((time.monotonic(), int(cursor.fetchone()[1]), Usage.of(server.pid())))
                if number == 0:
                    self.live("")
                    print(f"  {turn.name:<{NAME_WIDTH}}", end="", flush=True)
                else:
                    (before, rows_before, _), (now, rows, _) = points[-2:]
                    print(f" {(rows - rows_before) / (now - before):8,.0f}", end="", flush=True)
            print(flush=True)
            cursor.execute(WAITING.get(turn.engine, "SELECT 0"))
            waiting = cursor.fetchone()
        self.finish(client)
        self.results.append(result(turn.name, points[0], points[-1], max(float(waiting[0]), 0) / 1e6 if waiting else 0))

    def client(self, server, engine, *words):
        command = [CLIENT, "--socket", server.socket, "--database", DATABASE, "--engine", engine, *words]
        return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(client):
        _, errors = client.communicate()
        if client.returncode != 0:
            raise InsertError(f"the load client failed: {(errors.strip().splitlines() or ['it said nothing'])[-1]}")

    @staticmethod
    def live(text):
        """What happens now, on a terminal only: the next text or line replaces it."""
        if sys.stdout.isatty():
            print(f"\r\x1b[K{'  ' + text + ' ...' if text else ''}", end="", flush=True)

    def verdict(self):
        return verdict(self.engine, self.results, self.times_pool)


def result(name, first, last, waiting_mb):
    """From two moments: (seconds, rows so far, Usage)."""
    (started, rows_before, before), (ended, rows, after) = first, last
    made = rows - rows_before
    if made <= 0:
        raise InsertError(f"{name}: not one row in {ended - started:.0f} s")
    return Result(name, made / (ended - started), (after.read_bytes - before.read_bytes) / PAGE_BYTES / made,
                  (after.cpu_seconds - before.cpu_seconds) * 1e6 / made, waiting_mb)


def times(ratio):
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def verdict(engine, results, times_pool):
    """One sentence: `engine`, measured last, against each turn of InnoDB."""
    rate = {result.name: result.rows_per_second for result in results}
    against = [(WITH.name, "InnoDB with its change buffer"), (WITHOUT.name, "InnoDB without a change buffer")]
    told = " and ".join(f"{times(rate[engine] / rate[name])} times as fast as {words}" for name, words in against if name in rate)
    return f"{engine} inserts {told}, into tables {times(times_pool)} times the buffer pool."
