"""mydumper and myloader: Zabbix's schema and data, and tables under writers, dumped, restored and compared."""
import threading

import checks
from application import PASSWORD, Application
from debian_root import Failed
from server import SqlError

SCRIPTS = "/usr/share/zabbix-server-mysql"
ACCOUNTS, START = 200, 1000


class MyDumper(Application):
    name = "mydumper"
    packages = ("mydumper", "zabbix-server-mysql")
    databases = ("mydumper", "bank", "restored", "bank_restored")
    collation = "utf8mb4_bin"
    privileges = "RELOAD, PROCESS, LOCK TABLES, REPLICATION CLIENT, SUPER, SELECT"

    def tool(self, command, arguments):
        said = self.root.run(f"{command} --host=127.0.0.1 --port={self.server.port} --user={self.database} --password={PASSWORD} --threads=4 {arguments}")
        for line in said.splitlines():
            if any(word in line for word in ("CRITICAL", "ERROR", "WARNING")) and "binlog coordinates will not be accurate" not in line:
                raise Failed(f"{command}: {line}")
        return said

    def install(self):
        with self.step("Zabbix's schema, images and data are loaded by the client"):
            for name in ("schema", "images", "data"):
                self.root.run(f"(echo 'SET autocommit = 0;'; zcat {SCRIPTS}/{name}.sql.gz; echo 'COMMIT;') | {self.client()}")
        self.sql("CREATE TABLE account (id INT PRIMARY KEY, amount INT NOT NULL, KEY (amount));"
                 f"INSERT INTO account SELECT seq, {START} FROM seq_1_to_{ACCOUNTS};"
                 "CREATE TABLE transfer (id BIGINT AUTO_INCREMENT PRIMARY KEY, source INT NOT NULL, target INT NOT NULL, amount INT NOT NULL,"
                 "FOREIGN KEY (source) REFERENCES account (id), FOREIGN KEY (target) REFERENCES account (id));"
                 "CREATE TRIGGER on_transfer AFTER INSERT ON transfer FOR EACH ROW UPDATE account SET amount = amount + "
                 "IF(id = NEW.source, -NEW.amount, NEW.amount) WHERE id IN (NEW.source, NEW.target);"
                 "CREATE VIEW total AS SELECT SUM(amount) AS total FROM account", "bank")

    def use(self):
        with self.step("mydumper of the schema, with its triggers, routines and events; compressed"):
            self.tool("mydumper", f"--database={self.database} --outputdir=/tmp/dump --compress --triggers --routines --events --build-empty-files "
                      "--rows=2000 --verbose=2")
        with self.step("myloader into another database: definitions and rows are equal"):
            self.tool("myloader", "--directory=/tmp/dump --database=restored --overwrite-tables --verbose=2")
            self.same(self.database, "restored")
        for mode in ("", "--trx-consistency-only", "--less-locking"):
            with self.step(f"mydumper {mode} beside 4 writers: one moment of all tables"):
                self.consistent(mode)
        return []

    def consistent(self, mode):
        stop = threading.Event()
        errors = []

        def write(seed):
            while not stop.is_set():
                try:
                    self.sql(";".join(f"SET @from = 1 + FLOOR(RAND() * {ACCOUNTS}); INSERT INTO transfer (source, target, amount) "
                                      f"VALUES (@from, @from % {ACCOUNTS} + 1, {seed})" for _ in range(20)), "bank")
                except SqlError as error:
                    if not any(code in str(error) for code in ("1205", "1213", "1020")):
                        errors.append(error)
                        return
        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(1, 5)]
        for thread in threads:
            thread.start()
        try:
            self.tool("mydumper", f"--database=bank --outputdir=/tmp/bank --triggers --verbose=2 {mode}")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if errors:
            raise Failed(f"a writer failed: {errors[0]}")
        self.sql("DROP DATABASE bank_restored; CREATE DATABASE bank_restored", "mysql")
        self.tool("myloader", "--directory=/tmp/bank --database=bank_restored --verbose=2")
        self.root.run("rm -rf /tmp/bank")
        # Each account is what its transfers make of it: both tables are of one moment.
        moved = "(SELECT COALESCE(SUM(t.amount), 0) FROM transfer t WHERE t.{} = a.id)"
        wrong = self.sql(f"SELECT a.id FROM account a WHERE a.amount <> {START} - {moved.format('source')} + {moved.format('target')}", "bank_restored")
        if wrong:
            raise Failed(f"{len(wrong)} accounts do not fit their transfers")

    def same(self, one, other):
        of_one, of_other = ({name.partition(".")[2]: text for name, text in checks.definitions(self.server, [database]).items()} for database in (one, other))
        checks.equal(of_one, of_other, "definitions")
        sums = [{name.partition(".")[2]: value for name, value in checks.checksums(self.server, checks.base_tables(self.server, [database])).items()}
                for database in (one, other)]
        checks.equal(*sums, "checksums")

    def serves(self):
        self.same(self.database, "restored")
        self.consistent("")
