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
  a different table of what follows. These have tests in the suite storage_engine or among our own;
- tests about another engine are left out, they would only ask that engine twice; so is what a suite itself has disabled;
- of the suites innodb, main and rpl only the tests about foreign keys and ALTER TABLE are run (CHOSEN): most of the others are about one
  engine.

The suite storage_engine was written for any engine: there only its engine's name is put in, and its lists of disabled tests go,
which excuse stale results.

A suite that is run as it is keeps how a definition statement is to be carried out, and for the stand-in (stand_in.py) the name
InnoDB, too. Its results and its lists of expected errors go, and one combination stays, in the same way. Options of InnoDB's get
the prefix loose-: some are of debug servers. The suites of Galera are run so for Sluice, too. Where these look for a table or an index
in InnoDB's tables of INFORMATION_SCHEMA, Sluice's table with the same columns takes the place (OWN_TABLES).
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
    "gcol": 34,
    "engines/iuds": 14,
    "engines/funcs": 392,
    "versioning": 32,
    "sql_sequence": 26,
    "binlog": 143,
    "innodb": 71,
    "main": 29,
    "rpl": 9,
}
# Suites that are run as they are, and all of their tests.
TOTAL_AS_IT_IS = {"innodb": 439, "galera": 483, "galera_3nodes": 43}
CLUSTER = ("galera", "galera_3nodes")
# Suites whose includes they take, too.
WITH = {"galera_3nodes": ["galera"]}
# Of these suites only the tests in which foreign keys are made and used, and those about ALTER TABLE. Left out: those about the files
# and tables of InnoDB, and about the times that it reports.
CHOSEN = {
    "innodb": """
        add_constraint add_foreign_key alter_algorithm alter_algorithm2 alter_copy_bulk alter_copy_stats
        alter_foreign_crash alter_key_block_size-11757 alter_not_null alter_partitioned alter_partitioned_xa
        alter_persistent_autoinc alter_table alter_varchar_change cascade_lock_wait default_row_format_alter dropdb
        fk_col_alter fk_drop_alter foreign-keys foreign_key foreign_key_debug foreign_key_not_windows foreign_null
        foreign_sql_mode innodb innodb-alter innodb-alter-autoinc innodb-alter-nullable innodb-alter-table
        innodb-alter-timestamp innodb-fk innodb-fk-virtual innodb-fk-warnings innodb-fkcheck innodb-get-fk innodb-index
        innodb-index-online-fk innodb-mdev-7513 innodb-on-duplicate-update innodb-system-table-view innodb-truncate
        innodb-wl5980-alter innodb_bug12661768 innodb_bug21704 innodb_bug46676 innodb_bug47621 innodb_bug48024
        innodb_bug53046 innodb_bug53592 innodb_bug56143 innodb_bug57255 innodb_bug57904 innodb_bug60196 innodb_bug60229
        innodb_bug68148 innodb_mysql insert_debug instant_alter instant_alter_bugs instant_alter_charset
        instant_alter_limit instant_alter_null instant_alter_rollback instant_auto_inc instant_drop
        lock_insert_into_empty rename_table stored_fk truncate_foreign update-cascade
        """.split(),
    "main": """
        alter_table alter_table_autoinc-5574 alter_table_combinations alter_table_errors alter_table_online
        alter_table_trans cache_innodb create drop_table_force foreign_key func_rollback grant5 information_schema_db
        information_schema_inno insert_innodb long_unique_bugs lowercase_table4 multi_update parser_bug21114_innodb
        partition_alter partition_exchange partition_innodb query_cache_innodb simultaneous_assignment sp-bugs
        subselect2 subselect_innodb trigger-trans update_use_source
        """.split(),
    "rpl": """
        rpl_drop_db_fail rpl_foreign_key_innodb rpl_idempotency rpl_mdev382 rpl_row_foreign_key_mdl rpl_row_idempotency
        rpl_row_triggers rpl_row_vcol_crash rpl_xa_gap_lock
        """.split(),
}
# With MariaDB 11.8 (scripts/trixie scripts/mtr/compare.py --suite main) those about VECTOR indexes take their place.
VECTOR_TESTS = {"main": "features vector vector2 vector2_notembedded vector_funcs vector_innodb vector_partition vector_utf16".split(), "rpl": ["vector"]}
# Disabled in the suite for what InnoDB's purge writes into the error log.
ENABLED = {"gcol": {"innodb_virtual_fk"}}
# The transactional part runs into lock waits on purpose; in the others a short wait would end statements that only wait their turn.
TRX_OPTIONS = "--innodb-lock-wait-timeout=1 --loose-sluice-lock-wait-timeout=1 --loose-rocksdb-lock-wait-timeout=1\n"

