"""A random table whose keys share their columns: the primary key has two to four parts, some of them only the first characters of a
column, and the secondary keys have the same columns in other orders, whole where the primary key has the beginning, and the reverse.
Each column gets few values, in families of equal but different strings. Used by statements.py, beside schema.random_table.
"""
from schema import KEY_BYTES_MAX, Key, Table, random_partitions
from values import pool, random_column

KINDS = ("TINYINT", "INT", "BIT", "ENUM", "DECIMAL", "DATE", "TIME", "DATETIME", "YEAR", "VARBINARY", "BLOB", "CHAR", "VARCHAR", "TEXT")
TEXTS = ("VARCHAR", "VARCHAR", "CHAR", "TEXT")
# Most of them with expansions, contractions or ignorable characters.
COLLATIONS = (
    "utf8mb4_unicode_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_unicode_nopad_ci",
    "utf8mb4_unicode_520_ci", "utf8mb4_czech_ci", "utf8mb3_spanish2_ci", "latin1_german2_ci", "ucs2_unicode_ci", "utf16_unicode_ci",
    "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin", "latin1_swedish_ci", "utf16_bin", "cp932_japanese_ci", "utf8mb4_general_nopad_ci",
)
WHOLE_BYTES_MAX = 250


def column_of(chance, name, kinds, collation):
    column = random_column(chance, name, kinds, (collation,))
    if column.kind == "CHAR" and "nopad" in collation:
        column.kind = "VARCHAR"         # InnoDB's own: what it makes of CHAR's trailing spaces there
    if column.is_text() and not column.is_blob():
        column.size = chance.choice((6, 10, 20))
    elif column.kind in ("VARBINARY", "BINARY"):
        column.size = chance.choice((3, 20))
    column.nullable, column.default = chance.random() < 0.4, None
    column.pool = pool(chance, column)
    return column


def part(chance, column, prefix_chance, descending):
    """[name, prefix, descending] and how many bytes it takes at most."""
    if column.kind in ("VARBINARY", "CHAR", "VARCHAR") or column.is_blob():
        whole = column.size * column.character_bytes()
        if column.is_blob() or whole > WHOLE_BYTES_MAX or chance.random() < prefix_chance:
            prefix = chance.choice((1, 2, 3, 3, 4))
            if column.is_blob() or prefix < column.size:
                return [column.name, prefix, descending], prefix * column.character_bytes()
        return [column.name, 0, descending], whole
    return [column.name, 0, descending], 16


def key_of(chance, name, kind, columns, prefix_chance, descending_chance):
    parts, size = [], 0
    for column in columns:
        made, length = part(chance, column, prefix_chance, chance.random() < descending_chance)
        if size + length <= KEY_BYTES_MAX:
            parts.append(made)
            size += length
    return Key(name, kind, parts)


def secondary_key(chance, table, columns, descending_chance):
    """Mostly whole columns; most keys have the primary key's first ones in another order, for the server to go on with its last."""
    chosen = chance.sample(columns, min(len(columns), chance.choice((1, 2, 2, 3, 3))))
    if chance.random() < 0.6:
        first = [table.column(name) for name, _, _ in table.primary().parts]
        first = first[:max(1, len(first) - chance.choice((0, 1, 1, 2)))]
        chosen = chance.sample(first, len(first)) + [column for column in chosen[:chance.choice((0, 0, 1))] if column not in first]
    kind = "KEY"
    if chance.random() < 0.2:
        kind = "UNIQUE KEY"
        if table.partitions or chance.random() < 0.7:
            chosen = [column for column in chosen if column.name != "rid"] + [table.column("rid")]
    return key_of(chance, table.fresh("k"), kind, chosen, 0.15, descending_chance)


def random_overlapping(chance, name):
    table = Table(name)
    collation = chance.choice(COLLATIONS)
    rid = random_column(chance, "rid", ("INT",))
    rid.nullable, rid.default, rid.unsigned = False, None, False
    columns = [column_of(chance, table.fresh("c"), TEXTS, collation)]
    columns += [column_of(chance, table.fresh("c"), chance.choice((KINDS, ("TINYINT", "INT"), TEXTS)), collation)
                for _ in range(chance.randint(1, 3))]
    payload = random_column(chance, "v", ("INT",))
    payload.nullable, payload.default, payload.unsigned = True, None, False
    table.columns = [rid, *columns, payload]
    if chance.random() < 0.2:
        random_partitions(chance, table)
    chosen = chance.sample(columns, min(len(columns), chance.choice((1, 2, 2, 2, 3, 3))))
    for column in chosen:
        column.nullable = False
    # Without rid rows repeat a primary key, which is refused on both sides. InnoDB's own: it dies of two primary keys whose whole columns in
    # another key are equal and whose beginnings are not.
    if table.partitions or chance.random() < 0.85 or not all(column.is_by_character() for column in chosen):
        chosen.insert(chance.randint(0, len(chosen)), rid)
        if chance.random() < 0.5:
            chosen.remove(rid)
            chosen.append(rid)
    descending_chance = chance.choice((0, 0, 0.3, 1))
    table.keys.append(key_of(chance, "", "PRIMARY KEY", chosen, 0.7, descending_chance))
    for _ in range(chance.choice((1, 2, 2, 3, 4))):
        table.keys.append(secondary_key(chance, table, columns + [rid], descending_chance))
    return table
