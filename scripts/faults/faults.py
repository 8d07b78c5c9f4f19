#!/usr/bin/env python3
"""`make faults`: damages a running server's files kind by kind, takes its disk away, and prints what came of it.

Broken pages (broken_pages.py), files that do not belong together (start_up.py), a damaged log (damaged_log.py), a full disk
(disk_full.py) and a failing sync (failing_sync.py). Each trial begins on the same undamaged data. Exit code 1 when anything that must hold does not; the table says which.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import broken_pages  # noqa: E402
import connection  # noqa: E402
import damaged_log  # noqa: E402
import disk_full  # noqa: E402
import failing_sync  # noqa: E402
import long_check  # noqa: E402
import start_up  # noqa: E402
import display  # noqa: E402
from server import BUILD, ServerError, SqlError  # noqa: E402
from trial import Broken, Trial  # noqa: E402

GOOD = "as it must"
PARTS = [broken_pages, long_check, start_up, damaged_log, failing_sync, disk_full]


def main():
    parser = argparse.ArgumentParser(description="Faults of disk and files, one after the other, on a running server.")
    parser.add_argument("only", nargs="*", help="trials whose name contains one of these (all)")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/faults", help="where the server lives (made anew)")
    arguments = parser.parse_args()
    chosen = [(kind, how, run) for part in PARTS for kind, how, run in part.trials()
              if not arguments.only or any(word in f"{kind}, {how}" for word in arguments.only)]
    if arguments.list:
        for kind, how, _ in chosen:
            print(f"{kind}, {how}")
        return
    trial, rows = Trial(arguments.folder), []
    try:
        run_all(trial, chosen, rows)
    finally:
        trial.server.kill9()
    display.table(("where", "what", "what is lost meanwhile", "the way out", "outcome"), rows, "Faults")
    sys.exit(any(row[-1] != GOOD for row in rows))


def run_all(trial, chosen, rows):
    trial.prepare()
    with display.Progress(len(chosen), "faults") as progress:
        for kind, how, run in chosen:
            progress.working(f"{kind}, {how}")
            begun = time.monotonic()
            try:
                lost, way_out = run(trial, how)
                outcome = GOOD
            except (Broken, ServerError, SqlError, StopIteration, IndexError, connection.pymysql.err.Error) as error:
                lost, way_out, outcome = "", "", f"BROKEN: {error or type(error).__name__}"
            rows.append((kind, how, lost, way_out, outcome))
            progress.done(f"{kind}, {how}: {outcome} ({time.monotonic() - begun:.1f} s)")


if __name__ == "__main__":
    main()
