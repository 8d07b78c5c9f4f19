#!/usr/bin/env python3
"""Loads the schemas and first data of packaged applications into InnoDB and into Sluice, and compares what came of it.

Debian's packages bring the SQL (catalogue.py). Each application is loaded twice by the client `mariadb`: as shipped, and with
Sluice in the place of InnoDB. Then these must be equal:
- the statements that are refused, and the results and warnings of the others;
- SHOW CREATE TABLE but for the engine, the number of rows, CHECKSUM TABLE, and what INFORMATION_SCHEMA says of columns, indexes,
  constraints, triggers, routines and views;
- a mariadb-dump of Sluice's database and the dumps of its copies: in Sluice, in InnoDB, and in Sluice again;
- the outcome of inserts, updates and deletes on all tables that foreign keys connect (exercise.py), if the tables are equal.

`--samples` loads scripts/apps/samples instead, without network. `--engine InnoDB` tries the program itself. Exit code 1 when
something differs without a reason that catalogue.py states, 2 when a package, a file or the server cannot be had.
"""
import argparse
import pathlib
import shutil
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import catalogue  # noqa: E402
import compare  # noqa: E402
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
import exercise  # noqa: E402
import load  # noqa: E402
import packages  # noqa: E402
from server import BUILD, Server, ServerError, SqlError, free_port  # noqa: E402

# Of one length: the server cuts some messages at a length.
REFERENCE, JUDGED = "apps_reference", "apps_candidate"
PAGE = packages.ROOT / "docs/applications.md"
PAGE_MARKS = ("<!-- The table of make apps APPS=--page begins. -->", "<!-- It ends. -->")
COLUMNS = ("application", "statements", "refused by InnoDB", "refused by {}", "tables", "tables that differ", "dump",
           "changes that differ")


class Judge:
    """Loads and compares one application after the other."""

    def __init__(self, server, engine, show):
        self.server, self.engine, self.show = server, engine, show
        self.link = connection.connect(server, autocommit=True)
        self.cursor = self.link.cursor()

    def judge(self, application):
        """(row of the report, differences, what is refused on both sides)"""
        runs = {database: self.load(application, database, engine)
                for database, engine in ((REFERENCE, "InnoDB"), (JUDGED, self.engine))}
        reference, judged = runs[REFERENCE], runs[JUDGED]
        notes = self.refusals(reference, judged)
        tables = compare.tables_of(self.cursor, REFERENCE)
        different = compare.differences(self.cursor, REFERENCE, JUDGED)
        notes += [f"{name}: {what}" for name, whats in different.items() for what in whats[:self.show]]
        dump = self.dump(application, notes)
        checks, wrong = exercise.exercise(self.link, REFERENCE, JUDGED, different)
        notes += wrong[:self.show]
        changes = "not compared" if checks is None else f"{len(wrong)} of {checks}" if checks else "-"
        row = [application.name, reference.statements, len(reference.refusals), len(judged.refusals), len(tables), len(different), dump, changes]
        return row, notes, load.explained("both engines refuse", load.in_both(reference, judged))

    def load(self, application, database, engine):
        compare.make_database(self.cursor, application, database)
        texts = [(path, packages.ready(application, path, text, engine)) for path, text in packages.read(application)]
        return load.run(self.server, database, engine, texts)

    def refusals(self, reference, judged):
        notes = []
        if reference.statements != judged.statements:
            notes.append(f"{reference.statements} statements were sent to InnoDB, {judged.statements} to {self.engine}")
        for one, other, engine in ((judged, reference, self.engine), (reference, judged, "InnoDB")):
            notes += load.explained(f"only {engine} refuses", load.only_in(one, other))
        for one, other, engine in ((judged, reference, self.engine), (reference, judged, "InnoDB")):
            answers = list((one.answers - other.answers).elements())
            notes += [f"only {engine} answers: {answer[:200]}" for answer in answers[:self.show]]
            if len(answers) > self.show:
                notes.append(f"and {len(answers) - self.show} more such lines")
        return notes

    def dump(self, application, notes):
        """"equal", or "differs": also for what InnoDB's own dump does not give back."""
        reason = compare.round_trip(self.server, self.cursor, application, JUDGED, self.engine, "InnoDB")
        if not reason:
            return "equal"
        own = compare.round_trip(self.server, self.cursor, application, REFERENCE, "InnoDB", "InnoDB")
        if own:
            return "not with InnoDB either"
        notes.append(f"dump: {reason[:400]}")
        return "differs"


def chosen(arguments):
    if arguments.samples:
        return [catalogue.Application(path.stem, "", (path.name,)) for path in sorted(packages.SAMPLES.glob("*.sql"))]
    names = [name.strip().lower() for name in arguments.only.split(",")] if arguments.only else None
    known = {application.name.lower().replace(",", ""): application for application in catalogue.APPLICATIONS}
    if names is None:
        return list(known.values())
    for name in names:
        if not any(name in one for one in known):
            raise packages.PackageError(f"no application is called '{name}': there are {', '.join(known)}")
    return [application for one, application in known.items() if any(name in one for name in names)]


