#!/usr/bin/env python3
"""`make dashboard`: the dashboard and the alerts, tried on a server under load.

    1. the files      sluice.json is up to date, and Grafana's own types of a dashboard take all of it; promtool checks the alert rules and passes their tests
    2. the load       a private server with performance_schema on, sysbench and transactions that meet each other, for SECONDS
    3. the data       prometheus-mysqld-exporter and Prometheus beside it. The query of every panel must return a value for each legend,
                      no alert that speaks of damage may fire
    4. the picture    page.html in headless Chromium, with Prometheus's data: no panel is empty; the picture is docs/images/dashboard.png

Prometheus, its exporter and Chromium are Debian's (scripts/fetch-lab-tools). Grafana is in no package registry that the project uses:
page.html draws Grafana's panels from Grafana's file, and Grafana itself was not run. Exit code 1 when something is empty or wrong.
"""
import argparse
import functools
import http.server
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "bench")]
import dashboard  # noqa: E402
import display  # noqa: E402
from cells import Bench, database  # noqa: E402
from server import BUILD, Server, SqlError, free_port  # noqa: E402

TOOLS = BUILD / "lab-tools"
PICTURE = ROOT / "docs/images/dashboard.png"
WIDTH, HEIGHT_MAX = 1600, 3320
SCRAPE_SECONDS = 2
INTERVAL = "20s"  # of the rates
ROWS = 100_000
START_SECONDS_MAX = 30
EXPORTER_FLAGS = ["--collect.global_status", "--collect.perf_schema.file_events", "--no-collect.slave_status", "--no-collect.info_schema.innodb_cmp",
                  "--no-collect.info_schema.innodb_cmpmem", "--no-collect.info_schema.query_response_time"]
MAY_FIRE = ("SluiceDeadlocks", "SluiceLockWaitTimeouts", "SluiceRedoLogFull", "SluiceNoFreeFrames", "SluiceChangeBufferThrottles",
            "SluiceChangeBufferNearBound", "SluiceRedoLogBufferFull")  # a hard load on a small server brings these


# The exporter takes no user without one. The server is private, and gone at the end.
PASSWORD = "exporter"


class Failed(Exception):
    """A check that did not hold; the text says which, in one line."""


