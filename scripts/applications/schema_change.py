"""pt-online-schema-change of Percona Toolkit: changes of a table beside writers, and of tables with foreign keys.

The writers change a second table in the same transactions. Afterwards both must have the same rows.
"""
import random
import threading

from application import PASSWORD
from debian_root import Failed
from server import SqlError
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

    def tool(self, table, alter, more):
        return (f"pt-online-schema-change --alter \"{alter}\" {more} --chunk-time=0.1 --recursion-method=none "
                f"h=127.0.0.1,P={self.server.port},u={self.database},p={PASSWORD},D={self.database},t={table}")

    def change(self, table, alter, more="--no-check-replication-filters"):
        said = self.root.run(self.tool(table, alter, f"--execute {more}"))
        if "Successfully altered" not in said:
            raise Failed(f"pt-online-schema-change: {said[-500:]}")

    def install(self):
        super().install()
        self.sql("CREATE TABLE written LIKE sbtest1; CREATE TABLE ledger LIKE sbtest1; INSERT INTO written SELECT * FROM sbtest1;"
                 "INSERT INTO ledger SELECT * FROM sbtest1")
        self.sql("CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL);"
                 "CREATE TABLE child (id INT AUTO_INCREMENT PRIMARY KEY, parent INT NOT NULL, CONSTRAINT of_parent FOREIGN KEY (parent) "
                 "REFERENCES parent (id) ON DELETE CASCADE);"
                 "INSERT INTO parent SELECT seq, CONCAT('p', seq) FROM seq_1_to_1000; INSERT INTO child (parent) SELECT 1 + seq % 1000 FROM seq_1_to_5000")

    def use(self):
        for text, alter in CHANGES:
            with self.step(f"beside 2 writers: {text}"):
                self.under_writers(alter)
        for method in ("rebuild_constraints", "auto"):
            with self.step(f"a parent of foreign keys is changed with --alter-foreign-keys-method={method}"):
                self.change("parent", f"ADD COLUMN by_{method} INT", f"--alter-foreign-keys-method={method}")
                self.related(5000)
        with self.step("drop_swap: the tool refuses every MariaDB, as it takes 10 for MySQL 8.0; its last statements by the client"):
            self.drop_swap()
            self.related(5000)
        with self.step("a child is changed; the cascade goes on"):
            self.change("child", "ADD COLUMN note INT")
            self.sql("DELETE FROM parent WHERE id <= 100")
            self.related(4500)
        with self.step("--dry-run, and a change that is refused"):
            self.root.run(self.tool("sbtest1", "ADD COLUMN dry INT", "--dry-run"))
            if self.root.try_run(self.tool("sbtest1", "ADD COLUMN k INT", "--execute"))[0] == 0:
                raise Failed("a column of a name that exists was added")
        return []

    def drop_swap(self):
        code, said = self.root.try_run(self.tool("parent", "ADD COLUMN by_drop_swap INT", "--execute --alter-foreign-keys-method=drop_swap"))
        if code == 0 or "doesn't work with MySQL 8.0+" not in said:
            raise Failed(f"the tool no longer refuses drop_swap, or fails otherwise: {said[-500:]}")
        # The copy is complete then, and the tool leaves it.
        self.sql("SET foreign_key_checks = 0; DROP TABLE parent; RENAME TABLE _parent_new TO parent")

    def under_writers(self, alter):
        stop = threading.Event()
        committed, errors = [], []
        threads = [threading.Thread(target=self.write, args=(random.Random(seed), stop, committed, errors)) for seed in range(2)]
        for thread in threads:
            thread.start()
        try:
            self.change("written", alter)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if errors or not committed:
            raise Failed(f"the writers: {errors[0] if errors else 'no commit'}")
        self.same_as_ledger()

    def write(self, choice, stop, committed, errors):
        """Transactions over both tables. One that fails is rolled back whole, because the client leaves."""
        while not stop.is_set():
            statements = []
            for _ in range(10):
                row, other, value = choice.randrange(1, ROWS), choice.randrange(1, ROWS), choice.randrange(ROWS)
                statements.append("BEGIN")
                for table in ("ledger", "written"):
                    statements += [f"UPDATE {table} SET k = {value} WHERE id = {row}", f"DELETE FROM {table} WHERE id = {other}",
                                   f"INSERT INTO {table} (id, k, c, pad) VALUES ({other}, {value}, 'c', 'p') ON DUPLICATE KEY UPDATE k = {value}"]
                statements.append("COMMIT")
            try:
                self.sql(";".join(statements))
                committed.append(len(statements))
            except SqlError as error:
                if not any(code in str(error) for code in ("1205", "1213", "1020", "1412")):
                    errors.append(error)
                    return

    def same_as_ledger(self):
        different = self.sql("SELECT (SELECT COUNT(*) FROM ledger l LEFT JOIN written w USING (id) WHERE w.id IS NULL OR w.k <> l.k), "
                             "(SELECT COUNT(*) FROM written w LEFT JOIN ledger l USING (id) WHERE l.id IS NULL), "
                             "(SELECT COUNT(*) FROM ledger), (SELECT COUNT(*) FROM written FORCE INDEX (k_1))")[0]
        if different[:2] != ["0", "0"] or different[2] != different[3]:
            raise Failed(f"rows of the changed table and of the other: {different}")

    def related(self, count):
        rows = self.sql("SELECT COUNT(*), COUNT(p.id) FROM child c LEFT JOIN parent p ON p.id = c.parent")[0]
        if rows != [str(count)] * 2:
            raise Failed(f"of {count} children {rows} are there, and have a parent")

    def serves(self):
        self.same_as_ledger()
        self.under_writers("ADD COLUMN after_the_crash INT")
        self.related(4500)
