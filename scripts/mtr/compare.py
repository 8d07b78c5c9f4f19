#!/usr/bin/env python3
"""`make mtr`: MariaDB's own suite storage_engine, run on Sluice and judged by what InnoDB answers on this same server.

The results that come with the suite are stale even for InnoDB, so they are not used. Instead the suite runs with --record in
two private copies, once with InnoDB and once with Sluice, and the recorded outputs are compared after masking what differs by
nature (masked() below). All 121 tests run in both (base, parts and trx): the suite's own list of disabled tests and that of
InnoDB's overlay only excuse stale results, which plays no role here.

A test is
  same       when its masked output is InnoDB's;
  different  when it differs in exactly the way that reasons.toml states and explains (by the difference's fingerprint);
  wrong      otherwise: any other difference, a warning in the error log, a crash, a timeout.
Some tests (RACY below) print what depends on who is faster, on InnoDB too: when one of them differs it is run again on both.
Exit code 1 when any test is wrong. InnoDB's record is kept in build/mtr/record and made again when the server changes.
"""
import argparse
import difflib
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
from tree import Tree, TreeError  # noqa: E402

BUILD = HERE.parent.parent / "build"
SUITE = "storage_engine"
TESTS_TOTAL = 121
YARDSTICK = "InnoDB"
RECORD_FORMAT = 3  # raise it when records are made in another way
TEST_MINUTES_MAX = 2
# A statement that waits for a table, a poll of SHOW PROCESSLIST and a timeout race in these.
RACY = ("delete_low_prio", "insert_high_prio", "insert_low_prio", "select_high_prio", "update_low_prio", "insert_delayed")
RACES_AGAIN_MAX = 3

# Every run has InnoDB's own tables in the schema mysql, and a redo log large enough for the suite's blobs.
SERVER_OPTIONS = {
    "InnoDB": ["--innodb", "--innodb-log-file-size=200M"],
    "Sluice": ["--innodb", "--plugin-load-add=ha_sluice", "--loose-sluice-redo-log-capacity=200M"],
    # A stand-in, to try this program itself.
    "RocksDB": ["--innodb", "--plugin-load-add=ha_rocksdb", "--ignore-db-dirs=#rocksdb"],
}
# The transactional part runs into lock waits on purpose; in the others a short wait would end statements that only wait their turn.
TRX_OPTIONS = "--innodb-lock-wait-timeout=1 --loose-sluice-lock-wait-timeout=1 --loose-rocksdb-lock-wait-timeout=1\n"


def masked(output):
    """What may differ between two engines, or two runs of one, without meaning anything."""
    output = re.sub(r"<STORAGE_ENGINE>|InnoDB|Sluice|RocksDB", "<STORAGE_ENGINE>", output, flags=re.IGNORECASE)
    # EXPLAIN: how many rows it guesses, which with InnoDB depends on when its statistics were last counted.
    output = re.sub(r"^(\d+\t[A-Z ]+(?:\t[^\t\n]*){6}\t)\d+\t", r"\1#\t", output, flags=re.MULTILINE)
    # SHOW PROCESSLIST: the connection's number and its idle seconds.
    return re.sub(r"^\d+(\troot\tlocalhost\S*\t\S*\t\S+\t)\d+\t", r"#\1#\t", output, flags=re.MULTILINE)


class Run:
    """The suite on one engine: after run(), `outputs` has what each test printed and `failures` why a test did not end well."""

    def __init__(self, engine, role, plugins=(), more_options=()):
        self.engine = engine
        self.more_options = more_options
        self.tree = Tree(BUILD / f"mtr/{role}", BUILD / "mariadb", plugins)
        self.outputs = {}
        self.failures = {}

    def run(self, only=()):
        """All tests, or `only` these."""
        self.tree.make()
        suite = self.tree.copy_suite(SUITE, without=["*.result", "*.rdiff", "disabled.def"])
        (suite / "define_engine.inc").write_text(f"let $ENGINE = {self.engine};\n")
        (suite / "trx/suite.opt").write_text(TRX_OPTIONS)
        names = sorted(mtr_name(path.relative_to(suite)) for path in suite.rglob("*.test"))
        if len(names) != TESTS_TOTAL:
            raise TreeError(f"the suite has {len(names)} tests, not {TESTS_TOTAL}: look at what is new and change the number")
        names = [name for name in names if not only or short_name(name) in only]
        options = ["--record", "--parallel=2", f"--testcase-timeout={TEST_MINUTES_MAX}", "--suite-timeout=20",
                   *(f"--mysqld={option}" for option in [*SERVER_OPTIONS[self.engine], *self.more_options])]
        with display.Progress(len(names), self.engine) as progress:
            def on_result(result):
                progress.done("" if result.outcome == "pass" else f"{result.name} {result.outcome}")
            for result in self.tree.run([], options, names, on_result):
                if result.outcome != "pass":
                    self.failures[short_name(result.name)] = result.text.strip() or result.outcome
        for name in names:
            output = suite / f"{short_name(name)}.result"
            if output.exists():  # where the tree lies is no part of the answer, here or in a fingerprint
                text = output.read_text(errors="surrogateescape").replace(str(self.tree.folder), "<TREE>")
                self.outputs[short_name(name)] = text
            else:
                self.failures.setdefault(short_name(name), "did not run")


def mtr_name(path):
    """trx/insert.test -> storage_engine/trx.insert"""
    return ".".join([str(pathlib.PurePath(SUITE) / path.parent), path.stem])


def short_name(name):
    """storage_engine/trx.insert -> trx/insert"""
    return name.removeprefix(SUITE).lstrip("./").replace(".", "/")


