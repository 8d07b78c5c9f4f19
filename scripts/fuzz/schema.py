"""A random table: columns, keys, partitions; and random ALTERs of it. The Table object follows what the server accepted.
Every table has a column `rid` that the fuzzer fills with numbers of its own, so that an order can be total. Used by statements.py.
"""
import copy
from values import COLLATIONS, INTEGERS, KINDS, literal, random_column

KEY_BYTES_MAX = 900
COLUMNS_MAX = 9
SAMPLES_MAX = 40


class Key:
    def __init__(self, name, kind, parts):
        self.name = name
        self.kind = kind            # "PRIMARY KEY", "UNIQUE KEY", "KEY"
        self.parts = parts          # [column name, prefix characters or 0, descending]

    def sql(self):
        parts = ", ".join(name + (f"({prefix})" if prefix else "") + (" DESC" if descending else "")
                          for name, prefix, descending in self.parts)
        return f"{self.kind}{'' if self.kind == 'PRIMARY KEY' else ' ' + self.name} ({parts})"

    def hint_name(self):
        return "PRIMARY" if self.kind == "PRIMARY KEY" else self.name

    def is_long_unique(self):
        return self.kind == "UNIQUE KEY" and self.name.startswith("h")


class Table:
    def __init__(self, name):
        self.name = name
        self.columns = []
        self.keys = []
        self.partitions = ""
        self.partition_count = 0
        self.options = ""
        self.temporary = False
        self.versioned = False
        self.serial = 0
        self.samples = []           # {column name: literal} of some rows that were inserted

    def column(self, name):
        return next((column for column in self.columns if column.name == name), None)

    def fresh(self, letter):
        self.serial += 1
        return f"{letter}{self.serial}"

    def remember(self, columns, literals):
        self.samples = self.samples[-SAMPLES_MAX + 1:] + [dict(zip([column.name for column in columns], literals))]

    def create_sql(self):
        body = ", ".join([column.sql() for column in self.columns] + [key.sql() for key in self.keys])
        return (f"CREATE {'TEMPORARY ' if self.temporary else ''}TABLE {self.name} ({body}) {self.options}"
                f"{' WITH SYSTEM VERSIONING' if self.versioned else ''} {self.partitions}").rstrip()

    def writable(self):
        return [column for column in self.columns if not column.generated]

    def rid_is_unique(self):
        return any(key.kind != "KEY" and [part[0] for part in key.parts] == ["rid"] for key in self.keys)

    def hinted_keys(self):
        return [key for key in self.keys if not key.is_long_unique()]

    def goes_on_with(self, key):
        """Parts of the primary key that the server puts behind a key's own: as many as there are before its first that is a prefix."""
        parts = self.primary().parts if self.primary() else []
        count = next((i for i, part in enumerate(parts) if part[1]), len(parts))
        own = [name for name, _, _ in key.parts]
        return [part for part in parts if part[0] not in own][:count] if key.kind != "PRIMARY KEY" else []

    def loose_keys(self):
        """Keys by which the server does not find all that is equal: what it finds depends on the plan, in any engine (in Sluice not
        where only a part that goes on is a prefix)."""
        return [key for key in self.hinted_keys() if any(prefix and not self.column(name).is_by_character()
                                                         for name, prefix, _ in key.parts + self.goes_on_with(key))]

    def loose_in_primary(self):
        parts = self.primary().parts if self.primary() else []
        return [name for name, prefix, _ in parts if prefix and not self.column(name).is_by_character()]

    def firm_keys(self):
        loose = self.loose_keys()
        return [key for key in self.hinted_keys() if key not in loose]

    def primary(self):
        return next((key for key in self.keys if key.kind == "PRIMARY KEY"), None)

    def searched_by(self, key):
        """The columns that a search by a key may go by: its own, and the primary key's behind them."""
        parts = key.parts + (self.primary().parts if self.primary() else [])
        return [self.column(name) for name in dict.fromkeys(name for name, _, _ in parts)]


def key_part(chance, column):
    """[name, prefix, descending] of a column in a key, and how many bytes it takes there."""
    each = column.character_bytes()
    descending = chance.random() < 0.25
    if column.is_blob():
        prefix = chance.choice((1, 2, 5, 40))
        return [column.name, prefix, descending], prefix * each
    if column.kind in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        whole = column.size * each
        if column.size > 1 and (whole > 400 or chance.random() < 0.3):
            prefix = chance.randint(1, min(column.size - 1, 12))
            return [column.name, prefix, descending], prefix * each
        return [column.name, 0, descending], whole
    return [column.name, 0, descending], 16


