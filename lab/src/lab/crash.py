"""kill -9 in the middle of a load, and the account afterwards: how long the server takes to answer again, and whether every
acknowledged row is there with the values that were sent. The load is our own client's `insert --until-lost`, whose rows
follow from the seed, so that they can be made again and compared."""
import contextlib
import threading
import time

from . import LabError
from .workload import client


@contextlib.contextmanager
def killing(servers, after_s):
    """Ends the server `after_s` seconds into the block; 0 leaves it alone."""
    if not after_s:
        yield
        return
    node = servers.node
    timer = threading.Timer(after_s, node.kill9)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
    if node.running():
        raise LabError(f"the load ended before the server was to be killed, {after_s:g} s into it")


def account(servers, step, target, result, log):
    """Starts the server again and counts. An unacknowledged last statement may be there or not, but not half of it."""
    begin = time.monotonic()
    servers.node.start(timeout=600)
    recovery_s = time.monotonic() - begin
    acknowledged = result["meters"]["insert"]["operations"]
    options = step.client.split()
    schema, batch = (options[options.index(name) + 1] if name in options else usual for name, usual in (("--schema", "2023"), ("--rows-per-commit", "50")))
    found = client.run(f"verify --schema {schema} --rows-per-commit {batch} --acknowledged {acknowledged} --present {result['present']}", target, log)
    checked = servers.ask("CHECK TABLE pi1", target.database)
    return {"recovery_s": recovery_s, "acknowledged": acknowledged, "lost": found["lost"], "torn": found["torn"], "check": str(checked[-1][-1])}
