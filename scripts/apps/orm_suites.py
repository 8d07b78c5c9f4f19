#!/usr/bin/env python3
"""`make orms`: the tests of Django and of SQLAlchemy about foreign keys and transactions, on InnoDB and on Sluice, compared test by test.

pip fetches the sources and what they need into build/orm. Each suite runs twice, with one engine and then with the other as the default
of a server of its own. Where SQLAlchemy's tests name InnoDB or MyISAM the engine takes their place, in both runs. The outcomes must be
the same: a test that fails on InnoDB may fail on Sluice. Differences with a reason are stated in STATED.

`--only django` runs one suite, `--tests delete,fixtures` some of its tests. Exit code 1 when the outcome of a test differs without a
stated reason, 2 when a suite or the server cannot be had.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

FOLDER = BUILD / "orm"
# Suites whose sources have their tests, and what they need to run.
SOURCES = {"django": "Django==5.2.8", "sqlalchemy": "SQLAlchemy==2.0.44"}
NEEDED = ("PyMySQL==1.1.2", "pytest==8.4.2", "asgiref==3.9.2", "sqlparse==0.5.3", "typing-extensions==4.12.2", "greenlet==3.2.4",
          "jinja2==3.1.6", "setuptools==80.9.0")
DJANGO_TESTS = """
    backends basic bulk_create constraints contenttypes_tests custom_pk delete delete_regress fixtures fixtures_model_package
    fixtures_regress force_insert_update foreign_object generic_relations get_or_create indexes inspectdb introspection
    known_related_objects m2m_and_m2o m2m_intermediary m2m_multiple m2m_recursive m2m_regress m2m_signals m2m_through m2m_through_regress
    many_to_many many_to_one many_to_one_null migrate_signals migration_test_data_persistence migrations migrations2 model_inheritance
    model_inheritance_regress multiple_database nested_foreign_keys null_fk null_fk_ordering one_to_one order_with_respect_to
    prefetch_related raw_query reverse_lookup schema select_for_update select_related select_related_regress serializers
    transaction_hooks transactions unmanaged_models update update_only_fields
    """.split()
SQLALCHEMY_TESTS = """
    test/dialect/mysql test/dialect/test_suite.py test/engine/test_reflection.py test/engine/test_transaction.py test/orm/inheritance
    test/orm/test_bulk.py test/orm/test_cascade.py test/orm/test_cycles.py test/orm/test_dynamic.py test/orm/test_manytomany.py
    test/orm/test_naturalpks.py test/orm/test_relationships.py test/orm/test_session.py test/orm/test_transaction.py
    test/orm/test_unitofwork.py test/orm/test_unitofworkv2.py test/orm/test_versioning.py
    """.split()
# (pattern of a test's name, why its outcome differs)
STATED = (
    ("test.dialect.mysql.test_compiler.*", "compares texts of statements, in a part of which InnoDB's name was replaced; asks no server"),
    ("*.test_reflection_with_subpartition_options*", "expects the name InnoDB in the partitions that the server shows"),
    ("*.test_reflect_fulltext", "FULLTEXT is refused"),
    ("indexes.tests.SchemaIndexes*", "Django runs it only if the default engine is called InnoDB"),
    ("introspection.tests.IntrospectionTests.test_get_constraints_indexes_orders", "Django runs it only if the default engine is called InnoDB"),
)
HOURS_MAX = 4


class OrmError(Exception):
    """A suite cannot be had or does not run; the text says why."""


def run(command, log, **options):
    with open(log, "ab") as to:
        return subprocess.run([str(part) for part in command], stdout=to, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options).returncode


def fetch(suite):
    """The folder of the suite's source, and a Python that has what it needs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    log, python = FOLDER / "pip.log", FOLDER / "venv/bin/python"
    log.unlink(missing_ok=True)
    wanted = " ".join(NEEDED)
    stamp = FOLDER / "venv/needed"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(FOLDER / "venv", ignore_errors=True)
        if run([sys.executable, "-m", "venv", FOLDER / "venv"], log):
            raise OrmError(f"python3 -m venv failed: install python3-venv (log: {log})")
        if run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDED], log):
            raise OrmError(f"pip could not install what the suites need (log: {log})")
        stamp.write_text(wanted)
    source = FOLDER / SOURCES[suite].replace("==", "-")
    if not source.exists():
        display.say(f"== fetching {SOURCES[suite]}")
        archives = FOLDER / "archives"
        archives.mkdir(exist_ok=True)
        if run([python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-binary", ":all:",
                "--dest", archives, SOURCES[suite]], log):
            raise OrmError(f"pip could not download {SOURCES[suite]} (log: {log})")
        archive = next(path for path in archives.glob("*.tar.gz") if path.name.lower().startswith(suite))
        part = FOLDER / "part"
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
        next(part.iterdir()).rename(source)
    return source, python


class Django:
    name, databases = "django", ("orm", "orm_2")

    @staticmethod
    def run(server, source, python, tests, folder):
        outcomes = folder / "outcomes"
        labels = tests or [label for label in DJANGO_TESTS if (source / "tests" / label).is_dir()]
        environment = {**os.environ, "ORM_SOCKET": str(server.socket), "ORM_DATABASE": "orm", "ORM_OUTCOMES": str(outcomes),
                       "PYTHONPATH": f"{source}:{HERE / 'orm'}"}
        run([python, "-W", "ignore", "runtests.py", "--settings=django_settings", "--parallel=1", "--noinput", "-v1", *labels],
            folder / "log", cwd=source / "tests", env=environment, timeout=HOURS_MAX * 3600)
        found = {}
        for line in outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []:
            test, outcome, why = json.loads(line)
            if found.get(test, ("",))[0] != "failed":
                found[test] = (outcome, why)
        return found


