"""A web application before the server: nginx, a Rails application under Puma, Redis, and k6 as the browsers.

    items --mode lazy|preload|join --vus 8 --seconds 10      pages of 500 items with images and categories
    lookups --count 10 --vus 8 --seconds 10                  pages of so many rows by primary key

The application is part of what is measured, so its CPU stands beside the server's and k6's, and a warning tells when it,
and not the server, used up what it can use. It is started before the step is measured, and ended after."""
import contextlib
import csv
import os
import pathlib
import shutil
import socket
import subprocess
import time

from .. import LAB, LabError, probe, tools
from . import meter, option, run_program, words

APP = LAB / "web"
THREADS = 8  # of Puma, and so connections to the server
READY_S = 60
WARM_UP_PAGES = 8
NGINX = """
daemon off; master_process off; worker_processes 1; pid {place}/nginx.pid; error_log stderr error;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  upstream shop {{ server 127.0.0.1:{puma}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{nginx};
    location / {{ proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 300s; }}
  }}
}}
"""


class Shop:
    """The running application."""

    def __init__(self, target, log):
        self.target, self.log = target, log
        self.place = pathlib.Path(target.node.folder) / "web"
        self.ports, self.processes = {}, {}
        self.k6 = tools.prefix("k6") / "bin" / "k6"
        self.prefix = tools.prefix("web")

    def start(self):
        from ..node import server
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        for name in ("redis", "puma", "nginx"):
            self.ports[name] = server.free_port(self.ports.values())
        config = self.place / "nginx.conf"
        config.write_text(NGINX.format(place=self.place, **self.ports))
        plain, ruby = tools.environment(self.prefix), tools.ruby_environment(self.prefix)
        self._start("redis", ["usr/bin/redis-server", "--port", self.ports["redis"], "--bind", "127.0.0.1", "--save", "", "--dir", self.place], plain)
        database = f"mysql2://root@localhost/{self.target.database}?socket={self.target.node.socket}&pool={THREADS}"
        self._start("puma", ["usr/bin/ruby", self.prefix / "usr/bin/puma", "--threads", f"{THREADS}:{THREADS}", "--bind", f"tcp://127.0.0.1:{self.ports['puma']}",
                             "--quiet", APP / "config.ru"], {**ruby, "DATABASE_URL": database, "LAB_REDIS_PORT": str(self.ports["redis"])})
        self._start("nginx", ["usr/sbin/nginx", "-e", "stderr", "-p", self.place, "-c", config], plain)
        for name, port in self.ports.items():
            self._wait(name, port)

    def _start(self, name, command, env):
        command = [str(self.prefix / command[0]), *map(str, command[1:])]
        with open(self.log, "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.place)

    def _wait(self, name, port):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.processes[name].poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise LabError(f"the web application's {name} did not start: {_last_line(self.log)}")

    def cpu_s(self):
        """CPU seconds of nginx, Puma and Redis since they were started."""
        costs = [probe.process_costs(process.pid) for process in self.processes.values()]
        return sum(one.cpu_us for one in costs if one) / 1e6

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.place, ignore_errors=True)


@contextlib.contextmanager
def ready(line, target, log):
    """The application, warmed up: started before costs are counted."""
    shop = Shop(target, log)
    try:
        shop.start()
        _load(shop, line, log, ["--iterations", WARM_UP_PAGES, "--vus", THREADS])
        yield shop
    finally:
        shop.end()


def run(line, target, log, shop):
    arguments = words(line)
    before = shop.cpu_s()
    vus, seconds = int(option(arguments, "vus", THREADS)), float(option(arguments, "seconds", 10))
    rows, cpu_s = _load(shop, line, log, ["--vus", vus, "--duration", f"{seconds}s"])
    head, elapsed = summary(rows)
    if not head["operations"]:
        raise LabError(f"no page was served: {_last_line(log)}")
    return {"elapsed_s": elapsed, "threads": vus, "headline": "page", "client_cpu_s": cpu_s, "app_cpu_s": shop.cpu_s() - before, "meters": {"page": head}}


def _load(shop, line, log, how):
    """k6, once; returns its (end of request in s, ms, failed) and its CPU seconds."""
    arguments = words(line)
    page = arguments[0]
    if page not in ("items", "lookups"):
        raise LabError(f"web needs 'items' or 'lookups', not {page!r}")
    tables = ["items"] if page == "items" else ["small", "large"]
    counts = [str(shop.target.node.ask(f"SELECT COUNT(*) FROM {shop.target.database}.{table}")[0][0]) for table in tables]
    out = shop.place / "k6.csv"
    env = {**os.environ, "LAB_URL": f"http://127.0.0.1:{shop.ports['nginx']}", "LAB_PAGE": page, "LAB_MODE": option(arguments, "mode", "preload"), "LAB_ROWS": ",".join(counts),
           "LAB_LOOKUPS": option(arguments, "count", "10"), "LAB_SEED": str(shop.target.seed), "K6_CSV_TIME_FORMAT": "unix_milli", "K6_NO_USAGE_REPORT": "true"}
    command = [shop.k6, "run", "--quiet", "--no-summary", "--no-color", "--address", "", "--out", f"csv={out}", *how, APP / "load.js"]
    _, _, cpu_s = run_program(command, log, env)
    return parse(out.read_text()), cpu_s


def parse(text):
    """k6's CSV, of which only the requests are kept: (when it ended, s; how long it took, ms; whether it failed)."""
    found = []
    for row in csv.DictReader(text.splitlines()):
        if row["metric_name"] == "http_req_duration":
            found.append((float(row["timestamp"]) / 1000, float(row["metric_value"]), row["status"] != "200"))
    return sorted(found)


def summary(rows):
    """A meter of the pages served, and the seconds from the first request's start to the last one's end."""
    if not rows:
        return meter(0), 1e-9
    begin = min(end - ms / 1000 for end, ms, _ in rows)
    good = [(end - begin, ms) for end, ms, failed in rows if not failed]
    elapsed = max(rows[-1][0] - begin, 1e-3)
    by_second, slowest = [0] * (int(elapsed) + 1), [0.0] * (int(elapsed) + 1)
    for end, ms in good:
        by_second[int(end)] += 1
        slowest[int(end)] = max(slowest[int(end)], ms * 1000)
    ordered = sorted(ms * 1000 for _, ms in good)
    latency = {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1))} if ordered else {}
    failures = len(rows) - len(good)
    return meter(len(good), len(rows), latency, _histogram(ordered), by_second, slowest, {"http": failures} if failures else None), elapsed


def _histogram(ordered):
    """Counts up to steps of a tenth of a power of ten."""
    counts = {}
    for value in ordered:
        step = 1.0
        while step < value:
            step *= 1.2589
        counts[step] = counts.get(step, 0) + 1
    return [[step, counts[step]] for step in sorted(counts)]


def _last_line(log):
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1][:200] if lines else "it said nothing"
