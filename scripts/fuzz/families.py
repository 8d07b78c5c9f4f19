"""Random tables with foreign keys, and statements over them: parents, children, cascades, tables that refer to themselves, keys of
several columns, foreign_key_checks on and off. Takes the place of statements.py in some runs of fuzz.py.

Every statement changes its rows in an order that is total (rid is never given twice): foreign keys are checked row by row, and which row
fails first is part of the answer.
"""
ACTIONS = ("", " ON {} RESTRICT", " ON {} NO ACTION", " ON {} CASCADE", " ON {} CASCADE", " ON {} SET NULL")
VALUES_MAX = 6
STRINGS = ("'a'", "'A'", "'b'", "'B'", "'c'", "'c '", "'d'")
BYTES = ("'a'", "'ab'", "'ab'", "'a\\0'", "'\\0\\0'", "''", "'cd'", "'cde'")
TABLES_MAX = 6
# Columns besides rid, and their types: one of them for each table.
COLUMNS = {"a": ("INT",), "b": ("INT",), "c": ("INT",), "s": ("VARCHAR(10)",), "y": ("BINARY(2)", "VARBINARY(3)")}
NUMBERS = ("a", "b", "c")


class Table:
    def __init__(self, name):
        self.name = name
        self.types = {}
        self.nullable = {}
        self.keys = {}              # name: columns
        self.extra = []             # columns that ALTER has added; they are in no key
        self.foreign = {}           # name: columns
        self.refers_to_itself = False
        self.temporary = False
        self.versioned = False
        self.serial = 0


