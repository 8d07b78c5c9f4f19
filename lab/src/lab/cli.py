"""The commands. Each is a few lines: what they do is in the modules they call."""
import pathlib
import signal
import subprocess
import sys
from typing import List, Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import RESULTS, LabError, experiment as experiments

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="Asks a storage engine one question and draws the answer. See lab/README.md.")
console = Console()


@app.command("list")
def list_():
    """The experiments and the question each one asks."""
    table = Table("experiment", "question", "presets", box=None)
    for name in experiments.names():
        try:
            one = experiments.load(name)
            table.add_row(name, one.question, " ".join(one.presets))
        except LabError as error:  # one broken file does not hide the others
            table.add_row(name, f"[red]{escape(str(error))}", "")
    console.print(table)


@app.command()
def run(names: List[str] = typer.Argument(..., help="experiments, a .toml file, or 'all'"), preset: str = typer.Option("smoke", help="smoke, quick, standard or faithful"),
        repeats: Optional[int] = typer.Option(None, min=1, help="instead of the preset's"), arm: Optional[List[str]] = typer.Option(None, help="only these arms"),
        cells: Optional[int] = typer.Option(None, min=1, help="stop after so many cells; lab resume runs the rest")):
    """Runs experiments; ends with the path of the report."""
    from . import report, run as runner
    chosen = experiments.names() if names == ["all"] else names
    loaded = [experiments.load(name) for name in chosen]  # all are checked before the first runs
    stored = []
    for one in loaded:
        if len(loaded) > 1 and preset not in one.presets:
            console.print(f"[yellow]{one.name} has no preset {preset}", highlight=False)
            continue
        stored.append(runner.run(one, preset, experiments.path_of(chosen[loaded.index(one)]).read_text(), repeats, console, arm, cells))
        page = report.write(stored[-1:], stored[-1].folder)
        for line in report.in_lines(stored[-1]):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
        console.print(f"{one.name}: {page}", highlight=False, soft_wrap=True)
    if len(stored) > 1:
        folder = RESULTS / f"{stored[0].manifest['started']}-all-{preset}"
        folder.mkdir(parents=True, exist_ok=True)
        console.print(f"all: {report.write(stored, folder)}", highlight=False, soft_wrap=True)
        counts = [report.census(one.cells, one.manifest) for one in stored]
        measured, marked, empty = (sum(count[name] for count in counts) for name in ("measured", "marked", "empty"))
        console.print(f"{measured} places measured, {marked} marked with a reason, {empty} empty", highlight=False)
    _end(stored)


def _end(stored):
    """Says which runs were no success. The exit code is 2 when cells failed, or when all that was asked for was skipped: of
    many experiments some may need what this machine does not have."""
    from . import run as runner
    told = [(one, runner.outcome(one)) for one in stored]
    for one, what in told:
        if what:
            console.print(f"[red]{one.manifest['experiment']}: {what}", highlight=False)
    if any("failed" in what for _, what in told) or all(what for _, what in told):
        raise typer.Exit(2)


@app.command()
def check(names: List[str] = typer.Argument(..., help="experiments, or .toml files")):
    """Checks experiment files without running them: every preset, its cells, and about how long they will take."""
    from . import preflight
    for name in names:
        one = experiments.load(name)
        for preset in one.presets:
            resolved = experiments.Resolved(one, preset)
            cells = preflight.check(resolved)
            steps = "; ".join(step.name for step in resolved.steps)
            console.print(f"{one.name}, preset {preset}: {len(cells)} cells ({resolved.repeats} repeat{'s' if resolved.repeats > 1 else ''}), {preflight.duration(resolved, cells)}", highlight=False)
            console.print(f"  steps: {steps}\n  cells: {'; '.join(cell.label for cell in cells if cell.repeat == 1)}", highlight=False, style="dim", markup=False, soft_wrap=True)


@app.command()
def resume(run: str = typer.Argument(..., help="a results folder or a part of its name"), cells: Optional[int] = typer.Option(None, min=1, help="stop after so many cells")):
    """Runs the cells that an interrupted run has left."""
    from . import report, run as runner, store
    for one in store.find(run):
        again = runner.resume(one, cells, console)
        console.print(f"{len(again.cells)} of {len(again.manifest['plan'])} cells: {report.write([again], again.folder)}", highlight=False, soft_wrap=True)
        _end([again])


@app.command("report")
def report_(runs: Optional[List[str]] = typer.Argument(None, help="folders or parts of their names; the newest when none is given"),
            output: Optional[pathlib.Path] = typer.Option(None, help="folder for a page of several runs")):
    """Draws the page of a run again, or one page for several."""
    from . import report, store
    found = [one for name in (runs or [newest()]) for one in store.find(name)]
    folder = output or (found[0].folder if len(found) == 1 else RESULTS / f"{found[0].folder.name}-and-{len(found) - 1}-more")
    folder.mkdir(parents=True, exist_ok=True)
    console.print(str(report.write(found, folder)), highlight=False, soft_wrap=True)


def newest():
    from . import store
    folders = store.newest()
    if not folders:
        raise LabError("there is no run yet: lab run NAME makes one")
    return str(folders[0])


@app.command("look")
def look_(report: str = typer.Argument(..., help="a report.html, a results folder or a part of its name")):
    """Looks at a report on a phone, on a desk and on paper, in headless Chromium; fails when something is wrong with it."""
    from . import look, store
    path = pathlib.Path(report)
    path = path if path.suffix == ".html" else store.find(report)[0].folder / "report.html"
    found = look.look(path)
    for line in found:
        console.print(f"[red]{line}", highlight=False)
    console.print(f"{path.with_name('phone.png')}, desktop.png and print.pdf beside it show all of it", highlight=False, soft_wrap=True)
    if found:
        raise typer.Exit(1)


@app.command()
def diff(old: str, new: str, metric: Optional[List[str]] = typer.Option(None, help="only these metrics")):
    """Compares two stored runs (folders, report.html, or parts of a name) in the manner of benchstat."""
    from . import diff as differ, store
    for one, other in zip(store.find(old), store.find(new)):
        differ.show(one, other, metric, console)


@app.command()
def replay(report: str, repeats: Optional[int] = None):
    """Runs again what a report.html (or a stored run) shows, with the experiment text embedded in it."""
    from . import report as reports, run as runner, store
    for one in store.find(report):
        manifest = one.manifest
        again = runner.run(experiments.parse(manifest["text"], manifest["experiment"]), manifest["preset"], manifest["text"], repeats or manifest["repeats"], console, list(manifest["arms"]), replay_of=manifest["started"])
        console.print(str(reports.write([again], again.folder)), highlight=False, soft_wrap=True)
        _end([again])


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def client(context: typer.Context):
    """Our load generator, directly: lab client --help."""
    from .workload import client as clients
    clients.build()
    raise typer.Exit(subprocess.run([str(clients.PROGRAM), *context.args]).returncode)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers are ended either way
    try:
        app()
    except LabError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt as interrupt:
        sys.exit(f"interrupted; {interrupt or 'no run was under way'}")


if __name__ == "__main__":
    main()
