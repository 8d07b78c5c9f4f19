"""One cell from start to end: a new server, the steps, each measured, judged and drained, the check, the end.

The order inside a step is fixed: costs and counters, the load, costs and counters again, at once the drain with costs of its
own, then files and page cache. While a load runs nothing of the lab talks to the server but the debt curve, once a second.
"""
import difflib
import os
import re
import shutil
import statistics
import time
import traceback

from . import BUILD, LabError, crash, engine as engines_, frame as frames, gate, probe, tools, workload
from .drain import drain
from .experiment import fill, size_mb
from .node import Node, server, server_variables
from .plan import slug
from .watch import Watch, peak_share

COMMON_OPTIONS = [
    "--character-set-server=latin1", "--collation-server=latin1_bin", "--performance-schema=OFF", "--skip-name-resolve", "--max-connections=300",
    "--max-allowed-packet=64M", "--thread-cache-size=100", "--table-open-cache=1000", "--secure-file-priv=", "--skip-networking=0",
]
SEED = 20230208
DISK_WAITS, DISK_WAIT_S = 3, 3
ServerError = server.ServerError
TABLES_BYTES = "SELECT SUM(DATA_LENGTH + INDEX_LENGTH) FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'lab'"
DML = ("com_insert", "com_update", "com_delete", "com_replace", "com_insert_select")


class Settings:
    """What a cell's server is started with: the experiment's [server], with the arm's overrides and the cell's values."""

    def __init__(self, cell, server):
        values = fill({**server.model_dump(), **cell.arm.overrides}, cell.values)
        self.pool, self.durability = str(values["pool"]), str(values["durability"])
        self.direct_io = str(values["direct_io"]).lower() in ("true", "1", "on")
        self.binlog = str(values["binlog"]).lower() in ("true", "1", "on")
        self.limits = {"read_iops": int(values["read_iops"]), "write_iops": int(values["write_iops"]), "memory_mb": size_mb(values["memory"]) if values["memory"] else 0}
        self.options, self.nodes = values["options"], int(values["nodes"])


def server_options(cell, settings, engine, engines):
    """Common options, then the engine's, then the experiment's, then the arm's: what comes last wins."""
    idle = [option for other in engines.values() if other.name != engine.name and not other.plugin for option in other.idle]
    binlog = ["--log-bin=binlog", "--binlog-format=ROW", "--server-id=1", f"--sync-binlog={1 if settings.durability == '1' else 0}"] if settings.binlog else []
    return [*COMMON_OPTIONS, *idle, *engine.server_options(settings.pool, settings.durability, [*settings.options, *cell.arm.options]), *binlog, *settings.options, *cell.arm.options]


def run(cell, resolved, folder, told=lambda text: None, usual_disk=None):
    """Runs a cell and returns its record, whatever happens; only the person's own interrupt passes through. `usual_disk` is
    what the probe has found so far in this run."""
    record = {"number": cell.number, "repeat": cell.repeat, "arm": cell.arm.name, "engine": cell.arm.engine, "params": cell.params, "samples": []}
    engines = engines_.load_all()
    engine = engines_.find(engines, cell.arm.engine)
    reason = engines_.missing(engine)
    if reason:
        return {**record, "skipped": reason}
    place = BUILD / "lab" / "run" / f"{os.getpid()}-{cell.number}"
    settings = servers = None
    try:
        settings = Settings(cell, resolved.experiment.server)
        options = server_options(cell, settings, engine, engines)
        record.update(options=options, pool=settings.pool, durability=settings.durability, probe=_steady_probe(place, usual_disk, told))
        told("starting the server")
        servers = _servers(place, cell, engine, options, settings)
        servers.start()
        servers.ask("CREATE DATABASE IF NOT EXISTS lab")
        for statement in cell.arm.statements:
            servers.ask(statement)
        if cell.repeat == 1:
            record["variables"] = servers.node.variables()
        record["notes"] = ignored_options(options, servers.node.variables())
        record["cgroup"] = servers.node.group_missing or "yes"
        for step in resolved.steps:
            try:
                _step(record, cell, resolved, servers, engine, settings, step, folder, told)
            except tools.Missing as missing:
                record.setdefault("missing", {})[step.name] = str(missing)
        _probe_again(record, place, usual_disk)
    except tools.Missing as missing:
        record["skipped"] = str(missing)
    except (LabError, ServerError) as error:
        record.update(_told(error, engine, servers, settings))
    except Exception as error:  # a cell that cannot run must not end the run; the traceback is kept
        record["failed"] = f"{type(error).__name__}: {error}"
        record["traceback"] = traceback.format_exc()
    finally:
        if servers:
            _keep_log(servers, folder, cell) if "failed" in record else None
            servers.remove()
        shutil.rmtree(place, ignore_errors=True)
    return record


