"""Two databases of one server, InnoDB tables in one and Sluice tables in the other, and the same statements in both. What differs is a
Difference: rows, counts, errors, warnings, LAST_INSERT_ID, and in the end every table through each of its keys.
"""
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
import connection  # noqa: E402
from connection import pymysql  # noqa: E402

ENGINES = ("InnoDB", "Sluice")
DATABASES = {"InnoDB": "fuzz_i", "Sluice": "fuzz_s"}
# What the two engines refuse for reasons of their own; what such a statement meets says nothing about answers.
LIMITS = {1118, 1071, 1709, 139, 1030, 1845, 1846, 1478, 1114, 1235, 167}
# What an ALTER that copies the rows finds in them, and one that leaves them where they are does not.
COPYING = {1292, 4025, 1264, 1265, 1366, 1406, 1048, 1138}
# Why a foreign key is refused is told in each engine's words, before the statement's own error; and so are duplicate names.
WHY_REFUSED = {150, 121}
# How often a WHERE is evaluated, and so how often it warns, is the plan's business.
READING = ("SELECT", "UPDATE", "DELETE", "HANDLER", "!ordered", "(SELECT", "SET STATEMENT")
# A hint, and in a comment behind it the one for a scan (conditions.py).
JUDGED_HINT = re.compile(r"(?: (?:FORCE|USE|IGNORE) INDEX \([^)]*\))+ /\*scan (.*?)\*/")
# The table of a SELECT, and hints.
ONE_TABLE = re.compile(r"(?<=SELECT )(.*? FROM \w+)(?: (?:FORCE|USE|IGNORE) INDEX (?:FOR ORDER BY )?\([^)]*\))*")
# The server's own, in any engine: a BETWEEN whose bounds are equal in the connection's collation may become a search for one of them,
# whatever the column's; and a hashed join buffer misses strings that are equal but for trailing spaces.
INITIAL = ("SET SESSION time_zone='+00:00', sql_mode='', innodb_lock_wait_timeout=2, sluice_lock_wait_timeout=2, "
           "lock_wait_timeout=3, timestamp=1700000000, max_statement_time=60, collation_connection=utf8mb4_nopad_bin, "
           "optimizer_switch='join_cache_hashed=off'")


class Difference(Exception):
    """The engines differ; the text says in what."""


class Limit(Exception):
    """One engine refuses what the other can do, as documented: this run is over without a finding."""


class Outcome:
    def __init__(self):
        self.rows = None
        self.affected = None
        self.inserted = None
        self.error = None
        self.warnings = None
        self.info = None


def normal(value):
    if not isinstance(value, str):
        return value
    return re.sub(r"(?i)ENGINE=(InnoDB|Sluice)\b", "ENGINE={E}", re.sub(r"fuzz_[is]\b", "fuzz", value))


def normal_message(text):
    """Of an error, which may quote the statement."""
    text = re.sub(r"=(InnoDB|Sluice)\b", "={E}", normal(text))
    return re.sub(r"#sql-\w+-[0-9a-f]+-[0-9a-f]+", "#sql", text)


def normal_info(message):
    """How many warnings there are is compared with the warnings."""
    return message.decode().partition("  Warnings:")[0]


def refers_to_itself(message, column):
    """Of error 1452: the foreign key is of this column alone, and its table is its own parent."""
    found = re.search(r"fails \(`\w+`\.`(\w+)`, CONSTRAINT `\w+` FOREIGN KEY \(`(\w+)`\) REFERENCES `(\w+)`", message)
    return bool(found) and found[1] == found[3] and found[2] == column


def different(rows, others):
    return [row for row in rows if row not in others][:5]


def sorted_rows(rows):
    return sorted(rows, key=repr)


