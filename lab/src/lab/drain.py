"""Waits until an engine has nothing deferred, and tells what that cost. What to ask for, and how to see that it is done, stands
in the engine's file; on top of that, the server's writes must have been quiet for a moment, which holds for any engine."""
import contextlib
import time

from . import LabError

QUIET_S = 1.0
QUIET_BYTES = 256 * 1024
TIMEOUT_S = 1800


def gauges(node):
    """What is left, by name; a gauge that the server does not offer is left out."""
    left = {}
    for name, query in node.engine_file.drain.gauges.items():
        with contextlib.suppress(LabError, ValueError, TypeError, IndexError):
            left[name] = float(node.ask(query)[0][0])
    return left


def drain(node, timeout_s=TIMEOUT_S, quiet_s=QUIET_S):
    """Drains one server. Returns its record: seconds (without the wait for quiet), what was left before and after, costs."""
    rules = node.engine_file.drain
    before, left_before, start = node.costs(), gauges(node), time.monotonic()
    _ask_all(node, rules.statements)
    if rules.by_shutdown:
        _ask_all(node, rules.by_shutdown)
        node.stop()
        seconds = time.monotonic() - start
        cost = node.costs() - before
        node.start()
        return _record(seconds, cost, left_before, gauges(node), True)
    last_change, written, done = time.monotonic(), node.costs().write_bytes, False
    while time.monotonic() - start < timeout_s:
        time.sleep(0.05)
        now = node.costs().write_bytes
        drained = all(value <= rules.zero.get(name, 0) for name, value in gauges(node).items())
        if not drained or now - written > QUIET_BYTES:
            last_change, written = time.monotonic(), now
        elif time.monotonic() - last_change >= quiet_s:
            done = True
            break
    cost = node.costs() - before
    record = _record(last_change - start, cost, left_before, gauges(node), done)
    _ask_all(node, rules.undo)
    return record


def _ask_all(node, statements):
    """Statements that this version of the engine may not know are tried all the same: gauges show what came of them."""
    for statement in statements:
        with contextlib.suppress(LabError):
            node.ask(statement)


def _record(seconds, cost, before, after, done):
    return {"seconds": seconds, "read_bytes": cost.read_bytes, "write_bytes": cost.write_bytes, "reads": cost.reads, "cpu_us": cost.cpu_us,
            "left_before": before, "left_after": after, "done": done}
