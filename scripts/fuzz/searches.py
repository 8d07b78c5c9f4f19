"""Statements that search tables by all parts of their keys: reads, joins, changes, each with its plan chosen by hints and by optimizer
switches. What they show does not depend on the plan: of equal strings a group may show any, so none is shown. Used by statements.py.
"""
from conditions import Conditions

# One statement's switches; those of a session are in statements.py.
SWITCHES = (
    "mrr=on,mrr_cost_based=off", "mrr=on,mrr_cost_based=off,mrr_sort_keys=on", "index_condition_pushdown=off", "rowid_filter=off",
    "index_merge_intersection=on,index_merge_sort_intersection=on", "index_merge=off", "extended_keys=off", "semijoin=off",
    "materialization=off", "firstmatch=off,materialization=off", "loosescan=off", "join_cache_bka=off",
    "engine_condition_pushdown=on", "not_null_range_scan=on", "split_materialized=off",
)


class Searches(Conditions):
    def search_key(self, keep=lambda _table: True):
        """A table and a key of it to search by, or None."""
        tables = [table for table in self.tables if table.firm_keys() and keep(table)]
        if not tables:
            return None
        table = self.chance.choice(tables)
        keys = table.firm_keys()
        return table, self.chance.choices(keys, [len(table.searched_by(key)) for key in keys])[0]

    def search_hint(self, table, key, judged=True):
        """Mostly that key and no other."""
        draw = self.chance.random()
        if draw > 0.75:
            return self.judged_hint(table) if judged else self.hint(table)
        keys = f" FORCE INDEX ({key.hint_name()})"
        return self.judged(table, keys) if judged else keys

    def planned(self, statement):
        """The statement with switches of its own, sometimes."""
        if self.chance.random() < 0.7:
            return statement
        # InnoDB's own: of partitioned tables MRR misses rows.
        switches = [switch for switch in SWITCHES if not ("mrr" in switch and any(table.partitions for table in self.tables))
                    and not ("index_merge" in switch and any(table.loose_in_primary() for table in self.tables))]
        ordered = "!ordered " if statement.startswith("!ordered ") else ""
        return f"{ordered}SET STATEMENT optimizer_switch='{self.chance.choice(switches)}' FOR {statement.removeprefix('!ordered ')}"

    def order_by(self, table, key):
        """By the key's parts, forward, backward or mixed, as the key goes on; in the end by rid, which repeats nowhere."""
        turn = self.chance.choice((False, True, None))
        columns = table.searched_by(key)
        columns = columns[:self.chance.randint(0, len(columns))]
        descending = {name: is_descending for name, _, is_descending in key.parts}
        words = []
        for column in [column for column in columns if column.name != "rid"] + [table.column("rid")]:
            down = self.chance.random() < 0.5 if turn is None else descending.get(column.name, False) != turn
            words.append(column.name + (" DESC" if down else ""))
        return f" ORDER BY {', '.join(words)}"

    def search(self):
        found = self.search_key()
        if not found:
            return None
        table, key = found
        columns = self.chance.choice(("rid", "*", ", ".join(column.name for column in table.searched_by(key))))
        statement = f"SELECT {columns} FROM {table.name}{self.search_hint(table, key)} WHERE {self.search_where(table, key)}"
        ending = self.chance.choice(("", "", "", "", " FOR UPDATE", " LOCK IN SHARE MODE"))
        if self.chance.random() < 0.4:
            limit = self.chance.choice(("", " LIMIT 1", " LIMIT 3", " LIMIT 2 OFFSET 1"))
            return self.planned(f"!ordered {statement}{self.order_by(table, key)}{limit}{ending}")
        return self.planned(statement + ending)

    def grouped(self):
        """Loose scans: MIN and MAX behind the parts that are grouped by."""
        found = self.search_key()
        if not found:
            return None
        table, key = found
        columns = table.searched_by(key)
        groups = columns[:self.chance.randint(1, len(columns))]
        names = ", ".join(column.name for column in groups)
        after = columns[len(groups)] if len(groups) < len(columns) else table.column("rid")
        source = f"FROM {table.name}{self.search_hint(table, key)} WHERE {self.search_where(table, key) if self.chance.random() < 0.6 else '1'}"
        # The server's own: MIN and MAX of BIT are numbers or bytes, and of ENUM go by its numbers or its texts, as the plan has it.
        if self.chance.random() < 0.3 or not after.is_plain() or after.kind in ("BIT", "ENUM", "SET"):
            if self.chance.random() < 0.5:
                return self.planned(f"SELECT COUNT(DISTINCT {names}) {source}")
            return self.planned(f"SELECT COUNT(*) FROM (SELECT DISTINCT {names} {source}) d")
        what = self.chance.choice((f"MIN({after.name})", f"MAX({after.name})", f"MIN({after.name}), MAX({after.name})"))
        return self.planned(f"SELECT {what} {source}" + (f" GROUP BY {names}" if self.chance.random() < 0.8 else ""))

    def joined_by(self, left, right, key):
        """Equalities between the first parts of a key of `right` and columns of `left` that can be compared to them, or None."""
        terms = []
        for column in right.searched_by(key):
            partners = [other for other in left.columns if other.kind == column.kind and
                        (other.collation == column.collation or not column.is_text())]
            if not partners:
                break
            same = [other for other in partners if other.name == column.name]
            terms.append(f"y.{column.name} = x.{self.chance.choice(same or partners).name}")
        return " AND ".join(terms[:self.chance.randint(1, len(terms))]) if terms else None

    def search_join(self):
        found = self.search_key()
        if not found:
            return None
        right, key = found
        left = self.chance.choice((right, self.table()))
        on = self.joined_by(left, right, key)
        if not on:
            return None
        if self.chance.random() < 0.4:
            on += f" AND {self.term(self.chance.choice(right.searched_by(key)), {}, 'y.')}"
        how = self.chance.choice(("JOIN", "STRAIGHT_JOIN", "STRAIGHT_JOIN", "LEFT JOIN"))
        where = f"({self.search_where(right, key, 'x.')})" if left is right and self.chance.random() < 0.6 else self.where(left, "x.")
        return self.planned(f"SELECT x.rid, y.rid FROM {left.name} x{self.shield(left)} {how} {right.name} y{self.search_hint(right, key)} "
                            f"ON {on} WHERE {where}")

    def search_in(self):
        """Semi-joins by several columns."""
        found = self.search_key()
        if not found:
            return None
        table, key = found
        columns = table.searched_by(key)
        columns = columns[:self.chance.randint(1, len(columns))]
        mine, its = (", ".join(alias + column.name for column in columns) for alias in ("x.", "y."))
        inner = f"FROM {table.name} y{self.search_hint(table, key)} WHERE {self.search_where(table, key, 'y.')}"
        outer = f"SELECT x.rid FROM {table.name} x{self.shield(table)} WHERE"
        negation = self.chance.choice(("", "", "NOT "))
        if self.chance.random() < 0.6:
            return self.planned(f"{outer} ({mine}) {negation}IN (SELECT {its} {inner})")
        pairs = " AND ".join(f"x.{column.name} = y.{column.name}" for column in columns)
        inner = f"FROM {table.name} y{self.search_hint(table, key)} WHERE {pairs} AND {self.condition(table, 'y.')}"
        return self.planned(f"{outer} {negation}EXISTS (SELECT 1 {inner})")

    # ---- changes ----

    def search_update(self):
        """Of the column that is in no key where the rows' order is open; with an order to the last row, of any."""
        found = self.search_key(lambda table: table.column("v"))
        if not found:
            return None
        table, key = found
        head = f"UPDATE {table.name}{self.search_hint(table, key, judged=False)} SET"
        where = f"WHERE {self.search_where(table, key)}"
        if self.chance.random() < 0.5:
            return f"{head} v = {self.chance.choice(('v + 1', 'rid', '1'))} {where}"
        limit = self.chance.choice(("", " LIMIT 1", " LIMIT 3"))
        assignments = self.assignments(table)
        return assignments and f"{head} {assignments} {where}{self.order_by(table, key)}{limit}"

    def search_delete(self):
        found = self.search_key()
        if not found:
            return None
        table, key = found
        return f"DELETE {table.name} FROM {table.name}{self.search_hint(table, key, judged=False)} WHERE {self.search_condition(table, key)}"