def random_key(chance, table, kind=None):
    kind = kind or chance.choice(("KEY", "KEY", "KEY", "UNIQUE KEY"))
    candidates = [c for c in table.columns if c.may_be_key()]
    # Not with history: REPLACE of such a table below SERIALIZABLE is an open question (error 1032 where InnoDB has none).
    if kind == "UNIQUE KEY" and chance.random() < 0.25 and not table.partitions and not table.versioned:
        blobs = [c for c in candidates if (c.is_blob() and not c.generated)]
        if blobs:
            names = [chance.choice(blobs).name] + ([chance.choice(candidates).name] if chance.random() < 0.3 else [])
            return Key(table.fresh("h"), kind, [[name, 0, False] for name in dict.fromkeys(names)])
    if kind == "PRIMARY KEY":
        candidates = [c for c in candidates if not c.nullable and not (c.generated and c.generated[1] == "VIRTUAL")]
    parts, size = [], 0
    for column in chance.sample(candidates, min(len(candidates), chance.choice((1, 1, 2, 2, 3, 4)))):
        part, length = key_part(chance, column)
        if size + length <= KEY_BYTES_MAX:
            parts.append(part)
            size += length
    unique = kind != "KEY"
    if unique and (table.partitions or chance.random() < 0.5) and not any(part[0] == "rid" for part in parts):
        parts.insert(chance.randint(0, len(parts)), ["rid", 0, chance.random() < 0.2])
    parts = parts or [["rid", 0, False]]
    return Key(table.fresh("k"), kind, parts)


def random_generated(chance, table):
    """A generated column over one or two of the others."""
    base = chance.choice([c for c in table.columns if not c.generated])
    column = random_column(chance, table.fresh("g"), ("VARCHAR", "INT", "BIGINT", "CHAR"))
    column.nullable, column.default, column.extra, column.unsigned = True, None, "", False
    if column.is_text():
        column.size = 60
        if base.is_text():
            column.collation = base.collation
            column.generated = (f"CONCAT({base.name}, {base.name})" if chance.random() < 0.5 else f"UPPER(LEFT({base.name}, 3))", "")
            column.size = 255
        else:
            column.generated = (f"LEFT(HEX({base.name}), 20)", "")
    elif base.kind in INTEGERS and not base.unsigned and base.kind != "BIGINT":
        column.kind = "BIGINT"
        column.generated = (f"{base.name} % 7 + 1" if chance.random() < 0.5 else f"{base.name} * 2", "")
    else:
        column.generated = (f"LENGTH({base.name})", "")
    column.generated = (column.generated[0], chance.choice(("VIRTUAL", "VIRTUAL", "STORED")))
    return column


def random_partitions(chance, table):
    style = chance.random()
    table.partition_count = chance.randint(2, 5)
    if style < 0.4:
        table.partitions = f"PARTITION BY HASH (rid) PARTITIONS {table.partition_count}"
    elif style < 0.6:
        table.partitions = f"PARTITION BY KEY (rid) PARTITIONS {table.partition_count}"
    elif style < 0.7:
        lists = [f"PARTITION p{i} VALUES IN ({', '.join(str(at) for at in range(i, 200, table.partition_count))})" for i in range(table.partition_count)]
        table.partitions = f"PARTITION BY LIST COLUMNS (rid) ({', '.join(lists)}, PARTITION rest DEFAULT)"
        table.partition_count += 1
    else:
        bounds = [f"PARTITION p{i} VALUES LESS THAN ({20 * (i + 1)})" for i in range(table.partition_count - 1)]
        bounds.append(f"PARTITION p{table.partition_count - 1} VALUES LESS THAN MAXVALUE")
        table.partitions = f"PARTITION BY RANGE (rid) ({', '.join(bounds)})"


def random_table(chance, name, small=False):
    table = Table(name)
    # Mixes of many collations in one table are rare in life; here they are the rule, but not always.
    collations = COLLATIONS if chance.random() < 0.6 else (chance.choice(COLLATIONS),)
    rid = random_column(chance, "rid", ("INT",))
    rid.nullable, rid.default, rid.unsigned = False, None, False
    table.columns = [rid] + [random_column(chance, table.fresh("c"), KINDS, collations) for _ in range(chance.randint(1, 3 if small else 7))]
    for _ in range(chance.choice((0, 0, 1, 2))):
        table.columns.append(random_generated(chance, table))
    chance.shuffle(table.columns)
    table.temporary = chance.random() < 0.08
    if not table.temporary and chance.random() < 0.12:
        random_partitions(chance, table)
    elif not table.temporary and chance.random() < 0.05:
        table.versioned = True
    draw = chance.random()
    if draw < 0.3:
        table.keys.append(Key("", "PRIMARY KEY", [["rid", 0, chance.random() < 0.2]]))
    elif draw < 0.6:
        table.keys.append(random_key(chance, table, "PRIMARY KEY"))
    if not table.partitions and chance.random() < 0.25:
        counter = random_column(chance, "auto", tuple(INTEGERS))
        counter.nullable, counter.default, counter.extra = False, None, "AUTO_INCREMENT"
        table.columns.append(counter)
        primary = not any(key.kind == "PRIMARY KEY" for key in table.keys)
        table.keys.append(Key(table.fresh("k"), "PRIMARY KEY" if primary and chance.random() < 0.7 else
                              chance.choice(("UNIQUE KEY", "KEY")), [["auto", 0, False]]))
    for _ in range(chance.choice((0, 1, 2, 3, 4, 5))):
        table.keys.append(random_key(chance, table))
    return table


# ---- ALTER ----

