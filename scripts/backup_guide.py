#!/usr/bin/env python3
"""Tests the commands of docs/guide/backup-and-restore.md on a small server. A part of make test.

It makes a full backup and an increment, drops a table by mistake, restores, and applies the binary log up to a time before the mistake.
It also tests an XA transaction that was prepared at the backup, the restore of one table by mariadb-dump, a stream, a full target disk,
and mariadb-backup alone. Exit code 1 if something is not as the guide says.
"""
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from connection import connect  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL, CHECKER = ROOT / "target/release/sluice-backup", ROOT / "target/release/sluice-check"
OPTIONS = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--innodb-buffer-pool-size=16M", "--sluice-buffer-pool-size=16M"]
# Size of the full disk.
FILE_KIB_MAX = 1024


class Wrong(Exception):
    """Something is not as the guide says."""


def check(found, expected, what):
    if found != expected:
        raise Wrong(f"{what}: {found}, expected {expected}")
    print(f"  {what}: {found}", flush=True)


class Day:
    def __init__(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.server = Server(folder / "server", free_port(), OPTIONS)
        self.second = Server(folder / "second", free_port([self.server.port]), OPTIONS[-2:])

    def backup(self, *arguments, limit=None, **more):
        """`limit`: KiB that a file may have."""
        base = self.server.base
        command = [str(TOOL), "backup", *map(str, arguments), f"--socket={self.server.socket}", "--user=root", "--quiet",
                   f"--client={base}/bin/mariadb", f"--mariadb-backup={base}/bin/mariadb-backup"]
        if limit:
            # The signal is ignored, so a write fails as on a full disk.
            command = ["bash", "-c", f'trap "" XFSZ; ulimit -f {limit}; exec "$@"', "bash", *command]
        return subprocess.run(command, stderr=subprocess.PIPE, text=not more, **more)

    def must_backup(self, *arguments):
        done = self.backup(*arguments)
        if done.returncode:
            raise Wrong(f"backup {arguments}: {done.stderr}")

    def prepare(self):
        self.server.start()
        sql = self.server.sql
        sql("CREATE DATABASE shop")
        sql("CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, note VARCHAR(100), KEY (customer)) ENGINE=Sluice", "shop")
        sql("CREATE TABLE parcels (id INT PRIMARY KEY, note VARCHAR(100)) ENGINE=Sluice", "shop")
        sql("CREATE TABLE stock (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB", "shop")
        sql("INSERT INTO orders SELECT seq, seq % 100, CONCAT('order ', seq) FROM seq_1_to_100000", "shop")
        sql("INSERT INTO stock SELECT seq, 10 FROM seq_1_to_100", "shop")

    def run(self):
        folder, sql = self.folder, self.server.sql
        self.prepare()
        sunday, monday, pages = folder / "sunday.slb", folder / "monday.slb", folder / "pages"
        self.must_backup(sunday, f"--save-pages={pages}")
        sql("UPDATE orders SET note = 'sent' WHERE id <= 200; INSERT INTO orders VALUES (300000, 1, 'on monday')", "shop")
        prepared = connect(self.server, "shop")
        for statement in ("XA START 'x'", "INSERT INTO parcels VALUES (1, 'prepared')", "XA END 'x'", "XA PREPARE 'x'"):
            prepared.cursor().execute(statement)
        self.must_backup(monday, f"--incremental={pages}", f"--save-pages={pages}")
        check(monday.stat().st_size < sunday.stat().st_size, True, "the increment is smaller than its base")

        sql("INSERT INTO orders VALUES (300001, 1, 'after the backup'); UPDATE stock SET n = 9 WHERE id = 1", "shop")
        time.sleep(1.1)
        before = sql("SELECT NOW()")[0][0]
        time.sleep(1.1)
        sql("DROP TABLE orders; UPDATE stock SET n = 0", "shop")

        position = self.restore([sunday, monday])
        self.second.start()
        self.forward(position, before)
        self.judge()
        self.one_table()
        self.stream()
        self.full_disk()
        self.check_mariadb_backup_refused()
        self.server.stop()
        self.second.stop()

    def restore(self, backups):
        """(file, position) of the binary log."""
        base = self.server.base
        self.second.folder.mkdir(parents=True)
        done = subprocess.run([TOOL, "restore", *backups, f"--to={self.second.data}", "--quiet", f"--mbstream={base}/bin/mbstream",
                               f"--mariadb-backup={base}/bin/mariadb-backup", f"--sluice-check={CHECKER}"], capture_output=True, text=True)
        last = done.stdout.strip().rpartition("\n")[2]
        if done.returncode or not last.startswith("restored: "):
            raise Wrong(f"restore: {done.stdout}{done.stderr}")
        print(f"  {last.replace(str(self.folder), '...')}", flush=True)
        file, at = last.rpartition("binary log position: ")[2].split()[:2]
        return file, at

    def forward(self, position, until):
        """Brings the restored server to a time."""
        file, at = position
        logs = [self.server.data / row[0] for row in self.server.sql("SHOW BINARY LOGS") if row[0] >= file]
        reader = subprocess.Popen([self.server.base / "bin/mariadb-binlog", "--no-defaults", f"--start-position={at}",
                                   f"--stop-datetime={until}", *logs], stdout=subprocess.PIPE)
        done = subprocess.run(self.second.client("--binary-mode"), stdin=reader.stdout, capture_output=True, text=True)
        if reader.wait() or done.returncode:
            raise Wrong(f"the binary log until {until}: {done.stderr}")

    def judge(self):
        sql = self.second.sql
        check(sql("SELECT COUNT(*), SUM(note = 'sent'), MAX(id) FROM orders", "shop"), [["100002", "200", "300001"]], "orders, before the mistake")
        check(sql("SELECT SUM(n) FROM stock", "shop"), [["999"]], "stock, before the mistake")
        check(sql("XA RECOVER")[0][-1], "x", "the prepared transaction")
        sql("XA COMMIT 'x'")
        check(sql("SELECT note FROM parcels", "shop"), [["prepared"]], "its row, after XA COMMIT")
        check(sql("CHECK TABLE orders EXTENDED", "shop")[-1][-1], "OK", "CHECK TABLE")

    def one_table(self):
        dump = subprocess.Popen([self.server.base / "bin/mariadb-dump", "--no-defaults", f"--socket={self.second.socket}", "--user=root",
                                 "--single-transaction", "shop", "orders"], stdout=subprocess.PIPE)
        done = subprocess.run(self.server.client("shop"), stdin=dump.stdout, capture_output=True, text=True)
        if dump.wait() or done.returncode:
            raise Wrong(f"one table: {done.stderr}")
        check(self.server.sql("SELECT COUNT(*) FROM orders", "shop"), [["100002"]], "one table, back in the first server")
        check(self.server.sql("SHOW CREATE TABLE orders", "shop")[0][1].count("ENGINE=SLUICE"), 1, "its engine is Sluice")

    def stream(self):
        streamed = self.folder / "streamed.slb"
        with streamed.open("wb") as out:
            done = self.backup("--stream", "--compress", stdout=out)
        if done.returncode:
            raise Wrong(f"--stream: {done.stderr}")
        shown = subprocess.run([TOOL, "show", streamed], capture_output=True, text=True)
        check(shown.returncode, 0, "a compressed stream is whole")
        cut = self.folder / "cut.slb"
        cut.write_bytes(streamed.read_bytes()[:-100])
        shown = subprocess.run([TOOL, "show", cut], capture_output=True, text=True)
        check((shown.returncode != 0, "not whole" in shown.stderr), (True, True), "without its last bytes it is not")

    def full_disk(self):
        target = self.folder / "full.slb"
        done = self.backup(target, limit=FILE_KIB_MAX)
        check((done.returncode != 0, target.exists()), (True, False), "no backup on a full disk")
        print(f"    {done.stderr.strip()}")
        if "full.slb" not in done.stderr:
            raise Wrong("the message does not name the file")
        self.must_backup(target)
        check(target.exists(), True, "the next one, with room")

    def check_mariadb_backup_refused(self):
        done = subprocess.run([self.server.base / "bin/mariadb-backup", "--no-defaults", "--backup", f"--socket={self.server.socket}",
                               "--user=root", f"--target-dir={self.folder / 'alone'}"], capture_output=True, text=True)
        check((done.returncode != 0, "sluice-backup" in done.stderr), (True, True), "mariadb-backup alone is refused, and names sluice-backup")


def main():
    day = Day(BUILD / "run/backup-guide")
    try:
        day.run()
    except (Wrong, ServerError, SqlError) as error:
        print(f"backup_guide.py: {error}", file=sys.stderr)
        for server in (day.server, day.second):
            if server.running():
                server.kill9()
        return 1
    shutil.rmtree(day.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
