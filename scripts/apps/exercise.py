"""Inserts, updates and deletes on every table that foreign keys connect, in both databases: the outcome must be the same.

Row n of a table has the value n in every column, so that each foreign key finds the row n of its parent. First such rows are
inserted, with checks, until no more go in: a child before its parent is refused on the way. Then, table by table and in
transactions that are rolled back, the first rows are deleted, and the columns of foreign keys are changed on both of their
sides. At the end the first row of each table is deleted for good. Compared are the number of rows or of the error, and
checksums of the tables that a cascade can reach; of large ones only the number of rows, except at the end.
"""
import re

from connection import is_lost, pymysql

ROWS = range(101, 105)
CHANGED_ROWS = 20
LARGE = 1000
ERRORS_OF_CHECKS = (1451, 1452)


def exercise(link, reference, judged, different):
    """(number of checks, [those that differ]). The number is None when one of the tables is `different` already."""
    plan = Plan(link.cursor(), reference)
    if not plan.foreign_keys:
        return 0, []
    if set(plan.tables) & set(different):
        return None, []
    sides = [Side(link, database) for database in (reference, judged)]
    pair = Pair(sides, plan)
    pair.fill()
    pair.change()
    pair.delete()
    return pair.checks, pair.wrong


class Plan:
    """What the reference says of its tables."""

    def __init__(self, cursor, database):
        self.foreign_keys = {}  # (table, name) -> (columns, parent, parent's columns)
        cursor.execute("SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name"
                       " FROM information_schema.key_column_usage WHERE table_schema = %s AND referenced_table_schema = %s"
                       " ORDER BY table_name, constraint_name, ordinal_position", (database, database))
        for table, name, column, parent, referenced in cursor.fetchall():
            columns, _, referenceds = self.foreign_keys.setdefault((table, name), ([], parent, []))
            columns.append(column)
            referenceds.append(referenced)
        self.tables = sorted({table for table, _ in self.foreign_keys} | {parent for _, parent, _ in self.foreign_keys.values()})
        self.columns, self.order, self.large = {}, {}, set()
        for table in self.tables:
            cursor.execute(f"SELECT COUNT(*) FROM `{database}`.`{table}`")
            if cursor.fetchone()[0] > LARGE:
                self.large.add(table)
            cursor.execute("SELECT column_name, column_type, column_key, extra, character_maximum_length FROM information_schema.columns"
                           " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position", (database, table))
            rows = cursor.fetchall()
            self.columns[table] = {row[0]: (row[1], row[4]) for row in rows if "GENERATED" not in row[3].upper()}
            primary = [row[0] for row in rows if row[2] == "PRI"]
            self.order[table] = ", ".join(f"`{name}`" for name in primary or self.columns[table])

    def reached(self, table):
        """The table and all that a cascade from it can change."""
        result, new = {table}, {table}
        while new:
            new = {child for (child, _), (_, parent, _) in self.foreign_keys.items() if parent in new} - result
            result |= new
        return sorted(result)


def value(column_type, length, number):
    """The value of a column in row `number`, in SQL."""
    kind = re.match(r"\w+", column_type).group(0)
    if kind in ("enum", "set"):
        return str(number % (column_type.count("','") + 1) + 1)
    if kind == "bit":
        return str(number % 2)
    if kind == "year":
        return str(1900 + number)
    if kind in ("date", "datetime", "timestamp"):
        return f"'2020-01-{number % 28 + 1:02}'"
    if kind == "time":
        return f"'00:00:{number % 60:02}'"
    if kind == "inet6":
        return f"'::{number}'"
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double"):
        return str(number)
    if kind == "decimal":
        return str(number % 10)
    return f"'{str(number)[-int(length or 3):]}'"


