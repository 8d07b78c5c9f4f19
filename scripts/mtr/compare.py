#!/usr/bin/env python3
"""`make mtr`: MariaDB's own suites, run on Sluice and judged by what InnoDB answers on this same server.

Suite storage_engine by default; MTR='--suite handler,vcol' takes others, MTR='--suite all' every one that suites.py knows,
MTR='--suite vcol --tests "vcol_keys*"' some tests of one.

The results that come with a suite are those of another build and other options, and stale in places even for InnoDB. So they are
not used: the suite runs with --record in two private copies, once with InnoDB and once with Sluice (suites.py says what is changed
in them), and the recorded outputs are compared after masking what differs by nature (masked() below).

A test is
  same       when its masked output is InnoDB's (of a suite that is run as it is: or the result that comes with it);
  different  when it differs in exactly the way that reasons/SUITE.toml states and explains (by the difference's fingerprint; of
             a test that ends at an error which InnoDB has not, is skipped, or leaves a warning in the error log, the error, the
             skip's reason or the warning is the difference);
  wrong      otherwise: any other difference or warning, a crash, a timeout;
  unjudged   when InnoDB itself cannot run it here (it wants a debug server, a plugin that is not there) or fails.
Some tests print what depends on who is faster, on InnoDB too (`racy` in reasons/): when one of them differs in a way that no
reason states it is run again on both. With --trees a test that waited for too long is run again alone (trees.py), and the summary
names it; a crash is not. What `races` match InnoDB prints
or not, so it is cut from what is expected; of Sluice's output nothing is.
Exit code 1 when any test is wrong. InnoDB's record is kept in build/mtr/record and made again when the server changes.
"""
import argparse
import difflib
import hashlib
import pathlib
import re
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
from run import BUILD, DID_NOT_RUN, SERVER_OPTIONS, YARDSTICK, Run  # noqa: E402
from suites import CLUSTER, STAND_IN, SUITE_MINUTES_MAX, TESTS_TOTAL, Suite, chosen, delete  # noqa: E402
from tree import TreeError  # noqa: E402
from trees import Dealt, Kept  # noqa: E402

RECORD_FORMAT = 10  # raise it when records are made in another way
RACES_AGAIN_MAX = 3
# What a test says that waited for too long: on a machine with much to do, that may be the reason.
LATE = re.compile(r"timeout after|Timeout in |did not transition to|Failed to start mysqld|failed during test run|Can't connect|Lost connection"
                  r"|server has gone away|Lock wait timeout exceeded|error timeout_error|failed to disappear|WSREP has not yet prepared node")
# And what is wrong under any load.
CRASH = re.compile(r"got (?:signal|exception)|panicked at|Assertion .* failed|Sanitizer")
ABORTED_BY_DRIVER = "got signal 6"  # the driver sends it to the servers of a test whose time is up


def masked(output):
    """What may differ between two engines, or two runs of one, without meaning anything."""
    output = re.sub(r"<STORAGE_ENGINE>|InnoDB|Sluice|RocksDB", "<STORAGE_ENGINE>", output, flags=re.IGNORECASE)
    # EXPLAIN: how many rows it guesses, which with InnoDB depends on when its statistics were last counted.
    output = re.sub(r"^(\d+\t[A-Z ]+(?:\t[^\t\n]*){6}\t)\d+\t", r"\1#\t", output, flags=re.MULTILINE)
    # The binlog: how the server numbers transactions, when an event was written, how far a replica should have come.
    output = re.sub(r"/\* xid=\d+ \*/", "/* xid=# */", output)
    output = re.sub(r"^#\d{6} +\d+:\d\d:\d\d (?=server id)", "#<time> ", output, flags=re.MULTILINE)
    output = re.sub(r"(master_pos_wait\('[^']*', )\d+", r"\1#", output)
    # Which of several domains the server meets first in a hash.
    output = re.sub(r"(may contain gtids from the domain )\('\d+'\)", r"\1(#)", output)
    # The copy that an ALTER TABLE makes: the numbers of the server's process and of the connection.
    output = re.sub(r"#sql-(alter|backup|exchange)-[0-9a-f]+-[0-9a-f]+", r"#sql-\1-#", output)
    # KILL: whose connection it was. And where a server is that does not answer any more.
    output = re.sub(r"(You are not owner of thread )\d+", r"\1#", output)
    output = re.sub(r"(through socket )'[^']*'", r"\1'#'", output)
    # SHOW PROCESSLIST: what Galera's idle threads have done before. The connection's number, its port and its idle seconds.
    output = re.sub(r"^\d+\tsystem user\t\t[^\t\n]*\tSleep\t.*", "#\tsystem user", output, flags=re.MULTILINE)
    output = re.sub(r"^\d+(\tsystem user\t\t[^\t\n]*\t[^\t\n]+\t)\d+\t", r"#\1#\t", output, flags=re.MULTILINE)
    return re.sub(r"^\d+(\troot\tlocalhost)\S*(\t\S*\t[^\t\n]+\t)\d+\t", r"#\1\2#\t", output, flags=re.MULTILINE)


