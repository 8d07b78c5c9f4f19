"""pt-online-schema-change of Percona Toolkit: changes of a table under sysbench's writers, and of tables with foreign keys."""
from application import PASSWORD
from debian_root import Failed
from sysbench import ROWS, Sysbench

CHANGES = (
    ("columns and an index are added", "ADD COLUMN note VARCHAR(40) NOT NULL DEFAULT 'none', ADD COLUMN at DATETIME, ADD INDEX (pad)"),
    ("a column becomes longer and one goes", "MODIFY c VARCHAR(200) NOT NULL, DROP COLUMN at"),
    ("the primary key becomes BIGINT", "MODIFY id BIGINT NOT NULL AUTO_INCREMENT"),
    ("the table is rebuilt", "ENGINE=InnoDB"),
)


class SchemaChange(Sysbench):
    name = "pt-online-schema-change"
    packages = ("percona-toolkit", "libdbd-mysql-perl", "libterm-readkey-perl", "sysbench")
    databases = ("ptosc",)
    privileges = "PROCESS, SUPER, REPLICATION SLAVE, REPLICATION CLIENT, SELECT"

    def change(self, table, alter, more="--no-check-replication-filters"):
        said = self.root.run(f"pt-online-schema-change --alter \"{alter}\" --execute {more} --chunk-time=0.1 --recursion-method=none "
                             f"h=127.0.0.1,P={self.server.port},u={self.database},p={PASSWORD},D={self.database},t={table}")
        if "Successfully altered" not in said:
            raise Failed(f"pt-online-schema-change: {said[-500:]}")

    def install(self):
        super().install()
        self.sql("CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL);"
                 "CREATE TABLE child (id INT AUTO_INCREMENT PRIMARY KEY, parent INT NOT NULL, CONSTRAINT of_parent FOREIGN KEY (parent) "
                 "REFERENCES parent (id) ON DELETE CASCADE);"
                 "INSERT INTO parent SELECT seq, CONCAT('p', seq) FROM seq_1_to_1000; INSERT INTO child (parent) SELECT 1 + seq % 1000 FROM seq_1_to_5000")

    def use(self):
        for text, alter in CHANGES:
            with self.step(f"under oltp_read_write: {text}"):
                self.under_writers(alter)
        for method in ("rebuild_constraints", "drop_swap"):
            with self.step(f"a parent of foreign keys is changed with --alter-foreign-keys-method={method}"):
                self.change("parent", f"ADD COLUMN by_{method} INT", f"--alter-foreign-keys-method={method}")
                self.related(5000)
        with self.step("a child is changed; the cascade goes on"):
            self.change("child", "ADD COLUMN note INT")
            self.sql("DELETE FROM parent WHERE id <= 100")
            self.related(4500)
        with self.step("--dry-run, and a change that is refused"):
            self.root.run(f"pt-online-schema-change --alter 'ADD COLUMN dry INT' --dry-run --recursion-method=none h=127.0.0.1,P={self.server.port},"
                          f"u={self.database},p={PASSWORD},D={self.database},t=sbtest1")
            if self.root.try_run(f"pt-online-schema-change --alter 'ADD COLUMN k INT' --execute --recursion-method=none h=127.0.0.1,P={self.server.port},"
                                 f"u={self.database},p={PASSWORD},D={self.database},t=sbtest1")[0] == 0:
                raise Failed("a column of a name that exists was added")
        return []

    def under_writers(self, alter):
        writers = self.start(f"sysbench oltp_read_write --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port={self.server.port} "
                             f"--mysql-user={self.database} --mysql-password={PASSWORD} --mysql-db={self.database} --tables=2 --table-size={ROWS} "
                             "--threads=2 --rate=60 --time=600 --events=0 --mysql-ignore-errors=1213,1020,1205,1412,1146 run", "schema_change_writers")
        try:
            for table in ("sbtest1", "sbtest2"):
                self.change(table, alter)
            if not writers.running():
                raise Failed(f"the writers ended: {writers.said()[-300:]}")
        finally:
            writers.stop()
            self.programs.remove(writers)
        self.agree()

    def related(self, count):
        rows = self.sql("SELECT COUNT(*), COUNT(p.id) FROM child c LEFT JOIN parent p ON p.id = c.parent")[0]
        if rows != [str(count)] * 2:
            raise Failed(f"of {count} children {rows} are there, and have a parent")

    def serves(self):
        self.change("sbtest1", "ADD COLUMN after_the_crash INT")
        self.timed("oltp_read_write")
        self.agree()
        self.related(4500)