def alter_step(chance, table):
    """One clause of an ALTER, done to `table`; None when it does not fit."""
    draw = chance.random()
    if draw < 0.22:
        key = random_key(chance, table)
        table.keys.append(key)
        return f"ADD {key.sql()}"
    if draw < 0.36 and table.keys:
        key = chance.choice(table.keys)
        table.keys.remove(key)
        return f"DROP {'PRIMARY KEY' if key.kind == 'PRIMARY KEY' else 'INDEX ' + key.name}"
    if draw < 0.42:
        keys = [key for key in table.keys if key.kind != "PRIMARY KEY"]
        if not keys:
            return None
        key = chance.choice(keys)
        old, key.name = key.name, table.fresh("h" if key.is_long_unique() else "k")
        return f"RENAME INDEX {old} TO {key.name}"
    if draw < 0.5 and not any(key.kind == "PRIMARY KEY" for key in table.keys):
        key = random_key(chance, table, "PRIMARY KEY")
        table.keys.append(key)
        return f"ADD {key.sql()}"
    if draw < 0.75:
        return alter_column(chance, table)
    if draw < 0.8:
        return chance.choice(("FORCE", "ENGINE={E}", "COMMENT='x'", "AUTO_INCREMENT=50", "ORDER BY rid"))
    if draw < 0.84:
        if table.primary() and any(prefix for _, prefix, _ in table.primary().parts):
            return None             # as in modify_column
        collation = chance.choice(COLLATIONS)
        for column in table.columns:
            if column.is_text() and not column.generated:
                column.collation = collation
        return f"CONVERT TO CHARACTER SET {collation.split('_')[0]} COLLATE {collation}"
    return None


def alter_column(chance, table):
    others = [column for column in table.columns if column.name not in ("rid", "auto")]
    draw = chance.random()
    place = chance.choice(("", "", " FIRST", f" AFTER {chance.choice(table.columns).name}"))
    if draw < 0.35 and len(table.columns) < COLUMNS_MAX:
        generated = chance.random() < 0.2
        column = random_generated(chance, table) if generated else random_column(chance, table.fresh("c"))
        if column.default is None and column.nullable is False and not column.is_blob():
            column.default = literal(chance, column, nice=True)
        insert_at(table, column, place)
        return f"ADD COLUMN {column.sql()}{place}"
    if not others:
        return None
    column = chance.choice(others)
    if draw < 0.55:
        table.columns.remove(column)
        for key in list(table.keys):
            key.parts = [part for part in key.parts if part[0] != column.name]
            if not key.parts:
                table.keys.remove(key)
        return f"DROP COLUMN {column.name}"
    if draw < 0.65:
        old, column.name = column.name, table.fresh("c")
        for key in table.keys:
            for part in key.parts:
                part[0] = column.name if part[0] == old else part[0]
        return f"RENAME COLUMN {old} TO {column.name}"
    if column.generated or place.endswith(f" {column.name}"):
        return None
    if draw < 0.75 and not column.is_blob():
        column.default = literal(chance, column, nice=True)
        return f"ALTER COLUMN {column.name} SET DEFAULT {column.default}"
    return modify_column(chance, table, column, place)


def modify_column(chance, table, column, place):
    # InnoDB's own: where a column has a default, NULLs that are made NOT NULL in place become that, and not the type's zero.
    if chance.random() < 0.5 and (not column.nullable or column.default in (None, "NULL")):
        column.nullable = not column.nullable
    if column.kind in ("VARCHAR", "VARBINARY", "CHAR"):
        column.size = min(400 if column.kind != "CHAR" else 60, column.size + chance.choice((0, 1, 20, 200)))
    elif column.kind in INTEGERS and chance.random() < 0.5:
        column.kind = "BIGINT"
    # InnoDB's own: it leaves the primary key's order as it was.
    in_primary = table.primary() and any(part[0] == column.name for part in table.primary().parts)
    if column.is_text() and chance.random() < 0.3 and not in_primary:
        column.collation = chance.choice(COLLATIONS)
    if column.default == "NULL" and not column.nullable:
        column.default = None
    if column.kind == "TIMESTAMP" and not column.nullable:
        column.default = "'2000-01-01 00:00:00'"
    insert_at(table, column, place, moved=True)
    return f"MODIFY COLUMN {column.sql()}{place}"


def insert_at(table, column, place, moved=False):
    if moved and not place:
        return
    if moved:
        table.columns.remove(column)
    if place == " FIRST":
        table.columns.insert(0, column)
    elif place and table.column(place.split()[-1]):
        table.columns.insert(table.columns.index(table.column(place.split()[-1])) + 1, column)
    else:
        table.columns.append(column)


def random_alter(chance, table, make_step=alter_step):
    """(statement, the table after it)."""
    changed = copy.deepcopy(table)
    steps = [step for step in (make_step(chance, changed) for _ in range(chance.choice((1, 1, 1, 2, 3)))) if step]
    if not steps:
        return None
    ignore = ""
    algorithm = chance.choice(("", "", "", ", ALGORITHM=COPY"))
    return f"ALTER TABLE {ignore}{table.name} {', '.join(steps)}{algorithm}", changed
