"""TPC-H's data, tables and queries: what scripts/bench/tpch.py and the lab have in common.

The data come from tpchgen-cli (scripts/fetch-lab-tools tpch) and are kept in build/tpch, one folder
a scale factor. Tables and queries are the files of scripts/bench/tpch_sql; the queries have the
specification's validation parameters.
"""
import decimal
import fcntl
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SQL = pathlib.Path(__file__).resolve().parent / "tpch_sql"
DATA = ROOT / "build/tpch"
TOOLS = ROOT / "build/lab-tools/tpch"
TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")
QUERIES = tuple(range(1, 23))
SUPPLIERS, PARTS = 10000, 200000  # at scale factor 1
# Query 11 asks for the parts that are worth this share of a nation's stock, over the scale factor.
STOCK_SHARE = decimal.Decimal("0.0001")
TIME_LIMIT_ERROR = 1969  # max_statement_time was exceeded


class DataError(Exception):
    """The data cannot be had; the text says why, in one line."""


def check_scale(scale):
    """Refuses what is no scale factor, and those of whose data a key would refuse a row.

    Part P's suppliers are P + i * step modulo S of S suppliers, i from 0 to 3. `step` is S / 4, and
    1 more for each S parts before P. With few suppliers two of the four can be the same."""
    try:
        suppliers = int(decimal.Decimal(scale) * SUPPLIERS)
    except (decimal.InvalidOperation, ValueError, OverflowError):
        suppliers = 0
    if suppliers < 1:
        raise DataError(f"{scale!r} is no scale factor: a number above 0, such as 0.3")
    steps = range(suppliers // 4, suppliers // 4 + PARTS // SUPPLIERS)
    if any(place * step % suppliers == 0 for step in steps for place in (1, 2, 3)):
        raise DataError(f"scale factor {scale} has so few suppliers that a part has one of them twice: take another, such as 0.01, 0.1 or 0.3")


def generate(scale):
    """The folder with TABLE.tbl of each table, made on first use."""
    fetched = subprocess.run([ROOT / "scripts/fetch-lab-tools", "tpch"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if fetched.returncode != 0:
        raise DataError((fetched.stderr.strip().splitlines() or ["fetch-lab-tools said nothing"])[-1].removeprefix("error: "))
    version = (TOOLS / ".set").read_text().strip()
    folder = DATA / f"{version}-scale-{scale}"
    DATA.mkdir(parents=True, exist_ok=True)
    with open(DATA / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _generate(scale, folder)
    return folder


def _generate(scale, folder):
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    result = subprocess.run([TOOLS / "bin/tpchgen-cli", "tbl", "--quiet", f"--scale-factor={scale}", f"--output-dir={part}"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lacking = [table for table in TABLES if not (part / f"{table}.tbl").exists()]
    if result.returncode != 0 or lacking:
        said = (result.stderr.strip().splitlines() or [f"it made no {', '.join(lacking)}"])[0].removeprefix("error: ")
        raise DataError(f"tpchgen-cli made no data of scale factor {scale}: {said}")
    part.rename(folder)


def table_statements(engine):
    """CREATE TABLE of each table, in the order of schema.sql."""
    text = "\n".join(line for line in (SQL / "schema.sql").read_text().splitlines() if not line.startswith("--"))
    return [f"{statement.strip()} ENGINE={engine}" for statement in text.split(";") if statement.strip()]


def load_statement(table, folder):
    """A line of the generator's files ends with a separator more than it has fields."""
    return (f"LOAD DATA INFILE '{folder / table}.tbl' INTO TABLE {table} "
            "FIELDS TERMINATED BY '|' ESCAPED BY '' LINES TERMINATED BY '|\\n'")


def analyze_statements():
    return [f"ANALYZE TABLE {table}" for table in TABLES]


def query(number, scale):
    """The text of one query, without the semicolon."""
    text = (SQL / f"q{number:02}.sql").read_text()
    return text.strip().rstrip(";").replace("{fraction}", str(STOCK_SHARE / decimal.Decimal(str(scale))))


def numbers(text):
    """'2,11,21' as numbers of queries, all of them when empty."""
    try:
        chosen = tuple(int(number) for number in text.split(",") if number.strip()) or QUERIES
    except ValueError:
        chosen = (text,)
    unknown = [number for number in chosen if number not in QUERIES]
    if unknown:
        raise DataError(f"there is no query {unknown[0]}: the queries are {QUERIES[0]} to {QUERIES[-1]}, comma separated")
    return chosen


def comparable(rows):
    """Rows in an order of their own: most queries leave some of it open. Decimals keep all digits."""
    return sorted(tuple(str(value) for value in row) for row in rows)
