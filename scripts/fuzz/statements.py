"""Random statements over the tables of schema.py. What a statement does is defined to the last row: an order that decides
anything ends with rid, which only repeats where a unique key forbids that. Used by fuzz.py.
"""
import copy
import overlap
import schema
from searches import Searches
from values import literal

SWITCHES = ("mrr=on,mrr_cost_based=off", "mrr=off", "mrr_sort_keys=on", "join_cache_bka=on", "index_condition_pushdown=off", "index_condition_pushdown=on",
            "rowid_filter=off", "rowid_filter=on", "index_merge_sort_intersection=on", "materialization=off", "materialization=on",
            "semijoin=off", "semijoin=on", "firstmatch=off", "loosescan=off", "derived_merge=off", "optimize_join_buffer_size=off")
MODES = ("", "STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "PAD_CHAR_TO_FULL_LENGTH", "NO_AUTO_VALUE_ON_ZERO")


class Statements(Searches):
    """Makes one statement after the other: next() gives (SQL, what to do with the model if it succeeds)."""

    def __init__(self, chance):
        super().__init__(chance)
        self.overlapping = chance.random() < 0.6
        altering = chance.random() < 0.3
        self.in_transaction = False
        self.savepoints = []
        self.handler = None
        self.handler_goes_on = None
        self.locked = False
        self.kinds = (
            (22, self.insert), (4, self.replace), (5, self.on_duplicate), (4, self.insert_select), (1, self.load),
            (12, self.update), (8, self.delete), (2, self.update_join), (2, self.delete_join), (20, self.select),
            (6, self.aggregate), (6, self.join), (3, self.subquery), (2, self.handler_read), (8, self.transaction), (4, self.alter),
            (1, self.truncate), (1, self.rename), (1, self.setting), (1, self.maintain), (1, self.lock), (1, self.partition),
            (1, self.versions),
            # Rows of many definitions.
            *(((25, self.alter_columns),) if altering else ()),
            # Where keys overlap they are searched by all of their parts.
            *(((40, self.search), (8, self.grouped), (12, self.search_join), (8, self.search_in), (8, self.search_update), (4, self.search_delete))
              if self.overlapping else ((6, self.search), (1, self.grouped), (2, self.search_join), (1, self.search_in))))

    def next(self):
        while True:
            made = self.chance.choices([kind for _, kind in self.kinds], [weight for weight, _ in self.kinds])[0]()
            if made:
                made = made if isinstance(made, tuple) else (made, None)
                if not made[0].startswith("HANDLER"):
                    self.handler_goes_on = None     # what a scan meets of later changes is each engine's business
                return made

    def create(self, small=False):
        name = f"t{len(self.tables) + 1}"
        table = overlap.random_overlapping(self.chance, name) if self.overlapping else schema.random_table(self.chance, name, small)
        return table.create_sql(), lambda: self.tables.append(table)

    # ---- parts of statements ----

    def columns_of_insert(self, table):
        columns = [column for column in table.writable() if column.name != "auto" or self.chance.random() < 0.3]
        if self.chance.random() < 0.3:
            columns = [column for column in columns if column.name == "rid" or self.chance.random() < 0.7]
        return columns

    def row(self, table, columns, fresh):
        values = []
        for column in columns:
            if column.name == "rid":
                self.rid += 1
                values.append(str(self.rid if fresh or self.chance.random() < 0.9 else self.chance.randint(0, self.rid)))
            elif column.name == "auto":
                # Not mixed in one statement: how many values then stay unused is each engine's business.
                values.append(str(self.chance.randint(1, 100)))
            else:
                values.append(literal(self.chance, column))
        table.remember(columns, values)
        return f"({', '.join(values)})"

    def assignments(self, table, alias=""):
        columns = [c for c in table.writable() if c.name not in ("rid", "auto") or (table.rid_is_unique() and self.chance.random() < 0.15)]
        # InnoDB's own: an UPDATE of a NOT NULL geometry to NULL is an error, an INSERT is not.
        # And it leaves a key on the whole column as it was where the beginning in the primary key changes and the column is equal.
        columns = [c for c in columns if (c.nullable or c.kind not in ("GEOMETRY", "POINT")) and c.name not in table.loose_in_primary()]
        if not columns:
            return None
        chosen = self.chance.sample(columns, min(len(columns), self.chance.choice((1, 1, 2, 3))))
        parts = []
        for column in chosen:
            draw = self.chance.random()
            value = literal(self.chance, column)
            if column.name == "rid":
                value = f"{alias}rid + {self.chance.choice((1, -1, 0))}"
            elif draw < 0.1 and column.kind == "INT":
                value = f"{alias}{column.name} + 1"
            elif draw < 0.25 and column.is_text():
                value = self.chance.choice(("UPPER({})", "LOWER({})", "CONCAT({}, ' ')", "RTRIM({})")).format(alias + column.name)
            parts.append(f"{alias}{column.name} = {value}")
        return ", ".join(parts)

    # ---- writes ----

    def insert(self, verb=None, updates=False):
        table = self.table()
        columns = self.columns_of_insert(table)
        verb = verb or self.chance.choice(("INSERT", "INSERT", "INSERT IGNORE"))
        rows = self.chance.choice((1, 1, 1, 2, 5, 30))
        # InnoDB's own: rows of which a loose primary key knows that they differ, and another key does not, take each other's place in that key.
        fresh = not table.rid_is_unique() or bool(table.loose_keys())
        # Whose row is updated if several unique keys have one: unique keys over hashes are checked before the others, or behind them.
        if updates and any(key.is_long_unique() for key in table.keys):
            fresh, columns = True, [c for c in columns if c.name != "auto"]
        values = ", ".join(self.row(table, columns, fresh) for _ in range(rows))
        return f"{verb} INTO {table.name} ({', '.join(c.name for c in columns)}) VALUES {values}"

    def replace(self):
        return self.insert("REPLACE")

    def on_duplicate(self):
        statement = self.insert(self.chance.choice(("INSERT", "INSERT", "INSERT IGNORE")), updates=True)
        table = next(t for t in self.tables if t.name == statement.split(" INTO ")[1].split()[0])
        assignments = self.assignments(table)
        return assignments and f"{statement} ON DUPLICATE KEY UPDATE {assignments}"

    def insert_select(self):
        to, source = self.table(), self.table()
        if to.versioned or source.versioned or self.rid > 10**8:
            return None
        pairs = []
        for column in to.writable():
            if column.name == "auto":
                continue
            same = source.column(column.name)
            if column.name == "rid":
                pairs.append(("rid", f"rid + {self.rid}"))
            elif same and same.type_sql() == column.type_sql():
                pairs.append((column.name, column.name))
            elif not column.nullable and column.default is None:
                pairs.append((column.name, literal(self.chance, column, nice=True)))
        self.rid *= 2
        names, values = zip(*pairs)
        verb = self.chance.choice(("INSERT", "INSERT IGNORE", "REPLACE"))
        return (f"{verb} INTO {to.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source.name}{self.shield(source)} "
                f"WHERE {self.where(source)} ORDER BY rid LIMIT {self.chance.choice((1, 3, 20))}")

    def load(self):
        """LOAD DATA has its own way into a table; the rows go through a file that the server wrote from the same table."""
        table = self.table()
        if table.temporary or not table.rid_is_unique() or any(c.kind in ("GEOMETRY", "POINT", "BIT") for c in table.columns):
            return None
        names = ", ".join(c.name for c in table.writable() if c.name != "auto")
        how = "IGNORE" if any(key.is_long_unique() for key in table.keys) else self.chance.choice(("REPLACE", "IGNORE"))
        return f"!load {table.name} {how} {names}"

    def limited(self, table):
        order = self.chance.choice(("rid", "rid DESC"))
        if self.chance.random() < 0.3:
            column = self.chance.choice(self.conditional_columns(table))
            order = f"{column.name}{self.chance.choice(('', ' DESC'))}, {order}"
        return f" ORDER BY {order}" + (f" LIMIT {self.chance.choice((1, 2, 5, 50))}" if self.chance.random() < 0.5 else "")

    def update(self):
        table = self.table()
        assignments = self.assignments(table)
        ignore = self.chance.choice(("", "", " IGNORE"))
        # Of partitioned tables the server's own, with any engine: behind a query that matched no partition, an UPDATE or a DELETE that follows
        # its ORDER BY through an index finds nothing.
        limit = "" if table.partitions else self.limited(table)
        return assignments and f"UPDATE{ignore} {table.name}{self.hint(table)} SET {assignments} WHERE {self.where(table)}{limit}"

    def delete(self):
        table = self.table()
        where = f"WHERE {self.where(table)} AND {self.condition(table)}"
        # Loose keys need hints, which only this form takes. And it has no ORDER BY: see `update`.
        if table.loose_keys() or table.partitions:
            return f"DELETE {table.name} FROM {table.name}{self.hint(table)} {where}"
        return f"DELETE FROM {table.name} {where}{self.limited(table)}"

    def pair_join(self, left, right):
        pairs = [(a, b) for a in left.columns for b in right.columns if a.kind == b.kind and
                 (a.collation == b.collation or not a.is_text()) and a.kind not in ("GEOMETRY", "POINT", "JSON")]
        a, b = self.chance.choice(pairs)
        return f"x.{a.name} = y.{b.name}"

    def update_join(self):
        left, right = self.table(), self.table()
        assignments = self.assignments(left, "x.")
        if not assignments or "x.rid =" in assignments or any(key.kind != "KEY" for key in left.keys) or " + 1" in assignments:
            return None             # which row fails first would depend on the plan
        return (f"UPDATE {left.name} x{self.shield(left)} JOIN {right.name} y{self.shield(right)} ON {self.pair_join(left, right)} SET {assignments} "
                f"WHERE {self.where(left, 'x.')}")

    def delete_join(self):
        left, right = self.table(), self.table()
        which = self.chance.choice(("x", "y", "x, y"))
        return (f"DELETE {which} FROM {left.name} x{self.shield(left)} JOIN {right.name} y{self.shield(right)} "
                f"ON {self.pair_join(left, right)} WHERE {self.where(left, 'x.')} AND {self.condition(right, 'y.')}")

    # ---- reads ----

    def select(self):
        table = self.table()
        draw = self.chance.random()
        columns = "*"
        if draw < 0.6 and table.keys:
            key = self.chance.choice(table.keys)
            columns = ", ".join([part[0] for part in key.parts])
        ending = self.chance.choice(("", "", "", " FOR UPDATE", " LOCK IN SHARE MODE"))
        statement = f"SELECT {columns} FROM {table.name}{self.judged_hint(table)} WHERE {self.where(table)}"
        if self.chance.random() < 0.4:
            return f"!ordered {statement}{self.limited(table)}{ending}"
        return statement + ending

    def aggregate(self):
        table = self.table()
        column, other = (self.chance.choice(self.conditional_columns(table)) for _ in range(2))
        hint, where = self.hint(table), self.where(table) if self.chance.random() < 0.6 else "1"
        draw = self.chance.random()
        if draw < 0.25:
            return f"SELECT COUNT(*), COUNT({column.name}), COUNT(DISTINCT {other.name}) FROM {table.name}{hint} WHERE {where}"
        if draw < 0.5:
            first = [key.parts[0] for key in table.keys]
            if first and self.chance.random() < 0.7:
                column = table.column(self.chance.choice(first)[0])
            if column.is_plain():
                return f"SELECT MIN({column.name}), MAX({column.name}) FROM {table.name}{hint} WHERE {where}"
            greatest = f"(SELECT MAX({column.name}) FROM {table.name}{hint} WHERE {where})"
            return f"SELECT COUNT(*) FROM {table.name}{self.shield(table)} WHERE {column.name} = {greatest}"
        keys = [key for key in table.firm_keys() if len(key.parts) > 1]
        if draw < 0.75 and keys:
            key = self.chance.choice(keys)
            one, two = table.column(key.parts[0][0]), table.column(key.parts[1][0])
            if one.is_plain() and two.is_plain():
                what = self.chance.choice(("MIN", "MAX"))
                return f"SELECT {one.name}, {what}({two.name}) FROM {table.name} FORCE INDEX ({key.hint_name()}) GROUP BY {one.name}"
            return f"SELECT COUNT(*) FROM (SELECT DISTINCT {one.name} FROM {table.name} FORCE INDEX ({key.hint_name()})) d"
        return f"SELECT COUNT(*), MAX(rid), MIN(rid) FROM {table.name}{hint} WHERE {where} GROUP BY {column.name}"

    def join(self):
        left, right = self.table(), self.table()
        how = self.chance.choice(("JOIN", "STRAIGHT_JOIN", "LEFT JOIN"))
        return (f"SELECT x.rid, y.rid FROM {left.name} x{self.shield(left)} {how} {right.name} y{self.hint(right)} ON {self.pair_join(left, right)} "
                f"AND {self.condition(right, 'y.')} WHERE {self.where(left, 'x.')}")

    def subquery(self):
        left, right = self.table(), self.table()
        pair = self.pair_join(left, right)
        mine, other = (side.strip() for side in pair.split("="))
        negation = self.chance.choice(("", "", "NOT "))
        if self.chance.random() < 0.5:
            inner = f"IN (SELECT {other} FROM {right.name} y{self.shield(right)} WHERE {self.where(right, 'y.')})"
            return f"SELECT x.rid FROM {left.name} x{self.shield(left)} WHERE {mine} {negation}{inner}"
        inner = f"EXISTS (SELECT 1 FROM {right.name} y{self.shield(right)} WHERE {pair} AND {self.condition(right, 'y.')})"
        return f"SELECT x.rid FROM {left.name} x{self.shield(left)} WHERE {negation}{inner}"

    def handler_read(self):
        if self.locked:
            return None
        if self.handler is None:
            table = self.table()
            # Of partitioned tables InnoDB's own: LAST by a key of virtual columns skips rows. In which order rows come that are equal in
            # a key and in the primary key's first part but for its beginning is each engine's business.
            if table.temporary or table.partitions or table.loose_in_primary() or not table.hinted_keys():
                return None
            return f"HANDLER {table.name} OPEN", lambda: setattr(self, "handler", table)
        table = self.handler
        if self.chance.random() < 0.3 or table not in self.tables:
            self.handler = self.handler_goes_on = None
            return f"HANDLER {table.name} CLOSE"
        keys = table.firm_keys()
        if self.handler_goes_on and self.chance.random() < 0.5:
            return self.handler_goes_on     # not after a turn: where an end of the table leaves a scan is each engine's business
        if not keys or self.chance.random() < 0.2:
            self.handler_goes_on = None
            return f"HANDLER {table.name} READ FIRST LIMIT 3"
        key = self.chance.choice(keys)
        how = self.chance.choice(("FIRST", "LAST", "<", "<=", ">", ">="))
        self.handler_goes_on = f"HANDLER {table.name} READ `{key.hint_name()}` {'NEXT' if how in ('FIRST', '>', '>=') else 'PREV'} LIMIT 2"
        value = "" if how in ("FIRST", "LAST") else f"({self.literal(table.column(key.parts[0][0]))}) "
        return f"HANDLER {table.name} READ `{key.hint_name()}` {how} {value}LIMIT 3"

    # ---- transactions and definitions ----

    def transaction(self):
        if not self.in_transaction:
            level = self.chance.choice(("", "", "READ COMMITTED", "READ UNCOMMITTED", "SERIALIZABLE"))
            if level:
                return f"SET TRANSACTION ISOLATION LEVEL {level}"
            self.in_transaction, self.savepoints = True, []
            return self.chance.choice(("BEGIN", "BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SET autocommit=0"))
        draw = self.chance.random()
        if draw < 0.35:
            name = self.chance.choice("pqr")
            self.savepoints.append(name)
            return f"SAVEPOINT {name}"
        if draw < 0.6 and self.savepoints:
            return f"{self.chance.choice(('ROLLBACK TO', 'ROLLBACK TO', 'RELEASE'))} SAVEPOINT {self.chance.choice(self.savepoints)}"
        return self.end_transaction(self.chance.choice(("COMMIT", "COMMIT", "ROLLBACK")))

    def end_transaction(self, how):
        self.in_transaction = False
        return f"{how}; SET autocommit=1"

    def between_transactions(self):
        return not self.in_transaction and not self.locked and self.handler is None

    def alter_columns(self):
        return self.alter(schema.alter_column)

    def alter(self, step=schema.alter_step):
        if self.locked or self.handler:
            return None
        table = self.table()
        made = schema.random_alter(self.chance, table, step)
        if not made:
            return None
        return made[0], lambda: self.exchange(table, made[1])

    def exchange(self, old, new):
        self.in_transaction = False
        self.tables[self.tables.index(old)] = new

    def truncate(self):
        return f"TRUNCATE TABLE {self.table().name}" if self.between_transactions() and self.chance.random() < 0.3 else None

    def rename(self):
        if not self.between_transactions():
            return None
        table = self.table()
        new = copy.deepcopy(table)
        new.name = f"{table.name.split('_')[0]}_{table.fresh('')}"
        verb = f"ALTER TABLE {table.name} RENAME TO {new.name}" if table.temporary else f"RENAME TABLE {table.name} TO {new.name}"
        return verb, lambda: self.exchange(table, new)

    def setting(self):
        draw = self.chance.random()
        if draw < 0.6:
            switch = self.chance.choice(SWITCHES)
            return f"SET optimizer_switch='{'mrr=off' if any(table.partitions for table in self.tables) else switch}'"
        if draw < 0.75:
            return f"SET join_cache_level={self.chance.choice((0, 2, 4, 6, 8))}"
        if draw < 0.8:
            return f"SET unique_checks={self.chance.choice((0, 1))}"
        return f"SET sql_mode='{self.chance.choice(MODES)}'"

    def maintain(self):
        table = self.table()
        if not self.between_transactions() or table.temporary:
            return None
        return "!quiet " + self.chance.choice(("ANALYZE TABLE", "OPTIMIZE TABLE", "FLUSH TABLES")) + f" {table.name}"

    def lock(self):
        if self.locked:
            self.locked = False
            return "UNLOCK TABLES"
        if not self.between_transactions() or any(t.temporary for t in self.tables):
            return None
        self.locked = True
        return "LOCK TABLES " + ", ".join(f"{t.name} WRITE, {t.name} x WRITE, {t.name} y WRITE, {t.name} d WRITE" for t in self.tables)

    def partition(self):
        tables = [table for table in self.tables if table.partitions]
        if not tables or not self.between_transactions():
            return None
        table = self.chance.choice(tables)
        draw = self.chance.random()
        if draw < 0.5 and "VALUES" in table.partitions:
            return f"ALTER TABLE {table.name} TRUNCATE PARTITION p0"
        if draw < 0.7 and "VALUES" not in table.partitions:
            return f"ALTER TABLE {table.name} {self.chance.choice(('ADD PARTITION PARTITIONS 2', 'COALESCE PARTITION 1'))}"
        changed = copy.deepcopy(table)
        changed.partitions = ""
        return f"ALTER TABLE {table.name} REMOVE PARTITIONING", lambda: self.exchange(table, changed)

    def versions(self):
        tables = [table for table in self.tables if table.versioned]
        if not tables:
            return None
        table = self.chance.choice(tables)
        return f"SELECT rid, COUNT(*) FROM {table.name} FOR SYSTEM_TIME ALL GROUP BY rid"
