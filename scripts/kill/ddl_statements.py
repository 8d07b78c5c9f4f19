"""The statements of the DDL kill test: each function sends one, or does nothing when the client's tables do not suit it.

A function builds the SQL and the legal states after a crash in it (see ddl_model.py). Statements that the server itself does not
promise to be atomic have more than one: DROP TABLE of several goes table by table, CREATE OR REPLACE drops first, DROP DATABASE
too. Called by ddl_workload.Client.
"""
import copy

from ddl_model import HOT, ROWS_MAX, is_plain, new_table, next_id, row

KEYS = {"ka": [["a"], False], "kb": [["b"], False], "kab": [["a", "b"], False], "kua": [["a", "id"], True], "kub": [["b", "id"], True]}
PART_ROWS = 200


def choose(client):
    client.random.choices(list(STATEMENTS), list(STATEMENTS.values()))[0](client)


# ---- texts ----

def definition(table, engine):
    columns = {"id": "id BIGINT NOT NULL", "a": "a INT NOT NULL", "b": "b VARCHAR(600) CHARACTER SET latin1 NOT NULL",
               "extra": "extra INT NOT NULL DEFAULT 5"}
    parts = [columns[name] for name in table["cols"]] + ["PRIMARY KEY (id)"]
    parts += [key_text(name, key) for name, key in table["keys"].items()]
    return f"({', '.join(parts)}) ENGINE={engine}{partitions_text(table)}"


def key_text(name, key):
    columns, unique = key
    return f"{'UNIQUE ' if unique else ''}KEY {name} ({', '.join(columns)})"


def partitions_text(table):
    if not table["parts"]:
        return ""
    parts = ", ".join(part_text(*part) for part in table["parts"])
    return f" PARTITION BY RANGE (id) ({parts})"


def part_text(name, hi):
    return f"PARTITION {name} VALUES LESS THAN ({hi})"


def values_text(lo, hi, generation):
    return ", ".join("({}, {}, '{}')".format(*row(row_id, generation)) for row_id in range(lo, hi))


def random_keys(client, least=0):
    names = client.random.sample(list(KEYS), client.random.randint(least, 2))
    return {name: copy.deepcopy(KEYS[name]) for name in names}


# ---- rows ----

def insert(client):
    picked = client.pick(lambda table: next_id(table) < ROWS_MAX)
    if not picked:
        return
    name, table = picked
    lo = next_id(table)
    hi = lo + client.random.randint(1, 80)
    if table["parts"]:
        hi = min(hi, table["parts"][-1][1])
        if lo >= hi:
            return
    table["rows"].append([lo, hi, 0])
    client.do(f"INSERT INTO {name} (id, a, b) VALUES {values_text(lo, hi, 0)}", client.with_tables({name: table}))


def update(client):
    picked = client.pick(lambda table: table["rows"])
    if not picked:
        return
    name, table = picked
    at = client.random.randrange(len(table["rows"]))
    lo, hi, generation = table["rows"][at]
    table["rows"][at] = [lo, hi, generation + 1]
    client.do(f"UPDATE {name} SET a = (id * 31 + {generation + 1} * 17) % 1000, b = REPEAT(CONCAT(id, '.{generation + 1};'), 1 + id % 23)"
              f" WHERE id >= {lo} AND id < {hi}", client.with_tables({name: table}))


def delete(client):
    picked = client.pick(lambda table: table["rows"])
    if not picked:
        return
    name, table = picked
    lo, hi, _ = table["rows"].pop(client.random.randrange(len(table["rows"])))
    client.do(f"DELETE FROM {name} WHERE id >= {lo} AND id < {hi}", client.with_tables({name: table}))


# ---- tables ----

def create(client):
    name = client.free_name()
    if name:
        parts = None
        if client.partitions and client.random.random() < 0.35:
            parts = [[f"p{number}", (number + 1) * PART_ROWS] for number in range(3)]
        table = new_table(random_keys(client), parts)
        client.do(f"CREATE TABLE {name} {definition(table, client.engine)}", client.with_tables({name: table}))


def create_like(client):
    name, picked = client.free_name(), client.pick()
    if name and picked:
        table = {**picked[1], "rows": []}
        client.do(f"CREATE TABLE {name} LIKE {picked[0]}", client.with_tables({name: table}))


def create_select(client):
    name, picked = client.free_name(), client.pick(is_plain)
    if name and picked:
        table = {**picked[1], "cols": ["id", "a", "b"], "keys": random_keys(client)}
        client.do(f"CREATE TABLE {name} {definition(table, client.engine)} SELECT id, a, b FROM {picked[0]}",
                  client.with_tables({name: table}))


def create_or_replace(client):
    target, source = client.pick(), client.pick(is_plain)
    if not target or not source:
        return
    name = target[0]
    gone = client.with_tables({name: None})
    table = new_table(random_keys(client))
    select = ""
    if source[0] != name and client.random.random() < 0.5:
        table["rows"] = source[1]["rows"]
        select = f" SELECT id, a, b FROM {source[0]}"
    client.do(f"CREATE OR REPLACE TABLE {name} {definition(table, client.engine)}{select}", gone, client.with_tables({name: table}))


