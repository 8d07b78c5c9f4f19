"""Results folders: what a run leaves behind, written as it goes, read again by report and diff.

    DATE-NAME-PRESET/manifest.json   experiment text, preset, plan, environment, versions
                     cells/0001.json  one a cell, written when it ends
                     samples.csv      one line a step, with every metric
                     summary.json     what the report says, for programs
                     report.html, logs/
"""
import csv
import datetime
import json
import os
import pathlib
import re

from . import RESULTS, LabError

CANDIDATES_MAX = 6
DATA_MARK = '<script type="application/json" id="lab-data">'


class Run:
    """A stored run, or one being written."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = {}
        self.cells = []

    @classmethod
    def create(cls, manifest, results=RESULTS):
        stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
        run = cls(results / f"{stamp}-{manifest['experiment']}-{manifest['preset']}")
        (run.folder / "cells").mkdir(parents=True)
        run.manifest = {**manifest, "format": 1, "started": stamp}
        run.write("manifest.json", run.manifest)
        return run

    @classmethod
    def read(cls, folder):
        run = cls(folder)
        try:
            run.manifest = json.loads((run.folder / "manifest.json").read_text())
            run.cells = [json.loads(path.read_text()) for path in sorted((run.folder / "cells").glob("*.json"))]
        except (OSError, ValueError) as error:
            raise LabError(f"{folder} is not a results folder: {error}") from None
        return run

    def add(self, record):
        self.cells.append(record)
        self.write(f"cells/{record['number']:04}.json", record)

    def write(self, name, value):
        """Whole or not at all: an interrupted run can be read."""
        path = self.folder / name
        part = path.with_suffix(".part")
        part.write_text(json.dumps(value, indent=1, default=str))
        os.replace(part, path)

    def finish(self, **more):
        self.manifest.update(more)
        self.write("manifest.json", self.manifest)
        self.write_csv()

    def write_csv(self):
        rows, names = [], []
        for cell in self.cells:
            for sample in cell.get("samples", []):
                row = {"arm": cell["arm"], "engine": cell["engine"], **cell["params"], "repeat": cell["repeat"], "step": sample["step"],
                       "counts": not any(found["verdict"] == "fail" for found in sample["gates"]), **sample["metrics"]}
                names += [name for name in row if name not in names]
                rows.append(row)
        with open(self.folder / "samples.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


def find(text, results=RESULTS):
    """Runs by what a person writes: a folder, a report.html, a folder's name, an experiment (with its preset), or a part of a
    name. The newest of several runs of one experiment and preset; of different ones the person has to choose."""
    path = pathlib.Path(text)
    if path.suffix == ".html" and path.exists():
        return embedded(path)
    if (path / "manifest.json").exists():
        return [Run.read(path)]
    folders = newest(results)
    for meant in (lambda name: text == name, lambda name: text == _kind(name), lambda name: _kind(name).rpartition("-")[0] == text, lambda name: text in name):
        chosen = [folder for folder in folders if meant(folder.name)]
        if len({_kind(folder.name) for folder in chosen}) > 1:
            raise LabError(f"{text!r} may be any of {', '.join(folder.name for folder in chosen[:CANDIDATES_MAX])}{' …' if len(chosen) > CANDIDATES_MAX else ''}: write more of the name")
        if chosen:
            return [Run.read(chosen[0])]
    raise LabError(f"no run matches {text!r} in {results}; there are {', '.join(folder.name for folder in folders[:CANDIDATES_MAX]) or 'none'}")


def _kind(name):
    """EXPERIMENT-PRESET of DATE-TIME-EXPERIMENT-PRESET."""
    return re.sub(r"^\d{4}-\d\d-\d\d-\d{6}-", "", name)


def newest(results=RESULTS):
    return sorted((path.parent for path in results.glob("*/manifest.json")), reverse=True)


def embedded(path):
    """The runs inside a report.html."""
    match = re.search(re.escape(DATA_MARK) + r"(.*?)</script>", pathlib.Path(path).read_text(), re.S)
    if not match:
        raise LabError(f"{path} has no data of the lab in it")
    runs = []
    for data in json.loads(match.group(1).replace("<\\/", "</")):
        run = Run(pathlib.Path(path).parent)
        run.manifest, run.cells = data["manifest"], data["cells"]
        runs.append(run)
    return runs