class Side:
    """The connection to one of the databases."""

    def __init__(self, server, engine):
        self.server = server
        self.engine = engine
        self.database = DATABASES[engine]
        self.link = None
        self.open()

    def open(self):
        self.link = connection.connect(self.server, autocommit=True)
        with self.link.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self.database}")
            cursor.execute(f"USE {self.database}")
            cursor.execute(INITIAL)
            cursor.execute(f"SET default_storage_engine={self.engine}")

    def close(self):
        if self.link.open:
            self.link.close()

    def clear(self):
        self.close()
        link = connection.connect(self.server, autocommit=True)
        with link.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout=30")
            cursor.execute(f"DROP DATABASE IF EXISTS {self.database}")
        link.close()
        self.open()

    def run(self, statement):
        outcome = Outcome()
        cursor = self.link.cursor()
        try:
            cursor.execute(statement.replace("{E}", self.engine))
            result = cursor._result
            outcome.rows = [tuple(normal(value) for value in row) for row in cursor.fetchall()] if cursor.description else None
            outcome.affected = cursor.rowcount if outcome.rows is None else None
            outcome.inserted = cursor.lastrowid if outcome.rows is None else None
            outcome.info = normal_info(result.message) if result.message else None
            count = result.warning_count
        except pymysql.err.Error as error:
            if connection.is_lost(error):
                raise Difference(f"{self.engine}: the connection is lost: {error}") from error
            outcome.error = (error.args[0], normal_message(str(error.args[1])))
            count = 1
        outcome.warnings = []
        if count:
            cursor.execute("SHOW WARNINGS")
            outcome.warnings = [(row[1], normal_message(row[2])) for row in cursor.fetchall()]
        cursor.close()
        return outcome