class Families:
    """Makes one statement after the other: next() gives (SQL, what to do with the model if it succeeds)."""

    def __init__(self, chance):
        self.chance = chance
        self.tables = []
        self.rid = 0
        self.serial = 0
        self.handler = None
        self.handler_goes_on = None
        self.locked = False
        self.in_transaction = False
        self.checks = True
        self.kinds = ((24, self.insert), (3, self.insert_select), (16, self.update), (12, self.delete), (6, self.transaction),
                      (4, self.toggle), (5, self.add_foreign), (2, self.drop_foreign), (6, self.alter), (1, self.truncate), (1, self.rename),
                      (1, self.drop), (2, self.show), (1, self.create))

    def next(self):
        while True:
            made = self.chance.choices([kind for _, kind in self.kinds], [weight for weight, _ in self.kinds])[0]()
            if made:
                return made if isinstance(made, tuple) else (made, None)

    # ---- tables ----

    def create(self, small=False):
        if len(self.tables) >= TABLES_MAX:
            return None
        self.serial += 1
        table = Table(f"t{self.serial}")
        chance = self.chance
        table.nullable = {column: chance.random() < 0.7 for column in COLUMNS}
        table.types = {column: chance.choice(types) for column, types in COLUMNS.items()}
        keys, body = {}, ["rid INT NOT NULL"]
        for column, kind in table.types.items():
            body.append(f"{column} {kind}{'' if table.nullable[column] else ' NOT NULL'}")
        firm = [column for column in COLUMNS if not table.nullable[column]]
        if chance.random() < 0.85:
            parts = chance.choice((["rid"], firm[:1] or ["rid"], chance.sample(firm, min(2, len(firm))) or ["rid"]))
            keys["PRIMARY"] = parts
            body.append(f"PRIMARY KEY ({', '.join(parts)})")
        for _ in range(chance.choice((1, 2, 2, 3, 4))):
            parts = chance.sample(tuple(COLUMNS), chance.choice((1, 1, 1, 2)))
            # A string in a key with other columns: which change of it is one is a documented difference.
            parts = ["s"] if "s" in parts else parts
            self.serial += 1
            keys[f"k{self.serial}"] = parts
            body.append(f"{chance.choice(('KEY', 'KEY', 'UNIQUE KEY'))} k{self.serial} ({', '.join(parts)})")
        table.keys = keys
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            foreign = self.foreign(table)
            if foreign:
                name, columns, text = foreign
                table.foreign[name] = columns
                body.append(text)
        chance.shuffle(body[1:])
        return f"CREATE TABLE {table.name} ({', '.join(body)}) ENGINE={{E}}", lambda: self.tables.append(table)

    def foreign(self, child):
        """(name, columns, text) of a foreign key to one of the tables, or to the child itself."""
        parent = self.chance.choice([*self.tables, child, child] if self.chance.random() < 0.4 else [*self.tables, child])
        key = self.chance.choice(list(parent.keys.values()))
        to = key[:self.chance.randint(1, len(key))]
        columns = []
        for column in to:
            is_number = column in NUMBERS or column == "rid"
            candidates = [c for c in NUMBERS if c not in columns] if is_number else [column]
            candidates += ["rid"] * (is_number and "rid" not in columns and self.chance.random() < 0.05)
            if not candidates:
                return None
            columns.append(self.chance.choice(candidates))
        if any("s" in other and len(other) > 1 for other in (*parent.keys.values(), *child.keys.values())):
            return None
        if self.is_by_appended(parent, to) or self.is_by_appended(child, columns):
            return None
        actions = [self.chance.choice(ACTIONS).format(event) for event in ("DELETE", "UPDATE")]
        self.serial += 1
        name = f"f{self.serial}"
        child.refers_to_itself |= parent is child
        return name, columns, (f"CONSTRAINT {name} FOREIGN KEY ({', '.join(columns)}) REFERENCES {parent.name} ({', '.join(to)})"
                               f"{actions[0]}{actions[1]}")

    @staticmethod
    def is_by_appended(table, columns):
        """A documented difference: to InnoDB an index serves also by the columns of the primary key that it appends. So another index may
        serve, and another one of several broken foreign keys is reported."""
        primary = table.keys.get("PRIMARY", [])
        whole = [key + [part for part in primary if part not in key] for key in table.keys.values()]
        serving = [key for key in whole if key[:len(columns)] == columns]
        return len(serving) > sum(key[:len(columns)] == columns for key in table.keys.values())

    def table(self):
        return self.chance.choice(self.tables)

    # ---- rows ----

    def value(self, table, column):
        if table.nullable[column] and self.chance.random() < 0.2:
            return "NULL"
        if column in NUMBERS:
            return str(self.chance.randint(1, VALUES_MAX))
        return self.chance.choice(STRINGS if column == "s" else BYTES)

    def insert(self):
        table = self.table()
        rows = []
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            self.rid += 1
            rows.append(f"({self.rid}, {', '.join(self.value(table, column) for column in COLUMNS)})")
        verb = self.chance.choice(("INSERT", "INSERT", "INSERT", "INSERT IGNORE", "REPLACE"))
        ending = ""
        if verb == "INSERT" and self.chance.random() < 0.15:
            ending = f" ON DUPLICATE KEY UPDATE {self.assignments(table)}"
        return f"{verb} INTO {table.name} (rid, {', '.join(COLUMNS)}) VALUES {', '.join(rows)}{ending}"

    def insert_select(self):
        to, source = self.table(), self.table()
        if self.rid > 10**6:
            return None
        self.rid = 2 * self.rid + 1
        names = ", ".join(COLUMNS)
        return (f"{self.chance.choice(('INSERT', 'INSERT IGNORE'))} INTO {to.name} (rid, {names}) SELECT rid + {self.rid // 2 + 1}, {names} "
                f"FROM {source.name} WHERE {self.where(source)} ORDER BY rid LIMIT 3")

    def assignments(self, table):
        columns = self.chance.sample(tuple(COLUMNS), self.chance.choice((1, 1, 2)))

        def new(column):
            if column in NUMBERS and self.chance.random() < 0.2:
                return f"{column} + 1"
            return self.value(table, column)
        return ", ".join(f"{column} = {new(column)}" for column in columns)

    def where(self, table):
        column = self.chance.choice(tuple(COLUMNS))
        value = self.value(table, column)
        if value == "NULL":
            return f"{column} IS NULL"
        return f"{column} {self.chance.choice(('=', '=', '<=', '>'))} {value}"

    def ending(self):
        return f" ORDER BY rid{self.chance.choice(('', ' DESC'))}{self.chance.choice(('', '', ' LIMIT 1', ' LIMIT 2'))}"

    def update(self):
        table = self.table()
        ignore = self.chance.choice(("", "", "", " IGNORE"))
        return f"UPDATE{ignore} {table.name} SET {self.assignments(table)} WHERE {self.where(table)}{self.ending()}"

    def delete(self):
        table = self.table()
        ignore = self.chance.choice(("", "", "", " IGNORE"))
        return f"DELETE{ignore} FROM {table.name} WHERE {self.where(table)}{self.ending()}"

    def transaction(self):
        if not self.in_transaction:
            return "BEGIN", lambda: setattr(self, "in_transaction", True)
        draw = self.chance.random()
        if draw < 0.3:
            return "SAVEPOINT p1"
        if draw < 0.5:
            return "ROLLBACK TO p1"
        return self.chance.choice(("COMMIT", "COMMIT", "ROLLBACK")), lambda: setattr(self, "in_transaction", False)

    def toggle(self):
        """Mostly on: with checks off most rows become orphans."""
        on = not self.checks or self.chance.random() < 0.7
        return f"SET foreign_key_checks={int(on)}", lambda: setattr(self, "checks", on)

    # ---- definitions: each ends the transaction ----

    def ended(self, then=lambda: None):
        def done():
            self.in_transaction = False
            then()
        return done

    def add_foreign(self):
        table = self.table()
        foreign = self.foreign(table)
        if not foreign or len(table.foreign) > 3:
            return None
        name, columns, text = foreign
        how = self.chance.choice(("", "", ", ALGORITHM=COPY", self.ONLINE))
        return f"ALTER TABLE {table.name} ADD {text}{how}", self.ended(lambda: table.foreign.update({name: columns}))

    def drop_foreign(self):
        table = self.table()
        if not table.foreign:
            return None
        name = self.chance.choice(tuple(table.foreign))
        return f"ALTER TABLE {table.name} DROP FOREIGN KEY {name}", self.ended(lambda: table.foreign.pop(name, None))

    def alter(self):
        table = self.table()
        how, then = self.chance.choices((self.add_key, self.drop_key, self.rebuild, self.add_column, self.drop_column, self.change_null,
                                         self.swap_names), (8, 3, 6, 4, 2, 2, 3))[0](table)
        return how and (f"ALTER TABLE {table.name} {how}", self.ended(then))

    ONLINE = ", ALGORITHM=INPLACE, LOCK=NONE"

    def add_key(self, table):
        parts = self.chance.choice((["a"], ["b"], ["c"], ["s"], ["y"], ["a", "b"], ["c", "a"]))
        self.serial += 1
        name = f"k{self.serial}"
        kind = self.chance.choice(("KEY", "KEY", "UNIQUE KEY"))
        how = self.chance.choice(("", self.ONLINE))
        return f"ADD {kind} {name} ({', '.join(parts)}){how}", lambda: table.keys.update({name: parts})

    def drop_key(self, table):
        names = [name for name in table.keys if name != "PRIMARY"]
        if len(names) < 2:
            return None, None
        name = self.chance.choice(names)
        return f"DROP KEY {name}{self.chance.choice(('', self.ONLINE))}", lambda: table.keys.pop(name)

    def rebuild(self, table):
        return self.chance.choice(("FORCE", f"FORCE{self.ONLINE}", "FORCE, ALGORITHM=COPY", "ENGINE={E}")), lambda: None

    def swap_names(self, table):
        """The foreign keys of the table and of its children follow. InnoDB's own: a foreign key to its own table names wrong
        columns then."""
        if table.extra or table.refers_to_itself:
            return None, None
        one, other = self.chance.sample(NUMBERS, 2)
        new = {one: other, other: one}

        def done():
            table.nullable.update({new[column]: table.nullable[column] for column in new})
            for lists in (table.keys, table.foreign):
                for name, columns in lists.items():
                    lists[name] = [new.get(column, column) for column in columns]
        how = self.chance.choice(("", ", FORCE", ", FORCE", f", FORCE{self.ONLINE}"))
        return f"RENAME COLUMN {one} TO {other}, RENAME COLUMN {other} TO {one}{how}", done

    def add_column(self, table):
        self.serial += 1
        name = f"x{self.serial}"
        kind = self.chance.choice(("INT", "INT NOT NULL DEFAULT 5", "VARCHAR(20) DEFAULT 'old'", "INT AS (a + 1) VIRTUAL"))
        place = self.chance.choice(("", " FIRST", " AFTER a"))
        how = self.chance.choice(("", "", ", ALGORITHM=INSTANT"))
        return f"ADD COLUMN {name} {kind}{place}{how}", lambda: table.extra.append(name)

    def drop_column(self, table):
        if not table.extra:
            return None, None
        name = self.chance.choice(table.extra)
        return f"DROP COLUMN {name}{self.chance.choice(('', ', ALGORITHM=INSTANT', self.ONLINE))}", lambda: table.extra.remove(name)

    def change_null(self, table):
        """NOT NULL comes, or goes: with SET NULL, as a part of a parent's key, of a child's."""
        column = self.chance.choice(tuple(COLUMNS))
        nullable = not table.nullable[column]
        # Without FORCE a column that may be NULL from now on has its own indexes rebuilt. They are the youngest then, and the error of a
        # row that breaks several keys may be another one: a documented difference.
        how = self.chance.choice((", FORCE" if nullable else "", ", ALGORITHM=COPY"))
        return (f"MODIFY {column} {table.types[column]}{'' if nullable else ' NOT NULL'}{how}",
                lambda: table.nullable.update({column: nullable}))

    def truncate(self):
        return f"TRUNCATE TABLE {self.table().name}", self.ended()

    def rename(self):
        table = self.table()
        self.serial += 1
        new = f"t{self.serial}"
        return f"RENAME TABLE {table.name} TO {new}", self.ended(lambda: setattr(table, "name", new))

    def drop(self):
        if len(self.tables) < 3:
            return None
        table = self.table()
        return f"DROP TABLE {table.name}", self.ended(lambda: self.tables.remove(table))

    def show(self):
        table = self.table()
        return self.chance.choice((
            f"SHOW CREATE TABLE {table.name}",
            "SELECT CONSTRAINT_NAME, TABLE_NAME, REFERENCED_TABLE_NAME, UNIQUE_CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE "
            "FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE()",
            "SELECT CONSTRAINT_NAME, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME "
            "FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE()"))