def judge_all(server, applications, missing, arguments):
    rows, explained = [], []
    judge = Judge(server, arguments.engine, arguments.show)
    with display.Progress(len(applications), "applications") as progress:
        for application in applications:
            progress.working(application.name)
            if application.package in missing:
                rows.append([application.name] + ["-"] * (len(COLUMNS) - 2) + ["not in this Debian"])
                progress.done(f"{application.name}: this Debian has no package {application.package}")
                continue
            row, notes, alike = judge.judge(application)
            rows.append(row)
            explained.append((application, notes, alike))
            wrong = [note for note in notes if not application.states(note)]
            progress.done(f"{application.name}: {len(wrong)} differences" if wrong else
                          f"{application.name}: {'different for a stated reason' if notes else 'equal'}")
    return rows, explained


def main():
    parser = argparse.ArgumentParser(description="Schemas of packaged applications on InnoDB and on Sluice, compared.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--only", metavar="NAME,...", help="some applications, by a part of their names (without commas)")
    parser.add_argument("--samples", action="store_true", help="the schemas of scripts/apps/samples, without network")
    parser.add_argument("--page", action="store_true", help="write the table into docs/applications.md too")
    parser.add_argument("--show", type=int, default=8, help="how many differences of one kind are printed (%(default)s)")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/apps", help="where the server lives; made anew")
    arguments = parser.parse_args()
    if arguments.page and (arguments.only or arguments.samples or arguments.engine != "Sluice"):
        parser.error("--page is for all applications on Sluice: leave --only, --samples and --engine out")
    pair = ("InnoDB", arguments.engine) if arguments.engine != "InnoDB" else ("InnoDB",)
    options = [option for engine in pair for option in engines.options(engine, "128M", "256M")]
    # The durability of commits is not judged here.
    options += ["--character-set-server=utf8mb4", "--max-allowed-packet=1G", "--innodb-flush-log-at-trx-commit=0",
                "--loose-sluice-flush-log-at-trx-commit=0"]
    server = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # the server is stopped on the way out
    try:
        applications = chosen(arguments)
        missing = packages.fetch([application.package for application in applications if application.package])
        shutil.rmtree(arguments.folder, ignore_errors=True)
        server = Server(arguments.folder, free_port(), options, plugins=engines.plugins(pair), engine=arguments.engine)
        server.start()
        try:
            rows, explained = judge_all(server, applications, missing, arguments)
        finally:
            server.stop()
    except (ServerError, SqlError, packages.PackageError, connection.pymysql.err.Error) as error:
        print(f"error: {error}" + (f" (server's log: {server.log})" if server else ""), file=sys.stderr)
        sys.exit(2)
    if arguments.page:
        write_page(rows, explained)
    sys.exit(report(rows, explained, arguments.engine))


def write_page(rows, explained):
    """Puts the table between the marks of docs/applications.md."""
    versions = {application.name: f"{application.package} {packages.version(application.package)}" for application, _, _ in explained}
    table = display.markdown(["application", "package", *(column.format("Sluice") for column in COLUMNS[1:])],
                             [[row[0], versions.get(row[0], "-"), *row[1:]] for row in rows])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(PAGE_MARKS[0])
    PAGE.write_text(f"{before}{PAGE_MARKS[0]}\n\n{table}\n\n{verdict(rows, explained)}.\n\n{PAGE_MARKS[1]}{rest.partition(PAGE_MARKS[1])[2]}", encoding="utf-8")


def report(rows, explained, engine):
    """Prints what differs and the table; returns the exit code."""
    for application, notes, alike in explained:
        if notes or alike:
            source = f", package {application.package} {packages.version(application.package)}" if application.package else ""
            display.say(f"\n{application.name}{source}")
        for note in notes:
            display.say(f"  {'stated: ' if application.states(note) else ''}{note}")
        for note in alike:
            display.say(f"  {note}")
    display.say("")
    display.plain_table([column.format(engine) for column in COLUMNS], rows)
    display.say(f"\n{verdict(rows, explained)}")
    return 1 if wrong_ones(explained) else 0


def wrong_ones(explained):
    return [application for application, notes, _ in explained if any(not application.states(note) for note in notes)]


def verdict(rows, explained):
    wrong = wrong_ones(explained)
    stated = [application for application, notes, _ in explained if notes and application not in wrong]
    return (f"{len(explained) - len(wrong) - len(stated)} applications equal, {len(stated)} different for a stated reason, "
            f"{len(wrong)} different, {len(rows) - len(explained)} not in this Debian")


if __name__ == "__main__":
    main()
