"""The programs that make load. Each module turns a step's line into a process and its output into one common form:

    {elapsed_s, threads, headline, client_cpu_s, meters: {NAME: {operations, requests, latency_us: {p50, p95, p99, max},
     histogram_us: [[up to, count]], operations_by_second, slowest_us_by_second, errors: {code: count}}}}
"""
import contextlib
import importlib
import os
import re
import shlex
import subprocess
import time

from .. import LabError

TIMEOUT_S = 6 * 3600


def meter(operations, requests=None, latency_us=None, histogram_us=(), by_second=(), slowest=(), errors=None):
    return {"operations": operations, "requests": requests if requests is not None else operations, "latency_us": latency_us or {},
            "histogram_us": list(histogram_us), "operations_by_second": list(by_second), "slowest_us_by_second": list(slowest), "errors": errors or {}}


def run_program(command, log, env=None):
    """Runs a client to its end. Returns its output, elapsed seconds and CPU seconds; its error output goes to the log."""
    begin = time.monotonic()
    with open(log, "ab") as errors:
        errors.write(f"$ {shlex.join(map(str, command))}\n".encode())
        errors.flush()
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env, text=True)
        try:
            output = process.stdout.read()
        except BaseException:
            process.kill()
            raise
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = time.monotonic() - begin
        errors.write(output[-4000:].encode())
    if process.returncode != 0:
        raise LabError(f"{os.path.basename(str(command[0]))} failed: {_reason(log.read_text(errors='replace'), output)}")
    return output, elapsed, usage.ru_utime + usage.ru_stime


COMPLAINT = re.compile(r"\b(invalid|unknown|unrecognized|unexpected|cannot|could not|failed|no such)\b", re.I)


def _reason(error_output, output):
    """The line that tells what went wrong: one that says FATAL or error (the first of the output, the last of the error
    output), else the first that complains, else the first after the command itself."""
    said = error_output.rpartition("\n$ ")[2] if "\n$ " in error_output else error_output
    errors = [line.strip() for line in said.splitlines()[1:] if line.strip()]
    lines = [*(line.strip() for line in output.splitlines() if line.strip()), *reversed(errors)]
    told = next((line for line in lines if "FATAL" in line or line.lower().startswith("error")), None)
    told = told or next((line for line in errors if COMPLAINT.search(line)), None) or next(iter(errors or lines), "it said nothing")
    told = told.partition(" for query")[0]
    return told if len(told) <= 300 else f"{told[:120]} … {told[-160:]}"


def words(line):
    return shlex.split(line)


def option(arguments, name, default):
    """The value of --name=value or --name value, with - and _ alike."""
    for position, word in enumerate(arguments):
        key, equals, value = word.partition("=")
        if key.lstrip("-").replace("_", "-") == name:
            return value if equals else arguments[position + 1]
    return default


@contextlib.contextmanager
def ready(step, target, log):
    """What a workload starts before costs are counted, and ends after; most start nothing."""
    module = importlib.import_module(f"{__name__}.{step.workload}")
    if not hasattr(module, "ready"):
        yield ()
        return
    with module.ready(getattr(step, step.workload), target, log) as helper:
        yield (helper,)


def run(step, target, log, helper=()):
    """Runs a step's workload on a target (see Target) and returns the common form."""
    module = importlib.import_module(f"{__name__}.{step.workload}")
    result = module.run(getattr(step, step.workload), target, log, *helper)
    if step.operations:
        head = result["meters"][result["headline"]]
        head["operations"] = int(step.operations)
    return result


class Target:
    """Where a load goes: one server, or a proxy before several."""

    def __init__(self, node, engine, seed, database="lab", host="127.0.0.1", port=None, single_port=None):
        self.node, self.engine, self.seed, self.database = node, engine, seed, database
        self.step_seed = seed  # another one for each step, so that no step walks where the one before has been
        self.host, self.port = host, port or node.port
        self.single_port = single_port or self.port
        self.socket = None if port else str(node.socket)
