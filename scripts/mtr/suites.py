"""MariaDB's suites as compare.py runs them: which tests each has, and what is changed in the copy that an engine gets.

Every run has private copies (tree.py), so the tests themselves can be changed, in both engines' copies alike but for the name:

- what says InnoDB by name says the engine to judge there (ENGINE=..., not the variables and files called innodb_...), and the
  default engine is that engine;
- the results that come with a suite go: both engines record their own;
- of combinations that a test would run in, only the first stays: two of them would record into one file. Suites whose
  combinations are engines have none then, and tests that refuse ROW, the first of the binlog's formats, run with MIXED;
- no error ends a test, whether it is expected or not: it is printed like the rest, so that a statement which is refused hides
  nothing behind it;
- how a definition statement is to be carried out (ALGORITHM=, LOCK=NONE) and row formats go from it: the refusal of one would make
  a different table of what follows. FOREIGN KEY goes from table definitions for the same reason, but for tests that are about it. All
  of these have tests in the suite storage_engine or among our own;
- tests about another engine are left out, they would only ask that engine twice; so is what a suite itself has disabled.

The suite storage_engine was written for any engine: there only its engine's name is put in, and its lists of disabled tests go,
which excuse stale results.
"""
import fnmatch
import pathlib
import re
import shutil

from tree import TreeError

# How many tests each suite has here: a new server version with more must not pass unseen.
TESTS_TOTAL = {
    "storage_engine": 121,
    "handler": 5,
    "vcol": 40,
    "gcol": 33,
    "engines/iuds": 14,
    "engines/funcs": 392,
    "versioning": 32,
    "sql_sequence": 26,
    "binlog": 143,
}
# The transactional part runs into lock waits on purpose; in the others a short wait would end statements that only wait their turn.
TRX_OPTIONS = "--innodb-lock-wait-timeout=1 --loose-sluice-lock-wait-timeout=1 --loose-rocksdb-lock-wait-timeout=1\n"

INNODB_BY_NAME = re.compile(r"(?<![\w/.-])innodb(?![\w/.:-]|\s+(?:status|mutex))", re.IGNORECASE)
# As the server shows it: tests replace the name in their output.
SHOWN = {"Sluice": "SLUICE", "RocksDB": "ROCKSDB"}
SOURCES = (".test", ".inc", ".opt", ".cnf", ".combinations", ".pre")
EXPECTED_ERROR = re.compile(rb"^[ \t]*(?:--[ \t]*error\b.*|error[ \t][^;\n]*;)$", re.MULTILINE)
HOW_TO = re.compile(rb"\s*,?\s*(?<![$@\w])(?:algorithm\s*=?\s*(?:inplace|instant|nocopy)|lock\s*=\s*none"
                    rb"|row_format\s*=\s*(?:compact|redundant|compressed|dynamic)|key_block_size\s*=\s*\d+)\b(?:\s*,(?=\s*engine))?", re.IGNORECASE)
FOREIGN_KEY = re.compile(rb",\s*(?:constraint\s+\S+\s+)?foreign\s+key\s*[`\w-]*\s*\([^)]*\)\s*references\s+[\w.`]+\s*\([^)]*\)"
                         rb"(?:\s+on\s+(?:delete|update)\s+(?:restrict|cascade|set\s+null|no\s+action))*", re.IGNORECASE)
ABOUT_FOREIGN_KEYS = re.compile(r"(^|_)(fk|foreign)(_|$)")
# A warning of the server's that a test expects; fewer are prepared where a statement of theirs was refused.
PREPARED_AT_RESTART = (b"Found $prepared_at_server_restart prepared", b"Found .* prepared")
GO_ON = b"--disable_abort_on_error\n"
OF_ANOTHER_ENGINE = re.compile(r"(^|_)(myisam|aria|maria|heap|memory|archive|blackhole|csv|merge|federated)(_|$)")
# Combinations that the server or the machine decides, not the test.
COMBINATIONS_OF_THE_SERVER = ("maybe_debug", "platform", "word_size", "lcase_names")