class Side:
    """One of the two databases."""

    def __init__(self, link, database):
        self.cursor, self.database = link.cursor(), database

    def outcome(self, statement):
        """The number of rows that it changed, or the text of its error."""
        try:
            return self.cursor.execute(statement.replace("{}", f"`{self.database}`"))
        except pymysql.err.Error as error:
            if is_lost(error):
                raise
            return f"error {error.args[0]}"

    def checksums(self, tables, counted):
        """{table: its checksum, or its number of rows if it is one of those `counted`}"""
        summed, counted = ([f"`{self.database}`.`{table}`" for table in tables if (table in counted) == large] for large in (False, True))
        result = {}
        if summed:
            self.cursor.execute(f"CHECKSUM TABLE {', '.join(summed)} EXTENDED")
            result = {name.partition(".")[2]: value for name, value in self.cursor.fetchall()}
        if counted:
            self.cursor.execute("SELECT " + ", ".join(f"(SELECT COUNT(*) FROM {name})" for name in counted))
            result |= {name.split("`")[3]: count for name, count in zip(counted, self.cursor.fetchone())}
        return result


class Pair:
    def __init__(self, sides, plan):
        self.sides, self.plan = sides, plan
        self.checks, self.wrong = 0, []

    def both(self, statement, reached=()):
        """Runs a statement on both sides; returns the reference's outcome."""
        self.checks += 1
        one, other = (side.outcome(statement) for side in self.sides)
        if one != other:
            self.wrong.append(f"{statement[:200]}: {one} in InnoDB, {other} here")
        elif reached:
            self.equal_checksums(statement, reached, self.plan.large)
        return one

    def equal_checksums(self, after, tables, counted=()):
        self.checks += 1
        ones, others = (side.checksums(tables, counted) for side in self.sides)
        different = [table for table in tables if ones[table] != others[table]]
        if different:
            self.wrong.append(f"after {after[:200]}: other rows in {', '.join(different)}")

    def undone(self, statement, reached):
        for side in self.sides:
            side.cursor.execute("BEGIN")
        self.both(statement, reached)
        for side in self.sides:
            side.cursor.execute("ROLLBACK")

    def fill(self):
        due = [(table, number) for table in self.plan.tables for number in ROWS]
        while due:
            refused = [row for row in due if self.both(self.insert(*row)) in [f"error {code}" for code in ERRORS_OF_CHECKS]]
            if len(refused) == len(due):
                break  # circles
            due = refused
        for side in self.sides:
            side.cursor.execute("SET foreign_key_checks = 0")
        for row in due:
            self.both(self.insert(*row))
        for side in self.sides:
            side.cursor.execute("SET foreign_key_checks = 1")
        self.equal_checksums("the inserts", self.plan.tables)

    def insert(self, table, number):
        columns = self.plan.columns[table]
        values = [value(*columns[name], number) for name in columns]
        return f"INSERT INTO {{}}.`{table}` ({', '.join(f'`{name}`' for name in columns)}) VALUES ({', '.join(values)})"

    def change(self):
        for table in self.plan.tables:
            self.undone(f"DELETE FROM {{}}.`{table}` ORDER BY {self.plan.order[table]} LIMIT {CHANGED_ROWS}", self.plan.reached(table))
            self.undone(f"DELETE FROM {{}}.`{table}` ORDER BY {self.plan.order[table]} DESC LIMIT 1", self.plan.reached(table))
        for (table, _), (columns, parent, referenced) in self.plan.foreign_keys.items():
            self.undone(self.update(table, columns, "NULL"), self.plan.reached(table))
            self.undone(self.update(table, columns, "`{}` + 7"), self.plan.reached(table))
            self.undone(self.update(parent, referenced, "`{}` + 7"), self.plan.reached(parent))
        self.equal_checksums("all that was rolled back", self.plan.tables)

    def update(self, table, columns, text):
        changes = ", ".join(f"`{column}` = {text.replace('{}', column)}" for column in columns)
        return f"UPDATE {{}}.`{table}` SET {changes} ORDER BY {self.plan.order[table]} DESC LIMIT 3"

    def delete(self):
        for table in self.plan.tables:
            self.both(f"DELETE FROM {{}}.`{table}` ORDER BY {self.plan.order[table]} DESC LIMIT 1")
        self.equal_checksums("the deletes", self.plan.tables)
