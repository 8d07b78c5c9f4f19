"""Files that are missing, foreign, older than others, of another page size or of a newer format: the engine (or the one table) is refused with the reason
and the way out, nothing is changed, and with the right files in place again everything is there. One that cannot be removed is in nobody's way.
"""
import shutil
import struct

import pages
from server import ServerError
from trial import Broken


def refused(damage, *words):
    """A trial: stopped server, `damage(trial)`, refused with these words, and whole again afterwards."""
    def run(trial, _how):
        trial.fresh()
        trial.server.stop()
        before = trial.folder / "before"
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(trial.engine, before)
        damage(trial)
        names = sorted(path.name for path in trial.engine.iterdir())
        said = trial.refuses_to_start(words)
        lost = [name for name in names if not (trial.engine / name).exists()]
        if lost:
            raise Broken(f"the refused start removed {lost}")
        shutil.rmtree(trial.engine)
        before.rename(trial.engine)
        trial.start()
        trial.expect_sound()
        return "everything, until the files are right", said.split(": ", 1)[-1][:110]
    return run


def table_refused(damage, *words):
    """The same for one table: others are served."""
    def run(trial, _how):
        trial.fresh()
        path = trial.file_of("t")
        trial.server.stop()
        kept = path.read_bytes()
        damage(trial, path)
        trial.start()
        trial.expect_refusal("SELECT COUNT(*) FROM t", list(words))
        trial.expect_log(["`f`.`t`", *words])
        trial.expect_alive()
        trial.server.stop()
        path.write_bytes(kept)
        trial.start()
        trial.expect_sound()
        return "the table", "bring back its file"
    return run


def remove(name):
    return lambda trial: [path.unlink() for path in trial.engine.glob(name)]


def edited(path, no, offset, data):
    page = pages.read(path, no)
    pages.write(path, no, pages.sealed(page[:offset] + data + page[offset + len(data):]))


def header(offset, number):
    return lambda trial: edited(trial.engine / pages.CATALOG_FILE, 0, offset, struct.pack("<I", number))


def control_format(trial):
    path = trial.engine / "redo_control"
    data = bytearray(path.read_bytes())
    for slot in (0, 4096):
        data[slot + 12:slot + 16] = struct.pack("<I", 9)
        data[slot:slot + 4] = struct.pack("<I", pages.crc32c(bytes(data[slot + 4:slot + 4096])))
    path.write_bytes(data)


def garbage(name):
    def damage(trial):
        path = next(trial.engine.glob(name))
        path.write_bytes(b"not a file of Sluice " * (path.stat().st_size // 21 + 1))
    return damage


def log_of_another(trial):
    """A redo log that knows nothing of these files."""
    other = trial.other_database()
    remove("redo_*")(trial)
    for path in other.glob("redo_*"):
        shutil.copy(path, trial.engine / path.name)


def all_but_a_newer_table(trial):
    """A backup is brought back over a directory that has a table more."""
    backup = {path.name: path.read_bytes() for path in trial.engine.iterdir()}
    trial.start()
    trial.sql("CREATE TABLE f.newer (id INT PRIMARY KEY) ENGINE=Sluice; INSERT INTO f.newer VALUES (1)")
    trial.server.stop()
    remove("redo_*")(trial)
    for name, data in backup.items():
        (trial.engine / name).write_bytes(data)


def file_of_another(trial, path):
    other = trial.other_database()
    shutil.copy(other / path.name, path)


def file_of_other_table(trial, path):
    shutil.copy(trial.file_of("filler"), path)


def not_removable(trial, _how):
    """DROP of a table whose file cannot be unlinked (a folder in its place, which nobody can): nothing stops, and a later start removes it."""
    trial.fresh()
    path, aside = trial.file_of("t"), trial.folder / "aside"
    trial.sql("SELECT COUNT(*) FROM f.t")
    path.rename(aside)
    path.mkdir()
    trial.sql("DROP TABLE f.t")
    for stop in (None, trial.server.kill9, trial.server.stop, trial.server.stop):
        if stop:
            stop()
            trial.start()
        trial.expect_log(["Warning", path.name, "could not be removed"])
        trial.expect_alive()
    trial.server.stop()
    path.rmdir()
    aside.rename(path)
    trial.start()
    trial.expect_alive()
    if path.exists():
        raise Broken(f"{path.name} is still there")
    return "nothing", "mend the cause; the next start removes it"


def decided_and_forced(trial, _how):
    """A COMMIT over two engines, of which one can commit nothing at the next start: that ends, and the start after it has both halves."""
    trial.fresh()
    trial.sql("CREATE TABLE f.i (id INT PRIMARY KEY) ENGINE=InnoDB")
    trial.sql("BEGIN; INSERT INTO f.u VALUES (1000, 1); INSERT INTO f.i VALUES (1000); COMMIT")
    trial.server.kill9()
    try:
        trial.start("--innodb-force-recovery=5")
    except ServerError:
        trial.expect_log(["the server does not start", "tc.log", "start without Sluice"])
    else:
        raise Broken("the server started")
    trial.start()
    if trial.sql("SELECT u.id FROM f.u JOIN f.i USING (id); XA RECOVER") != [["1000"]]:
        raise Broken("the COMMIT is not there")
    trial.expect_alive()
    return "nothing: the server does not start", "start without forced recovery, or without Sluice"


TRIALS = [
    ("redo log", "missing", refused(remove("redo_*"), "redo log is not", "restore")),
    ("redo_control", "missing", refused(remove("redo_control"), "redo", "restore")),
    ("redo_control", "overwritten", refused(garbage("redo_control"), "redo_control", "restore")),
    ("redo_control", "newer format", refused(control_format, "redo_control", "format 9")),
    ("redo log", "of another database", refused(log_of_another, "another database", "restore")),
    ("catalog file", "missing", refused(remove(pages.CATALOG_FILE), pages.CATALOG_FILE, "missing", "restore")),
    ("undo file", "missing", refused(remove(pages.UNDO_FILE), pages.UNDO_FILE, "missing", "restore")),
    ("catalog file", "overwritten", refused(garbage(pages.CATALOG_FILE), pages.CATALOG_FILE, "restore")),
    ("catalog file", "other page size", refused(header(44, 4096), pages.CATALOG_FILE, "pages of 4096")),
    ("catalog file", "newer format", refused(header(40, 7), pages.CATALOG_FILE, "format 7")),
    ("all but a table's file", "older than it", refused(all_but_a_newer_table, "no table has", "restore")),
    ("table's file", "missing", table_refused(lambda trial, path: path.unlink(), "missing")),
    ("table's file", "newer format", table_refused(lambda trial, path: edited(path, 0, 40, struct.pack("<I", 7)), "format 7")),
    ("table's file", "other page size", table_refused(lambda trial, path: edited(path, 0, 44, struct.pack("<I", 4096)), "pages of 4096")),
    ("table's file", "another table's", table_refused(file_of_other_table, ".slu: page")),
    ("table's file", "of another database", table_refused(file_of_another, "another database")),
    ("table's file", "not removable", not_removable),
    ("tc.log", "InnoDB in forced recovery", decided_and_forced),
    ("table's file", "cut short", table_refused(lambda trial, path: path.write_bytes(path.read_bytes()[:5 * pages.PAGE]), "page")),
]


def trials():
    yield from TRIALS