def _slow(found, usual):
    return bool(usual) and any(found.get(name, 0) > 2 * usual.get(name, float("inf")) for name in ("fdatasync_us", "read_us"))


def _probe_again(record, place, usual):
    """A burst of the neighbours' that had ended when the cell did is held against it only where the disk was slow both times."""
    if not _slow(record["probe"], usual):
        return
    after = probe.disk_probe(place)
    if "error" not in after:
        record["probe_before"] = record["probe"]
        record["probe"] = {name: min(value, after[name]) for name, value in record["probe"].items()}


def _steady_probe(place, usual, told):
    """The disk as it is; a neighbour's burst is waited for a while, before the gate would have to throw the cell away."""
    for _ in range(DISK_WAITS):
        found = probe.disk_probe(place)
        if not _slow(found, usual):
            break
        told("waiting for the disk to be as fast as before")
        time.sleep(DISK_WAIT_S)
    return found


def _told(error, engine, servers, settings):
    """Why a cell ended early, as the report says it: {"skipped": ...} when it could not have run here, else {"failed": ...}."""
    unknown = unknown_variable(str(error))
    if unknown:
        near = _near(unknown, engine)
        return {"skipped": f"{engine.name} has no variable {unknown} in this build; {f'did you mean {near}?' if near else 'the cell runs once it has'}"}
    group = servers.node.group if servers else None
    if group and group.memory_kills():
        return {"failed": f"the kernel ended the server: it needed more than the {settings.limits['memory_mb']:.0f} MB of memory that it has, and there is no swap for it"}
    return {"failed": re.sub(r" \(log: [^)]*\)|/\S*/", "", str(error))}


def ignored_options(options, variables):
    """Options written --loose-NAME that this server does not know: the cell runs without them, and says so."""
    names = [re.match(r"--loose-([\w-]+)", option) for option in options]
    return [f"this server has no {name}: left out" for name in (found.group(1).replace("-", "_") for found in names if found) if name not in variables]


def _near(name, engine):
    """The variable that was probably meant, or ''."""
    return next(iter(difflib.get_close_matches(name, server_variables(engine.plugin), 1, 0.8)), "")


def unknown_variable(message):
    """The variable that an engine does not have (yet), from the server's own words at start or of a statement."""
    found = re.search(r"unknown (?:variable|option) '(?:--)?([\w-]+)|Unknown system variable '(\w+)'", message)
    return (found.group(1) or found.group(2)).replace("-", "_") if found else ""


