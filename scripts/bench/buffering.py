#!/usr/bin/env python3
"""`make buffering-cost`: what the change buffer costs where it has nothing to save, with all pages in memory.

One server, one table: before each cell sluice_change_buffering is set to none or to all, in turns. So both find the same pages, threads
and files, and what is compared is two cells that ran right after each other: separate servers differ by more than what is looked for here.
Prints the medians of the pairs' ratios and their quartiles. A shared machine's speed changes by a third from one cell to the next, so after
--pairs pairs a script goes on, up to --pairs-max, until the medians' 95 % intervals say which side of --cost they are on. Exit code 1 if
buffering costs more than --cost of the rate or of the CPU time of a transaction, or if anything was buffered at all: then the pages were not
all in memory.
"""
import argparse
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import engines  # noqa: E402
from cells import Bench, CellError  # noqa: E402
from pairs import are_clear, hold, ratios, with_quartiles  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

SCRIPTS = ("oltp_write_only", "oltp_update_index", "oltp_insert")
WORDS = ("none", "all")
SETTLE_SECONDS_MAX = 5
# oltp_insert's table grows by some 40 MB in a pair; made anew so often, it stays within the pool however many pairs there are.
PAIRS_A_TABLE = 5


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="The cost of the change buffer in memory.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rows", type=int, default=300000)
    parser.add_argument("--pool", default="512M")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2, help="of a cell")
    parser.add_argument("--pairs", type=int, default=20, help="of each script at least")
    parser.add_argument("--pairs-max", type=int, default=100, help="... and at most")
    parser.add_argument("--scripts", default=",".join(SCRIPTS), help="comma separated")
    parser.add_argument("--durability", type=int, default=2, help="sluice_flush_log_at_trx_commit; 2: the disk hides no CPU")
    parser.add_argument("--cost", type=float, default=0.02, help="the greatest share that buffering may cost")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/bench-buffering", help="where the server lives; made anew")
    arguments = parser.parse_args()
    arguments.scripts = arguments.scripts.split(",")
    if arguments.pairs < 1:
        parser.error("--pairs is at least 1")
    arguments.pairs_max = max(arguments.pairs, arguments.pairs_max)
    return arguments


def buffered(server):
    return sum(int(value) for _, value in server.sql("SHOW GLOBAL STATUS LIKE 'Sluice_change_buffer_buffered%'"))


def cell(bench, arguments, script, word):
    bench.server.sql(f"SET GLOBAL sluice_change_buffering={word}")
    bench.settle(SETTLE_SECONDS_MAX)
    return bench.run(script, "Sluice", arguments.threads, arguments.seconds)


def measure(bench, arguments):
    """{script: [(sample with none, sample with all)]}"""
    found = {script: [] for script in arguments.scripts}
    with display.Progress(len(found) * arguments.pairs_max, "buffering") as progress:
        for script, pairs in found.items():
            for number in range(arguments.pairs_max):
                progress.working(f"{script}, pair {number + 1}")
                if number % PAIRS_A_TABLE == 0:
                    bench.prepare("Sluice")
                    cell(bench, arguments, script, "none")  # warms it up
                order = WORDS[::1 if number % 2 == 0 else -1]
                samples = {word: cell(bench, arguments, script, word) for word in order}
                pairs.append((samples["none"], samples["all"]))
                progress.done(f"{script}: " + ", ".join(f"{word} {samples[word].per_second:.0f}/s, {samples[word].cpu_us:.1f} CPU µs"
                                                        for word in WORDS))
                if len(pairs) >= arguments.pairs and are_clear(pairs, arguments.cost):
                    break
    return found


def judge(found, entries, arguments):
    rows, held = [], entries == 0
    for script, pairs in found.items():
        good = hold(pairs, arguments.cost)
        held = held and good
        rows.append([script, len(pairs), with_quartiles(ratios(pairs, "per_second")), with_quartiles(ratios(pairs, "cpu_us")),
                     "held" if good else "NOT HELD"])
    display.say("")
    display.plain_table(["script", "pairs", "rate, all : none", "server CPU an operation, all : none", ""], rows)
    display.conclude(f"\n{arguments.rows} rows, pool of {arguments.pool}, {arguments.threads} threads, pairs of {arguments.seconds} s; "
                f"medians of the pairs' ratios (quartiles).\nEntries buffered: {entries}.")
    return held


def main():
    arguments = arguments_of_command_line()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    options = [*engines.options("Sluice", arguments.pool, "1G"), f"--sluice-flush-log-at-trx-commit={arguments.durability}"]
    server = Server(arguments.folder, free_port(), options, plugins=engines.plugins(["Sluice"]))
    try:
        server.start()
        try:
            found = measure(Bench(server, arguments.rows), arguments)
            entries = buffered(server)
        finally:
            server.stop()
    except (ServerError, SqlError, CellError) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/log)")
    sys.exit(0 if judge(found, entries, arguments) else "error: buffering costs more than it may")


if __name__ == "__main__":
    main()
