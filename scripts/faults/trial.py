"""One server whose files are damaged while it runs, kind by kind, and what it must answer then.

Table t has every kind of page: a clustered index over several levels, two secondary indexes, long rows. The pool is small, so that
reading `filler` throws all its pages out of memory: the next statement that needs one reads the damaged one. What must hold each time:
the statement fails and says file, page, table and index; so does the error log, with the way out; table u is read and written
as before; the server lives; the way out works.
"""
import re
import shutil
import time

import connection
import pages
from server import Server, ServerError, free_port

ROWS = 4000
POOL = "6M"


TABLES = """
  CREATE DATABASE f;
  USE f;
  CREATE TABLE f.filler (id INT PRIMARY KEY, pad VARBINARY(4000)) ENGINE=Sluice;
  INSERT INTO f.filler SELECT seq, REPEAT('x', 3900) FROM seq_1_to_4000;
  CREATE TABLE f.t (id INT PRIMARY KEY, a INT, b VARCHAR(40), pad VARBINARY(300), long_one LONGBLOB, KEY by_a (a), UNIQUE KEY by_b (b))
    ENGINE=Sluice;
  CREATE TABLE f.u (id INT PRIMARY KEY, n INT, KEY (n)) ENGINE=Sluice;"""
ROWS_SQL = f"""
  INSERT INTO f.t SELECT seq, seq * 7 % 1000, CONCAT('word ', seq), REPEAT('p', 250), IF(seq % 100, NULL, REPEAT('long', 9000))
    FROM seq_1_to_{ROWS};
  INSERT INTO f.u SELECT seq, seq FROM seq_1_to_100;"""


class Broken(Exception):
    """Something that must hold does not."""


