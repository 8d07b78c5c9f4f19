"""The log and the doublewrite file of a server that was killed, damaged before the next start.

What the log has for sure, up to the mark in its control file, may not be read wrongly or passed over: the start is refused, with file and place.
The doublewrite file is of use only for torn pages: any other start goes on without what is broken in it.
"""
import struct

import pages
from server import ServerError
from trial import ROWS, Broken

SLOT = 4096


def killed(trial):
    """A server with work in its log that is in no data file yet."""
    trial.fresh("--sluice-change-buffering=none")
    trial.sql("UPDATE f.t SET pad = REPEAT('q', 250)")
    trial.server.kill9()


def control(trial):
    """(checkpoint, durable, segment size) of the newest slot of the control file; drawn in engine/src/redo/control.rs."""
    data = (trial.engine / "redo_control").read_bytes()
    slots = [struct.unpack_from("<QQQQ", data, at + 16) for at in (0, SLOT)]
    return max(slots)[1:]


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def expect_whole(trial):
    trial.start()
    trial.expect_sound()
    if int(trial.sql("SELECT COUNT(*) FROM f.t WHERE pad LIKE 'q%'")[0][0]) != ROWS:
        raise Broken("a committed change is lost")
    trial.expect_alive()


def in_the_log(place):
    """`place`: (file, offset, words of the refusal) from (checkpoint, segment size)."""
    def run(trial, _how):
        killed(trial)
        checkpoint, _, size = control(trial)
        name, at, words = place(checkpoint, size)
        flip(trial.engine / name, at)
        said = trial.refuses_to_start([name, *words])
        flip(trial.engine / name, at)
        expect_whole(trial)
        return "everything, until the file is right", said.split(": ", 1)[-1][:110]
    return run


def body(checkpoint, size):
    # Some way behind the checkpoint, and before the end of what was committed.
    lsn = (checkpoint + (100 << 10)) // 512 * 512
    return f"redo_{lsn // size:08}", SLOT + lsn % size + 40, ["offset"]


def header(checkpoint, size):
    return f"redo_{checkpoint // size:08}", 20, ["segment header"]


def one_slot(trial, _how):
    """The slot before it counts, as long as the log still reaches back to that one's checkpoint."""
    killed(trial)
    path = trial.engine / "redo_control"
    data = path.read_bytes()
    newest = max((0, SLOT), key=lambda at: struct.unpack_from("<Q", data, at + 16))
    flip(path, newest + 100)
    trial.log_start = trial.server.log.stat().st_size
    try:
        expect_whole(trial)
    except ServerError:
        trial.expect_log(["redo_", "restore"])
        flip(path, newest + 100)
        expect_whole(trial)
        return "everything, until the file is right", "bring back the file"
    return "nothing", "none needed: the older slot is read"


def doublewrite(change):
    def run(trial, _how):
        killed(trial)
        change(trial.engine / "doublewrite")
        expect_whole(trial)
        trial.restart()
        trial.expect_sound()
        return "nothing", "none needed: the file is made again"
    return run


def overwrite(path):
    path.write_bytes(b"not a file of Sluice " * (path.stat().st_size // 21 + 1))


def copies(path):
    """Every copy of a page in it is broken."""
    for no in range(1, path.stat().st_size // pages.PAGE):
        flip(path, no * pages.PAGE + 9000)


TRIALS = [
    ("redo log, body", "bit flip", in_the_log(body)),
    ("redo log, head of a segment", "bit flip", in_the_log(header)),
    ("redo_control, newest slot", "bit flip", one_slot),
    ("doublewrite file", "missing", doublewrite(lambda path: path.unlink())),
    ("doublewrite file", "overwritten", doublewrite(overwrite)),
    ("doublewrite file, copies", "bit flip", doublewrite(copies)),
]


def trials():
    yield from TRIALS
