"""mariadb-slap, as the source used it. It tells seconds for an ITERATION (average, least, most), not for a query; the
lab makes it run one iteration at a time, so that every iteration is a sample."""
import csv
import io

from .. import BUILD, LabError
from . import meter, option, run_program, words

PROGRAM = BUILD / "mariadb" / "usr" / "bin" / "mariadb-slap"


def run(line, target, log):
    arguments = [word for word in words(line) if not word.startswith("--iterations")]
    iterations = int(option(words(line), "iterations", 1))
    queries = int(option(arguments, "number-of-queries", 0))
    one_node = "--one-node" in arguments  # updates go to one node, or certification fails them
    arguments = [word for word in arguments if word != "--one-node"]
    where = [f"--socket={target.socket}"] if target.socket else [f"--host={target.host}", f"--port={target.single_port if one_node else target.port}", "--protocol=tcp"]
    seconds, cpu_s = [], 0.0
    for _ in range(iterations):
        output, _, used = run_program([PROGRAM, "--no-defaults", *where, "--user=root", f"--engine={target.engine}", "--auto-generate-sql", "--csv", *arguments], log)
        cpu_s += used
        seconds += parse(output)
    elapsed = sum(seconds)
    ordered = sorted(value * 1e6 for value in seconds)
    latency = {"p50": ordered[len(ordered) // 2], "max": ordered[-1]}
    return {"elapsed_s": elapsed, "threads": int(option(arguments, "concurrency", 1)), "headline": "query", "client_cpu_s": cpu_s,
            "iteration_s": seconds, "meters": {"query": meter(queries * iterations, queries * iterations, latency)}}


def parse(text):
    """Average seconds of each line: engine, load, average, least, most, clients, queries of a client."""
    found = []
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 6:
            found.append(float(row[2]))
    if not found:
        raise LabError("mariadb-slap printed no figures")
    return found
