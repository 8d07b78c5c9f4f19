"""A run: every cell of a plan, with a progress bar, then the verdicts that need all cells, then the folder is complete."""
import hashlib
import statistics
import subprocess
import time

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import BUILD, ROOT, LabError, cell as cell_, engine as engines_, experiment as experiments, gate, plan, preflight, probe
from .experiment import Resolved
from .store import Run
from .workload import client


def run(experiment, preset, text, repeats=None, console=None, arms=None, limit=None, replay_of=""):
    """Runs an experiment and returns its stored Run; with a limit, only its first cells, and `resume` runs the rest. A replay
    says which run it repeats."""
    resolved = Resolved(experiment, preset, repeats, arms)
    cells = preflight.check(resolved)
    told = manifest(experiment, preset, text, resolved, cells)
    return _carry_on(Run.create({**told, "replay_of": replay_of} if replay_of else told), resolved, cells, limit, console)


def resume(stored, limit=None, console=None):
    """Runs the cells that an interrupted or limited run has left."""
    told = stored.manifest
    resolved = Resolved(experiments.parse(told["text"], told["experiment"]), told["preset"], told["repeats"], list(told["arms"]))
    return _carry_on(stored, resolved, plan.cells(resolved), limit, console)


def _carry_on(stored, resolved, cells, limit, console):
    done = {record["number"] for record in stored.cells}
    if stored.cells and len(done) == len(cells):
        raise LabError(f"nothing is left of {stored.folder.name}: all {len(cells)} cells have run; lab run starts anew")
    left = [one for one in cells if one.number not in done][:limit]
    if any(step.client for step in resolved.steps):
        client.build()
    began = time.monotonic()
    try:
        with bar(console) as progress:
            _run_cells(stored, resolved, left, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{len(stored.cells)} of {len(cells)} cells are kept: lab resume {stored.folder.name} runs the rest, lab report {stored.folder.name} draws them") from None
    judge_together(stored)
    stored.finish(seconds=stored.manifest.get("seconds", 0) + time.monotonic() - began)
    return stored


def _run_cells(stored, resolved, left, progress):
    task = progress.add_task(resolved.experiment.name, total=len(left), what="")
    for one in left:
        record = cell_.run(one, resolved, stored.folder, lambda what, one=one: progress.update(task, what=f"{one.label}: {what}"), usual_disk(stored))
        stored.add(record)
        why = record.get("skipped") or record.get("failed")
        if why:
            progress.console.print(f"[yellow]{escape(f'{one.label}: {why}')}", highlight=False)
        progress.update(task, advance=1)


def outcome(stored):
    """What makes a run no success, such as '2 of 12 cells failed', or ''."""
    failed = sum(1 for record in stored.cells if record.get("failed"))
    if failed:
        return f"{failed} of {len(stored.cells)} cells failed"
    return "" if any(record["samples"] for record in stored.cells) else "nothing was measured: every cell was skipped"


def usual_disk(stored):
    """The medians of the probes so far, and of the one before the run."""
    probes = [one for one in [stored.manifest["environment"]["disk"], *(record.get("probe", {}) for record in stored.cells)] if one and "error" not in one]
    return {name: statistics.median(one[name] for one in probes) for name in ("fdatasync_us", "read_us")} if probes else None


def bar(console):
    return Progress(TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
                    TimeRemainingColumn(), TextColumn("{task.fields[what]}", style="dim"), console=console)


def judge_together(stored):
    """The gates that compare cells: the same data everywhere, a disk that stayed as fast as it was."""
    answers = {record["number"]: (repr(sorted(record["params"].items())) + f" repeat {record['repeat']}", repr(record["answer"]))
               for record in stored.cells if "answer" in record}
    settings = stored.manifest.get("gates", {})
    found = []
    if settings.get("same_data") is not False:
        found.append(gate.same_data(answers))
    if settings.get("steady_disk") is not False:
        probed = [record for record in stored.cells if "probe" in record]
        found.append(gate.steady_disk({record["number"]: record["probe"] for record in probed}, {record["number"]: record["repeat"] for record in probed}))
    for record in stored.cells:
        for verdicts in found:
            if record["number"] in verdicts:
                verdict = verdicts[record["number"]]
                for sample in record["samples"]:
                    sample["gates"] = [one for one in sample["gates"] if one["gate"] != verdict["gate"]] + [verdict]
        stored.write(f"cells/{record['number']:04}.json", record)


def manifest(experiment, preset, text, resolved, cells):
    return {
        "experiment": experiment.name, "title": experiment.title, "preset": preset, "text": text, "repeats": resolved.repeats, "sweep": resolved.sweep,
        "values": resolved.values, "arms": resolved.arms, "gates": experiment.gates,
        "plan": [[one.number, one.repeat, one.arm.name, one.params] for one in cells],
        "steps": [step.name for step in resolved.steps], "environment": {**probe.environment(BUILD), **versions(resolved)},
    }


def versions(resolved):
    def told(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20).stdout.strip().splitlines()[0]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            return "unknown"
    binary = BUILD / "mariadb/usr/sbin/mariadbd"
    engines = engines_.load_all()
    plugins = {engines_.find(engines, line.split()[0]).plugin for line in resolved.arms.values()} - {""}
    files = [binary] + [path for name in plugins for path in (BUILD / f"{name}.so", BUILD / "mariadb/usr/lib/mysql/plugin" / f"{name}.so") if path.exists()]
    return {
        "mariadb": told(str(binary), "--no-defaults", "--version").partition("Ver ")[2], "sysbench": told(str(BUILD / "mariadb/usr/bin/sysbench"), "--version"),
        "commit": told("git", "describe", "--always", "--dirty"), "sha256": {path.name: digest(path) for path in files if path.exists()},
    }


def digest(path):
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    return state.hexdigest()[:16]
