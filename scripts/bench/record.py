#!/usr/bin/env python3
"""`make record`: measures what docs/benchmarks shows, and stores it for the commit that is checked out.

    all             make record
    some            make record BENCH='tpch insert-benchmark'
    the names       make record BENCH=--list

docs/benchmarks/measurements.toml says which commands a measurement has. What they print as tables is
stored as docs/benchmarks/results/NAME.json, with commit, date, machine and server. Then the pages of
docs/benchmarks are written (pages.py). The work tree must be clean, so that the commit says what was
measured. Run it on a machine that does nothing else.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import display  # noqa: E402
import pages  # noqa: E402

ROOT = HERE.parent.parent
LAB_RESULTS = ROOT / "build/lab/results"


class RecordError(Exception):
    """The measurement cannot be stored; the text says why, in one line."""


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def clean_commit():
    changed = [line for line in git("status", "--porcelain").splitlines() if "docs/benchmarks/" not in line]
    if changed:
        raise RecordError(f"the work tree has changes ({changed[0].strip()} ...): commit them, so that a commit names what is measured")
    return git("rev-parse", "--short", "HEAD")


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{cpu}, {len(os.sched_getaffinity(0))} cores, {memory} GiB"


def run(command, record):
    display.say(f"\n$ {command}")
    words = shlex.split(command)
    found = subprocess.run(words, cwd=ROOT, env={**os.environ, "SLUICE_BENCH_RECORD": str(record)})
    if found.returncode != 0:
        raise RecordError(f"{command}: exit code {found.returncode}; nothing is stored")


def entries(command, lab):
    """Tables and conclusions of one command."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record"
        before = set(LAB_RESULTS.glob("*"))
        run(command, record)
        if command.startswith("lab/"):
            for new in sorted(set(LAB_RESULTS.glob("*")) - before):
                yield from lab_tables(json.loads((new / "summary.json").read_text()), lab)
        elif record.exists():
            yield from map(json.loads, record.read_text().splitlines())


def figure(value):
    """Three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lab_tables(summary, lab):
    """A table for each step that `lab` names: a line for each arm, a column for each metric."""
    for experiment in summary:
        for step, metrics in lab.items():
            lines = [line for line in experiment["lines"] if line["step"] == step]
            kinds = list(dict.fromkeys(line["kind"] for line in lines))
            found = {(line["kind"], line["metric"]): line for line in lines}
            rows = [[kind, *(figure(found.get((kind, metric), {}).get("median")) for metric in metrics)] for kind in kinds]
            if not rows:
                raise RecordError(f"{experiment['experiment']} has no step {step}")
            yield {"title": f"step {step}", "columns": ["arm", *(metric.replace("_", " ") for metric in metrics)], "rows": rows}


def measure(one, commit):
    found = [entry for command in one["commands"] for entry in entries(command, one.get("lab", {}))]
    if not found:
        raise RecordError(f"{one['name']}: its commands printed no table")
    pages.RESULTS.mkdir(exist_ok=True)
    (pages.RESULTS / f"{one['name']}.json").write_text(json.dumps({
        "name": one["name"], "commands": one["commands"], "commit": commit, "date": datetime.date.today().isoformat(),
        "machine": machine(), "entries": found}, indent=1, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="measurements; all when none is given")
    parser.add_argument("--list", action="store_true", help="only say their names and commands")
    arguments = parser.parse_args()
    known = {one["name"]: one for page in pages.load() for one in page["measurement"]}
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        sys.exit(f"error: there is no measurement {unknown[0]}; there are: {', '.join(known)}")
    if arguments.list:
        for name, one in known.items():
            display.say(f"{name}: {'; '.join(one['commands'])}")
        return
    try:
        commit = clean_commit()
        for name in arguments.names or known:
            measure(known[name], commit)
            pages.write()
    except RecordError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