# Not the beginning of InnoDB's own status, by which a test reads its checkpoint ("InnoDB\t\t").
INNODB_BY_NAME = re.compile(r"(?<![\w/.-])innodb(?![\w/.:-]|\\t|\s+(?:status|mutex))", re.IGNORECASE)
MARIABACKUP = re.compile(r"(wsrep[-_]sst[-_]method\s*=\s*)mariabackup", re.IGNORECASE)
# As the server shows it: tests replace the name in their output.
SHOWN = {"Sluice": "SLUICE", "RocksDB": "ROCKSDB"}
STAND_IN = "stand-in"
STAND_IN_OPTIONS = ["--ignore-builtin-innodb", "--plugin-load-add=ha_innodb", "--plugin-maturity=experimental"]
OPTIONS_AS_IT_IS = {
    STAND_IN: STAND_IN_OPTIONS,
    "Sluice": ["--plugin-load-add=ha_sluice", "--default-storage-engine=Sluice", "--loose-sluice-autoinc-lock-mode=2"],
}
# InnoDB's tables of INFORMATION_SCHEMA, and Sluice's with the columns that the suites of Galera read.
OWN_TABLES = (("INNODB_SYS_TABLES", "SLUICE_TABLES"), ("INNODB_SYS_INDEXES", "SLUICE_INDEXES"))
# A test of a cluster that runs the server's program itself.
ASKS_FOR_POSITION = re.compile(r"^(.*exec \$MYSQLD .*)(?=--wsrep-recover)", re.MULTILINE)
# A test that begins a node anew.
EMPTIES_DATA = re.compile(r"^(--remove_files_wildcard \$MYSQLTEST_VARDIR/mysqld\.\d/data)\n", re.MULTILINE)
SOURCES = (".test", ".inc", ".opt", ".cnf", ".combinations", ".pre")
EXPECTED_ERROR = re.compile(rb"^[ \t]*(?:--[ \t]*error\b.*|error[ \t][^;\n]*;)$", re.MULTILINE)
HOW_TO = re.compile(rb"\s*,?\s*(?<![$@\w])(?:algorithm\s*=?\s*(?:inplace|instant|nocopy)|lock\s*=\s*none"
                    rb"|row_format\s*=\s*(?:compact|redundant|compressed|dynamic)|key_block_size\s*=\s*\d+)\b(?:\s*,(?=\s*engine))?", re.IGNORECASE)
# A line that says what a test masks in its output.
MASKS_OUTPUT = re.compile(rb"^([ \t]*(?:--[ \t]*)?replace_result\b.*)$", re.MULTILINE)
HOW_TO_STAYS = re.compile(rb"(?!)")
# A warning of the server's that a test expects; fewer are prepared where a statement of theirs was refused.
PREPARED_AT_RESTART = (b"Found $prepared_at_server_restart prepared", b"Found .* prepared")
# The message about a .frm file that a test has exchanged: InnoDB's words, and Sluice's.
EXCHANGED_FRM = (b'suppression("Table test/t contains 0 indexes")',
                 b'suppression("Table test/t contains 0 indexes|its .frm file and the engine.s catalog name different indexes")')
GO_ON = b"--disable_abort_on_error\n"
ABORT_ON_ERROR = (b"enable_abort_on_error", b"disable_abort_on_error")
OF_ANOTHER_ENGINE = re.compile(r"(^|_)(myisam|aria|maria|heap|memory|archive|blackhole|csv|merge|federated)(_|$)")
# Combinations that the server or the machine decides, not the test.
COMBINATIONS_OF_THE_SERVER = ("maybe_debug", "platform", "word_size", "lcase_names")


SUITE_MINUTES_MAX = 30
PARALLEL = 3
INNODB_OPTION = re.compile(r"--(?=innodb[-_a-z]*)(?!innodb(?:\s|$))")