class Yardstick:
    """InnoDB's outputs: from the record, or from a run that completes the record."""

    def __init__(self, suite, again=False, trees=0, role="yardstick"):
        server = subprocess.run([BUILD / "mariadb/usr/sbin/mariadbd", "--no-defaults", "--version"], capture_output=True, text=True)
        key = hashlib.sha256(f"{RECORD_FORMAT} {server.stdout} {SERVER_OPTIONS[YARDSTICK]}".encode()).hexdigest()[:12]
        self.suite = suite
        self.trees = trees
        self.role = role
        self.record = BUILD / "mtr/record" / key / suite.file_name()
        if again:
            delete(self.record)

    def outputs(self, names):
        """(what the tests print, the tests without a yardstick and why)."""
        missing = [name for name in names if not self._path(name).exists() and not self._path(name, "none").exists()]
        if missing:
            self._write(self.run(missing, self.trees), missing)
        outputs = {name: self._path(name).read_text(errors="surrogateescape") for name in names if self._path(name).exists()}
        without = {name: self._path(name, "none") for name in names if name not in outputs}
        return outputs, {name: path.read_text() if path.exists() else DID_NOT_RUN for name, path in without.items()}

    def run(self, names, trees=0):
        if trees:
            run = Dealt(self.suite, YARDSTICK, self.role, trees=trees, failed_by_load=failed_by_load)
        else:
            run = Run(self.suite, YARDSTICK, self.role)
        run.prepare()
        run.run(names)
        return run

    def _write(self, run, names):
        for name in names:
            failure = run.failures.get(name)
            if failure == DID_NOT_RUN and self.suite.as_it_is:
                continue  # the time was up
            if failure == DID_NOT_RUN:
                raise TreeError(f"{YARDSTICK} did not run {name}: no yardstick (output: {run.tree.folder}/output)")
            path = self._path(name, "none" if failure else "result")
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(failure or run.outputs[name], errors="surrogateescape")
            part.rename(path)

    def _path(self, name, kind="result"):
        return self.record / f"{name}.{kind}"


