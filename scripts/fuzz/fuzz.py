#!/usr/bin/env python3
"""`make fuzz`: random tables and statements on Sluice and on InnoDB in one server, compared statement by statement.

A run is a seed: it makes tables, sends statements, and every now and then compares all tables through each of their keys; now and
then the server is restarted or killed in between. At the first difference the run's statements are reduced to the few that show
it; they are printed and left in --found, and --replay FILE runs them again. Exit code 1 then. What no replay shows hangs on time: on a
clock, or on what purge and merges had done by then. It is a finding as well, and all its statements are kept. See pair.py for what is
compared.

Most runs have tables whose keys share columns (overlap.py), searched by all parts of each key (searches.py); the others have any
tables (schema.py). One run in five has tables with foreign keys (families.py). A SELECT with a hint is also compared to the same one without keys, on Sluice alone: for that no InnoDB is needed.

A difference is a question, not a verdict: about one run in two hundred ends in one that is InnoDB's own or the server's. What is known
of that kind is not made; the places that leave it out say why ("InnoDB's own", "the server's own"). Still made: virtual columns of older
versions, CHAR under NO PAD collations. Ask which answer follows from the rows.
"""
import argparse
import json
import pathlib
import random
import shutil
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
from families import Families  # noqa: E402
from pair import Difference, Limit, Pair  # noqa: E402
from reduce import reduced  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402
from statements import Statements  # noqa: E402

OPTIONS = ("--innodb-buffer-pool-size=32M", "--sluice-buffer-pool-size=8M", "--max-allowed-packet=64M", "--secure-file-priv=",
           "--character-set-server=utf8mb4", "--loose-innodb-snapshot-isolation=ON",
           "--sluice-snapshot-isolation=ON")

START_TRIES = 20
# Of a difference that may hang on time.
REPLAYS = 8


class Run:
    """One seed: the statements it made so far, and how it came out."""

    def __init__(self, server, seed, statement_count, families):
        self.server = server
        self.chance = random.Random(seed)
        self.statement_count = statement_count
        self.script = []
        self.statements = (Families if self.chance.random() < families else Statements)(self.chance)

    def go(self):
        pair = opened(self.server)
        try:
            pair.clear()
            self.send_all(pair)
        finally:
            pair.close()

    def send_all(self, pair):
        for _ in range(self.chance.choice((1, 2, 2, 3))):
            self.step(pair, *self.statements.create(small=self.chance.random() < 0.3))
        self.need_table(pair)
        for i in range(self.statement_count):
            self.step(pair, *self.statements.next())
            if i % 40 == 39:
                self.account(pair)
            if i == self.statement_count // 2 and self.chance.random() < 0.1:
                self.restart(pair)

    def need_table(self, pair):
        """Not every CREATE TABLE is accepted."""
        while not self.statements.tables:
            self.step(pair, *self.statements.create(small=True))
        if isinstance(self.statements, Families):
            return
        # InnoDB's own: it merges what two keys found in the order of whole columns, of which the primary key has the beginning.
        if any(table.loose_in_primary() for table in self.statements.tables):
            self.step(pair, "SET optimizer_switch='index_merge=off'")

    def step(self, pair, statement, on_success=None):
        self.script.append(statement)
        outcome = execute(self.server, pair, statement)
        if on_success and not (outcome and outcome.error):
            on_success()

    def account(self, pair):
        for table in self.statements.tables:
            if not self.statements.handler and not self.statements.locked:
                self.step(pair, f"!check {table.name}")

    def restart(self, pair):
        """Temporary tables and open transactions are gone afterwards, on both sides alike."""
        self.step(pair, self.chance.choice(("!restart", "!kill")))
        kept = self.statements
        kept.tables = [table for table in kept.tables if not table.temporary]
        kept.handler, kept.handler_goes_on, kept.locked, kept.in_transaction = None, None, False, False
        kept.checks = True
        self.need_table(pair)
        self.account(pair)


def execute(server, pair, statement):
    """Pair.run, and what concerns the server as a whole."""
    if statement in ("!restart", "!kill"):
        (server.stop if statement == "!restart" else server.kill9)()
        server.start()
        for side in pair.sides:
            side.open()
        return None
    return pair.run(statement)


