"""Plans of one query on two engines, compared by EXPLAIN: order of the tables, access, key.

`rows` and `filtered` are estimates and are left out. A difference in `Extra` (a pushed condition, a
join buffer, an index that is enough by itself) is told apart: the tables are read in the same way,
but not with the same work.
"""
from dataclasses import dataclass

ACCESS = ("id", "select_type", "table", "type", "key", "key_len", "ref")
SAME, EXTRA, OTHER = "same", "extra", "other"
SHOWN = (*ACCESS, "rows", "Extra")


@dataclass
class Plan:
    rows: list  # of dictionaries, as EXPLAIN's columns are called

    @classmethod
    def of(cls, cursor, query):
        cursor.execute(f"EXPLAIN {query}")
        columns = [column[0] for column in cursor.description]
        return cls([dict(zip(columns, row)) for row in cursor.fetchall()])

    def access(self, database):
        """What is compared. A column in `ref` has its database before it, one for each engine."""
        return [tuple(str(row[name]).replace(f"{database}.", "") for name in ACCESS) for row in self.rows]

    def extra(self):
        return [frozenset(part.strip() for part in str(row["Extra"] or "").split(";")) for row in self.rows]

    def text(self, database):
        lines = [[("" if row[name] is None else str(row[name])).replace(f"{database}.", "") for name in SHOWN] for row in self.rows]
        widths = [max(len(line[column]) for line in [SHOWN, *lines]) for column in range(len(SHOWN))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [SHOWN, *lines])


def compare(one, one_database, other, other_database):
    if one.access(one_database) != other.access(other_database):
        return OTHER
    return SAME if one.extra() == other.extra() else EXTRA