def difference(expected, got, stated):
    """(lines of a diff to read, its fingerprint). Where in the file it is does not count: only what is there and what is not."""
    expected, got = masked(expected), masked(got)
    for race in stated.get("races", []):
        expected = re.sub(race, "", expected, flags=re.MULTILINE)
    expected, got = expected.splitlines(), got.splitlines()
    changed = [line for line in difflib.unified_diff(expected, got, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    return list(difflib.unified_diff(expected, got, YARDSTICK, "this engine", lineterm="")), fingerprint("\n".join(changed))


def fingerprint(text):
    """Of what differs. A time of this run is the same in every run."""
    text = re.sub(rf"\b{time.strftime('%Y-%m-%d')} \d\d:\d\d:\d\d\b", "<now>", text)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def error_that_ends(failure):
    """The error at which mysqltest gave a test up, less files and line numbers; that it hangs, or is skipped, and why; what it left in
    the error log; what was refused before a server could not start. None when it failed in another way."""
    if "timeout after" in failure[:100]:
        return "timeout"
    if failure.startswith("skipped"):
        return failure.splitlines()[0]
    if "Found warnings/errors in server log file!" in failure[:100]:
        logged = re.findall(r"^\d{4}-\d\d-\d\d +[\d:]+ \d+ (\[(?:ERROR|Warning)\] .*)", failure, flags=re.MULTILINE)
        return masked("the error log has " + "; ".join(sorted(set(logged))))
    has_ended = re.search(r"^(?:Failed to start mysqld|Server \[mysqld.* failed during test run)", failure, flags=re.MULTILINE) and "got signal" not in failure
    if has_ended:
        # By a state transfer, or by a server whose backup is missing then.
        refused = re.findall(r"^(?:WSREP_SST: \[ERROR\] |\d{4}-\d\d-\d\d +[\d:]+ \d+ \[ERROR\] mariadbd: )(.*?)(?: \(\d{8} [\d:.]+\))?$",
                             failure, flags=re.MULTILINE)
        if refused:
            return masked("a server does not start: " + "; ".join(sorted(set(refused))))
    error = re.search(r"^mysqltest: (?:In included file.*\n(?:included from .*\n)*)?(?:At line \d+: )?(.*)", failure, flags=re.MULTILINE)
    if error:
        return masked(error[1])
    reported = re.findall(r"^\d{4}-\d\d-\d\d +[\d:]+ \d+ \[ERROR\] (?!Aborting)(.*)", failure, flags=re.MULTILINE) if has_ended else []
    return masked("a server ends: " + "; ".join(sorted(set(reported)))) if reported else None


def failed_by_load(name, run, reasons=None):
    """It may have. A failure that is stated is none."""
    failure = run.failures.get(name)
    if failure is None:
        return bool(LATE.search(run.outputs.get(name, ""))) and not CRASH.search(run.outputs[name])
    error = error_that_ends(failure)
    if error and fingerprint(error) in (reasons or {}).get(name, {}).get("differences", []):
        return False
    if "timeout after" in failure[:100]:
        failure = failure.replace(ABORTED_BY_DRIVER, "")
    return bool(LATE.search(failure)) and not CRASH.search(failure)


def run_races_again(run, expected, reasons, yardstick):
    """Replaces both engines' answers in tests that print who was faster, until they are the same or differ as stated."""
    def is_open(name, stated):
        if name in run.failures:  # it skips itself at the wrong moment
            return run.failures[name].startswith("skipped")
        lines, print_of = difference(expected[name], run.outputs[name], stated)
        return lines and print_of not in stated.get("differences", [])

    for _ in range(RACES_AGAIN_MAX):
        racing = [name for name in expected if reasons.get(name, {}).get("racy") and (name in run.outputs or name in run.failures)
                  and is_open(name, reasons[name])]
        if not racing:
            return
        yardstick_run = yardstick.run(racing)
        again = Run(run.suite, run.engine, f"{run.role}-again", run.tree.plugins, run.more_options)
        again.prepare()
        again.run(racing)
        for name in racing:
            expected[name] = yardstick_run.outputs.get(name, expected[name])
            if name in again.outputs and name not in again.failures:
                run.outputs[name] = again.outputs[name]
                run.failures.pop(name, None)


class Verdict:
    def __init__(self):
        self.same = []
        self.different = {}  # test -> reason
        self.wrong = {}  # test -> what is wrong
        self.needless = []  # tests with a reason that are the same
        self.unjudged = {}  # test -> why the yardstick could not run it
        self.alone = []  # tests that were run again alone, and judged by that

    def counts(self):
        """What there is, and how it is called."""
        return [(len(self.same), "same"), (len(self.different), "different for a stated reason"), (len(self.wrong), "wrong"),
                (len(self.unjudged), "unjudged")]

    def judge(self, run, expected, reasons):
        for name in sorted(expected):
            stated = reasons.get(name, {})
            if name in run.failures:
                error = error_that_ends(run.failures[name])
                lines, print_of = [error], fingerprint(error) if error else None
            else:
                lines, print_of = difference(expected[name], run.outputs[name], stated)
            if not lines:
                self.same.append(name)
                if "differences" in stated:
                    self.needless.append(name)
            elif print_of in stated.get("differences", []):
                self.different[name] = stated["reason"]
            elif name in run.failures:
                self.wrong[name] = f"ends at an error, {print_of}: {error}" if error else first_words(run.failures[name])
            else:
                path = run.tree.folder / "diff" / f"{name}.diff"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(lines) + "\n", errors="surrogateescape")
                why = "differs in another way than its reason states" if "differences" in stated else "differs"
                self.wrong[name] = f"{why}, {print_of}: {path}"

    def print(self, engine, suite):
        display.say(f"\nSame as {YARDSTICK} ({len(self.same)}):")
        display.say(wrapped(self.same))
        if self.unjudged:
            print_list(f"Unjudged ({len(self.unjudged)}), {YARDSTICK} itself:",
                       {name: first_words(why) for name, why in self.unjudged.items()})
        print_list(f"Different for a stated reason ({len(self.different)}):", self.different)
        print_list(f"Wrong ({len(self.wrong)}):", self.wrong)
        if self.alone:
            display.say(f"\nRun again alone, after they waited for too long beside others: {' '.join(sorted(self.alone))}")
        if self.needless:
            display.say(f"\nThe same now, so their reason can go: {' '.join(self.needless)}")
        display.say("\n" + summary_line(engine, suite, self.counts()))


def summary_line(engine, suite, counts):
    return f"{engine}, {suite}: " + ", ".join(f"{number} {what}" for number, what in counts)


def print_summary(engine, verdicts):
    """A line for each suite again, and one for all."""
    display.say("")
    for suite, verdict in verdicts.items():
        display.say(summary_line(engine, suite, verdict.counts()))
    columns = zip(*(verdict.counts() for verdict in verdicts.values()))
    totals = [(sum(number for number, _ in column), column[0][1]) for column in columns]
    display.say(summary_line(engine, f"{len(verdicts)} suites", totals))


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


def run_against_shipped(run, names, verdict, yardstick):
    """A suite as it is runs on the engine first: where the output is the result that comes with the suite, InnoDB need not be asked."""
    run.run(names)
    verdict.unjudged = {name: DID_NOT_RUN for name in names if run.failures.get(name) == DID_NOT_RUN}
    expected = {}
    for name in run.outputs:
        shipped = run.suite.shipped(name, run.tree)
        if name not in run.failures and shipped and not difference(shipped, run.outputs[name], {})[0]:
            expected[name] = shipped
    more, unjudged = yardstick.outputs([name for name in names if name not in expected and name not in verdict.unjudged])
    verdict.unjudged |= unjudged
    return expected | more


def role_of(what, arguments):
    """Beside a run with --trees another engine's may run."""
    return f"{what}-{arguments.engine}" if arguments.trees else what


def make_run(suite, arguments, plugins, reasons):
    if not arguments.trees:
        return Run(suite, arguments.engine, role_of("judged", arguments), plugins, arguments.server_option)
    run = Dealt(suite, arguments.engine, role_of("judged", arguments), plugins, arguments.server_option, trees=arguments.trees,
                failed_by_load=lambda name, run: failed_by_load(name, run, reasons))
    run.kept = Kept(run, arguments.goes_on)
    return run


def add_tree_options(parser):
    """For stand_in.py, too."""
    parser.add_argument("--trees", type=int, default=0, metavar="N", help="run N tests at once, each in a tree of its own with its own servers")
    parser.add_argument("--continue", dest="goes_on", action="store_true", help="with --trees: take what an interrupted run has kept")


def run_suite(suite, arguments):
    reasons_file = arguments.reasons / suite.reasons_file(arguments.engine)
    reasons = tomllib.loads(reasons_file.read_text()) if reasons_file.exists() else {}
    plugins = [arguments.plugin] if arguments.engine in ("Sluice", STAND_IN) else []
    run = make_run(suite, arguments, plugins, reasons)
    run.prepare()
    names = chosen(run.names, arguments.tests)
    verdict = Verdict()
    yardstick = Yardstick(suite, arguments.record_again, arguments.trees, role_of("yardstick", arguments))
    if suite.as_it_is:
        expected = run_against_shipped(run, names, verdict, yardstick)
    else:
        expected, verdict.unjudged = yardstick.outputs(names)
        if expected:
            run.run(sorted(expected))
    run_races_again(run, expected, reasons, yardstick)
    verdict.alone = getattr(run, "alone", [])
    verdict.judge(run, expected, reasons)
    verdict.print(arguments.engine, suite.name)
    return verdict


def main():
    parser = argparse.ArgumentParser(description="MariaDB's suites on Sluice, judged by InnoDB's output on this server.")
    parser.add_argument("--suite", default="storage_engine", metavar="NAME,...",
                        help=f"{', '.join(TESTS_TOTAL)}, all of these, or {', '.join(CLUSTER)} (storage_engine)")
    parser.add_argument("--tests", type=lambda text: text.split(","), metavar="PATTERN,...", help="only these tests")
    parser.add_argument("--engine", default="Sluice", choices=sorted(SERVER_OPTIONS), help="the engine to judge (Sluice)")
    parser.add_argument("--plugin", type=pathlib.Path, default=BUILD / "ha_sluice.so", help="its plugin (build/ha_sluice.so)")
    parser.add_argument("--reasons", type=pathlib.Path, default=HERE / "reasons", help="folder of the stated reasons (reasons here)")
    parser.add_argument("--server-option", action="append", default=[], metavar="--NAME=VALUE",
                        help="one more option for the server of the engine to judge")
    parser.add_argument("--minutes", type=int, default=SUITE_MINUTES_MAX, help="of a suite; of Galera's, tests that have not begun then are left out (%(default)s)")
    parser.add_argument("--record-again", action="store_true", help=f"make {YARDSTICK}'s record anew")
    add_tree_options(parser)
    arguments = parser.parse_args()
    if arguments.goes_on and not arguments.trees:
        parser.error("--continue needs --trees")
    names = list(TESTS_TOTAL) if arguments.suite == "all" else arguments.suite.split(",")
    for name in names:
        if name not in (*TESTS_TOTAL, *CLUSTER):
            parser.error(f"there is no suite {name} here: {', '.join((*TESTS_TOTAL, *CLUSTER))}")
    try:
        verdicts = {name: run_suite(Suite(name, name in CLUSTER, arguments.minutes), arguments) for name in names}
    except TreeError as error:
        sys.exit(f"error: {error}")
    if len(verdicts) > 1:
        print_summary(arguments.engine, verdicts)
    sys.exit(1 if any(verdict.wrong for verdict in verdicts.values()) else 0)


if __name__ == "__main__":
    main()
