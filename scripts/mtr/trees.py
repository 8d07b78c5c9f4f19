"""A suite in several trees at once: the driver runs recorded tests one after the other, whatever its --parallel says.

The tests are dealt in small batches. Each tree is a process of this program with its own folder, and its driver looks for free ports
itself. What a batch answered is kept as soon as it ends, so that an interrupted run can be continued. A test that may have failed by the
load of the others is run again alone at the end; `alone` has the names.
"""
import hashlib
import json
import math
import multiprocessing
import queue
import signal
import sys
import time

import display
from run import BUILD, DID_NOT_RUN, HERE, Run
from suites import delete
from tree import TreeError

BATCH_TESTS_MAX = 12  # what an interruption loses in each tree
LOOK_SECONDS = 2


class Kept:
    """The answers of a run that goes on: a file for each test. Those of another plugin, other options or other changes are no use."""

    def __init__(self, run, goes_on):
        self.folder = BUILD / "mtr/kept" / f"{run.engine}-{run.suite.file_name()}"
        files = [*run.tree.plugins, HERE / "suites.py"]
        made_by = hashlib.sha256(b"".join(path.read_bytes() for path in files if path.exists()) + repr(run.more_options).encode()).hexdigest()
        stamp = self.folder / "made-by"
        if goes_on and stamp.exists() and stamp.read_text() != made_by:
            display.say("What was kept is of another plugin, other options, or another suites.py: all tests run")
        if not goes_on or not stamp.exists() or stamp.read_text() != made_by:
            delete(self.folder)
            self.folder.mkdir(parents=True)
            stamp.write_text(made_by)

    def put(self, name, output, failure, alone=False):
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"output": output, "failure": failure, "alone": alone}))
        part.rename(path)

    def get(self, name):
        path = self._path(name)
        return json.loads(path.read_text()) if path.exists() else None

    def _path(self, name):
        return self.folder / f"{name}.json"


class Dealt(Run):
    """A Run in `trees` trees. `failed_by_load(name, run)` says which tests are run again; `kept`, if there, has the answers of before."""

    def __init__(self, suite, engine, role, plugins=(), more_options=(), *, trees, failed_by_load, kept=None):
        super().__init__(suite, engine, role, plugins, more_options)
        self.trees = trees
        self.failed_by_load = failed_by_load
        self.kept = kept
        self.alone = []
        self._runs = [Run(suite, engine, f"{role}-{number}", plugins, more_options) for number in range(1, trees + 1)]

    def run(self, names, progress=None):
        until = time.monotonic() + 60 * self.suite.minutes
        open_names = [name for name in sorted(names) if not self._take_kept(name)]
        title = f"{self.suite.name}, {self.engine}, {self.trees} trees"
        if open_names:
            with display.Progress(len(open_names), title) as shown:
                self._deal(open_names, until, shown)
        late = [name for name in names if name not in self.alone and self.failures.get(name) != DID_NOT_RUN and self.failed_by_load(name, self)]
        for name in late:
            self.outputs.pop(name, None)
            self.failures[name] = DID_NOT_RUN
        minutes = int((until - time.monotonic()) / 60)
        if not late or minutes < 1:
            return
        self.suite.minutes = minutes
        for name in late:
            del self.failures[name]
        super().run(late)
        for name in late:
            self._keep(name, alone=True)
        self.alone += late

    def _take_kept(self, name):
        answer = self.kept.get(name) if self.kept else None
        if answer is None:
            return False
        if answer["output"] is not None:
            self.outputs[name] = answer["output"]
        if answer["failure"] is not None:
            self.failures[name] = answer["failure"]
        if answer["alone"]:
            self.alone.append(name)
        return True

    def _keep(self, name, alone=False):
        if self.kept and self.failures.get(name) != DID_NOT_RUN:
            self.kept.put(name, self.outputs.get(name), self.failures.get(name), alone)

    def _deal(self, names, until, shown):
        size = max(1, min(BATCH_TESTS_MAX, math.ceil(len(names) / (2 * self.trees))))
        batches = [names[start:start + size] for start in range(0, len(names), size)]
        runs = self._runs[:len(batches)]
        jobs, answers = multiprocessing.Queue(), multiprocessing.Queue()
        for batch in [*batches, *([None] * len(runs))]:
            jobs.put(batch)
        workers = [multiprocessing.Process(target=work, args=(run, jobs, answers, until), daemon=True) for run in runs]
        for worker in workers:
            worker.start()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
        try:
            self._collect(workers, answers, shown)
        except BaseException:  # a worker that is told to end tells its driver to
            for worker in workers:
                worker.terminate()
            raise
        finally:
            for worker in workers:
                worker.join()
        for name in names:
            if name not in self.outputs:
                self.failures.setdefault(name, DID_NOT_RUN)

    def _collect(self, workers, answers, shown):
        at_work = len(workers)
        while at_work:
            try:
                what, content = answers.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if not any(worker.is_alive() for worker in workers):
                    raise TreeError("the processes of the trees are gone: continue with --continue") from None
                continue
            if what == "step":
                shown.done(content)
            elif what == "error":
                raise TreeError(content)
            elif what == "end":
                at_work -= 1
            else:
                names, outputs, failures = content
                self.outputs |= outputs
                self.failures |= failures
                for name in names:
                    self._keep(name)


class Steps:
    """display.Progress of a worker: the main process shows it."""

    def __init__(self, answers):
        self.answers = answers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def done(self, text=""):
        self.answers.put(("step", text))


def work(run, jobs, answers, until):
    """The process of a tree."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        run.prepare()
        while (names := jobs.get()) is not None and time.monotonic() < until:
            run.suite.minutes = max(1, int((until - time.monotonic()) / 60))
            run.outputs, run.failures = {}, {}
            run.run(names, Steps(answers))
            answers.put(("batch", (names, run.outputs, run.failures)))
        answers.put(("end", None))
    except TreeError as error:
        answers.put(("error", str(error)))
