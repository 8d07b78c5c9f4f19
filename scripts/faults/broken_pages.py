"""Broken pages of every kind, made while the server runs. Each trial returns what it cost and what helped, for the table of outcomes."""
import connection
import pages
from pages import BITMAP, CATALOG_FILE, DELTA_BIT, OVERFLOW, TREE, UNDO, UNDO_FILE, flipped, zeroed
from trial import ROWS, Broken, wait_until


PRIMARY, BY_A = 0, 2  # places in pages.indexes(); the server sorts unique keys first
UNBUFFERED = "--sluice-change-buffering=none"


def foreign(trial):
    """A page of another file."""
    other = trial.file_of("filler")
    data = next(page.data for page in pages.pages(other) if page.kind == TREE and page.level == 0)
    return lambda _: data


def hows(trial):
    return {"bit flip": flipped, "zeros": zeroed, "page of another file": foreign(trial)}


def of_tree(which, level=0, bit=0):
    """Picks pages of one of t's indexes; `bit`: of its delta tree."""
    def wanted(path):
        index = pages.indexes(path)[which] | bit
        return lambda page: page.kind == TREE and page.index == index and page.level == level
    return wanted


def of_kind(kind):
    return lambda _path: lambda page: page.kind == kind


def break_t(trial, how, pick, *options, before=None):
    """A fresh server, in whose table t one page of those that `pick` names is broken. Returns the file and the page's number."""
    trial.fresh(*options or [UNBUFFERED])
    path = trial.file_of("t")
    wanted = pick(path)
    if before:
        trial.sql(before)
    trial.forget()
    return path, trial.damage(path, wanted, hows(trial)[how])


def place(path, no):
    return [path.name, f"page {no}"]


def secondary(trial, how, level=0):
    path, no = break_t(trial, how, of_tree(BY_A, level))
    words = [*place(path, no), "`f`.`t`", "by_a", "REPAIR TABLE"]
    trial.expect_refusal("SELECT COUNT(*) FROM t FORCE INDEX (by_a) WHERE a >= 0", words)
    trial.expect_log(words)
    trial.expect_alive()
    trial.expect_check_names([f"page {no}", "by_a"])
    # Rows that do not need the index are read; a change that needs the page fails, its rollback leaves the index out from then on.
    if trial.sql("SELECT COUNT(*), COUNT(DISTINCT b) FROM f.t IGNORE INDEX (by_a)")[0][0] != str(ROWS):
        raise Broken("rows are missing")
    aside = trial.refused("UPDATE t SET a = a + 1") is not None
    trial.expect_alive()
    if aside:
        trial.expect_log(["by_a", "set aside"])
        trial.sql("UPDATE f.t SET a = a + 1")
    trial.restart()
    trial.expect_refusal("SELECT COUNT(*) FROM t FORCE INDEX (by_a) WHERE a >= 0", ["by_a"])
    trial.sql("REPAIR TABLE f.t")
    trial.expect_sound()
    return "statements by this index", "REPAIR TABLE"


def secondary_root(trial, how):
    return secondary(trial, how, level=1)


def secondary_dropped(trial, how):
    """DROP INDEX and ADD INDEX instead."""
    break_t(trial, how, of_tree(BY_A))
    trial.expect_refusal("SELECT COUNT(*) FROM t FORCE INDEX (by_a) WHERE a >= 0", ["by_a"])
    trial.sql("ALTER TABLE f.t DROP INDEX by_a")
    trial.sql("ALTER TABLE f.t ADD INDEX by_a (a)")
    trial.expect_alive()
    trial.sql("SELECT COUNT(*) FROM f.t FORCE INDEX (by_a) WHERE a >= 0")
    trial.restart()
    trial.expect_alive()
    trial.sql("ALTER TABLE f.t FORCE")
    trial.expect_sound()
    return "statements by this index", "DROP INDEX, ADD INDEX; ALTER TABLE FORCE"


