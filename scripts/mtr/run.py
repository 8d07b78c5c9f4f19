"""One suite on one engine: the driver's run in a tree of its own, and what each test printed. Used by compare.py and trees.py."""
import copy
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
from suites import CLUSTER, OPTIONS_AS_IT_IS, STAND_IN, STAND_IN_OPTIONS  # noqa: E402
from tree import Tree  # noqa: E402

BUILD = HERE.parent.parent / "build"
YARDSTICK = "InnoDB"
TEST_MINUTES_MAX = 4
CLUSTER_TEST_MINUTES_MAX = 6  # a transfer by mysqldump waits, on InnoDB, too
DID_NOT_RUN = "did not run"
# Every run has InnoDB's own tables in the schema mysql, and a redo log large enough for the suite's blobs.
SERVER_OPTIONS = {
    "InnoDB": ["--innodb", "--innodb-log-file-size=200M"],
    "Sluice": ["--innodb", "--plugin-load-add=ha_sluice", "--loose-sluice-redo-log-capacity=200M"],
    # Another engine, to try this program itself.
    "RocksDB": ["--innodb", "--plugin-load-add=ha_rocksdb", "--ignore-db-dirs=#rocksdb"],
}


class Run:
    """A suite on one engine: after run(), `outputs` has what each test printed and `failures` why a test did not end well."""

    def __init__(self, suite, engine, role, plugins=(), more_options=()):
        self.engine = engine
        self.role = role
        self.more_options = more_options
        self.suite = copy.copy(suite)
        self.tree = Tree(BUILD / "mtr" / f"{role}-{suite.file_name()}", BUILD / "mariadb", plugins)
        self.names = []
        self.outputs = {}
        self.failures = {}

    def prepare(self):
        self.tree.make()
        self.names = self.suite.prepare(self.tree, self.engine)

    def run(self, names, progress=None):
        # In this order: given trx.update first, mtr takes update of the suite above for the same and leaves it out.
        tests = sorted(self.suite.mtr_name(name) for name in names)
        minutes = CLUSTER_TEST_MINUTES_MAX if self.suite.name in CLUSTER else TEST_MINUTES_MAX
        options = ["--record", f"--testcase-timeout={minutes}", f"--suite-timeout={self.suite.minutes}", f"--parallel={self.suite.parallel}",
                   *(f"--mysqld={option}" for option in self._server_options())]
        self.tree.bootstrap_options = STAND_IN_OPTIONS if self.engine == STAND_IN else []
        # An rsync that root starts to receive files writes as nobody, and could not write into root's data directories.
        self.tree.as_nobody = self.suite.name in CLUSTER
        if self.tree.as_nobody and self.engine != YARDSTICK:
            self.tree.programs = {"wsrep_sst_sluice": BUILD.parent / "target/release/sluice-backup"}
        for name in names:
            self.suite.output(name).unlink(missing_ok=True)
        with progress or display.Progress(len(names), f"{self.suite.name}, {self.engine}") as shown:
            def on_result(result):
                shown.done("" if result.outcome == "pass" else f"{result.name} {result.outcome}")
            for result in self.tree.run([], options, tests, on_result):
                if result.outcome != "pass":
                    self.failures[self.suite.test_name(result.name)] = self._without_place(f"{result.outcome} {result.text.strip()}")
        for name in names:
            output = self.suite.output(name)
            if output.exists():
                self.outputs[name] = self.suite.with_innodb_names(self._without_place(output.read_text(errors="surrogateescape")))
            else:
                self.failures.setdefault(name, DID_NOT_RUN)

    def _without_place(self, text):
        """Where the tree lies is no part of the answer, here or in a fingerprint."""
        return text.replace(str(self.tree.folder), "<TREE>")

    def _server_options(self):
        if self.suite.as_it_is:
            return [*OPTIONS_AS_IT_IS.get(self.engine, []), *self.more_options]
        default = [] if self.suite.name == "storage_engine" else [f"--default-storage-engine={self.engine}"]
        return [*SERVER_OPTIONS[self.engine], *default, *self.more_options]