def drop(client):
    picked = client.pick()
    if picked:
        client.do(f"DROP TABLE {picked[0]}", client.with_tables({picked[0]: None}))


def drop_two(client):
    first, second = client.pick(), client.pick()
    if first and second and first[0] != second[0]:
        client.do(f"DROP TABLE {first[0]}, {second[0]}", client.with_tables({first[0]: None}),
                  client.with_tables({first[0]: None, second[0]: None}))


def rename(client):
    picked, free = client.pick(), client.free_name()
    if picked and free:
        how = client.random.choice(["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"])
        client.do(how.format(picked[0], free), client.with_tables({picked[0]: None, free: picked[1]}))


def swap(client):
    first, second, free = client.pick(), client.pick(), client.free_name()
    if first and second and free and first[0] != second[0]:
        client.do(f"RENAME TABLE {first[0]} TO {free}, {second[0]} TO {first[0]}, {free} TO {second[0]}",
                  client.with_tables({first[0]: second[1], second[0]: first[1]}))


def truncate(client):
    picked = client.pick()
    if picked:
        client.do(f"TRUNCATE TABLE {picked[0]}", client.with_tables({picked[0]: {**picked[1], "rows": []}}))


# ---- ALTER ----

def alter_copy(client):
    picked = client.pick()
    if not picked:
        return
    name, table = picked
    action = client.random.choice(["FORCE", f"ENGINE={client.engine}, ALGORITHM=COPY"])
    client.do(f"ALTER TABLE {name} {action}", client.with_tables({name: table}))


def alter_extra(client):
    """The rows stay as they are, unless a copy is asked for."""
    picked = client.pick()
    if not picked:
        return
    name, table = picked
    has_extra = "extra" in table["cols"]
    table["cols"] = [column for column in table["cols"] if column != "extra"] + ([] if has_extra else ["extra"])
    action = "DROP COLUMN extra" if has_extra else "ADD COLUMN extra INT NOT NULL DEFAULT 5"
    how = client.random.choice(["", ", ALGORITHM=INSTANT", ", ALGORITHM=COPY"])
    client.do(f"ALTER TABLE {name} {action}{how}", client.with_tables({name: table}))


def index_actions(client, table):
    """Up to three changes of indexes in one ALTER: drop, rename and add, also of one name twice."""
    actions = []
    keys = table["keys"]
    if keys and client.random.random() < 0.6:
        dropped = client.random.choice(list(keys))
        del keys[dropped]
        actions.append(f"DROP KEY {dropped}")
    free = [name for name in (*KEYS, "renamed") if name not in keys]
    if keys and free and client.random.random() < 0.5:
        old, new = client.random.choice(list(keys)), client.random.choice(free)
        keys[new] = keys.pop(old)
        actions.append(f"RENAME KEY {old} TO {new}")
    for _ in range(client.random.randint(0, 2)):
        new = client.random.choice(list(KEYS))
        if new not in keys:
            keys[new] = copy.deepcopy(KEYS[new])
            actions.append(f"ADD {key_text(new, KEYS[new])}")
    return actions


def alter_indexes(client, name=None):
    if name is None:
        picked = client.pick()
        if not picked:
            return
        name, table = picked
    else:
        table = copy.deepcopy(client.state[name])
    actions = index_actions(client, table)
    if not actions:
        return
    tables = {name: table}
    free = client.free_name()
    if free and not name.endswith(f".{HOT}") and client.random.random() < 0.15:
        tables = {name: None, free: table}
        actions.append(f"RENAME TO {free}")
    client.do(f"ALTER TABLE {name} {', '.join(actions)}", client.with_tables(tables))


def alter_hot(client):
    """The table that is written all the time."""
    name = f"{client.database}.{HOT}"
    if client.random.random() < 0.8:
        alter_indexes(client, name)
    else:
        client.do(f"ALTER TABLE {name} FORCE", copy.deepcopy(client.state))


def alter_column(client):
    """Only the .frm changes, at once."""
    picked = client.pick(lambda table: "extra" in table["cols"])
    if picked:
        client.do(f"ALTER TABLE {picked[0]} ALTER COLUMN extra SET DEFAULT 5, COMMENT 'c{client.random.randrange(99)}', ALGORITHM=INSTANT",
                  copy.deepcopy(client.state))


# ---- partitions ----

def partition_add(client):
    picked = client.pick(lambda table: table["parts"] and len(table["parts"]) < 8)
    if not picked:
        return
    name, table = picked
    hi = table["parts"][-1][1] + PART_ROWS
    table["parts"].append([f"p{hi}", hi])
    client.do(f"ALTER TABLE {name} ADD PARTITION ({part_text(*table['parts'][-1])})", client.with_tables({name: table}))