def clustered(trial, how):
    path, no = break_t(trial, how, of_tree(PRIMARY))
    words = [*place(path, no), "`f`.`t`", "clustered index", "restore the table"]
    trial.expect_refusal("SELECT SUM(LENGTH(pad)) FROM t", words)
    trial.expect_log(words)
    trial.expect_alive()
    trial.expect_check_names([f"page {no}", "clustered"])
    trial.expect_refusal("DELETE FROM t", words[:2])
    trial.expect_alive()
    if int(trial.sql("SELECT COUNT(*) FROM f.t WHERE id BETWEEN 1 AND 100")[0][0]) != 100:
        raise Broken("rows that are not in the page are missing")
    trial.expect_refusal("ALTER TABLE t FORCE", [])
    trial.restart()
    trial.expect_alive()
    trial.sql("DROP TABLE f.t")
    trial.expect_alive()
    return "statements that read the page", "restore the table; DROP works"


def clustered_root(trial, how):
    """No row can be reached, not even by a secondary index: the table is lost, and that is all that is."""
    path, no = break_t(trial, how, of_tree(PRIMARY, level=1))
    words = [*place(path, no), "`f`.`t`", "clustered index", "restore the table"]
    for statement in ("SELECT SUM(LENGTH(pad)) FROM t", "SELECT pad FROM t WHERE id = 7", f"INSERT INTO t (id) VALUES ({ROWS + 1})",
                      "UPDATE t SET a = a + 1 WHERE id = 7", "DELETE FROM t WHERE id = 7"):
        trial.expect_refusal(statement, words)
        trial.expect_alive()
    trial.expect_log(words)
    trial.expect_check_names([f"page {no}", "clustered"])
    trial.restart()
    trial.expect_refusal("SELECT pad FROM t WHERE id = 7", words[:2])
    trial.expect_alive()
    trial.sql("DROP TABLE f.t")
    trial.expect_alive()
    if path.exists():
        raise Broken("the dropped table's file is there")
    return "every statement of the table", "restore the table; DROP works"


def overflow(trial, how):
    path, no = break_t(trial, how, of_kind(OVERFLOW))
    words = [f"page {no}", "`f`.`t`"]
    trial.expect_refusal("SELECT SUM(LENGTH(long_one)) FROM t", words)
    trial.expect_log([*words, path.name])
    trial.expect_alive()
    trial.expect_check_names([f"page {no}"])
    # The row can go: nobody needs the page for that.
    bad = [row[0] for row in trial.sql("SELECT id FROM f.t WHERE id % 100 = 0") if trial.refused(f"SELECT LENGTH(long_one) FROM t WHERE id = {row[0]}")]
    trial.expect_alive()
    if len(bad) != 1:
        raise Broken(f"rows that cannot be read: {bad}")
    return "the row it belongs to", "restore the table, or what can be read of it"


def delta_tree(trial, how):
    # Everything is buffered, and nothing merged by itself: on a slow machine nothing would be pending any more where it is asked for.
    buffered = ("--sluice-change-buffering=all", "--sluice-change-buffer-test-mode=3")
    path, no = break_t(trial, how, of_tree(BY_A, bit=DELTA_BIT), *buffered, before="UPDATE f.t SET a = a + 1")
    words = [f"page {no}", "`f`.`t`", "by_a", "REPAIR TABLE"]
    trial.expect_refusal("SELECT COUNT(*) FROM t FORCE INDEX (by_a) WHERE a >= 0", words)
    trial.expect_log([*words, path.name])
    trial.expect_alive()
    trial.expect_check_names([f"page {no}", "by_a"])
    trial.restart()
    trial.expect_alive()
    trial.sql("REPAIR TABLE f.t")
    trial.expect_sound()
    return "statements by this index", "REPAIR TABLE"


def bitmap(trial, how):
    path, no = break_t(trial, how, of_kind(BITMAP))
    words = [f"page {no}", "`f`.`t`"]
    trial.expect_refusal(f"INSERT INTO t SELECT seq + {ROWS}, seq, seq, REPEAT('n', 250), NULL FROM seq_1_to_2000", words)
    trial.expect_log([*words, path.name, "ALTER TABLE"])
    trial.expect_alive()
    trial.expect_check_names([f"page {no}"])
    if int(trial.sql("SELECT COUNT(*) FROM f.t")[0][0]) != ROWS:
        raise Broken("rows of the failed statement are there")
    trial.sql("ALTER TABLE f.t FORCE")
    trial.expect_sound()
    return "statements that need room in the file", "ALTER TABLE FORCE"


