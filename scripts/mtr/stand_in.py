#!/usr/bin/env python3
"""MariaDB's suite innodb on the stand-in (docs/guide/stand-in.md), judged by the results that come with the suite.

With --against-innodb the tests also run with the server's own InnoDB, and its outputs are what is expected (compare.py masks what
differs by nature). Only this is changed in the private copies: of combinations one stays (16k of page sizes), and options of InnoDB's
get the prefix loose-, because some of them are of debug servers.

A test is the same, or different for a reason, or wrong, or cannot run here (it wants a debug server, another page size, a large
test). reasons/stand_in.toml has the reasons: patterns for kinds of difference, and single tests. What no reason covers is wrong.
--page writes docs/stand-in-suite.md. Exit code 1 when a test is wrong.
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
from compare import error_that_ends, first_words, masked  # noqa: E402
from suites import COMBINATIONS_OF_THE_SERVER, chosen  # noqa: E402
from tree import Tree, TreeError  # noqa: E402

ROOT = HERE.parent.parent
BUILD = ROOT / "build"
REASONS = HERE / "reasons/stand_in.toml"
PAGE = ROOT / "docs/stand-in-suite.md"
STAND_IN_OPTIONS = ["--ignore-builtin-innodb", "--plugin-load-add=ha_innodb", "--plugin-maturity=experimental"]
TEST_MINUTES_MAX = 1
PARALLEL = 3
NOT_RUN = "did not run"
SUITE_MINUTES_MAX = 90
LINES_OF_DIFFERENCE = 400
OPTION = re.compile(r"--(?=innodb[-_a-z]*)(?!innodb(?:\s|$))")


def keep_one_combination(folder):
    """The first, or the page size that there is."""
    for path in [*folder.rglob("*.combinations"), *folder.rglob("combinations")]:
        if path.stem in COMBINATIONS_OF_THE_SERVER:
            continue
        sections = [section for section in re.split(r"^(?=\[)", path.read_text(), flags=re.MULTILINE) if section.startswith("[")]
        path.write_text(next((section for section in sections if section.startswith("[16k]")), sections[0]))


class Run:
    def __init__(self, suite, role, stand_in, record, minutes=SUITE_MINUTES_MAX):
        self.minutes = minutes
        self.record = record
        self.suite = suite
        self.stand_in = stand_in
        self.tree = Tree(BUILD / "mtr" / f"{role}-{suite}", BUILD / "mariadb", [BUILD / "ha_innodb.so"] if stand_in else [])
        self.outputs, self.failures, self.skipped, self.passed = {}, {}, {}, set()

    def prepare(self):
        """Returns the names of the tests."""
        self.tree.make()
        self.folder = self.tree.copy_suite(self.suite, [])
        include = self.tree.copy_tests("include", [])
        for folder in (self.folder, include):
            keep_one_combination(folder)
            for path in [*folder.rglob("*.opt"), *folder.rglob("*.combinations")]:
                text = path.read_text(errors="surrogateescape")
                changed = OPTION.sub("--loose-", text)
                if changed != text:
                    path.write_text(changed, errors="surrogateescape")
        if self.record:
            shutil.rmtree(self.folder / "r", ignore_errors=True)
            (self.folder / "r").mkdir()
        return sorted(path.stem for path in (self.folder / "t").glob("*.test"))

    def run(self, names):
        options = [*(["--record"] if self.record else []), f"--parallel={PARALLEL}", f"--testcase-timeout={TEST_MINUTES_MAX}", f"--suite-timeout={self.minutes}"]
        if self.stand_in:
            options += [f"--mysqld={option}" for option in STAND_IN_OPTIONS]
            bootstrap = self.tree.folder / "bootstrap"
            bootstrap.write_text(f'#!/bin/bash\nexec {self.tree.base}/sbin/mariadbd "$@" {" ".join(STAND_IN_OPTIONS)}\n')
            bootstrap.chmod(0o755)
            os.environ["MYSQLD_BOOTSTRAP"] = str(bootstrap)
        else:
            os.environ.pop("MYSQLD_BOOTSTRAP", None)
        with display.Progress(len(names), f"{self.suite}, {'stand-in' if self.stand_in else 'InnoDB'}") as progress:
            def on_result(result):
                progress.done("" if result.outcome == "pass" else f"{result.name} {result.outcome}")
            for result in self.tree.run([], options, [f"{self.suite}.{name}" for name in names], on_result):
                name = result.name.removeprefix(f"{self.suite}.")
                if result.outcome == "pass":
                    self.passed.add(name)
                elif result.outcome == "fail":
                    self.failures[name] = result.text
                else:
                    self.skipped[name] = first_words(result.text)
        for name in names:
            output = self.folder / "r" / f"{name}.result"
            if self.record and output.exists():
                self.outputs[name] = output.read_text(errors="surrogateescape").replace(str(self.tree.folder), "<TREE>")


def without_notes(text):
    """Where servers and files are, and the numbers that InnoDB gives to tables."""
    return masked(re.sub(r"#\d+#", "#n#", text))


def difference(name, yardstick, ours):
    """What differs, as text; empty: nothing."""
    if name in ours.failures:
        return "ends at: " + (error_that_ends(ours.failures[name]) or first_words(ours.failures[name])) + "\n" + ours.failures[name][-4000:]
    if name not in ours.outputs:
        return "did not run: " + ours.skipped.get(name, "no output")
    expected, got = without_notes(yardstick.outputs[name]).splitlines(), without_notes(ours.outputs[name]).splitlines()
    return "\n".join(list(difflib.unified_diff(expected, got, "InnoDB", "stand-in", lineterm="", n=1))[:LINES_OF_DIFFERENCE])


def reason_of(name, text, test, reasons):
    """The reason for a difference: the test's own, or that of the first pattern which it or its difference has."""
    if name in reasons.get("tests", {}):
        return reasons["tests"][name]
    for rule in reasons.get("patterns", []):
        if ("test" in rule and re.search(rule["test"], test, flags=re.IGNORECASE)) or ("name" in rule and re.search(rule["name"], name)) or \
           ("difference" in rule and re.search(rule["difference"], text, flags=re.IGNORECASE | re.MULTILINE)):
            return rule["reason"]
    return None