def _step(record, cell, resolved, servers, engine, settings, step, folder, told):
    if step.for_engines and cell.arm.engine.lower() not in [name.lower() for name in step.for_engines]:
        record.setdefault("not_for_arm", []).append(step.name)
        return
    filled = type(step)(**fill(step.model_dump(), {**cell.values, "engine": cell.arm.engine}))
    told(filled.name)
    if filled.restart:
        servers.restart()
    log = folder / "logs" / f"{cell.number:04}-{slug(filled.name)}.log"
    log.parent.mkdir(exist_ok=True)
    target, drained = servers.target(cell.arm.engine, SEED + cell.repeat), None
    target.step_seed = SEED + resolved.steps.index(step) + 1 + 1000 * cell.repeat
    if float(filled.read_iops):
        servers.slow_disk(int(float(filled.read_iops)))
    with workload.ready(filled, target, log) as helper, Watch(servers, engine, filled.debt) as watch:
        cached_before = _files(servers, engine)["cached_mb"]
        counters, costs, helped, neighbours = servers.status(), servers.costs(), servers.helper_cpu_s(), probe.Neighbours()
        with crash.killing(servers, float(filled.kill_after)):
            result = workload.run(filled, target, log, helper)
        costs = servers.costs() - costs
        others_cpu = neighbours.share(costs.cpu_us / 1e6 + result["client_cpu_s"] + result.get("app_cpu_s", 0.0) + servers.helper_cpu_s() - helped)
        watch.load_has_ended()
        if float(filled.kill_after):
            told(f"{filled.name}: recovery")
            result["crash"] = crash.account(servers, filled, target, result, log)
        counters = {} if "crash" in result else _moved(counters, servers.status())
        if filled.drain:
            told(f"{filled.name}: draining")
            watch.look()
            drained = servers.drain()  # at once: what the engine does meanwhile would be charged to nobody
            watch.look()
        files = _files(servers, engine)
        files["cached_mb"] = max(files["cached_mb"] - cached_before, 0.0)  # what was read before, such as by a state transfer, served nobody
    facts = {**make_facts(cell.arm.name, result, costs, counters, files, drained, servers, engine, settings), "others_cpu": others_cpu}
    sample = {
        "step": filled.name, "headline": result["headline"], "elapsed_s": result["elapsed_s"], "operations": facts["operations"],
        "metrics": metrics(facts, result, costs, drained, engine, counters, watch.debt), "gates": gate.judge(facts, filled.expect, resolved.experiment.gates),
        "meters": result["meters"], "counters": counters, "drain": drained, "others_cpu": others_cpu, "seconds": watch.seconds, "debt": watch.debt, "load_ended": watch.load_ended,
        "extra": {key: result[key] for key in ("queries", "iteration_s", "statements_us", "app_cpu_s", "crash") if key in result},
    }
    record["samples"].append(sample)
    check, answer = resolved.experiment.check, list(result.get("answer", ()))
    if check.same and (check.after or resolved.steps[-1].name) == step.name:
        answer += [list(map(str, row)) for row in servers.ask(fill(check.same, cell.values), "lab")]
    if answer:
        record["answer"] = record.get("answer", []) + answer


def make_facts(arm, result, costs, counters, files, drained, servers, engine, settings):
    """What the gates look at, in one flat table."""
    head = result["meters"][result["headline"]]
    explicit = counters.get("com_begin", 0) > 0
    commits = counters.get("com_commit", 0) if explicit else sum(counters.get(name, 0) for name in DML)
    return {
        "arm": arm, "direct_io_wanted": settings.direct_io, "operations": head["operations"], "elapsed_s": result["elapsed_s"], "threads": result["threads"], "cores": os.cpu_count(),
        "client_cpu_s": result["client_cpu_s"], "errors": sum(sum(meter["errors"].values()) for meter in result["meters"].values()),
        "reads": costs.reads, "reads_are_own": costs.reads_are_own, "pool_mb": size_mb(settings.pool), **files,
        "durability": settings.durability, "durability_told": servers.variable(engine.durability_variable), "drain": drained, "crash": result.get("crash"), "app_cpu_s": result.get("app_cpu_s"),
        "commits": commits, "syncs": total(counters, engine.counters["syncs"]) if "syncs" in engine.counters else None,
    }


def metrics(facts, result, costs, drained, engine, counters, debt=()):
    """The metrics of one sample; per operation where the name says so."""
    head = result["meters"][result["headline"]]
    operations, elapsed = max(facts["operations"], 1), max(result["elapsed_s"], 1e-9)
    drain_s = drained["seconds"] if drained else 0.0
    latency = head["latency_us"]
    found = {
        "rate": facts["operations"] / elapsed, "rate_drained": facts["operations"] / (elapsed + drain_s), "seconds": elapsed,
        "reads_per_op": costs.reads / operations, "read_kb_per_op": costs.read_bytes / 1024 / operations, "write_kb_per_op": costs.write_bytes / 1024 / operations,
        "server_cpu_us_per_op": costs.cpu_us / operations, "client_cpu_us_per_op": result["client_cpu_s"] * 1e6 / operations,
        **{f"{name}_ms": latency[name] / 1000 for name in ("p50", "p90", "p95", "p99", "max") if name in latency},
        "data_mb": facts["data_mb"], "tables_mb": facts["tables_mb"], "cached_mb": facts["cached_mb"], "errors_per_op": facts["errors"] / operations,
        "server_cores": costs.cpu_us / 1e6 / elapsed,
    }
    some = {"stall_s": stalls(head["operations_by_second"]), "worst_second": worst_second(head["operations_by_second"]), "debt_peak_share": peak_share(debt)}
    found.update({name: value for name, value in some.items() if value is not None})
    for name, variables in engine.counters.items():
        found[f"{name}_per_op"] = total(counters, variables) / operations
    if drained:
        found.update(drain_s=drain_s, drain_reads_per_op=drained["reads"] / operations, drain_read_kb_per_op=drained["read_bytes"] / 1024 / operations,
                     drain_write_kb_per_op=drained["write_bytes"] / 1024 / operations, drain_cpu_us_per_op=drained["cpu_us"] / operations,
                     write_kb_drained_per_op=(costs.write_bytes + drained["write_bytes"]) / 1024 / operations)
    for name, meter in result["meters"].items():
        if name != result["headline"]:
            found[f"{name}_rate"] = meter["operations"] / elapsed
            found.update({f"{name}_{quantile}_ms": meter["latency_us"][quantile] / 1000 for quantile in ("p99", "max") if quantile in meter["latency_us"]})
    if "app_cpu_s" in result:
        found["app_cpu_us_per_op"] = result["app_cpu_s"] * 1e6 / operations
    if "crash" in result:
        found.update(recovery_s=result["crash"]["recovery_s"], lost_rows=result["crash"]["lost"])
    if "queries" in result:
        found["query_rate"] = result["queries"] / elapsed
        found["server_cpu_us_per_query"] = costs.cpu_us / max(result["queries"], 1)
    return found


