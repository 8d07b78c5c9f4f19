#!/usr/bin/env python3
"""`make kill`: rounds of kill -9 under writing clients; each ends with a restart and an account of every row (see trial.py).

The buffer pool and the redo log are small, so that eviction, checkpoints and wrapping happen in every round, and one recovery
in four is killed as well. `--engine InnoDB` is the control: it must pass too. Exit code 1 at the first round that loses,
invents or tears anything; the server's folder then stays as it is, for a look.
"""
import argparse
import pathlib
import random
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
import ddl_trial  # noqa: E402
import mixed_trial  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402
from trial import Broken, Trial  # noqa: E402

def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="kill -9 under writing clients, restart, account for every row.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--minutes", type=float, help="as many rounds as fit into that time, instead of --rounds")
    parser.add_argument("--ddl", action="store_true", help="the clients change definitions of tables while rows change (ddl_trial.py)")
    parser.add_argument("--mixed", action="store_true", help="tables of this engine and of InnoDB in every transaction, some of them XA's, "
                        "binlog on (mixed_trial.py)")
    parser.add_argument("--partitions", action="store_true", help="with --ddl: partitioned tables too, of which the server itself forgets "
                        "some parts when it is killed at a bad moment")
    parser.add_argument("--clients", type=int, help="8; with --ddl 3, each with a second one that only inserts")
    parser.add_argument("--seconds", type=float, default=4, help="a round writes for half of this at least, for this at most")
    parser.add_argument("--seed", type=int, help="for the clients' choices; when the kill comes is chance anyway")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--sabotage", metavar="SQL", help="damage the data so after each restart: the account of rows must notice")
    parser.add_argument("--folder", type=pathlib.Path, help="where the server lives (build/run/kill-ENGINE, made anew)")
    return parser.parse_args()


def main():
    arguments = arguments_of_command_line()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    folder = arguments.folder or BUILD / f"run/kill-{'ddl-' if arguments.ddl else 'mixed-' if arguments.mixed else ''}{arguments.engine}"
    shutil.rmtree(folder, ignore_errors=True)
    options = engines.options(arguments.engine, pool="16M", redo="8M", lock_wait_seconds=5)
    if arguments.mixed:
        # The binlog is what decides between the two engines.
        options += [*engines.options("InnoDB", pool="16M", redo="8M", lock_wait_seconds=5), "--log-bin=binlog", "--sync-binlog=1",
                    "--binlog-format=ROW", "--server-id=1"]
    server = Server(folder, free_port(), [*options, *arguments.option], plugins=engines.PLUGINS[arguments.engine],
                    engine=arguments.engine)
    if arguments.ddl:
        trial = ddl_trial.DdlTrial(server, arguments.engine, clients=arguments.clients or 3, seed=seed, partitions=arguments.partitions)
    else:
        kind = mixed_trial.MixedTrial if arguments.mixed else Trial
        trial = kind(server, arguments.engine, clients=arguments.clients or 8, seed=seed)
    chance = random.Random(seed)
    acknowledged = 0
    progress = None
    try:
        server.start()
        trial.prepare()
        deadline = time.monotonic() + 60 * (arguments.minutes or 0)
        with display.Progress(None if arguments.minutes else arguments.rounds, f"kill {arguments.engine}") as progress:
            while time.monotonic() < deadline if arguments.minutes else progress.count < arguments.rounds:
                outcome = trial.round(chance.uniform(arguments.seconds / 2, arguments.seconds), chance.random() < 0.25,
                                      arguments.sabotage)
                acknowledged += outcome.acknowledged
                progress.done(sentence(outcome))
        server.stop()
    except (Broken, ServerError, connection.pymysql.err.Error) as error:
        server.kill9()
        sys.exit(f"BROKEN in round {progress.count + 1 if progress else 0} of {arguments.engine}, seed {seed}: {error}\n"
                 f"server's folder: {folder}")
    display.say(f"{progress.count} rounds, {acknowledged} acknowledged transactions: nothing lost, nothing half there, indexes and "
                f"CHECK TABLE clean (seed {seed})")


def sentence(outcome):
    in_doubt = outcome.in_doubt_there + outcome.in_doubt_gone
    again = ", killed in recovery once" if outcome.recoveries_killed else ""
    if isinstance(outcome, ddl_trial.Outcome):
        return (f"{outcome.statements} statements and {outcome.acknowledged} transactions beside them in {outcome.seconds_written:.1f} s"
                f"{again}, restart {outcome.recovery_seconds:.1f} s, {outcome.rows} rows all right")
    return (f"{outcome.acknowledged} acknowledged in {outcome.seconds_written:.1f} s, {in_doubt} in doubt ({outcome.in_doubt_there} there)"
            f"{again}, restart {outcome.recovery_seconds:.1f} s, {outcome.rows} rows all right")


if __name__ == "__main__":
    main()