def write_page(suite, verdict, cannot):
    same, different, wrong = verdict
    left = sum(why == NOT_RUN for why in cannot.values())
    lines = [f"# MariaDB's suite {suite} on the stand-in", "",
             "Written by `scripts/mtr/stand_in.py --page`. Each test ran on [the stand-in](guide/stand-in.md); what it printed was compared with",
             "InnoDB's output.", "", "| tests | |", "|---|--:|", f"| the same | {len(same)} |",
             f"| different, for a reason (below) | {len(different)} |", f"| wrong, or not looked at yet (below) | {len(wrong)} |",
             f"| cannot run here: debug server, large test, other page size | {len(cannot) - left} |"]
    if left:
        lines.append(f"| not run: the time was up | {left} |")
    by_reason = {}
    for name, (reason, _) in different.items():
        by_reason.setdefault(reason, []).append(name)
    for title, groups in (("Different, by reason", by_reason), ("Not explained", {"": list(wrong)} if wrong else {})):
        if groups:
            lines += ["", f"## {title}", "", "| reason | number | tests |", "|---|--:|---|"]
            lines += [f"| {reason} | {len(names)} | {', '.join(sorted(names))} |" for reason, names in sorted(groups.items(), key=lambda group: -len(group[1]))]
    PAGE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description="MariaDB's suite innodb on the stand-in, judged by InnoDB's output on this server.")
    parser.add_argument("--suite", default="innodb")
    parser.add_argument("--tests", type=lambda text: text.split(","), metavar="PATTERN,...", help="only these tests")
    parser.add_argument("--against-innodb", action="store_true", help="what InnoDB prints on this server is expected, not the suite's results")
    parser.add_argument("--minutes", type=int, default=SUITE_MINUTES_MAX, help="tests that have not begun then are left out (%(default)s)")
    parser.add_argument("--record-again", action="store_true", help="run InnoDB again")
    parser.add_argument("--page", action="store_true", help="write docs/stand-in-suite.md")
    arguments = parser.parse_args()
    try:
        verdict, cannot, folder = judge(arguments)
    except TreeError as error:
        sys.exit(f"error: {error}")
    same, different, wrong = verdict
    for name, (reason, _) in sorted(different.items()):
        display.say(f"  different {name}: {reason}")
    for name, text in sorted(wrong.items()):
        display.say(f"  wrong {name}: {text.splitlines()[0] if text.startswith('ends') else ''} {folder}/{name}.diff")
    if arguments.page:
        write_page(arguments.suite, verdict, cannot)
    display.say(f"stand-in, {arguments.suite}: {len(same)} same, {len(different)} different for a reason, {len(wrong)} wrong, "
                f"{len(cannot)} did not run or cannot run here")
    sys.exit(1 if wrong else 0)