def without_range(table, lo, hi):
    """`table` without the rows of a range."""
    kept = []
    for first, end, generation in table["rows"]:
        kept += [[a, b, generation] for a, b in ((first, min(end, lo)), (max(first, hi), end)) if a < b]
    return {**table, "rows": kept}


def range_of(table, number):
    return (table["parts"][number - 1][1] if number else 0), table["parts"][number][1]


def partition_drop_or_truncate(client):
    picked = client.pick(lambda table: table["parts"] and len(table["parts"]) > 1)
    if not picked:
        return
    name, table = picked
    number = client.random.randrange(len(table["parts"]))
    part = table["parts"][number][0]
    table = without_range(table, *range_of(table, number))
    if client.random.random() < 0.5:
        # The rows of the partition are gone; the one behind takes its place, if there is one.
        table = {**table, "parts": [p for p in table["parts"] if p[0] != part]}
        client.do(f"ALTER TABLE {name} DROP PARTITION {part}", client.with_tables({name: table}))
    else:
        client.do(f"ALTER TABLE {name} TRUNCATE PARTITION {part}", client.with_tables({name: table}))


def partition_reorganize(client):
    picked = client.pick(lambda table: table["parts"] and len(table["parts"]) > 1)
    if not picked:
        return
    name, table = picked
    number = client.random.randrange(len(table["parts"]) - 1)
    lo, hi = range_of(table, number)
    if client.random.random() < 0.5 or hi - lo < 2:
        old, new = table["parts"][number:number + 2], [[f"m{table['parts'][number + 1][1]}", table["parts"][number + 1][1]]]
    else:
        middle = (lo + hi) // 2
        old, new = table["parts"][number:number + 1], [[f"s{middle}", middle], [f"s{hi}", hi]]
    names = {part[0] for part in table["parts"]} - {part[0] for part in old}
    if names & {part[0] for part in new}:
        return
    table["parts"][number:number + len(old)] = new
    client.do(f"ALTER TABLE {name} REORGANIZE PARTITION {', '.join(part[0] for part in old)} INTO "
              f"({', '.join(part_text(*part) for part in new)})", client.with_tables({name: table}))


def partition_exchange(client):
    picked, free = client.pick(lambda table: table["parts"]), client.free_name()
    if not picked or not free:
        return
    name, table = picked
    partner = {**copy.deepcopy(table), "rows": []}
    if not client.do(f"CREATE TABLE {free} LIKE {name}", client.with_tables({free: partner})):
        return
    partner = {**partner, "parts": None}
    if not client.do(f"ALTER TABLE {free} REMOVE PARTITIONING", client.with_tables({free: partner})):
        return
    number = client.random.randrange(len(table["parts"]))
    lo, hi = range_of(table, number)
    hi_rows = min(hi, lo + client.random.randint(1, 60))
    partner = {**partner, "rows": [[lo, hi_rows, 3]]}
    if not client.do(f"INSERT INTO {free} (id, a, b) VALUES {values_text(lo, hi_rows, 3)}", client.with_tables({free: partner})):
        return
    inside = without_range(without_range(table, 0, lo), hi, 10**9)["rows"]
    after = without_range(table, lo, hi)
    after = {**after, "rows": sorted(after["rows"] + partner["rows"])}
    client.do(f"ALTER TABLE {name} EXCHANGE PARTITION {table['parts'][number][0]} WITH TABLE {free}",
              client.with_tables({name: after, free: {**partner, "rows": inside}}))


# ---- databases ----

def other_database(client):
    """ddl_N_x is made with some tables, or dropped with what it has."""
    prefix = f"{client.database}_x"
    mine = sorted(name for name in client.state if name.startswith(prefix + "."))
    if mine:
        gone = client.with_tables(dict.fromkeys(mine))
        # Table by table: whatever part is left, the folder with it. ddl_trial knows.
        client.do(f"DROP DATABASE {prefix}", gone)
        return
    client.do(f"CREATE DATABASE IF NOT EXISTS {prefix}", copy.deepcopy(client.state))
    for number in range(client.random.randint(1, 5)):
        name = f"{prefix}.x{number}"
        source = client.pick(is_plain)
        table = new_table(random_keys(client))
        select = ""
        if source:
            table["rows"], select = source[1]["rows"], f" SELECT id, a, b FROM {source[0]}"
        client.do(f"CREATE TABLE {name} {definition(table, client.engine)}{select}", client.with_tables({name: table}))


STATEMENTS = {
    insert: 10, update: 5, delete: 2, create: 6, create_like: 2, create_select: 3, create_or_replace: 3, drop: 2, drop_two: 1, rename: 3,
    swap: 3, truncate: 2, alter_copy: 3, alter_extra: 6, alter_indexes: 12, alter_hot: 6, alter_column: 1, partition_add: 2,
    partition_drop_or_truncate: 2, partition_reorganize: 3, partition_exchange: 3, other_database: 3,
}