class Pair:
    def __init__(self, server):
        self.server = server
        self.sides = [Side(server, engine) for engine in ENGINES]
        self.has_altered = False

    def clear(self):
        self.has_altered = False
        for side in self.sides:
            side.clear()

    def close(self):
        for side in self.sides:
            side.close()

    def run(self, statement):
        """Runs a statement of statements.py on both sides; Outcome of InnoDB."""
        ordered = statement.startswith("!ordered ")
        if statement.startswith("!load "):
            return self.load(statement)
        if statement.startswith("!quiet "):
            for side in self.sides:
                side.run(statement.removeprefix("!quiet "))
            return None
        if statement.startswith("!check"):
            return self.check(statement.split()[1:])
        outcome = None
        self.has_altered = self.has_altered or statement.startswith("ALTER")
        for part in statement.removeprefix("!ordered ").split("; SET "):
            part = part if part == statement or not part.startswith("autocommit=1") else f"SET {part}"
            outcome = self.compare(statement, [side.run(part) for side in self.sides], ordered)
        if outcome.rows is not None and JUDGED_HINT.search(statement):
            self.judge(statement.removeprefix("!ordered "), outcome, ordered)
        return outcome

    def judge(self, statement, found, ordered):
        """What the hinted keys found against what a scan of Sluice's table does. LIKE is the server's own: by keys it does not find what
        goes on with control characters."""
        if " LIKE " in statement:
            return
        scanned = self.sides[1].run(JUDGED_HINT.sub(r" \1", statement))
        rows = scanned.rows or []
        if not ordered or self.repeats_rid(statement):
            rows, found.rows = sorted_rows(rows), sorted_rows(found.rows)
        if rows != found.rows and not scanned.error and not self.skips_within_groups(statement):
            of_innodb = self.sides[0].run(JUDGED_HINT.sub(r" \1", statement))
            if of_innodb.rows is not None and sorted_rows(of_innodb.rows) == sorted_rows(rows):
                raise Limit("the server's own: with both engines it does not find by keys what it finds without")
            raise Difference(f"keys and scan: by keys {len(found.rows)} rows, by a scan {len(rows)}; "
                             f"only by keys {different(found.rows, rows)}; only by a scan {different(rows, found.rows)}")

    def repeats_rid(self, statement):
        """ORDER BY ends with rid; rows with the same one come in any order."""
        table = re.search(r" FROM (\w+)", statement)[1]
        return self.sides[1].run(f"SELECT COUNT(*) <> COUNT(DISTINCT rid) FROM {table}").rows == [(1,)]

    def skips_within_groups(self, statement):
        """The server's own, in any engine: with two ranges of the column that MAX() asks for (WHERE a = 1 AND b <> 2 GROUP BY a), a scan
        that skips to each group's end ("Using index for group-by") may tell the group twice."""
        plan = self.sides[1].run(f"EXPLAIN {statement}").rows or []
        return any("index for group-by" in str(line[-1]) for line in plan)

    def load(self, statement):
        _, table, how, names = statement.split(" ", 3)
        path = self.server.folder / "tmp" / "rows"
        path.unlink(missing_ok=True)
        outcome = self.sides[0].run(f"SELECT {names} FROM {table} ORDER BY rid LIMIT 20 INTO OUTFILE '{path}' CHARACTER SET utf8mb4")
        if outcome.error:
            return outcome
        return self.compare(statement, [side.run(f"LOAD DATA INFILE '{path}' {how} INTO TABLE {table} CHARACTER SET utf8mb4 ({names})")
                                        for side in self.sides], False)

    def compare(self, statement, outcomes, ordered):
        try:
            return self.compare_outcomes(statement, outcomes, ordered)
        except Difference:
            if self.lacks_index():
                raise Limit("a child has lost the index of its foreign key: InnoDB checks no update of it") from None
            raise

    def lacks_index(self):
        sluice = self.sides[1]
        tables = [name for name, *_ in sluice.run("SHOW TABLES").rows or []]
        told = [str(row[3]) for table in tables for row in sluice.run(f"CHECK TABLE {table} EXTENDED").rows or []]
        return any("not checked, because the table has no index for it" in text for text in told)

    def compare_outcomes(self, statement, outcomes, ordered):
        one, two = outcomes
        if statement.startswith("ALTER") and all(outcome.error and outcome.error[0] == 1062 for outcome in outcomes):
            return one              # which duplicate is met first depends on how the keys are built
        if any(outcome.error and outcome.error[0] == 1062 and "for key 'h" in outcome.error[1] for outcome in outcomes):
            if all(outcome.error for outcome in outcomes):
                return one
            raise Limit("REPLACE with a unique key over hashes, checked behind the write")
        if statement.startswith("REPLACE") and one.error and one.error[0] == 1416 and not two.error:
            raise Limit("InnoDB's own: a REPLACE that finds its row updates it, and does not take for a geometry what an INSERT takes")
        if statement.startswith("RENAME") and one.error and one.error[0] == 1025 and not two.error:
            raise Limit("a documented difference: InnoDB renames no parent that has lost an index of its children")
        if (statement.startswith("UPDATE") or " ON DUPLICATE KEY UPDATE " in statement) and one.error and one.error[0] == 1452 and refers_to_itself(one.error[1], "s") \
                and (not two.error or two.error[0] == 1451):
            raise Limit("a documented difference: InnoDB refuses a change of only the spelling of a row's own parent")
        # 1062, 1834: it would, but for NULLs that become equal numbers, or children that lose a parent.
        may_take_away = not one.error or one.error[0] in (1062, 1834)
        if statement.startswith("ALTER") and "ALGORITHM=COPY" in statement and two.error and two.error[0] == 1005 and may_take_away:
            raise Limit("InnoDB's own: a copy without strict mode may take away what a foreign key needs")
        if statement.startswith("ALTER") and {outcome.error and outcome.error[0] for outcome in outcomes} == {1062, 1834}:
            return one              # InnoDB meets duplicates at the end of a copy in bulk
        told_by_code = statement.startswith(("ALTER", "DROP", "TRUNCATE")) and all(outcome.error for outcome in outcomes)
        codes = {outcome.error[0] for outcome in outcomes} if told_by_code else set()
        # InnoDB tells only when it renames the copy (1025) that a foreign key has lost what it needs: after it has met each row.
        if told_by_code and two.error[0] == 1025 and one.error[0] in (1062, 1452, 1834):
            return one
        if told_by_code and (codes == {1005, 1025} or (len(codes) == 1 and codes < {1005, 1025, 1217, 1451, 1452})):
            return one              # the message names the table or its copy, and the child or none
        if self.has_altered and {outcome.error and outcome.error[0] for outcome in outcomes} == {1062, 1452}:
            return one              # indexes count by their age, and InnoDB may have made them anew where Sluice did not: documented
        if statement.startswith("UPDATE") and all(outcome.error and outcome.error[0] == 1452 for outcome in outcomes):
            return one              # of a row that breaks several foreign keys, the message names one: a documented difference
        if one.error and not two.error and re.search(r"FOREIGN KEY \(.*(`\w+`).*\1.*\) REFERENCES", one.error[1]):
            raise Limit("a documented difference: after new names for several columns with FORCE, InnoDB's foreign key names one of them twice")
        if one.error != two.error:
            codes = {outcome.error[0] for outcome in outcomes if outcome.error}
            if codes & LIMITS or (statement.startswith("ALTER") and codes & COPYING):
                raise Limit(f"{one.error} / {two.error}")
            raise Difference(f"error: InnoDB {one.error}, Sluice {two.error}")
        if one.rows is not None and not ordered:
            one.rows, two.rows = sorted_rows(one.rows), sorted_rows(two.rows or [])
        if one.rows != two.rows:
            scans = self.scans(statement, ordered)
            if scans and scans[0] == scans[1] == two.rows:
                raise Limit("InnoDB's own: it finds by its keys what neither finds without them, nor Sluice with them")
            raise Difference(f"rows: InnoDB {len(one.rows)}, Sluice {len(two.rows)}; only InnoDB {different(one.rows, two.rows)}; "
                             f"only Sluice {different(two.rows, one.rows)}; by scans {[len(rows) for rows in scans]}")
        # Which ALTERs copy the table, and so count its rows, is each engine's business.
        # A column that was NULL and is set to NULL is a change to InnoDB when it has a default.
        is_told_alike = not statement.startswith("ALTER") and " ON DUPLICATE KEY UPDATE " not in statement and "= NULL" not in statement
        # An UPDATE that finds in its plan that no row can match has no info.
        # How often REPLACE computes a row's virtual columns, and so how often these warn, is each engine's business.
        repeats = statement.startswith("REPLACE")
        for what in ("affected",) if repeats else ("affected", "info") if is_told_alike else ():
            if getattr(one, what) != getattr(two, what) and not (what == "info" and None in (one.info, two.info)):
                raise Difference(f"{what}: InnoDB {getattr(one, what)}, Sluice {getattr(two, what)}")
        if one.inserted != two.inserted:
            raise Limit(f"AUTO_INCREMENT values left unused: {one.inserted}, {two.inserted}")
        told = [self.comparable(outcome.warnings) for outcome in outcomes]
        if repeats:
            told = [set(warnings) for warnings in told]
        if told[0] != told[1] and not (statement.startswith(READING) or " SELECT " in statement):
            raise Difference(f"warnings: InnoDB {one.warnings}, Sluice {two.warnings}")
        return one

    def scans(self, statement, ordered):
        """What each side finds without its keys, where it is known how to ask for that."""
        statement = statement.removeprefix("!ordered ")
        scan = JUDGED_HINT.sub(r" \1", statement)
        if scan == statement:
            scan = ONE_TABLE.sub(r"\1 USE INDEX ()", statement)
        if scan == statement or "JOIN" in statement or statement.count("SELECT") > 1:
            return []
        found = [side.run(scan).rows or [] for side in self.sides]
        return found if ordered else [sorted_rows(rows) for rows in found]

    @staticmethod
    def comparable(warnings):
        """An ALTER that computes no row warns of none (1265, 1138). Unique keys over hashes ('h...') are checked before or behind the others."""
        if any("for key 'h" in text for _, text in warnings):
            raise Limit("which of several unique keys is found twice first, one of them over hashes")
        return [(code, text) for code, text in warnings if code not in (1265, 1138) and code not in WHY_REFUSED]

    # ---- the account of everything ----

    def check(self, names):
        """Every table as a whole and through each key; `names`: the tables that must be there."""
        innodb, sluice = self.sides
        for table in names:
            innodb.run(f"CHECK TABLE {table}")      # it commits: on both sides
            orphans = self.orphans(table)
            for row in sluice.run(f"CHECK TABLE {table} EXTENDED").rows:
                if row[3].startswith("foreign key "):
                    self.check_orphans(row[3], orphans)
                elif row[3] != "OK" and "doesn't support" not in row[3]:
                    raise Difference(f"CHECK TABLE {table}: {row}")
            orphans = {name: rows for name, (rows, _) in orphans.items() if rows}
            if orphans:
                raise Difference(f"CHECK TABLE {table}: it does not tell of {orphans}")
            self.run(f"SELECT * FROM {table}")
            keys = {}
            for row in innodb.run(f"SHOW KEYS FROM {table}").rows:
                if row[10] in ("BTREE", ):
                    keys.setdefault(row[2], []).append((row[4], row[7], row[5]))
            for key, parts in keys.items():
                self.check_key(table, key, parts)

    def orphans(self, table):
        """{name of a foreign key: rows of InnoDB's table without a parent row, and all that refer to one}"""
        innodb = self.sides[0]
        keys = {}
        for name, column, parent, of_parent in innodb.run(
                "SELECT CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE "
                f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}' AND REFERENCED_TABLE_NAME IS NOT NULL").rows:
            keys.setdefault(name, (parent, []))[1].append((column, of_parent))
        found = {}
        for name, (parent, pairs) in keys.items():
            refers = " AND ".join(f"c.{column} IS NOT NULL" for column, _ in pairs)
            same = " AND ".join(f"c.{column} = p.{of_parent}" for column, of_parent in pairs)
            rows = innodb.run(f"SELECT COUNT(*) FROM {table} c WHERE {refers} AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {same})")
            all_rows = innodb.run(f"SELECT COUNT(*) FROM {table} c WHERE {refers}")
            found[name] = ((all_rows if rows.error else rows).rows[0][0], all_rows.rows[0][0])
        return found

    @staticmethod
    def check_orphans(told, orphans):
        """A foreign key whose parent has lost its index finds no row; one whose child has lost it is not checked."""
        unchecked = re.match(r"foreign key (\S+): not checked, because the table has no index for it", told)
        if unchecked:
            orphans.pop(unchecked[1], None)
            return
        name, rows = re.match(r"foreign key (\S+): (\d+) rows ", told).groups()
        if name not in orphans:
            raise Limit("a documented difference: InnoDB drops the foreign keys of a child without their indexes when it copies the table")
        without, all_rows = orphans.pop(name, (0, 0))
        if int(rows) != (all_rows if "has no index for it" in told else without):
            raise Difference(f"CHECK TABLE: {told}, and not {without} of {all_rows}")

    def check_key(self, table, key, parts):
        innodb, sluice = self.sides
        names = ", ".join(f"`{name}`" for name, _, _ in parts)
        hint = f"{table} FORCE INDEX (`{key}`)"
        self.run(f"SELECT {names}, rid FROM {hint}")
        self.run(f"SELECT {names} FROM {hint}")
        self.run(f"SELECT COUNT(*) FROM {hint}")
        self.run(f"SELECT rid FROM {table} FORCE INDEX FOR ORDER BY (`{key}`) ORDER BY {names} LIMIT 0")
        if any(prefix is not None for _, prefix, _ in parts):
            return
        ranked = innodb.run(f"SELECT rid, DENSE_RANK() OVER (ORDER BY {self.order(parts)}) FROM {table} IGNORE INDEX (`{key}`)")
        if ranked.error and ranked.error[0] == 1712:
            raise Limit(f"InnoDB's own: {ranked.error[1]}")
        rank = dict(ranked.rows)
        for reverse in (False, True):
            statement = f"SELECT rid FROM {hint} ORDER BY {self.order(parts, reverse)}"
            in_order = {}
            for side in self.sides:
                ranks = [rank[row[0]] for row in side.run(statement).rows]
                in_order[side.engine] = len(rank) != len(ranks) or ranks == sorted(ranks, reverse=reverse)
            # Of some collations neither index sorts as ORDER BY without one does.
            if in_order["InnoDB"] and not in_order["Sluice"]:
                raise Difference(f"order of {table} by {key}{' backward' if reverse else ''}: its ranks are {ranks}")

    @staticmethod
    def order(parts, reverse=False):
        return ", ".join(f"`{name}`{' DESC' if (collation == 'D') != reverse else ''}" for name, _, collation in parts)
