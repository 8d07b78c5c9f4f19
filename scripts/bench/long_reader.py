#!/usr/bin/env python3
"""`make long-reader`: one transaction stays open over running writers. What does it cost them, and does the undo go away afterwards?

sysbench oltp_update_index runs all the time. First without anything else; then a transaction with a snapshot is open for --seconds;
then it has ended. Prints the writers' rate in each part, the undo's size on disk at its greatest, and how long after the transaction's
end it took to come back to --back times what it was before (or to 24 MiB, if that is more). InnoDB beside it, in a server of its own: there
undo is in ibdata1, which does not become smaller, as long as innodb_undo_tablespaces is not set. Exit code 1 if Sluice's writers
keep less than --keep of their rate, or its undo is not back after --back-seconds.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import cells  # noqa: E402
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from server import BUILD, Server, free_port  # noqa: E402

UNDO_FILES = {"Sluice": ("#sluice/00000002.slu",), "InnoDB": ("ibdata1", "undo*")}
MIB = 1 << 20
SMALL_BYTES = 24 * MIB


def undo_bytes(server, engine):
    return sum(path.stat().st_blocks * 512 for pattern in UNDO_FILES[engine] for path in server.data.glob(pattern))


def updates(server):
    return int(server.sql("SHOW GLOBAL STATUS LIKE 'Com_update'")[0][1])


class Watch:
    """Rates between its calls, and the undo's greatest size."""

    def __init__(self, server, engine):
        self.server, self.engine = server, engine
        self.greatest = 0
        self.restart()

    def restart(self):
        self.at, self.count = time.monotonic(), updates(self.server)

    def rate(self):
        rate = (updates(self.server) - self.count) / (time.monotonic() - self.at)
        self.restart()
        return rate

    def look(self):
        now = undo_bytes(self.server, self.engine)
        self.greatest = max(self.greatest, now)
        return now

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(min(1, max(0, end - time.monotonic())))


def load(server, engine, arguments):
    folder = server.prefix / "usr/share/sysbench"
    return subprocess.Popen(
        [server.prefix / "usr/bin/sysbench", f"{folder}/oltp_update_index.lua", "--db-driver=mysql", f"--mysql-socket={server.socket}",
         "--mysql-user=root", f"--mysql-db={cells.database(engine)}", f"--mysql-ignore-errors={cells.ERRORS_IGNORED}",
         f"--table-size={arguments.rows}", "--rand-type=uniform", f"--threads={arguments.threads}", "--time=0", "--events=0", "run"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(server, engine, arguments):
    cells.Bench(server, arguments.rows).prepare(engine)
    watch = Watch(server, engine)
    writers = load(server, engine, arguments)
    try:
        watch.wait(arguments.before / 2)
        watch.restart()
        watch.wait(arguments.before)
        start_bytes, alone = watch.look(), watch.rate()
        with connection.connect(server, cells.database(engine)) as link, link.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT SUM(k) FROM sbtest1 WHERE id < 1000")
            seen = cursor.fetchall()
            watch.restart()
            watch.wait(arguments.seconds)
            beside = watch.rate()
            cursor.execute("SELECT SUM(k) FROM sbtest1 WHERE id < 1000")
            if cursor.fetchall() != seen:
                sys.exit(f"{engine}: the open transaction saw something else at its end")
            link.commit()
        ended = time.monotonic()
        back_bytes, back_after = max(arguments.back * start_bytes, SMALL_BYTES), None
        while time.monotonic() - ended < arguments.back_seconds:
            if watch.look() <= back_bytes:
                back_after = time.monotonic() - ended
                break
            time.sleep(0.5)
        after = watch.rate()
    finally:
        writers.kill()
        writers.wait()
    return alone, beside, after, start_bytes, watch.greatest, undo_bytes(server, engine), back_after


def main():
    parser = argparse.ArgumentParser(description="One open transaction over running writers.")
    parser.add_argument("--engines", nargs="+", default=["Sluice", "InnoDB"], choices=list(UNDO_FILES))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--pool", default="256M")
    parser.add_argument("--redo", default="256M")
    parser.add_argument("--before", type=float, default=30, help="seconds of the writers alone")
    parser.add_argument("--seconds", type=float, default=300, help="of the open transaction")
    parser.add_argument("--keep", type=float, default=0.9)
    parser.add_argument("--back", type=float, default=2)
    parser.add_argument("--back-seconds", type=float, default=60)
    arguments = parser.parse_args()
    rows, failed = [], []
    for engine in arguments.engines:
        folder = BUILD / f"run/long-reader-{engine.lower()}"
        shutil.rmtree(folder, ignore_errors=True)
        server = Server(folder, free_port(), engines.options(engine, arguments.pool, arguments.redo), plugins=engines.PLUGINS[engine],
                        engine=engine)
        server.start()
        try:
            alone, beside, after, start, greatest, end, back = measure(server, engine, arguments)
        finally:
            server.stop()
        size = [f"{value / MIB:.0f}" for value in (start, greatest, end)]
        rows.append([engine, f"{alone:.0f}", f"{beside:.0f}", f"{beside / alone:.2f}", f"{after:.0f}", *size,
                     "no" if back is None else f"{back:.0f}"])
        if engine == "Sluice" and beside < arguments.keep * alone:
            failed.append(f"the writers kept {beside / alone:.2f} of their rate")
        if engine == "Sluice" and back is None:
            failed.append(f"undo was not back after {arguments.back_seconds:.0f} s")
    columns = ["engine", "updates/s alone", "beside", "share", "after", "undo MiB before", "greatest", "at the end", "back after s"]
    display.table(columns, rows, "One open transaction over oltp_update_index")
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
