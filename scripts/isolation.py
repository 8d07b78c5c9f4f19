#!/usr/bin/env python3
"""`make isolation`: the isolation checker (lab/isolation) against a private server, which is killed and restarted meanwhile.

Random transactions of many connections; then the checker looks in what they saw for everything that their level forbids, prints how often
each anomaly was found and the shortest example of each. `--level all` does one level after the other. Exit code 1 when an anomaly was
found that its level forbids, or when CHECK TABLE or an index says in the end that a table is broken; 2 when a run could not be done, or
ended before all kills were. InnoDB at repeatable-read is run with innodb_snapshot_isolation=ON, at loose-repeatable-read with OFF; Sluice
likewise.

`--nodes 3`: a Galera cluster; the connections are spread over its nodes, and a killed node joins again while the others go on. A cluster
certifies writes and not reads, so serializable is left out. A read may miss what was committed on another node; it must not miss what
its own node has shown. In the end all nodes must have the same rows.
"""
import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import engines  # noqa: E402
import galera  # noqa: E402
from server import BUILD, PREFIX, Server, free_port  # noqa: E402

LEVELS = ("read-uncommitted", "read-committed", "loose-repeatable-read", "repeatable-read", "serializable")
POOL, REDO = "128M", "128M"
LOOK_SECONDS = 0.1  # between two looks at how far the checker has come


def build():
    target = BUILD / "lab/target"
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", ROOT / "lab/isolation/Cargo.toml",
                    "--target-dir", target], check=True)
    return target / "release/isolation"


class One:
    """One server."""

    def __init__(self, folder, level, arguments):
        options = [*engines.options(arguments.engine, POOL, REDO, 20), *options_of(level, arguments)]
        self.server = Server(folder, free_port(), options, plugins=engines.plugins([arguments.engine]), engine=arguments.engine,
                             prefix=arguments.prefix)
        self.start, self.stop, self.sockets = self.server.start, self.server.stop, [self.server.socket]

    def kill_and_start(self, rng):
        self.server.kill9()
        self.server.start()

    def compare(self):
        pass


class Nodes:
    """A Galera cluster."""

    def __init__(self, folder, level, arguments):
        self.cluster = galera.Cluster(folder, arguments.engine, arguments.nodes, more=options_of(level, arguments))
        self.start, self.stop, self.sockets = self.cluster.start, self.cluster.stop, [node.socket for node in self.cluster.nodes]

    def kill_and_start(self, rng):
        galera.kill_and_rejoin(self.cluster, rng.choice(self.cluster.nodes))

    def compare(self):
        tables = self.cluster.compare("isolation")
        print(f"-- {tables} tables are equal on all nodes", flush=True)


def options_of(level, arguments):
    loose = level == "loose-repeatable-read"
    return ["--max-connections=500", f"--loose-sluice-snapshot-isolation={'OFF' if loose else 'ON'}", *arguments.option]


def run(checker, level, arguments):
    folder = arguments.folder or BUILD / f"run/isolation-{arguments.engine.lower()}"
    shutil.rmtree(folder, ignore_errors=True)
    servers = (Nodes if arguments.nodes > 1 else One)(folder, level, arguments)
    progress = folder.parent / f"{folder.name}.progress"
    try:
        servers.start()
        progress.write_text("0")
        further = [f"--node-socket={socket}" for socket in servers.sockets[1:]]
        with subprocess.Popen([checker, "--socket", servers.sockets[0], *further, "--engine", arguments.engine, "--level", level,
                               "--commits", str(arguments.commits), "--rows", str(arguments.rows),
                               "--connections", str(arguments.connections), "--seed", str(arguments.seed),
                               "--progress", progress]) as process:
            try:
                kills = kill(servers, process, progress, arguments)
                outcome = process.wait()
            finally:  # interrupted: the checker would wait for its server
                process.kill()
        servers.compare()
    except galera.Broken as error:
        print(f"error: {error}", flush=True)
        return 1
    finally:
        servers.stop()
    print(f"-- {kills} of {arguments.kills} kills done", flush=True)
    return outcome if kills == arguments.kills else max(2, abs(outcome))


def kill(servers, process, progress, arguments):
    """Spread over the run: one in each of as many equal parts of its commits, anywhere in the part but its end. Returns how many."""
    rng = random.Random(arguments.seed)
    part = arguments.commits / (arguments.kills + 1)
    for done in range(arguments.kills):
        due = part * (done + rng.uniform(0.2, 1.2))
        while (commits := int(progress.read_text() or 0)) < due:
            try:
                process.wait(LOOK_SECONDS)
                return done
            except subprocess.TimeoutExpired:
                pass
        if commits >= arguments.commits:  # nothing runs any more
            return done
        servers.kill_and_start(rng)
    return arguments.kills


def main():
    parser = argparse.ArgumentParser(description="Random transactions, and a search for what their isolation level forbids.")
    parser.add_argument("--engine", default="Sluice", help="any of the server's that has savepoints")
    parser.add_argument("--level", default="all", choices=("all", *LEVELS))
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=1, help="of a Galera cluster (%(default)s)")
    parser.add_argument("--kills", type=int, default=2, help="kill -9 and restart so often, while transactions run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--prefix", type=pathlib.Path, default=PREFIX)
    parser.add_argument("--folder", type=pathlib.Path, help="where the server lives")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the server is ended either way
    checker = build()
    worst = 0
    served = LEVELS if arguments.nodes == 1 else LEVELS[:-1]
    if arguments.level not in ("all", *served):
        parser.error(f"a cluster does not serve {arguments.level}")
    for level in served if arguments.level == "all" else [arguments.level]:
        started = time.monotonic()
        outcome = run(checker, level, arguments)
        print(f"-- {level}: {time.monotonic() - started:.0f} s, {'nothing forbidden' if outcome == 0 else 'FAILED'}\n", flush=True)
        worst = max(worst, abs(outcome))
    sys.exit(worst)


if __name__ == "__main__":
    main()