class Kept:
    """InnoDB's outputs of an earlier run."""

    def __init__(self, folder):
        self.outputs = {path.stem: path.read_text(errors="surrogateescape") for path in folder.glob("*.result")}
        self.without = {path.stem: path.read_text(errors="surrogateescape") for path in folder.glob("*.none")}


def yardstick_of(suite, names, again):
    folder = BUILD / "mtr/record-stand-in" / suite
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not (folder / f"{name}.result").exists() and not (folder / f"{name}.none").exists()]
    if missing:
        run = Run(suite, "stand-in-yardstick", False, True)
        run.prepare()
        run.run(missing)
        for name in missing:
            why = "fails: " + first_words(run.failures[name]) if name in run.failures else run.skipped.get(name)
            if why is None and name in run.outputs:
                (folder / f"{name}.result").write_text(run.outputs[name], errors="surrogateescape")
            else:
                (folder / f"{name}.none").write_text(why or "did not run", errors="surrogateescape")
    return Kept(folder)


def judge(arguments):
    """(same, different, wrong), what cannot run here, where the differences are."""
    ours = Run(arguments.suite, "stand-in", True, arguments.against_innodb, arguments.minutes)
    names = chosen(ours.prepare(), arguments.tests)
    if arguments.against_innodb:
        yardstick = yardstick_of(arguments.suite, names, arguments.record_again)
        judged = [name for name in names if name in yardstick.outputs]
        ours.run(judged)
        texts = {name: difference(name, yardstick, ours) for name in judged}
        cannot = {name: yardstick.without.get(name, "") for name in names if name not in yardstick.outputs}
    else:
        ours.run(names)
        texts = {name: "" for name in ours.passed} | {name: shipped_difference(text) for name, text in ours.failures.items()}
        cannot = {name: why for name, why in ours.skipped.items() if name not in texts}
        cannot |= {name: NOT_RUN for name in names if name not in texts and name not in cannot}
    return sort_out(ours, texts), cannot, ours.tree.folder / "diff"


def shipped_difference(text):
    """The driver's text about a failed test, less its noise."""
    ends = error_that_ends(text)
    return (f"ends at: {ends}\n" if ends else "") + re.sub(r"^.*is of maturity level experimental.*\n", "", text, flags=re.MULTILINE)


def sort_out(ours, texts):
    reasons = tomllib.loads(REASONS.read_text()) if REASONS.exists() else {}
    folder = ours.tree.folder / "diff"
    folder.mkdir(exist_ok=True)
    same, different, wrong = [], {}, {}
    for name, text in sorted(texts.items()):
        if not text:
            same.append(name)
            continue
        (folder / f"{name}.diff").write_text(text, errors="surrogateescape")
        test = (ours.folder / "t" / f"{name}.test").read_text(errors="surrogateescape")
        reason = reason_of(name, text, test, reasons)
        if reason:
            different[name] = (reason, text)
        else:
            wrong[name] = text
    return same, different, wrong


if __name__ == "__main__":
    main()
