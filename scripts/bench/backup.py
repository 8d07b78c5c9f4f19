#!/usr/bin/env python3
"""A hot backup beside writers, next to `cp` of the same files beside the same writers.

sysbench's oltp_write_only runs on a table of several times the buffer pool. In turns, --rounds times: the writers alone, the writers beside
sluice-backup, the writers beside cp of Sluice's files. The page cache is dropped before each copy (as root). Shown: the writers' rate beside
a copy as a share of that alone, and the speed of both copies. The table's files are read by both; the backup also has the redo log of its
own duration.

Exit code 1 if the writers keep less than 0.9 of their rate beside the backup, or the backup has less than 0.8 of cp's speed.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import engines  # noqa: E402
from cells import Bench, CellError  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

ROOT = HERE.parent.parent
MIB = 1 << 20
ROW_BYTES = 240
TOOL = ROOT / "target/release/sluice-backup"
RATE_LEAST, SPEED_LEAST = 0.9, 0.8


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool-mib", type=int, default=256, help="(%(default)s)")
    parser.add_argument("--times", type=float, default=5, help="the table's size, in pools (%(default)s)")
    parser.add_argument("--threads", type=int, default=4, help="of writers (%(default)s)")
    parser.add_argument("--seconds", type=int, default=40, help="of writers alone, each time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--throttle", type=int, help="MiB a second of the backup")
    parser.add_argument("--rate", type=int, default=0, help="transactions a second that the writers are held to (as many as they can)")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/backup-bench", help="made anew (%(default)s)")
    return parser.parse_args()


class Trial:
    def __init__(self, arguments):
        self.arguments = arguments
        options = engines.options("Sluice", f"{arguments.pool_mib}M", "512M") + ["--innodb-buffer-pool-size=8M", "--log-bin=bin",
                                                                                "--binlog-format=ROW", "--server-id=1"]
        shutil.rmtree(arguments.folder, ignore_errors=True)
        self.server = Server(arguments.folder / "server", free_port(), options, plugins=["ha_sluice"], engine="Sluice")
        self.bench = Bench(self.server, int(arguments.pool_mib * MIB * arguments.times / ROW_BYTES))
        self.copy = arguments.folder / "copy"
        self.writers = None

    def files(self):
        """The folder of Sluice's files."""
        return self.server.data / self.server.sql("SELECT @@sluice_directory")[0][0]

    def begin_writers(self):
        arguments = self.arguments
        seconds = 3600

        def run():
            try:
                self.bench.sysbench("oltp_write_only", "Sluice", [f"--threads={arguments.threads}", f"--time={seconds}", "--events=0",
                                                                  f"--rate={arguments.rate}"], "run")
            except CellError:
                pass  # the server is stopped under it

        self.writers = threading.Thread(target=run, daemon=True)
        self.writers.start()

    def commits(self):
        return int(self.server.sql("SHOW GLOBAL STATUS LIKE 'Handler_commit'")[0][1]), time.monotonic()

    def beside(self, body):
        """(what `body` returns, seconds, commits a second meanwhile)"""
        commits, began = self.commits()
        result = body()
        more, ended = self.commits()
        return result, ended - began, (more - commits) / (ended - began)

    def clear(self):
        shutil.rmtree(self.copy, ignore_errors=True)
        self.copy.mkdir()
        os.sync()
        if os.geteuid() == 0:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")
        time.sleep(3)

    def backup(self):
        """Bytes of the backup."""
        target, base = self.copy / "backup", self.server.base
        command = [str(TOOL), "backup", str(target), f"--socket={self.server.socket}", "--user=root", "--quiet", "--sluice-only",
                   f"--client={base}/bin/mariadb"] + ([f"--throttle={self.arguments.throttle}"] if self.arguments.throttle else [])
        subprocess.run(command, check=True)
        return target.stat().st_size

    def cp(self):
        target = self.copy / "files"
        target.mkdir()
        # The data files. Those of the redo log come and go.
        subprocess.run(["cp", *map(str, self.files().glob("*.slu")), str(target)], check=True)
        subprocess.run(["sync", "-f", str(target)], check=True)
        return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


def run(trial):
    arguments = trial.arguments
    trial.server.start()
    trial.bench.prepare("Sluice")
    trial.bench.settle(60)
    trial.begin_writers()
    time.sleep(arguments.seconds)
    found = {"alone": [], "backup": [], "cp": []}
    for number in range(arguments.rounds):
        for name in ("alone", "backup", "cp") if number % 2 == 0 else ("cp", "backup", "alone"):
            trial.clear()
            body = {"alone": lambda: time.sleep(arguments.seconds), "backup": trial.backup, "cp": trial.cp}[name]
            size, seconds, rate = trial.beside(body)
            found[name].append((rate, (size or 0) / MIB / seconds))
            more = f", {size / MIB:.0f} MiB, {size / MIB / seconds:.0f} MiB/s" if size else ""
            print(f"writers {rate:6.0f} commits/s {name:7} ({seconds:.1f} s{more}; load {os.getloadavg()[0]:.1f})", flush=True)
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}
    share = medians["backup"][0] / medians["alone"][0]
    speed = medians["backup"][1] / medians["cp"][1]
    print(f"medians: beside the backup writers keep {share:.2f} of their rate, beside cp {medians['cp'][0] / medians['alone'][0]:.2f}; the backup "
          f"has {speed:.2f} of cp's speed ({medians['backup'][1]:.0f} and {medians['cp'][1]:.0f} MiB/s)")
    return share >= RATE_LEAST and speed >= SPEED_LEAST


def main():
    trial = Trial(arguments_of_command_line())
    try:
        passed = run(trial)
        trial.server.stop()
    except (ServerError, SqlError, CellError, subprocess.CalledProcessError) as error:
        print(f"backup.py: {error}", file=sys.stderr)
        return 1
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