def yardstick(again):
    """InnoDB's outputs: from the record, or from a run that makes the record."""
    server = subprocess.run([BUILD / "mariadb/usr/sbin/mariadbd", "--no-defaults", "--version"], capture_output=True, text=True)
    key = hashlib.sha256(f"{RECORD_FORMAT} {server.stdout} {SERVER_OPTIONS[YARDSTICK]}".encode()).hexdigest()[:12]
    record = BUILD / "mtr/record" / key
    if again:
        shutil.rmtree(record, ignore_errors=True)
    if not record.is_dir():
        run = Run(YARDSTICK, "yardstick")
        run.run()
        if run.failures:
            failed = ", ".join(sorted(run.failures))
            raise TreeError(f"{YARDSTICK} itself fails in {failed}: no yardstick (output: {run.tree.folder}/output)")
        part = record.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for name, output in run.outputs.items():
            path = part / f"{name}.result"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(output, errors="surrogateescape")
        part.rename(record)
    return {str(path.relative_to(record).with_suffix("")): path.read_text(errors="surrogateescape")
            for path in record.rglob("*.result")}


def difference(expected, got):
    """(lines of a diff to read, its fingerprint). Where in the file it is does not count: only what is there and what is not."""
    expected, got = masked(expected).splitlines(), masked(got).splitlines()
    changed = [line for line in difflib.unified_diff(expected, got, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    fingerprint = hashlib.sha256("\n".join(changed).encode(errors="surrogateescape")).hexdigest()[:12]
    return list(difflib.unified_diff(expected, got, YARDSTICK, "this engine", lineterm="")), fingerprint


def run_races_again(run, expected):
    """Replaces both engines' answers in tests that differ only now and then."""
    for _ in range(RACES_AGAIN_MAX):
        racing = [name for name in RACY if name in run.outputs and difference(expected[name], run.outputs[name])[0]]
        if not racing:
            return
        yardstick_run = Run(YARDSTICK, "yardstick")
        again = Run(run.engine, "judged-again", run.tree.plugins, run.more_options)
        yardstick_run.run(racing)
        again.run(racing)
        for name in racing:
            expected[name] = yardstick_run.outputs.get(name, expected[name])
            run.outputs[name] = again.outputs.get(name, run.outputs[name])


class Verdict:
    def __init__(self):
        self.same = []
        self.different = {}  # test -> reason
        self.wrong = {}  # test -> what is wrong
        self.needless = []  # tests with a reason that are the same

    def judge(self, run, expected, reasons):
        diffs = run.tree.folder / "diff"
        for name in sorted(expected):
            reason = reasons.get(name)
            if name in run.failures:
                self.wrong[name] = first_words(run.failures[name])
                continue
            lines, fingerprint = difference(expected[name], run.outputs[name])
            if not lines:
                self.same.append(name)
                if reason:
                    self.needless.append(name)
            elif reason and fingerprint in reason["differences"]:
                self.different[name] = reason["reason"]
            else:
                path = diffs / f"{name}.diff"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(lines) + "\n", errors="surrogateescape")
                why = "differs in another way than its reason states" if reason else "differs"
                self.wrong[name] = f"{why}, {fingerprint}: {path}"

    def print(self, engine):
        display.say(f"\nSame as {YARDSTICK} ({len(self.same)}):")
        display.say(wrapped(self.same))
        print_list(f"Different for a stated reason ({len(self.different)}):", self.different)
        print_list(f"Wrong ({len(self.wrong)}):", self.wrong)
        if self.needless:
            display.say(f"\nThe same now, so their reason can go from reasons.toml: {' '.join(self.needless)}")
        display.say(f"\n{engine}: {len(self.same)} same, {len(self.different)} different for a stated reason, {len(self.wrong)} wrong "
                    f"of {TESTS_TOTAL}")


def first_words(text):
    """mtr's text about a failed test, less the lines that only say when."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(("Test ended at", "CURRENT_TEST"))]
    return (" ".join(lines[:3]) or "failed")[:300]


def print_list(title, entries):
    display.say(f"\n{title}")
    width = max((len(name) for name in entries), default=0)
    for name, text in sorted(entries.items()):
        display.say(f"  {name.ljust(width)}  {text}")


def wrapped(names, width=118):
    lines = [" "]
    for name in names:
        if len(lines[-1]) + len(name) >= width:
            lines.append(" ")
        lines[-1] += f" {name}"
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="MariaDB's suite storage_engine on Sluice, judged by InnoDB's output on this server.")
    parser.add_argument("--engine", default="Sluice", choices=sorted(SERVER_OPTIONS), help="the engine to judge (Sluice)")
    parser.add_argument("--plugin", type=pathlib.Path, default=BUILD / "ha_sluice.so", help="its plugin (build/ha_sluice.so)")
    parser.add_argument("--reasons", type=pathlib.Path, default=HERE / "reasons.toml", help="the stated reasons (reasons.toml here)")
    parser.add_argument("--server-option", action="append", default=[], metavar="--NAME=VALUE",
                        help="one more option for the server of the engine to judge")
    parser.add_argument("--record-again", action="store_true", help=f"make {YARDSTICK}'s record anew")
    arguments = parser.parse_args()
    try:
        expected = yardstick(arguments.record_again)
        plugins = [arguments.plugin] if arguments.engine == "Sluice" else []
        run = Run(arguments.engine, "judged", plugins, arguments.server_option)
        run.run()
        run_races_again(run, expected)
    except TreeError as error:
        sys.exit(f"error: {error}")
    verdict = Verdict()
    verdict.judge(run, expected, tomllib.loads(arguments.reasons.read_text()))
    verdict.print(arguments.engine)
    sys.exit(1 if verdict.wrong else 0)


if __name__ == "__main__":
    main()
