"""TPC-H: the same tables, rows and queries as `make tpch` (scripts/bench/tpch_data.py).

    load --scale 0.01 [--analyze]    creates and fills the tables; an operation is a row
    query 21 --scale 0.01 --runs 3   one of the 22 queries, so often; an operation is a query
          [--seconds 60]             a query is stopped after so many, and counts as an error
          [--warm]                   runs it once more, before costs are counted

A query's rows, brought into an order of their own, are part of the cell's answer: arms that answer
otherwise fail `same_data`."""
import contextlib
import hashlib
import importlib.util
import time

from .. import ROOT, LabError, tools
from . import meter, option, words

_spec = importlib.util.spec_from_file_location("tpch_data", ROOT / "scripts" / "bench" / "tpch_data.py")
tpch_data = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tpch_data)


@contextlib.contextmanager
def ready(line, target, log):
    """Before costs are counted the data are made, and a query's pages come into memory."""
    what, chosen, scale = parse(line)
    if what == "query":
        if "--warm" in words(line):
            _asked(target, lambda cursor: _query(cursor, chosen, scale, 1, _limit(line)))
        yield None
        return
    tools.prefix("tpch")
    try:
        yield tpch_data.generate(scale)
    except tpch_data.DataError as error:
        raise LabError(str(error)) from None


def parse(line):
    """('load', 0, scale) or ('query', number, scale) of a step's line."""
    arguments = words(line)
    what, scale = arguments[0], option(arguments, "scale", "0.01")
    if what not in ("load", "query"):
        raise LabError(f"tpch needs 'load' or 'query NUMBER', not {what!r}")
    try:
        tpch_data.check_scale(scale)
    except tpch_data.DataError as error:
        raise LabError(f"tpch: {error}") from None
    if what == "load":
        return what, 0, scale
    given = arguments[1] if len(arguments) > 1 else ""
    if not given.isdigit() or int(given) not in tpch_data.QUERIES:
        raise LabError(f"tpch query needs a number from {tpch_data.QUERIES[0]} to {tpch_data.QUERIES[-1]}, not {given!r}")
    return what, int(given), scale


def run(line, target, log, folder):
    arguments, (what, chosen, scale) = words(line), parse(line)
    if what == "load":
        return _asked(target, lambda cursor: _load(cursor, target.engine, folder, "--analyze" in arguments))
    return _asked(target, lambda cursor: _query(cursor, chosen, scale, int(option(arguments, "runs", 1)), _limit(line)))


def _asked(target, what):
    with target.node.cursor() as cursor:
        cursor.execute(f"USE {target.database}")
        return what(cursor)


def _limit(line):
    return float(option(words(line), "seconds", 0))


def _load(cursor, engine, folder, analyze):
    begin, rows, answer = time.monotonic(), 0, []
    for statement in tpch_data.table_statements(engine):
        cursor.execute(statement)
    for table in tpch_data.TABLES:
        loaded = cursor.execute(tpch_data.load_statement(table, folder))
        rows += loaded
        answer.append([table, str(loaded)])
    for statement in tpch_data.analyze_statements() if analyze else ():
        cursor.execute(statement)
        cursor.fetchall()
    return {"elapsed_s": time.monotonic() - begin, "threads": 1, "headline": "row", "client_cpu_s": 0.0, "answer": answer, "meters": {"row": meter(rows)}}


def _query(cursor, chosen, scale, runs, limit):
    text = tpch_data.query(chosen, scale)
    if limit:
        text = f"SET STATEMENT max_statement_time={limit} FOR {text}"
    times_us, answers, stopped, cpu_s, begin = [], set(), 0, time.thread_time(), time.monotonic()
    for _ in range(runs):
        before = time.monotonic()
        found = rows_of(cursor, text)
        if found is None:
            stopped += 1
            continue
        times_us.append((time.monotonic() - before) * 1e6)
        answers.add(digest(found))
    elapsed, cpu_s = time.monotonic() - begin, time.thread_time() - cpu_s
    if len(answers) > 1:
        raise LabError(f"query {chosen} has given {len(answers)} different answers in {runs} runs")
    return {**result(times_us, runs, stopped, elapsed), "client_cpu_s": cpu_s, "answer": [[f"query {chosen}", answer] for answer in answers]}


def result(times_us, runs, stopped, elapsed):
    ordered = sorted(times_us)
    latency = {"p50": ordered[len(ordered) // 2], "max": ordered[-1]} if ordered else {}
    head = meter(len(ordered), runs, latency, [[value, 1] for value in ordered], errors={str(tpch_data.TIME_LIMIT_ERROR): stopped} if stopped else None)
    return {"elapsed_s": elapsed, "threads": 1, "headline": "query", "meters": {"query": head}}


def rows_of(cursor, text):
    """All rows, or None of a query that was stopped at its limit."""
    try:
        cursor.execute(text)
        return cursor.fetchall()
    except Exception as error:
        if error.args and error.args[0] == tpch_data.TIME_LIMIT_ERROR:
            return None
        raise


def digest(rows):
    return hashlib.sha256(repr(tpch_data.comparable(rows)).encode()).hexdigest()[:16]
