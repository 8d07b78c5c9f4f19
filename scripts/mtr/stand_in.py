#!/usr/bin/env python3
"""MariaDB's suite innodb on the stand-in (docs/guide/stand-in.md), judged by what InnoDB prints on this server.

The method and the verdicts are those of compare.py. The tests keep their names and the way in which definition statements are to be
carried out; suites.py says what is changed in the copies. reasons/stand_in_SUITE.toml has the reasons.
--page writes docs/stand-in-suite.md. Exit code 1 when a test is wrong.
"""
import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from compare import BUILD, DID_NOT_RUN, STAND_IN, add_tree_options, first_words, run_suite  # noqa: E402
from suites import TOTAL_AS_IT_IS, Suite  # noqa: E402
from tree import TreeError  # noqa: E402

PAGE = HERE.parent.parent / "docs/stand-in-suite.md"
SUITE_MINUTES_MAX = 120
# Why InnoDB itself cannot run a test here: what the driver says, and the words of the page.
CANNOT = (
    (r"have_debug|debug", "needs a debug build of the server"),
    (r"big", "large: not run without --big-test"),
    (r"page.?size|innodb_\d+k|\b(4|8|32|64)k\b", "needs another page size"),
    (DID_NOT_RUN, "not run: the time was up"),
)


def why_unjudged(text):
    return next((words for pattern, words in CANNOT if re.search(pattern, text, flags=re.IGNORECASE)), first_words(text).replace("|", "\\|"))


def grouped(reasons):
    """A test stands under each part of its reason."""
    groups = {}
    for name, reason in reasons.items():
        for part in reason.split("; "):
            groups.setdefault(part, []).append(name)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def write_page(suite, verdict):
    lines = [f"# MariaDB's suite {suite} on the stand-in", "",
             "Written by `scripts/mtr/stand_in.py --page`. Each test ran with InnoDB and with [the stand-in](guide/stand-in.md), and the",
             "outputs were compared.", "", "| tests | |", "|---|--:|"]
    lines += [f"| {what} | {number} |" for number, what in verdict.counts()]
    for title, groups in (("Different, by reason", grouped(verdict.different)), ("Wrong, or not looked at yet", grouped(dict.fromkeys(verdict.wrong, "not explained")))):
        if groups:
            lines += ["", f"## {title}", "", "| reason | number | tests |", "|---|--:|---|"]
            lines += [f"| {reason} | {len(names)} | {', '.join(sorted(names))} |" for reason, names in groups]
    unjudged = grouped({name: why_unjudged(text) for name, text in verdict.unjudged.items()})
    if unjudged:
        lines += ["", "## Unjudged: InnoDB itself does not run them here", "", "| reason | number |", "|---|--:|"]
        lines += [f"| {reason} | {len(names)} |" for reason, names in unjudged]
    PAGE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description="MariaDB's suite innodb on the stand-in, judged by InnoDB's output on this server.")
    parser.add_argument("--suite", default="innodb", choices=sorted(TOTAL_AS_IT_IS))
    parser.add_argument("--tests", type=lambda text: text.split(","), metavar="PATTERN,...", help="only these tests")
    parser.add_argument("--plugin", type=pathlib.Path, default=BUILD / "ha_innodb.so", help="the stand-in (build/ha_innodb.so)")
    parser.add_argument("--reasons", type=pathlib.Path, default=HERE / "reasons", help="folder of the stated reasons (reasons here)")
    parser.add_argument("--server-option", action="append", default=[], metavar="--NAME=VALUE", help="one more option for the stand-in's server")
    parser.add_argument("--minutes", type=int, default=SUITE_MINUTES_MAX, help="tests that have not begun then are left out (%(default)s)")
    parser.add_argument("--record-again", action="store_true", help="run InnoDB again")
    add_tree_options(parser)
    parser.add_argument("--page", action="store_true", help="write docs/stand-in-suite.md")
    arguments = parser.parse_args()
    if arguments.goes_on and not arguments.trees:
        parser.error("--continue needs --trees")
    arguments.engine = STAND_IN
    try:
        verdict = run_suite(Suite(arguments.suite, as_it_is=True, minutes=arguments.minutes), arguments)
    except TreeError as error:
        sys.exit(f"error: {error}")
    if arguments.page:
        write_page(arguments.suite, verdict)
    sys.exit(1 if verdict.wrong else 0)


if __name__ == "__main__":
    main()