def total(counters, names):
    return sum(counters.get(name.lower(), 0) for name in names)


def whole_seconds(by_second):
    """The first and the last are partial; of fewer than three nothing can be said."""
    return by_second[1:-1] if len(by_second) >= frames.SECONDS_MIN else []


def stalls(by_second):
    """Whole seconds in which next to nothing ended; None where there are too few seconds to tell."""
    whole = whole_seconds(by_second)
    floor = statistics.median(whole) / 10 if whole else 0
    return sum(1 for count in whole if count < floor) if whole else None


def worst_second(by_second):
    """The least whole second's operations over the median one's; None where there are too few seconds, or half of them have none."""
    whole = whole_seconds(by_second)
    median = statistics.median(whole) if whole else 0
    return min(whole) / median if median else None


def _moved(before, after):
    return {name: value - before.get(name, 0.0) for name, value in after.items() if value != before.get(name, 0.0)}


def _files(servers, engine):
    """MB on disk: of the engine's data files, of the experiment's own tables; and what of the files is in the page cache."""
    data = servers.node.data
    on_disk, cached = probe.sizes_mb(probe.matching(data, engine.data_files or ["lab/*"]))
    if engine.table_files:
        tables, _ = probe.sizes_mb(probe.matching(data, engine.table_files))
    else:
        tables = float(servers.ask(TABLES_BYTES)[0][0] or 0) / 1048576
    buffered = probe.buffered_files(servers.node.pid(), data, engine.data_files) if engine.data_files else None
    return {"buffered_files": buffered, "data_mb": on_disk, "tables_mb": tables, "cached_mb": cached}


def _keep_log(servers, folder, cell):
    (folder / "logs").mkdir(exist_ok=True)
    for log, name in ((servers.node.log, "server"), (servers.node.install_log, "install")):
        if log.exists():
            shutil.copy(log, folder / "logs" / f"{cell.number:04}-{name}.log")


def _servers(place, cell, engine, options, settings):
    if settings.nodes > 1:
        from .cluster import Cluster
        return Cluster(place, cell, engine, options, settings)
    return Single(Node(place / "node", str(cell.number), engine, options, settings.limits))


class Single:
    """The usual case: one server. A cluster offers the same."""

    def __init__(self, node):
        self.node = node

    def start(self):
        self.node.start()

    def restart(self):
        self.node.stop()
        self.node.start()

    def ask(self, statement, database=""):
        if database:
            self.node.ask(f"USE {database}")
        return self.node.ask(statement)

    def status(self):
        return self.node.status()

    def variable(self, name):
        found = self.node.ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'") if name else ()
        return durability_level(found[0][1]) if found else None

    def slow_disk(self, read_iops):
        self.node.slow_disk(read_iops)

    def costs(self):
        return self.node.costs()

    def helper_cpu_s(self):
        """CPU of programs that stand beside the server for it."""
        return 0.0

    def drain(self):
        return drain(self.node)

    def target(self, engine, seed):
        return workload.Target(self.node, engine, seed)

    def remove(self):
        self.node.remove()


def durability_level(text):
    return {"on": "1", "off": "0"}.get(str(text).lower(), str(text))
