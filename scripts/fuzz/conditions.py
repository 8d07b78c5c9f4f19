"""Conditions over the tables of schema.py and the index hints that go with them. Used by searches.py and statements.py."""
from values import ODD, literal


class Conditions:
    """What the makers of statements have in common: `chance`, `tables`, and `rid`, the last number given to a row."""

    def __init__(self, chance):
        self.chance = chance
        self.tables = []
        self.rid = 0

    def table(self):
        return self.chance.choice(self.tables)

    def literal(self, column):
        if column.name == "rid":
            return str(self.chance.randint(0, max(5, self.rid)))
        return literal(self.chance, column, compared=True)

    @staticmethod
    def shield(table):
        """Where keys are not hinted at: not those whose answers depend on the plan."""
        loose = table.loose_keys()
        return f" IGNORE INDEX ({', '.join(key.hint_name() for key in loose)})" if loose else ""

    def hint(self, table):
        keys, shield = table.firm_keys(), self.shield(table)
        draw = self.chance.random()
        if not keys or draw < 0.2:
            return shield
        how = "FORCE" if draw < 0.75 else "USE" if draw < 0.85 else "IGNORE"
        names = ", ".join(k.hint_name() for k in self.chance.sample(keys, 1 if draw < 0.9 else min(2, len(keys))))
        return f"{shield if how == 'IGNORE' else ''} {how} INDEX ({names})"

    def judged_hint(self, table):
        return self.judged(table, self.hint(table))

    @staticmethod
    def judged(table, hint):
        """The hint, and in a comment the one for a scan, which pair.py tries too: both must find the same. The server's own: by a key of
        which some parts descend it misses rows, in any engine (KEY (a, b, c DESC): a BETWEEN 1 AND 2 AND b = 5 AND c BETWEEN 1 AND 8)."""
        descending = {is_descending for key in table.keys for _, _, is_descending in key.parts}
        if not hint or len(descending) > 1 or any(column.kind == "CHAR" and "nopad" in column.collation for column in table.columns):
            return hint
        return f"{hint} /*scan IGNORE INDEX ({', '.join(key.hint_name() for key in table.hinted_keys())})*/"

    def conditional_columns(self, table):
        """Keyed columns are asked for more often."""
        keyed = [table.column(part[0]) for key in table.keys for part in key.parts]
        return [column for column in keyed * 2 + table.columns if column and column.kind not in ("GEOMETRY", "POINT", "JSON")]

    def condition(self, table, alias=""):
        chance = self.chance
        column = chance.choice(self.conditional_columns(table))
        name = alias + column.name
        draw = chance.random()
        if draw < 0.3:
            return f"{name} {chance.choice(('=', '=', '<=>'))} {self.literal(column)}"
        if draw < 0.5:
            return f"{name} {chance.choice(('<', '<=', '>', '>=', '<>'))} {self.literal(column)}"
        if draw < 0.65:
            return f"{name} BETWEEN {self.literal(column)} AND {self.literal(column)}"
        if draw < 0.78:
            return f"{name} IN ({', '.join(self.literal(column) for _ in range(chance.randint(1, 4)))})"
        if draw < 0.88:
            return f"{name} IS {chance.choice(('', 'NOT '))}NULL"
        if column.is_text():
            return f"{name} LIKE {chance.choice(('_', 'CONCAT('))}".replace("_", "'a%'").replace("CONCAT(", f"CONCAT({self.literal(column)}, '%')")
        return f"NOT ({name} <= {self.literal(column)})"

    def key_condition(self, table, alias=""):
        """Equalities for the first parts of a key and a range for the next one."""
        keys = [key for key in table.keys if len(key.parts) > 1]
        if not keys:
            return self.condition(table, alias)
        key = self.chance.choice(keys)
        terms = []
        count = self.chance.randint(1, len(key.parts))
        for i, part in enumerate(key.parts[:count]):
            column = table.column(part[0])
            operator = self.chance.choice(("=", "<", ">", ">=", "<=")) if i == count - 1 else "="
            terms.append(f"{alias}{column.name} {operator} {self.literal(column)}")
        return " AND ".join(terms)

    def where(self, table, alias=""):
        draw = self.chance.random()
        if draw < 0.12:
            return "1"
        if draw < 0.5:
            return self.condition(table, alias)
        if draw < 0.7:
            return self.key_condition(table, alias)
        word = self.chance.choice((" AND ", " OR "))
        parts = [self.condition(table, alias) for _ in range(self.chance.choice((2, 2, 3)))]
        if self.chance.random() < 0.3:
            parts.append(f"({self.condition(table, alias)} {'OR' if word == ' AND ' else 'AND'} {self.key_condition(table, alias)})")
        return f"({word.join(parts)})"

    # ---- all parts of a key ----

    def value(self, column, sample):
        """Mostly that of a row that was inserted, so that conditions on several columns meet rows; of text often of the same family."""
        draw = self.chance.random()
        stored = sample.get(column.name)
        if stored is None or stored in (*ODD, "DEFAULT") or draw < (0.5 if column.is_text() else 0.2):
            return self.literal(column)
        return stored

    def term(self, column, sample, alias=""):
        """A condition on one part of a key; most often it is an equality, but of numbers that never repeat."""
        chance, name = self.chance, alias + column.name
        draw = chance.random() if column.name != "rid" or chance.random() < 0.5 else chance.uniform(0.45, 0.9)
        if draw < 0.45:
            return f"{name} {chance.choice(('=', '=', '=', '<=>'))} {self.value(column, sample)}"
        if draw < 0.6:
            return f"{name} IN ({', '.join(self.value(column, sample) for _ in range(chance.randint(2, 4)))})"
        # The server's own: ENUM between a value and itself is a constant to it, and MIN of what else the group has is NULL then.
        if draw < 0.72 and column.kind != "ENUM":
            return f"{name} BETWEEN {self.value(column, sample)} AND {self.literal(column)}"
        if draw < 0.88:
            return f"{name} {chance.choice(('<', '<=', '>', '>=', '<>'))} {self.value(column, sample)}"
        # The server's own: before LIKE's beginning with spaces behind it lie control characters, which no key then finds.
        if draw < 0.94 and column.is_text() and not column.has_control_characters():
            return f"{name} LIKE CONCAT({self.value(column, sample)}, '%')"
        return f"{name} IS {chance.choice(('', 'NOT ')) if column.nullable else 'NOT '}NULL"

    def rows_compared(self, columns, sample, alias=""):
        """(a, b) > (x, y), or IN a list of such rows."""
        names = ", ".join(alias + column.name for column in columns)
        rows = [f"({', '.join(self.value(column, sample) for column in columns)})" for _ in range(self.chance.choice((1, 1, 2, 3)))]
        if len(rows) > 1:
            return f"({names}) IN ({', '.join(rows)})"
        return f"({names}) {self.chance.choice(('=', '<', '<=', '>', '>='))} {rows[0]}"

    def search_condition(self, table, key, alias=""):
        """Conditions on the parts of a key, and on those of the primary key behind them."""
        columns = table.searched_by(key)
        sample = self.chance.choice(table.samples) if table.samples else {}
        count = len(columns) if self.chance.random() < 0.6 else self.chance.randint(1, len(columns))
        draw = self.chance.random()
        if draw < 0.1:
            return self.rows_compared(columns[:count], sample, alias)
        if draw < 0.5:
            terms = [f"{alias}{column.name} = {self.value(column, sample)}" for column in columns[:count - 1]]
            terms.append(self.term(columns[count - 1], sample, alias))
        else:
            terms = [self.term(column, sample, alias) for column in columns[:count]]
        if draw > 0.9 and count > 2:
            terms.pop(self.chance.randrange(count))
        self.chance.shuffle(terms)
        return " AND ".join(terms)

    def search_where(self, table, key, alias=""):
        """One such condition, or several ranges, of this key or (for index_merge) of another."""
        parts = [self.search_condition(table, key, alias)]
        while self.chance.random() < 0.3:
            other = self.chance.choice([key, key, *table.firm_keys()])
            parts.append(self.search_condition(table, other, alias))
        text = " OR ".join(f"({part})" for part in parts)
        return text if self.chance.random() < 0.85 else f"({text}) AND {self.condition(table, alias)}"
