"""How the programs in scripts/ speak to a person: progress while they work, tables when they are done.

On a terminal rich draws both; elsewhere (a log, a pipe) progress is one plain line per finished step and a table is Markdown,
so that it can be pasted into a document. Used by every program in scripts/ that runs longer than a moment.
"""
import json
import os
import pathlib
import sys
import time

# rich comes with MariaDB in build/mariadb (see fetch-mariadb); what it needs may be there or among the system's packages.
for folder in (pathlib.Path(__file__).resolve().parent.parent / "build/mariadb/usr/lib/python3/dist-packages",
               pathlib.Path("/usr/lib/python3/dist-packages")):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

try:
    import rich.box
    import rich.console
    import rich.progress
    import rich.table
except ImportError:
    rich = None


def on_terminal():
    return rich is not None and sys.stdout.isatty()


def say(text):
    print(text, flush=True)


class Progress:
    """with Progress(24, "sysbench") as progress: progress.working("prepare"); ...; progress.done("prepare: 3.1 s")
    `total` is None when it is not known."""

    def __init__(self, total, title):
        self.total = total
        self.title = title
        self.count = 0
        self.started = time.monotonic()
        self._bar = None

    def __enter__(self):
        if on_terminal():
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"), rich.progress.BarColumn(), rich.progress.MofNCompleteColumn(),
                rich.progress.TimeElapsedColumn(), rich.progress.TextColumn("{task.fields[now]}"), transient=True)
            self._task = self._bar.add_task(self.title, total=self.total, now="")
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.stop()

    def working(self, text):
        """What is being done now; shown on a terminal only."""
        if self._bar is not None:
            self._bar.update(self._task, now=text)

    def done(self, text=""):
        """One step more is done; `text` says what came of it."""
        self.count += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, now=text)
        elif text:
            of_total = f"/{self.total}" if self.total else ""
            say(f"[{self.title} {self.count}{of_total}, {time.monotonic() - self.started:.0f} s] {text}")


# A file that takes every table and conclusion of the program as a line of JSON: scripts/bench/record.py asks for it.
RECORD = os.environ.get("SLUICE_BENCH_RECORD")


def record(entry):
    if RECORD:
        with open(RECORD, "a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")


def conclude(text):
    """Says what a measurement found, in a sentence that is recorded with its tables."""
    say(text)
    record({"text": " ".join(text.split())})


def table(columns, rows, title=""):
    """Prints a table; the first column is text, the others are numbers and aligned right."""
    rows = [[str(cell) for cell in row] for row in rows]
    record({"title": title, "columns": list(columns), "rows": rows})
    if on_terminal():
        drawing = rich.table.Table(title=title or None, title_justify="left", box=rich.box.SIMPLE_HEAD)
        for index, column in enumerate(columns):
            drawing.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            drawing.add_row(*row)
        rich.console.Console().print(drawing)
    else:
        if title:
            say(f"\n{title}\n")
        say(markdown(columns, rows))


def plain_table(columns, rows):
    """Prints a table as Markdown, also on a terminal: for tables wider than that."""
    record({"title": "", "columns": list(columns), "rows": [[str(cell) for cell in row] for row in rows]})
    say(markdown(columns, rows))


def markdown(columns, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]

    def line(cells):
        return "| " + " | ".join(cell.ljust(width) if index == 0 else cell.rjust(width)
                                 for index, (cell, width) in enumerate(zip(cells, widths))) + " |"

    ruler = "|" + "|".join("-" * (width + 2) if index == 0 else "-" * (width + 1) + ":" for index, width in enumerate(widths)) + "|"
    return "\n".join([line(columns), ruler, *map(line, rows)])