class SqlAlchemy:
    name, databases = "sqlalchemy", ("orm", "test_schema", "test_schema_2")

    @classmethod
    def run(cls, server, source, python, tests, folder):
        copy = folder / "source"
        shutil.copytree(source, copy)
        cls.name_engine(copy, server.engine)
        paths = [path for path in tests or SQLALCHEMY_TESTS if (copy / path).exists()]
        uri = f"mysql+pymysql://root@localhost/orm?unix_socket={server.socket}&charset=utf8mb4"
        run([python, "-W", "ignore", "-m", "pytest", "-o", "addopts=-p warnings -p logging --strict-markers", "-q", "--tb=line", f"--dburi={uri}",
             f"--junitxml={folder / 'outcomes.xml'}", *paths],
            folder / "log", cwd=copy, env={**os.environ, "PYTHONPATH": str(copy / "lib")}, timeout=HOURS_MAX * 3600)
        found = {}
        report = folder / "outcomes.xml"
        for case in xml.etree.ElementTree.parse(report).iter("testcase") if report.exists() else ():
            bad = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            outcome = "passed" if bad is None else "skipped" if bad.tag == "skipped" else "failed"
            found[f"{case.get('classname')}.{case.get('name')}"] = (outcome, (bad.get("message") or "")[:300] if bad is not None else "")
        return found

    @staticmethod
    def name_engine(copy, engine):
        """The fixtures take InnoDB for tables with transactions, and MyISAM for the others."""
        for path in [copy / "lib/sqlalchemy/testing/schema.py", *(copy / "test").rglob("*.py")]:
            text = path.read_text(encoding="utf-8")
            changed = text.replace('"InnoDB"', f'"{engine}"').replace('"MyISAM"', f'"{engine}"')
            if changed != text:
                path.write_text(changed, encoding="utf-8")


SUITES = {suite.name: suite for suite in (Django, SqlAlchemy)}


def outcomes_of(suite, engine, tests, folder):
    source, python = fetch(suite.name)
    folder = folder / f"{suite.name}-{engine}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options = [*engines.options(engine, "256M", "256M"), "--character-set-server=utf8mb4", "--max-allowed-packet=64M", "--skip-log-bin",
               "--innodb-flush-log-at-trx-commit=0", "--loose-sluice-flush-log-at-trx-commit=0"]
    server = Server(folder / "server", free_port(), options, engine=engine)
    try:
        server.start()
        with connection.connect(server) as link, link.cursor() as cursor:
            for name in suite.databases if suite is SqlAlchemy else ():
                cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        found = suite.run(server, source, python, tests, folder)
        if not server.running():
            raise OrmError(f"the server is gone (log: {server.log})")
    except subprocess.TimeoutExpired as error:
        raise OrmError(f"the tests of {suite.name} on {engine} do not end (log: {folder / 'log'})") from error
    finally:
        if server.running():
            server.stop()
    if not found:
        raise OrmError(f"the tests of {suite.name} on {engine} did not run (log: {folder / 'log'})")
    return found


def compare(reference, judged):
    """Tests whose outcomes differ: {name: (on InnoDB, on the other engine)}."""
    nothing = ("did not run", "")
    pairs = {name: (reference.get(name, nothing), judged.get(name, nothing)) for name in {**reference, **judged}}
    return {name: pair for name, pair in sorted(pairs.items()) if pair[0][0] != pair[1][0]}


def reason(name):
    return next((why for pattern, why in STATED if fnmatch.fnmatch(name, pattern)), None)


def main():
    parser = argparse.ArgumentParser(description="Tests of Django and SQLAlchemy on InnoDB and on Sluice, compared.")
    parser.add_argument("--engine", default="Sluice", choices=engines.NAMES)
    parser.add_argument("--only", choices=sorted(SUITES), help="one suite")
    parser.add_argument("--tests", type=lambda text: text.split(","), default=[], metavar="NAME,...", help="some of the suite's tests")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/orms", help="where the servers live; made anew")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # the server is stopped on the way out
    rows, wrong = [], 0
    try:
        for name in [arguments.only] if arguments.only else SUITES:
            found = {}
            for engine in ("InnoDB", arguments.engine):
                display.say(f"== {SOURCES[name]}: tests on {engine}")
                found[engine] = outcomes_of(SUITES[name], engine, arguments.tests, arguments.folder)
            reference, judged = found["InnoDB"], found[arguments.engine]
            different = compare(reference, judged)
            unstated = [test for test in different if not reason(test)]
            wrong += len(unstated)
            for test, (one, other) in different.items():
                display.say(f"{reason(test) or 'DIFFERENT'}: {test}\n  InnoDB: {' '.join(one)}\n  {arguments.engine}: {' '.join(other)}")
            passed, failed = ([sum(outcome == what for outcome, _ in of.values()) for of in (reference, judged)] for what in ("passed", "failed"))
            rows.append([SOURCES[name].replace("==", " "), len({**reference, **judged}), *passed, *failed, len(different) - len(unstated), len(unstated)])
    except (OrmError, ServerError, connection.pymysql.err.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    display.say("")
    display.plain_table(["suite", "tests", "passed on InnoDB", f"passed on {arguments.engine}", "failed on InnoDB", f"failed on {arguments.engine}",
                         "different for a stated reason", "different"], rows)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
