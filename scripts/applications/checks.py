"""What must hold of the databases of an application, whatever it does."""
import re

from debian_root import Failed

SYSTEM_DATABASES = ("mysql", "sys", "information_schema", "performance_schema")


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def base_tables(server, databases):
    """[(database, table, engine)]"""
    names = ", ".join(f"'{name}'" for name in databases)
    return [tuple(row) for row in server.sql(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA IN ({names}) "
        "AND TABLE_TYPE IN ('BASE TABLE', 'SEQUENCE') ORDER BY 1, 2")]


def engines(server, databases, others):
    """Every table is InnoDB's, but for those that the application gives to another engine."""
    tables = base_tables(server, databases)
    if not tables:
        raise Failed(f"there are no tables in {', '.join(databases)}")
    for _, table, engine in tables:
        if engine != others.get(table, "InnoDB"):
            raise Failed(f"the table {table} has ENGINE={engine}")
    for database, table, engine in tables:
        if engine == "InnoDB" and " ENGINE=InnoDB" not in definition(server, database, table):
            raise Failed(f"SHOW CREATE TABLE {table} does not say ENGINE=InnoDB")
    return tables


def definition(server, database, table):
    text = server.sql(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")[0][1]
    return re.sub(r" AUTO_INCREMENT=\d+", "", text)


def definitions(server, databases):
    return {f"{database}.{table}": definition(server, database, table) for database, table, _ in base_tables(server, databases)}


def sound(server, tables):
    """CHECK TABLE EXTENDED of every table."""
    wrong = []
    for database, table, _ in tables:
        answers = server.sql(f"CHECK TABLE {quoted(database)}.{quoted(table)} EXTENDED")
        if answers[-1][2:] != ["status", "OK"]:
            wrong.append(f"{database}.{table}: {answers}")
    if wrong:
        raise Failed(f"CHECK TABLE: {'; '.join(wrong)}"[:800])


def checksums(server, tables):
    """Of InnoDB's tables: the others promise nothing after a crash."""
    return {f"{database}.{table}": server.sql(f"CHECKSUM TABLE {quoted(database)}.{quoted(table)} EXTENDED")[0][1]
            for database, table, engine in tables if engine == "InnoDB"}


def equal(before, after, what):
    different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if different:
        raise Failed(f"{what} differ: {', '.join(different[:20])}")


class Log:
    """The error log of a server, read on from where the last reading ended."""

    def __init__(self, server):
        self.server = server
        self.read = 0

    def new_lines(self, kind):
        data = self.server.log.read_bytes()
        lines = data[self.read:].decode(errors="replace").splitlines()
        self.read = len(data)
        return [line for line in lines if f"[{kind}]" in line or "signal" in line]

    def expect_no_errors(self, known):
        wrong = [line for line in self.new_lines("ERROR") if not any(text in line for text in known)]
        if wrong:
            raise Failed(f"the server's log has {len(wrong)} errors: {wrong[0]}")
