"""Looks at a server once a second while a step and its drain run: what it reads, writes and computes (from outside), and,
where the step asks for it, how much work it has put off (its engine's [debt], in MB, over a connection of its own), and which
share that is of the bound that the engine has set itself (its [debt_bounds]).

The series shows stalls that an average hides, and a debt that grows all along is a rate that cannot last."""
import contextlib
import threading
import time

import pymysql

EVERY_S = 1.0


class Watch:
    def __init__(self, servers, engine, debt):
        self.servers, self.queries, self.bounds = servers, engine.debt if debt else {}, engine.debt_bounds if debt else {}
        self.seconds, self.debt, self.load_ended = [], [], None
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)
        self._begin = time.monotonic()

    def __enter__(self):
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        before, at = self.servers.costs(), time.monotonic()
        while not self._stop.wait(max(0.0, at + EVERY_S - time.monotonic())):
            now, costs = time.monotonic(), self.servers.costs()
            used, took = costs - before, max(now - at, 1e-6)
            self.seconds.append({"second": round(now - self._begin, 2), "reads": max(used.reads, 0) / took, "read_kb": max(used.read_bytes, 0) / 1024 / took,
                                 "write_kb": max(used.write_bytes, 0) / 1024 / took, "cores": max(used.cpu_us, 0) / 1e6 / took})
            before, at = costs, now
            self.look()

    def load_has_ended(self):
        self.load_ended = round(time.monotonic() - self._begin, 2)

    def look(self):
        """One point of the debt curve; none while the server is away."""
        if not self.queries:
            return
        debts, bounds = {}, {}
        with contextlib.suppress(pymysql.Error, OSError):
            connection = pymysql.connect(unix_socket=str(self.servers.node.socket), user="root", connect_timeout=2)
            with connection, connection.cursor() as cursor:
                debts, bounds = _numbers(cursor, self.queries), _numbers(cursor, self.bounds)
        if debts:
            of_bound = {name: debts[name] / bound for name, bound in bounds.items() if name in debts and bound > 0}
            self.debt.append({"second": round(time.monotonic() - self._begin, 2), "mb": {name: round(mb, 3) for name, mb in debts.items()}, "of_bound": of_bound})


def _numbers(cursor, queries):
    found = {}
    for name, query in queries.items():
        with contextlib.suppress(pymysql.Error, TypeError, ValueError):  # a gauge that this build lacks
            cursor.execute(query)
            found[name] = float(cursor.fetchone()[0])
    return found


def peak_share(debt):
    """The highest share of its bound that any debt had on the curve; None where no debt has one."""
    return max((share for point in debt for share in point["of_bound"].values()), default=None)