class Suite:
    def __init__(self, name, as_it_is=False, minutes=SUITE_MINUTES_MAX):
        self.name = name
        self.as_it_is = as_it_is
        self.minutes = minutes
        self.parallel = PARALLEL if as_it_is else 1
        self.folder = None  # of the copy, after prepare()
        self.own_tables = ()  # of OWN_TABLES, what the copy has
        self.chosen = None if as_it_is else CHOSEN.get(name)  # None: all

    def prepare(self, tree, engine):
        """Puts the copy for `engine` into the tree; returns the names of the tests."""
        total = (TOTAL_AS_IT_IS if self.as_it_is else TESTS_TOTAL)[self.name]
        of_vectors = None if self.as_it_is or not (tree.installed_tests / "main/vector.test").exists() else VECTOR_TESTS.get(self.name)
        if of_vectors:
            self.chosen, total = of_vectors, len(of_vectors)
        if self.as_it_is:
            names = self._prepare_as_it_is(tree, engine)
        elif self.name == "storage_engine":
            names = self._prepare_storage_engine(tree, engine)
        else:
            names = self._prepare_copy(tree, engine)
        if len(names) != total:
            raise TreeError(f"{self.name} has {len(names)} tests, not {total}: look at what is new and change the number")
        return names

    def _prepare_storage_engine(self, tree, engine):
        self.folder = tree.copy_suite(self.name, without=["*.result", "*.rdiff", "disabled.def"])
        (self.folder / "define_engine.inc").write_text(f"let $ENGINE = {engine};\n")
        (self.folder / "trx/suite.opt").write_text(TRX_OPTIONS)
        return sorted(str(path.relative_to(self.folder).with_suffix("")) for path in self.folder.rglob("*.test"))

    def _prepare_as_it_is(self, tree, engine):
        suites = [tree.copy_suite(name, ["*.result", "*.rdiff"]) for name in sorted({self.name, *WITH.get(self.name, [])})]
        for folder in (tree.copy_tests("include", []), *suites):
            keep_one_combination(folder)
            prefix_options(folder)
            if engine in SHOWN:
                name_engine(folder, SHOWN[engine])
            if folder.name != "include":
                smooth(folder, HOW_TO_STAYS)
            elif self.name in CLUSTER:
                go_on_after_errors(folder)
            if self.name in CLUSTER and engine in OPTIONS_AS_IT_IS:
                if engine == "Sluice" and folder.name != "include":
                    self.own_tables = OWN_TABLES
                    read_own_tables(folder)
                transfer_by_sluice(folder)
                empty_own_directory(folder)
                give_options(folder, OPTIONS_AS_IT_IS[engine])
        self.folder = tree.tests / "suite" / self.name
        (self.folder / "r").mkdir(exist_ok=True)
        return self._begin_tests(lambda name: True)

    def _begin_tests(self, wanted):
        tests = self._tests_folder()
        for path in tests.glob("*.test"):
            path.write_bytes(GO_ON + path.read_bytes())
        disabled = self._disabled()
        return sorted(path.stem for path in tests.glob("*.test") if wanted(path.stem) and path.stem not in disabled)

    def _prepare_copy(self, tree, engine):
        without = ["*.result", "*.rdiff"]
        top = self.name.split("/")[0]
        # The suites' tests also take includes and whole tests from these.
        suites = [tree.copy_suite(name, without) for name in sorted({"rpl", top} - {"main"})]
        if top == "main":
            suites.append(tree.copy_tests(top, without))
        for folder in (tree.copy_tests("include", []), *suites):
            name_engine(folder, SHOWN.get(engine, engine))
            if folder.name != "include":
                smooth(folder)
            keep_first_combinations(folder, engine)
        (tree.tests / "include/have_binlog_format_mixed_or_statement.opt").write_text("--binlog-format=mixed\n")
        (tree.tests / "include/linux.inc").write_text("# Debian calls its server's system debian-linux-gnu, and the tests for Linux skipped it.\n")
        self.folder = tree.tests / ("" if self.name == "main" else "suite") / self.name
        self._enable()
        return self._begin_tests(lambda name: (self.chosen is None or name in self.chosen) and not OF_ANOTHER_ENGINE.search(name))

    def _tests_folder(self):
        return self.folder / "t" if (self.folder / "t").is_dir() else self.folder

    def _disabled_file(self):
        path = self._tests_folder() / "disabled.def"
        return path if path.exists() else self.folder / "disabled.def"

    def _disabled(self):
        path = self._disabled_file()
        lines = path.read_text().splitlines() if path.exists() else []
        return {disabled_by(line) for line in lines} - {None}

    def _enable(self):
        enabled = ENABLED.get(self.name)
        if enabled:
            path = self._disabled_file()
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(line for line in lines if disabled_by(line) not in enabled))

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

    def with_innodb_names(self, output):
        """What a test printed, with the names of InnoDB's tables in INFORMATION_SCHEMA again."""
        for innodb, own in self.own_tables:
            output = output.replace(own, innodb)
        return output

    def shipped(self, test, tree):
        """The result that comes with the suite; empty: there is none, or the test has several."""
        path = tree.installed_tests / "suite" / self.name / "r" / f"{test}.result"
        return path.read_text(errors="surrogateescape") if path.exists() else ""

    def file_name(self):
        return self.name.replace("/", "_") + ("-as-it-is" if self.as_it_is else "")

    def reasons_file(self, engine):
        return f"{'' if engine in SHOWN else 'stand_in_'}{self.name.replace('/', '_')}.toml"