def tool(name, of):
    subprocess.run([ROOT / "scripts/fetch-lab-tools", of], check=True)
    folder = TOOLS / of
    path = folder / "usr/bin" / name
    if name == "chromium":
        # The program itself. Debian's script before it reads files of an installed package.
        path = folder / "usr/lib/chromium/chromium"
    libraries = [str(found) for found in [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu"),
                                                *folder.glob("usr/lib/*-linux-gnu/pulseaudio")]]
    return str(path), {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def lost_in_grafana():
    """What of the dashboard does not come back from Grafana's own types."""
    subprocess.run([ROOT / "scripts/fetch-lab-tools", "grafana-sdk"], check=True)
    sys.path.append(str(TOOLS / "grafana-sdk"))
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanaDashboard
    register_default_plugins()
    given = json.loads(dashboard.text())
    return list(differences(given, json.loads(JSONEncoder().encode(GrafanaDashboard.from_json(given))), ""))


def differences(given, returned, place):
    """Places in `given` that `returned` lacks, or has otherwise. It may have more."""
    if isinstance(given, dict) and isinstance(returned, dict):
        for name, part in given.items():
            yield from differences(part, returned.get(name), f"{place}/{name}")
    elif isinstance(given, list) and isinstance(returned, list) and len(given) == len(returned):
        for number, (part, other) in enumerate(zip(given, returned)):
            yield from differences(part, other, f"{place}[{number}]")
    elif given != returned:
        yield place


class Program:
    """A program that runs beside the server, with its log in a file."""

    def __init__(self, name, of, arguments, folder, **more):
        path, environment = tool(name, of)
        self.log = open(folder / f"{name}.log", "wb")
        self.process = subprocess.Popen([path, *arguments], stdout=self.log, stderr=self.log, env={**environment, **more}, cwd=folder)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()


def answer(url, **parameters):
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    try:
        with urllib.request.urlopen(url + query, timeout=20) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        return error.read()


def wait_for(what, url):
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            answer(url)
            return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                raise Failed(f"{what} does not answer: {error}") from error
            time.sleep(0.2)


class Dashboard:
    def __init__(self, arguments):
        self.seconds = arguments.seconds
        self.picture = arguments.picture
        self.folder = BUILD / "run/dashboard"
        self.server = Server(self.folder / "server", free_port(), [
            "--performance-schema=ON", "--innodb-buffer-pool-size=16M", "--sluice-buffer-pool-size=32M", "--sluice-redo-log-capacity=32M"])
        self.ports = [free_port() for _ in range(3)]
        self.prometheus = f"http://127.0.0.1:{self.ports[1]}"
        self.programs = []
        self.stop_load = threading.Event()
        self.load_threads = []

    # ---- the files ----

    def check_files(self):
        if dashboard.FILE.read_text() != dashboard.text():
            raise Failed("sluice.json is not up to date: run scripts/monitoring/dashboard.py --write")
        lost = lost_in_grafana()
        if lost:
            raise Failed(f"Grafana's types of a dashboard do not take: {', '.join(lost)}")
        promtool, environment = tool("promtool", "monitoring")
        for arguments in (["check", "rules", "sluice.rules.yml"], ["test", "rules", "sluice.rules.test.yml"]):
            result = subprocess.run([promtool, *arguments], cwd=HERE, env=environment, capture_output=True, text=True)
            if result.returncode:
                raise Failed(f"promtool {' '.join(arguments)}: {(result.stdout + result.stderr).strip()}")
        display.say("files: the dashboard is up to date and Grafana's types take all of it, the alert rules pass their tests")

    # ---- the load ----

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.server.start()
        self.server.sql(f"CREATE USER exporter@localhost IDENTIFIED BY '{PASSWORD}'; GRANT PROCESS, REPLICATION CLIENT, SELECT ON *.* TO exporter@localhost;"
                        "CREATE DATABASE contended; CREATE TABLE contended.t (a INT PRIMARY KEY, b INT, KEY (b));"
                        "INSERT INTO contended.t VALUES (1, 1), (2, 2), (3, 3);")
        self.bench = Bench(self.server, ROWS, tables=2)
        self.bench.prepare("Sluice")
        self.start_exporter()
        self.start_prometheus()
        self.begin(self.sysbench_load)
        for order in ((1, 2), (2, 1)):
            self.begin(functools.partial(self.contended_load, order))
        self.begin(self.reader_load)

    def begin(self, work):
        thread = threading.Thread(target=self.repeat, args=(work,), daemon=True)
        thread.start()
        self.load_threads.append(thread)

    def repeat(self, work):
        while not self.stop_load.is_set():
            try:
                work()
            except SqlError as error:
                if not any(code in str(error) for code in ("1205", "1213", "1020")):
                    raise

    def sysbench_load(self):
        self.bench.sysbench("oltp_read_write", "Sluice", ["--threads=2", f"--time={min(self.seconds, 20)}", "--events=0", "--rate=200"], "run")

    def contended_load(self, order):
        """Both take two rows, in different order: waits and deadlocks."""
        first, second = order
        self.server.sql(f"BEGIN; UPDATE t SET b = b + 1 WHERE a = {first}; DO SLEEP(0.2); UPDATE t SET b = b + 1 WHERE a = {second}; COMMIT",
                        "contended")

    def reader_load(self):
        """An open snapshot, and a rollback."""
        self.server.sql("START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM sbtest1; DO SLEEP(4); COMMIT;"
                        "BEGIN; DELETE FROM sbtest2 WHERE id < 20; ROLLBACK", database("Sluice"))

    def start_exporter(self):
        options = self.folder / "exporter.cnf"
        options.write_text(f"[client]\nuser=exporter\npassword={PASSWORD}\nsocket={self.server.socket}\n")
        self.programs.append(Program("prometheus-mysqld-exporter", "monitoring", [
            f"--config.my-cnf={options}", f"--web.listen-address=127.0.0.1:{self.ports[0]}", *EXPORTER_FLAGS], self.folder))
        wait_for("the exporter", f"http://127.0.0.1:{self.ports[0]}/metrics")

    def start_prometheus(self):
        configuration = self.folder / "prometheus.yml"
        configuration.write_text(json.dumps({
            "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
            "rule_files": [str(HERE / "sluice.rules.yml")],
            "scrape_configs": [{"job_name": "mysqld", "static_configs": [{"targets": [f"127.0.0.1:{self.ports[0]}"]}]}]}))
        self.programs.append(Program("prometheus", "monitoring", [
            f"--config.file={configuration}", f"--storage.tsdb.path={self.folder}/tsdb", f"--web.listen-address=127.0.0.1:{self.ports[1]}",
            "--web.console.templates=", "--web.console.libraries="], self.folder))
        wait_for("Prometheus", f"{self.prometheus}/-/ready")

    # ---- the data ----

    def ask(self, path, **parameters):
        body = json.loads(answer(f"{self.prometheus}{path}", **parameters))
        if body["status"] != "success":
            raise Failed(f"Prometheus refuses {parameters}: {body.get('error')}")
        return body["data"]

    def check_queries(self):
        panels = [panel for panel in dashboard.panels() if panel["type"] != "row"]
        empty = []
        for panel in panels:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", INTERVAL).replace("$instance", ".*")
                values = [float(one["value"][1]) for one in self.ask("/api/v1/query", query=query)["result"]]
                if not any(math.isfinite(value) for value in values):
                    empty.append(f"{panel['title']}: {target['legendFormat']} ({query})")
        if empty:
            raise Failed(f"{len(empty)} queries return nothing: " + "; ".join(empty))
        display.say(f"data: all {sum(len(panel['targets']) for panel in panels)} queries of {len(panels)} panels return values")

    def check_alerts(self):
        rules = [rule for group in self.ask("/api/v1/rules")["groups"] for rule in group["rules"]]
        broken = [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]
        firing = [rule["name"] for rule in rules if rule["state"] == "firing" and rule["name"] not in MAY_FIRE]
        if broken or firing:
            raise Failed(f"alerts: broken {broken}, firing {firing}")
        display.say(f"alerts: {len(rules)} are evaluated, none of damage fires")

    # ---- the picture ----

    def serve(self):
        """The page, its parts, and Prometheus's answers under one address."""
        prometheus = self.prometheus
        files = {"/page.html": HERE / "page.html", "/dashboard.json": dashboard.FILE,
                 **{f"/{name}": TOOLS / "uplot" / name for name in ("uPlot.min.css", "uPlot.iife.min.js")}}
        kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                if path.startswith("/api/"):
                    body, kind = answer(prometheus + self.path), "application/json"
                elif path in files:
                    body, kind = files[path].read_bytes(), kinds[files[path].suffix]
                else:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.ports[2]), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def look(self):
        subprocess.run([ROOT / "scripts/fetch-lab-tools", "uplot"], check=True)
        self.serve()
        address = f"http://127.0.0.1:{self.ports[2]}/page.html?" + urllib.parse.urlencode(
            {"seconds": self.seconds, "step": SCRAPE_SECONDS, "interval": INTERVAL, "end": time.time()})
        page = self.chromium(["--dump-dom", address])
        if 'data-done="yes"' not in page:
            raise Failed(f"the page was not finished: {page[-500:]}")
        page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
        panels = page.count('data-series="')
        wanted = sum(panel["type"] != "row" for panel in dashboard.panels())
        empty = page.count('data-series="0"') + page.count("data-missing=") - page.count('data-missing="0"')
        if panels != wanted or empty:
            raise Failed(f"{panels} of {wanted} panels are shown, {empty} lack data")
        self.picture.parent.mkdir(parents=True, exist_ok=True)
        self.chromium([f"--screenshot={self.picture}", address])
        display.say(f"picture: {panels} panels in Chromium, none empty: {self.picture}")

    def chromium(self, arguments):
        path, environment = tool("chromium", "chromium")
        command = [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
                   f"--user-data-dir={self.folder}/chromium", f"--window-size={WIDTH},{HEIGHT_MAX}", "--virtual-time-budget=30000", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        if done.returncode:
            raise Failed(f"Chromium failed: {done.stderr[-500:]}")
        return done.stdout

    # ----

    def run(self):
        self.check_files()
        try:
            self.start()
            display.say(f"load: {self.seconds} s")
            time.sleep(self.seconds)
            self.check_queries()
            self.check_alerts()
            self.look()
        finally:
            self.stop_load.set()
            for program in reversed(self.programs):
                program.stop()
            for thread in self.load_threads:
                thread.join(timeout=60)
            self.server.stop()


def main():
    parser = argparse.ArgumentParser(description="The dashboard and the alerts, tried on a server under load.")
    parser.add_argument("--seconds", type=int, default=90, help="of load before the look (%(default)s)")
    parser.add_argument("--picture", type=pathlib.Path, default=PICTURE, help="where the picture goes (docs/images/dashboard.png)")
    try:
        Dashboard(parser.parse_args()).run()
    except Failed as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