def opened(server):
    """A Pair; a server that dies may still answer a moment longer."""
    for _ in range(START_TRIES):
        try:
            if not server.running():
                server.start()
            return Pair(server)
        except connection.pymysql.err.Error:
            time.sleep(0.5)
    raise ServerError(f"the server takes no connections: {server.log}")


def replay(server, script):
    """Runs a script anew; the difference it shows, or None."""
    pair = opened(server)
    try:
        pair.clear()
        for statement in script:
            execute(server, pair, statement)
    except Limit:
        return None
    except Difference as difference:
        return str(difference)
    finally:
        pair.close()
    return None


def report(server, run, seed, difference, folder, reduce_seconds):
    told = f"seed {seed}: {difference}\n  after {len(run.script)} statements, the last: {run.script[-1][:2000]}"
    display.say(told)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{seed}.txt").write_text(told + "\n")
    path = folder / f"seed-{seed}.json"

    def keep(script):
        path.write_text(json.dumps(script, indent=1, ensure_ascii=False))

    keep(run.script)
    if not any(replay(server, run.script) for _ in range(REPLAYS)):
        display.say(f"--- none of {REPLAYS} replays shows it; all its statements: {path}")
        return
    script = reduced(run.script, lambda candidate: replay(server, candidate), reduce_seconds)
    keep(script)
    display.say(f"--- {len(script)} statements show it (scripts/fuzz/fuzz.py --replay {path}):")
    for statement in script:
        display.say(statement[:3000] + ";")
    display.say(f"--- {replay(server, script)}")


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="Random statements on Sluice and on InnoDB, compared.")
    parser.add_argument("--seed", type=int, help="the first seed (chance)")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="as many runs as fit into that time, instead of --runs")
    parser.add_argument("--statements", type=int, default=160, help="in each run")
    parser.add_argument("--families", type=float, default=0.2, metavar="PART", help="the part of runs that has foreign keys (0.2)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a difference")
    parser.add_argument("--reduce-seconds", type=float, default=60)
    parser.add_argument("--replay", type=pathlib.Path, help="run this script of statements")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/fuzz", help="where the server lives (made anew)")
    parser.add_argument("--found", type=pathlib.Path, default=BUILD / "run/fuzz-found", help="where differences are left")
    parser.add_argument("--port", type=int)
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    return parser.parse_args()


def fuzz(server, arguments):
    first = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    deadline = time.monotonic() + 60 * (arguments.minutes or 0)
    found, seed, statements = 0, first, 0
    with display.Progress(None if arguments.minutes else arguments.runs, "fuzz") as progress:
        while time.monotonic() < deadline if arguments.minutes else seed < first + arguments.runs:
            run = Run(server, seed, arguments.statements, arguments.families)
            try:
                run.go()
            except Limit as limit:
                outcome = f"ended by a limit: {limit}"
            except Difference as difference:
                found += 1
                if not server.running():
                    display.say(f"the server is gone: {server.log}")
                report(server, run, seed, difference, arguments.found, arguments.reduce_seconds)
                if not arguments.keep_going:
                    break
                outcome = "DIFFERENT"
            else:
                outcome = "the same"
            statements += len(run.script)
            progress.done(f"seed {seed}: {len(run.script)} statements, {outcome}"[:200])
            seed += 1
    display.say(f"{seed - first} runs from seed {first}, {statements} statements, {found} with differences")
    return found


def main():
    arguments = arguments_of_command_line()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    shutil.rmtree(arguments.folder, ignore_errors=True)
    server = Server(arguments.folder, arguments.port or free_port(), [*OPTIONS, *arguments.option])
    try:
        server.start()
        if arguments.replay:
            difference = replay(server, json.loads(arguments.replay.read_text()))
            display.say(difference or "no difference")
            found = bool(difference)
        else:
            found = fuzz(server, arguments)
    except ServerError as error:
        sys.exit(f"error: {error}")
    finally:
        server.stop()
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