def page_0(trial, how):
    path, _ = break_t(trial, how, lambda _path: lambda page: page.no == 0)
    words = [path.name, "page 0"]
    trial.expect_refusal(f"INSERT INTO t SELECT seq + {ROWS}, seq, seq, REPEAT('n', 250), NULL FROM seq_1_to_2000", words)
    trial.expect_log([*words, "`f`.`t`"])
    trial.expect_alive()
    trial.sql("ALTER TABLE f.t FORCE")
    trial.expect_sound()
    return "statements that need room in the file", "ALTER TABLE FORCE"


def undo(trial, how):
    """A page of old versions that a snapshot needs; then purge comes to it."""
    trial.fresh(UNBUFFERED)
    path = trial.engine / UNDO_FILE
    with connection.connect(trial.server, "f") as reader, reader.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM u")
        cursor.fetchall()
        trial.sql("UPDATE f.t SET pad = REPEAT('q', 250)")
        trial.forget()
        streams = [page for page in pages.pages(path) if page.kind == UNDO]
        # In the middle of what the update wrote.
        middle = streams[len(streams) // 2].no
        no = trial.damage(path, lambda page: page.no == middle, hows(trial)[how])
        try:
            cursor.execute("SELECT SUM(LENGTH(pad)) FROM t WHERE pad LIKE 'p%'")
            raise Broken("the old versions were read")
        except connection.pymysql.err.Error:
            cursor.execute("SHOW WARNINGS")
            said = str(cursor.fetchall())
            if f"page {no}" not in said or "undo" not in said:
                raise Broken(said)
        trial.expect_alive()
        trial.expect_log([UNDO_FILE, f"page {no}", "restore"])
    # Purge cannot read on: it says so, and everything else goes on.
    if not wait_until(20, lambda: "purge" in trial.log()):
        raise Broken("purge says nothing")
    trial.expect_alive()
    if int(trial.sql("SELECT COUNT(*) FROM f.t WHERE pad LIKE 'q%'")[0][0]) != ROWS:
        raise Broken("newest versions are not read")
    trial.server.stop()
    trial.refuses_to_start([UNDO_FILE, f"page {no}", "restore"])
    return "readers of old versions; the next start is refused", "restore the directory, sluice-check --dump"


def catalog(trial, how):
    trial.fresh(UNBUFFERED)
    path = trial.engine / CATALOG_FILE
    trial.forget()
    no = trial.damage(path, lambda page: page.kind == TREE, hows(trial)[how])
    refused = trial.refused("CREATE TABLE v (a INT) ENGINE=Sluice")
    trial.expect_alive()
    if int(trial.sql("SELECT COUNT(*) FROM f.t")[0][0]) != ROWS:
        raise Broken("rows are missing")
    if not refused:
        raise Broken("a table was made in a broken catalog")
    trial.expect_log([CATALOG_FILE, f"page {no}", "restore"])
    trial.server.stop()
    trial.refuses_to_start([CATALOG_FILE, f"page {no}", "restore"])
    return "definitions; the next start is refused", "restore the directory, sluice-check --dump"


def stale(trial, _how):
    """The disk brings a page back as it was before its last write."""
    trial.fresh(UNBUFFERED)
    path = trial.file_of("t")
    page = list(filter(of_tree(PRIMARY)(path), pages.pages(path)))[3]
    trial.sql("UPDATE f.t SET pad = REPEAT('s', 250)")
    trial.forget()
    if pages.read(path, page.no) == page.data:
        raise Broken("the page was not written")
    pages.write(path, page.no, page.data)
    words = [*place(path, page.no), "`f`.`t`", "lost a write"]
    trial.expect_refusal("SELECT SUM(LENGTH(pad)) FROM t", words)
    trial.expect_log(words)
    trial.expect_alive()
    return "statements that read the page", "restore the table"


KINDS = [("secondary index, leaf", secondary), ("secondary index, root", secondary_root), ("clustered index", clustered),
         ("clustered index, root", clustered_root), ("overflow page", overflow), ("delta tree", delta_tree), ("free-space map", bitmap),
         ("page 0", page_0), ("undo", undo), ("catalog", catalog)]


def trials():
    for how in ("bit flip", "zeros", "page of another file"):
        for kind, run in KINDS:
            yield kind, how, run
    yield "secondary index, dropped", "bit flip", secondary_dropped
    yield "clustered index", "stale page", stale
