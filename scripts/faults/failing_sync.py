"""A sync that fails: the operating system forgets which pages were not written, so no later sync may be believed. The engine stops writing
for good, says so, serves other engines' tables, and recovers at the next start.

The failure comes from a library put before the C library's (failing_sync.c), while a file says so.
"""
import os
import pathlib
import subprocess

from server import BUILD
from trial import Broken, wait_until

SOURCE = pathlib.Path(__file__).resolve().parent / "failing_sync.c"


def library():
    target = BUILD / "failing_sync.so"
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"], check=True)
    return target


def failing(which, *options):
    def run(trial, _how):
        switch = trial.folder / "syncs-fail"
        switch.unlink(missing_ok=True)
        os.environ.update(LD_PRELOAD=str(library()), FAILING_SYNC_SWITCH=str(switch), FAILING_SYNC_FILES=which)
        try:
            trial.fresh(*options)
        finally:
            for name in ("LD_PRELOAD", "FAILING_SYNC_SWITCH", "FAILING_SYNC_FILES"):
                os.environ.pop(name)
        trial.sql("CREATE TABLE f.other (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO f.other VALUES (1)")
        acknowledged = 0
        switch.touch()
        for n in range(1000, 1400):
            if trial.refused(f"INSERT INTO u VALUES ({n}, {n})") is not None:
                break
            acknowledged += 1
            # Reading what is not in memory makes room: changed pages are written.
            if which != "redo_" and trial.refused("SELECT COUNT(*), SUM(LENGTH(pad)) FROM filler") is not None:
                break
        else:
            raise Broken("no statement met the failing sync")
        # Syncs work again: nobody may believe them.
        switch.unlink()
        for statement in ("INSERT INTO u VALUES (5000, 1)", "SELECT COUNT(*) FROM u"):
            trial.expect_refusal(statement, ["restart"])
        wait_until(5, lambda: "cannot sync" in trial.log())
        trial.expect_log(["cannot sync", "Input/output error"])
        trial.sql("INSERT INTO f.other VALUES (2)")
        if trial.server.pid() != trial.pid:
            raise Broken("the server died")
        # With a binary log: what is prepared there, and nobody could commit, is decided by it at the next start.
        trial.server.stop()
        trial.start(*options)
        there = int(trial.sql("SELECT COUNT(*) FROM f.u WHERE id BETWEEN 1000 AND 1399")[0][0])
        if there < acknowledged:
            raise Broken(f"{acknowledged} inserts were acknowledged, {there} are there")
        trial.expect_alive()
        trial.expect_sound()
        return "everything of the engine, until a restart", "restart; acknowledged commits are there"
    return run


def trials():
    yield "redo log", "sync fails", failing("redo_")
    yield "redo log, with a binary log", "sync fails", failing("redo_", "--log-bin=binlog", "--sync-binlog=1", "--server-id=1")
    yield "data files", "sync fails", failing(".slu")
    yield "doublewrite file", "sync fails", failing("doublewrite")