class Trial:
    def __init__(self, folder):
        self.folder = folder
        self.server = Server(folder, free_port(), [f"--sluice-buffer-pool-size={POOL}", "--sluice-redo-log-capacity=8M",
                                                   "--sluice-lock-wait-timeout=3"])
        self.engine = self.server.data / "#sluice"
        self.kept = folder / "pristine"

    # ---- setting up ----

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.server.start()
        self.sql(TABLES, "")
        self.sql(ROWS_SQL)
        self.server.stop()
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.server.data, self.kept)

    def other_database(self):
        """The engine's directory of another server, made by the same statements."""
        other = self.folder / "other"
        if not other.exists():
            server = Server(self.folder / "second", free_port(), self.server.options)
            server.start()
            server.sql(TABLES)
            server.sql(ROWS_SQL, "f", timeout=120)
            server.stop()
            shutil.copytree(server.data / "#sluice", other)
        return other

    def fresh(self, *options):
        """A server on the undamaged data."""
        self.server.kill9()
        shutil.rmtree(self.server.data)
        shutil.copytree(self.kept, self.server.data)
        self.start(*options)

    def start(self, *options):
        self.log_start = self.server.log.stat().st_size
        plain, self.server.options = self.server.options, [*self.server.options, *options]
        try:
            self.server.start()
        finally:
            self.server.options = plain
        self.pid = self.server.pid()

    def sql(self, text, database="f"):
        return self.server.sql(text, database, timeout=120)

    def file_of(self, table):
        """A table's data file: the one that has the pages whose number the table's name stands for in the catalog; found by size and kind."""
        rows = {path: len(pages.indexes(path)) for path in sorted(self.engine.glob("*.slu")) if path.name not in (pages.CATALOG_FILE, pages.UNDO_FILE)}
        order = {"filler": 1, "t": 3, "u": 2}
        return next(path for path, count in rows.items() if count == order[table])

    def forget(self):
        """No page of t, of the catalog or of undo is in memory any more, and what was changed has been written."""
        for _ in range(3):
            self.sql("FLUSH TABLES; SELECT COUNT(*), SUM(LENGTH(pad)) FROM f.filler; SELECT COUNT(*), SUM(LENGTH(pad)) FROM f.filler;")

    # ---- damaging ----

    def damage(self, path, wanted, how):
        """Damages the last page that is `wanted`; returns its number."""
        page = [page for page in pages.pages(path) if wanted(page)][-1]
        pages.write(path, page.no, how(page.data))
        return page.no

    # ---- judging ----

    def refused(self, statement):
        """(error number, its text and the warnings)"""
        with connection.connect(self.server, "f", autocommit=True) as client, client.cursor() as cursor:
            try:
                cursor.execute(statement)
                cursor.fetchall()
            except connection.pymysql.err.Error as error:
                cursor.execute("SHOW WARNINGS")
                return error.args[0], f"{error.args[1]} " + " ".join(str(row[2]) for row in cursor.fetchall())
        return None

    def expect_refusal(self, statement, words):
        answer = self.refused(statement)
        if not answer:
            raise Broken(f"{statement}: was answered")
        missing = [word for word in words if word not in answer[1]]
        if missing:
            raise Broken(f"{statement}: {missing} not in: {answer[1]}")
        return answer

    def log(self):
        return self.server.log.read_bytes()[self.log_start:].decode(errors="replace")

    def expect_log(self, words):
        lines = self.log().splitlines()
        if not any(all(word in line for word in words) for line in lines):
            tail = "\n".join(line for line in lines if "ERROR" in line)[-1500:]
            raise Broken(f"no line of the error log has {words}:\n{tail}")

    def expect_alive(self):
        """The same process, and other tables as before."""
        if self.server.pid() != self.pid:
            raise Broken("the server died")
        n = int(self.sql("SELECT MAX(id) + 1 FROM f.u")[0][0])
        self.sql(f"INSERT INTO f.u VALUES ({n}, {n}); UPDATE f.u SET n = n + 1 WHERE id = {n}; DELETE FROM f.u WHERE id = {n - 50};")
        count, total = self.sql("SELECT COUNT(*), COUNT(DISTINCT id) FROM f.u FORCE INDEX (n)")[0]
        if count != total or int(count) < 90:
            raise Broken(f"table u has {count} rows")

    def expect_sound(self, table="t", rows=ROWS):
        expect_sound(self.sql, table, rows)

    def expect_check_names(self, words):
        answer = " ".join(" ".join(row) for row in self.sql("CHECK TABLE f.t"))
        if "OK" in answer.split() or "orrupt" not in answer:
            raise Broken(f"CHECK TABLE finds nothing: {answer}")
        missing = [word for word in words if word not in answer]
        if missing:
            raise Broken(f"CHECK TABLE: {missing} not in: {answer}")

    def restart(self):
        self.server.stop()
        self.start()

    def refuses_to_start(self, words):
        """The engine says no, and with it the server whose default engine it is; the log has a line with these words. Returns it."""
        self.log_start = self.server.log.stat().st_size
        try:
            self.server.start()
        except ServerError:
            pass  # its default engine is not there
        else:
            self.server.kill9()
            raise Broken("the engine started")
        log = self.log()
        line = next((line for line in log.splitlines() if all(word in line for word in words)), None)
        if line is None:
            raise Broken(f"no line has {words}:\n" + "\n".join(l for l in log.splitlines() if "ERROR" in l)[-1500:])
        return re.sub(r"^\S+ +\S+ +\d+ +\[ERROR\] +", "", line)


def expect_sound(sql, table, rows):
    """`sql` runs statements where the table is."""
    answer = sql(f"CHECK TABLE f.{table} EXTENDED")
    if answer[-1][-1] != "OK":
        raise Broken(f"CHECK TABLE {table}: {answer}")
    found = int(sql(f"SELECT COUNT(*) FROM f.{table}")[0][0])
    if found != rows:
        raise Broken(f"table {table} has {found} rows, not {rows}")


def wait_until(seconds, condition):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False