def disabled_by(line):
    """The test that a line of disabled.def disables; None: a comment."""
    return re.split(r"\s*:", line)[0].split(".")[-1].strip() if line.strip() and not line.startswith("#") else None


def chosen(names, patterns):
    return [name for name in names if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def name_engine(folder, engine):
    for path in folder.rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            text = path.read_text(errors="surrogateescape")
            changed = INNODB_BY_NAME.sub(engine, text)
            if changed != text:
                path.write_text(changed, errors="surrogateescape")


def smooth(folder, how_to=HOW_TO):
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file():
            text = path.read_bytes()
            parts = MASKS_OUTPUT.split(EXPECTED_ERROR.sub(b"", text))
            changed = b"".join(part if i % 2 else how_to.sub(b"", part) for i, part in enumerate(parts))
            changed = changed.replace(*ABORT_ON_ERROR)
            changed = changed.replace(*PREPARED_AT_RESTART)
            changed = changed.replace(*EXCHANGED_FRM)
            if changed != text:
                path.write_bytes(changed)


def transfer_by_sluice(folder):
    """The method of Sluice's hot backup takes the place of mariabackup, with which the plugin does not load."""
    for path in folder.rglob("*.cnf"):
        text = path.read_text(errors="surrogateescape")
        changed = MARIABACKUP.sub(r"\1sluice", text)
        if changed != text:
            path.write_text(changed, errors="surrogateescape")


def empty_own_directory(folder):
    """Where a test empties a data directory by the names of its parts, Sluice's directory is one of them."""
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file():
            text = path.read_text(errors="surrogateescape")
            changed = EMPTIES_DATA.sub(r"\1/#sluice\n\1\n", text)
            if changed != text:
                path.write_text(changed, errors="surrogateescape")


def read_own_tables(folder):
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file():
            text = path.read_text(errors="surrogateescape")
            changed = text
            for innodb, own in OWN_TABLES:
                changed = re.sub(rf"\b{innodb}\b", own, changed, flags=re.IGNORECASE)
            if changed != text:
                path.write_text(changed, errors="surrogateescape")


def give_options(folder, options):
    """To the servers that a test starts itself, and asks for the engine's position. The driver gives them to its own alone."""
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file():
            text = path.read_text(errors="surrogateescape")
            changed = ASKS_FOR_POSITION.sub(lambda match: match[1] + " ".join(options) + " ", text)
            if changed != text:
                path.write_text(changed, errors="surrogateescape")


def go_on_after_errors(folder):
    """Of includes that the tests of a cluster take: some let errors end the test from there on."""
    for path in folder.glob("*.inc"):
        text = path.read_bytes()
        if ABORT_ON_ERROR[0] in text:
            path.write_bytes(text.replace(*ABORT_ON_ERROR))


def keep_first_combinations(folder, engine):
    for path in [*folder.rglob("*.combinations"), *folder.rglob("combinations")]:
        if path.stem in COMBINATIONS_OF_THE_SERVER:
            continue
        sections = re.split(r"^(?=\[)", path.read_text(), flags=re.MULTILINE)
        if any("default-storage-engine" in section and path.name == "combinations" for section in sections):
            path.unlink()
        else:
            path.write_text("".join(sections[:2]))


def keep_one_combination(folder):
    """The first, or the page size that there is."""
    for path in [*folder.rglob("*.combinations"), *folder.rglob("combinations")]:
        if path.stem not in COMBINATIONS_OF_THE_SERVER:
            sections = [section for section in re.split(r"^(?=\[)", path.read_text(), flags=re.MULTILINE) if section.startswith("[")]
            path.write_text(next((section for section in sections if section.startswith("[16k]")), sections[0]))


def prefix_options(folder):
    for path in [*folder.rglob("*.opt"), *folder.rglob("*.combinations")]:
        text = path.read_text(errors="surrogateescape")
        changed = INNODB_OPTION.sub("--loose-", text)
        if changed != text:
            path.write_text(changed, errors="surrogateescape")


def delete(folder):
    shutil.rmtree(folder, ignore_errors=True)
