"""What the DDL kill test knows of a client's tables: a plain value that goes into its log.

    state    {"database.table": table}
    table    {"cols": [names], "keys": {name: [[columns], unique]}, "rows": [[lo, hi, generation], ...], "parts": None or [[name, hi]]}

Rows are made from their id and a generation, so a state is small. Called by ddl_workload, ddl_statements and ddl_trial.
"""

TABLES = 6  # names that come and go in a client's database
ROWS_MAX = 2000  # ids of a table
HOT = "hot"


def database(number):
    return f"ddl_{number}"


def row(row_id, generation):
    """(id, a, b) of a row."""
    unit = f"{row_id}.{generation};"
    return row_id, (row_id * 31 + generation * 17) % 1000, unit * (1 + row_id % 23)


def rows_of(table):
    return {row_id: row(row_id, generation) for lo, hi, generation in table["rows"] for row_id in range(lo, hi)}


def new_table(keys=None, parts=None):
    return {"cols": ["id", "a", "b"], "keys": keys or {}, "rows": [], "parts": parts}


def next_id(table):
    return max((hi for _, hi, _ in table["rows"]), default=0)


def is_plain(table):
    return table["parts"] is None


def hot_ids(txn):
    """The rows that a transaction of a Writer inserts."""
    return range(txn * 3, txn * 3 + 3)