class Suite:
    def __init__(self, name):
        self.name = name
        self.folder = None  # of the copy, after prepare()

    def prepare(self, tree, engine):
        """Puts the copy for `engine` into the tree; returns the names of the tests."""
        if self.name == "storage_engine":
            names = self._prepare_storage_engine(tree, engine)
        else:
            names = self._prepare_copy(tree, engine)
        if len(names) != TESTS_TOTAL[self.name]:
            raise TreeError(f"{self.name} has {len(names)} tests, not {TESTS_TOTAL[self.name]}: look at what is new and change the number")
        return names

    def _prepare_storage_engine(self, tree, engine):
        self.folder = tree.copy_suite(self.name, without=["*.result", "*.rdiff", "disabled.def"])
        (self.folder / "define_engine.inc").write_text(f"let $ENGINE = {engine};\n")
        (self.folder / "trx/suite.opt").write_text(TRX_OPTIONS)
        return sorted(str(path.relative_to(self.folder).with_suffix("")) for path in self.folder.rglob("*.test"))

    def _prepare_copy(self, tree, engine):
        without = ["*.result", "*.rdiff"]
        top = self.name.split("/")[0]
        # The suites' tests also take includes and whole tests from these.
        for folder in (tree.copy_tests("include", []), tree.copy_suite("rpl", without), tree.copy_suite(top, without)):
            name_engine(folder, SHOWN.get(engine, engine))
            if folder.name != "include":
                smooth(folder)
            keep_first_combinations(folder, engine)
        (tree.tests / "include/have_binlog_format_mixed_or_statement.opt").write_text("--binlog-format=mixed\n")
        (tree.tests / "include/linux.inc").write_text("# Debian calls its server's system debian-linux-gnu, and the tests for Linux skipped it.\n")
        self.folder = tree.tests / "suite" / self.name
        tests = self._tests_folder()
        for path in tests.glob("*.test"):
            path.write_bytes(GO_ON + path.read_bytes())
        disabled = self._disabled()
        return sorted(path.stem for path in tests.glob("*.test")
                      if path.stem not in disabled and not OF_ANOTHER_ENGINE.search(path.stem))

    def _tests_folder(self):
        return self.folder / "t" if (self.folder / "t").is_dir() else self.folder

    def _disabled(self):
        path = self._tests_folder() / "disabled.def"
        path = path if path.exists() else self.folder / "disabled.def"
        lines = path.read_text().splitlines() if path.exists() else []
        return {re.split(r"\s*:", line)[0].split(".")[-1].strip() for line in lines if line.strip() and not line.startswith("#")}

    def mtr_name(self, test):
        """trx/insert -> storage_engine/trx.insert; insert -> vcol.insert"""
        path = pathlib.PurePath(self.name) / test
        return f"{path.parent}.{path.name}"

    def test_name(self, mtr_name):
        """The other way."""
        return mtr_name.removeprefix(self.name).lstrip("./").replace(".", "/")

    def output(self, test):
        """Where the driver records what the test printed."""
        results = self.folder / "r" if (self.folder / "r").is_dir() else self.folder
        return results / f"{test}.result"

    def reasons_file(self):
        return f"{self.name.replace('/', '_')}.toml"


def chosen(names, patterns):
    return [name for name in names if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def name_engine(folder, engine):
    for path in folder.rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            text = path.read_text(errors="surrogateescape")
            changed = INNODB_BY_NAME.sub(engine, text)
            if changed != text:
                path.write_text(changed, errors="surrogateescape")


def smooth(folder):
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file():
            text = path.read_bytes()
            changed = HOW_TO.sub(b"", EXPECTED_ERROR.sub(b"", text))
            if not ABOUT_FOREIGN_KEYS.search(path.stem):
                changed = FOREIGN_KEY.sub(b"", changed)
            changed = changed.replace(b"enable_abort_on_error", b"disable_abort_on_error")
            changed = changed.replace(*PREPARED_AT_RESTART)
            if changed != text:
                path.write_bytes(changed)


def keep_first_combinations(folder, engine):
    for path in [*folder.rglob("*.combinations"), *folder.rglob("combinations")]:
        if path.stem in COMBINATIONS_OF_THE_SERVER:
            continue
        sections = re.split(r"^(?=\[)", path.read_text(), flags=re.MULTILINE)
        if any("default-storage-engine" in section and path.name == "combinations" for section in sections):
            path.unlink()
        else:
            path.write_text("".join(sections[:2]))


def delete(folder):
    shutil.rmtree(folder, ignore_errors=True)
