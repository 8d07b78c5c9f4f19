"""Random columns and random literals for them. Values come from small sets, so that they meet each other: equal under a
collation but not as bytes, at the ends of a type's range, one byte short of a limit. Used by schema.py and statements.py.
"""
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
COLLATIONS = (
    "latin1_swedish_ci", "latin1_german2_ci", "latin1_bin", "latin1_nopad_bin", "latin1_swedish_nopad_ci", "latin2_czech_cs",
    "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_nopad_ci", "utf8mb4_bin", "utf8mb4_nopad_bin",
    "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_unicode_520_ci", "utf8mb4_czech_ci",
    "utf8mb3_general_ci", "utf8mb3_spanish2_ci", "cp932_japanese_ci", "cp932_bin", "ucs2_general_ci", "ucs2_unicode_ci", "utf16_bin",
    "utf16le_general_ci", "utf32_general_ci", "gbk_chinese_ci", "big5_chinese_ci", "tis620_thai_ci", "cp1250_czech_cs", "ascii_general_ci",
    "sjis_japanese_ci", "ujis_japanese_ci", "euckr_korean_ci", "koi8r_general_ci", "utf8mb4_turkish_ci", "utf8mb4_thai_520_w2",
)
# Equal strings have equal beginnings, and so does what lies between two strings: each character is compared on its own. Of the others
# (expansions, contractions, ignorable characters) a key over the first characters does not find all that is equal, in any engine.
BY_CHARACTER = {
    "latin1_swedish_ci", "latin1_bin", "latin1_nopad_bin", "latin1_swedish_nopad_ci", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin",
    "utf8mb3_general_ci", "cp932_japanese_ci", "cp932_bin", "ucs2_general_ci", "utf16_bin", "utf16le_general_ci", "utf32_general_ci",
    "gbk_chinese_ci", "big5_chinese_ci", "ascii_general_ci", "sjis_japanese_ci", "ujis_japanese_ci", "euckr_korean_ci", "koi8r_general_ci",
}
# Strings that are equal under many collations and not as bytes, and their neighbours.
FAMILIES = (
    ("Masse", "Ma\u00dfe", "MASSE", "ma\u00dfe ", "Mast", "Ma\u00df", "Mass"),
    ("cafe", "caf\u00e9", "cafe\u0301", "CAFE", "caf", "cafe ", "cafe\t", "cafe\u0001", "caff", "cafe\u0301\u0301"),
    ("a", "\u00e4", "ae", "AE", "\u00e6", "a ", "a\t", "a\u0001", "", "aa"),
    ("\u00df", "ss", "SS", "s\u00ads", "\u00e6x", "aex", "\u00e4x", "ax", "s", "ss "),
    ("ch", "Ch", "c", "h", "ci", "cz", "cH", "c h", "ll", "li", "lz"),
    ("ab", "a\u00adb", "a\u200bb", "a\u0001b", "AB", "ab  ", "abc", "ab\u00ad", "\u00adab", "b"),
    ("\u00df\u00dfa", "ssssa", "ss\u00dfa", "SSSSA", "\u00dfss", "ssss", "\u00df\u00df"),
    ("\u65e5\u672c", "\u65e5", "\u672c", "\u30a2", "\u3042", "\u65e5\u672c ", "\u65e5a", ""),
)
BYTES_OF_CHARACTER = {"utf8mb4": 4, "utf8mb3": 3, "cp932": 2, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "gbk": 2, "big5": 2,
                      "sjis": 2, "ujis": 3, "euckr": 2}
PIECES = ("a", "A", "b", "B", "ab", "s", "ss", "\u00df", "\u00e4", "ae", "\u00c4", "ch", "Ch", "h", "z", "Z", " ", "  ", "\t", "0", "00",
          "\u0001", "\u00ff", "y", "\u65e5", "\u672c", "\u30a2", "\u0e01", "i", "I", "\u0131", "_", "%", "-", "e\u0301", "\u00e9")
TIMES = ("00:00:00", "-838:59:59", "838:59:59", "12:34:56.789012", "-00:00:00.5", "-01:00:00", "23:59:59.999999", "00:00:00.000001")
DATES = ("2000-01-01", "1999-12-31", "2024-02-29", "1000-01-01", "9999-12-31", "2001-09-09", "0000-00-00", "2024-01-00")
MOMENTS = ("1970-01-02 00:00:01", "2000-01-01 00:00:00", "2037-12-31 23:59:59.999999", "2024-02-29 12:30:45.123456", "2001-09-09 01:46:40")
POINTS = ("POINT(0 0)", "POINT(1 -1)", "POINT(1e10 0.5)")
SHAPES = (*POINTS, "LINESTRING(0 0,1 1,2 0)", "POLYGON((0 0,1 0,1 1,0 0))")
DOCUMENTS = ('{}', '[]', '{"a": 1}', '{"a": 2, "b": [1, 2, 3]}', '"x"', '17', 'null', '{"a": "text"}')


class Column:
    """A column: its definition in SQL, and what may be done with it."""

    def __init__(self, name, kind, size=0, decimals=0, unsigned=False, collation=None):
        self.name = name
        self.kind = kind
        self.size = size
        self.decimals = decimals
        self.unsigned = unsigned
        self.collation = collation
        self.nullable = True
        self.default = None
        self.generated = None       # (expression, "VIRTUAL" or "STORED")
        self.extra = ""
        self.pool = ()              # literals that it mostly gets, so that rows and conditions meet; empty: any

    def type_sql(self):
        kind = self.kind
        if kind in INTEGERS:
            return kind + (" UNSIGNED" if self.unsigned else "")
        if kind in ("CHAR", "VARCHAR"):
            return f"{kind}({self.size}) CHARACTER SET {self.charset()} COLLATE {self.collation}"
        if kind.endswith("TEXT"):
            return f"{kind} CHARACTER SET {self.charset()} COLLATE {self.collation}"
        if kind in ("ENUM", "SET"):
            return f"{kind}('a','b','B2','c c','dd','e') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        if kind in ("BINARY", "VARBINARY", "BIT"):
            return f"{kind}({self.size})"
        if kind == "DECIMAL":
            return f"DECIMAL({self.size},{self.decimals})" + (" UNSIGNED" if self.unsigned else "")
        if kind in ("TIME", "DATETIME", "TIMESTAMP"):
            return f"{kind}({self.decimals})"
        return kind

    def sql(self):
        text = f"{self.name} {self.type_sql()}"
        if self.generated:
            return f"{text} AS ({self.generated[0]}) {self.generated[1]}"
        text += " NULL" if self.nullable else " NOT NULL"
        if self.default is not None:
            text += f" DEFAULT {self.default}"
        return f"{text} {self.extra}".rstrip()

    def charset(self):
        return self.collation.split("_")[0]

    def is_text(self):
        return self.kind in ("CHAR", "VARCHAR") or self.kind.endswith("TEXT")

    def is_blob(self):
        return self.kind.endswith(("TEXT", "BLOB")) or self.kind in ("JSON", "GEOMETRY", "POINT")

    def is_plain(self):
        """Two values are equal only if they are the same."""
        return not self.is_text() and self.kind not in ("FLOAT", "DOUBLE", "JSON")

    def is_by_character(self):
        """What is equal, or between two values, has such beginnings too."""
        return not self.is_text() or self.collation in BY_CHARACTER

    def has_control_characters(self):
        return any(character < " " for text in self.pool for character in text)

    def may_be_key(self):
        return self.kind not in ("GEOMETRY", "POINT", "JSON")

    def character_bytes(self):
        return BYTES_OF_CHARACTER.get(self.charset(), 1) if self.is_text() else 1


KINDS = (*INTEGERS, *INTEGERS, "BIT", "FLOAT", "DOUBLE", "DECIMAL", "DECIMAL", "DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR",
         *("CHAR", "VARCHAR") * 5, "BINARY", "VARBINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "TINYTEXT", "TEXT",
         "MEDIUMTEXT", "LONGTEXT", "TEXT", "BLOB", "ENUM", "SET", "UUID", "INET6", "INET4", "JSON", "GEOMETRY", "POINT")


def random_column(chance, name, kinds=KINDS, collations=COLLATIONS):
    kind = chance.choice(kinds)
    collation = chance.choice(collations)
    column = Column(name, kind, unsigned=chance.random() < 0.4, collation=collation)
    if kind in ("CHAR", "BINARY"):
        column.size = chance.choice((1, 3, 10, 60))
    elif kind in ("VARCHAR", "VARBINARY"):
        column.size = chance.choice((1, 5, 20, 63, 64, 255, 256, 400))
    elif kind == "BIT":
        column.size = chance.choice((1, 7, 8, 9, 33, 64))
    elif kind == "DECIMAL":
        column.size, column.decimals = chance.choice(((1, 0), (5, 2), (10, 10), (20, 5), (40, 20), (9, 9)))
    elif kind in ("TIME", "DATETIME", "TIMESTAMP"):
        column.decimals = chance.choice((0, 1, 3, 6))
    column.nullable = chance.random() < 0.65
    if kind == "TIMESTAMP":
        column.default = "NULL" if column.nullable else "'2000-01-01 00:00:00'"
    elif chance.random() < 0.25 and not column.is_blob():
        column.default = literal(chance, column, nice=True)
        if column.default == "NULL" and not column.nullable:
            column.default = None
    return column


# ---- literals ----

ODD = ("'zz'", "-1", "99999999999999999999", "''", "NULL")


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def pool(chance, column):
    """A few literals for a column: of text a family of strings, of other types what chance gives."""
    if column.is_text():
        return tuple(quoted(text[:column.size or None]) for text in chance.choice(FAMILIES))
    return tuple(dict.fromkeys(literal(chance, column, nice=True) for _ in range(5)))


def random_text(chance, column):
    limit = {"TINYTEXT": 255, "TEXT": 65535}.get(column.kind, column.size or 100000)
    draw = chance.random()
    pieces = PIECES if draw < 0.5 else ("a", "A", "b", " ", "ab")
    text = "".join(chance.choice(pieces) for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4))))
    if draw < 0.05:
        text = chance.choice(("a", "ab", "\u00e4", " ", "\u65e5")) * (limit // chance.choice((1, 2, 3)))
        if column.is_blob() and chance.random() < 0.2:
            text = chance.choice("xyz") * chance.choice((3000, 8000, 16384, 50000, 300000, 2000000))
    return text[:max(0, limit // (column.character_bytes() if column.is_blob() and limit <= 65535 else 1))]


def random_bytes(chance, column):
    limit = {"TINYBLOB": 255, "BLOB": 65535}.get(column.kind, column.size or 3000000)
    length = chance.choice((0, 1, 1, 2, 2, 3, 4))
    if chance.random() < 0.05:
        length = chance.choice((limit, limit - 1, 255, 256, 767, 768, 3072, 3500, 8000, 16000, 40000, 100000, 1000000))
        return f"REPEAT(x'{chance.choice(('00', 'ff', '41', '2000'))}',{min(limit, length) // 2})"
    return "x'" + "".join(chance.choice(("00", "00", "01", "20", "41", "61", "ff", "fe")) for _ in range(min(limit, length))) + "'"


def random_integer(chance, bits, unsigned):
    low, high = (0, 2**bits - 1) if unsigned else (-2**(bits - 1), 2**(bits - 1) - 1)
    draw = chance.random()
    if draw < 0.08:
        return str(chance.choice((low, low + 1, high, high - 1)))
    return str(max(low, chance.randint(-3, 9) if draw < 0.7 else chance.randint(-100, 100)))


def literal(chance, column, nice=False, compared=False):
    """A literal that mostly fits the column; `nice`: surely; `compared`: it is not stored, and what it is equal to is open in no type."""
    if column.nullable and not nice and chance.random() < 0.12:
        return "NULL"
    if not nice and chance.random() < 0.01 and (column.kind in INTEGERS or not compared):
        if compared:
            return chance.choice(("-1", "99999999999999999999", "-99999999999999999999", "NULL"))
        return chance.choice((*ODD, "DEFAULT" if not column.generated else "NULL"))
    if column.pool and not nice and chance.random() < 0.93:
        return chance.choice(column.pool)
    kind = column.kind
    if kind in INTEGERS:
        return random_integer(chance, INTEGERS[kind], column.unsigned)
    if kind == "BIT":
        return f"b'{chance.choice((0, 1, 2**column.size - 1, chance.randrange(2**column.size))):b}'"
    if kind in ("FLOAT", "DOUBLE"):
        return chance.choice(("0", "-0.0", "1.5", "-1.5", "1e10", "-1e-10", "3e38", "0.1", str(chance.randint(-9, 9))))
    if kind == "DECIMAL":
        whole = column.size - column.decimals
        number = f"{chance.randrange(10**min(whole, chance.choice((1, 2, whole))))}" if whole else "0"
        if column.decimals:
            number += f".{chance.randrange(10**min(column.decimals, 3))}"
        return number if column.unsigned else chance.choice(("", "-")) + number
    if column.is_text():
        return quoted(random_text(chance, column))
    if kind in ("BINARY", "VARBINARY") or kind.endswith("BLOB"):
        return random_bytes(chance, column)
    return other_literal(chance, column)


def other_literal(chance, column):
    """Times no finer than the column: what a comparison with a finer one finds depends on the plan, in any engine."""
    kind = column.kind
    if kind in ("DATE", "DATETIME", "TIMESTAMP"):
        moment = chance.choice(DATES[:3] if kind == "DATE" else MOMENTS[1:]) if chance.random() < 0.7 else \
            chance.choice(DATES[:6] if kind != "TIMESTAMP" else MOMENTS)
        return quoted(moment if kind == "DATE" or column.decimals == 6 else moment.split(".")[0])
    if kind == "TIME":
        return quoted(chance.choice(TIMES).split(".")[0] if column.decimals < 6 else chance.choice(TIMES))
    if kind == "YEAR":
        return chance.choice(("1901", "2155", "2000", "1999", "0", "2024"))
    if kind == "ENUM":
        return quoted(chance.choice(("a", "b", "B2", "c c", "dd", "e")))
    if kind == "SET":
        return quoted(",".join(chance.sample(("a", "b", "B2", "c c", "dd", "e"), chance.randint(0, 3))))
    if kind == "UUID":
        return quoted(f"{chance.choice((0, 1, 0xFFFFFFFF)):08x}-0000-{chance.choice((0x1000, 0x4000, 0)):04x}-8000-{chance.randrange(4):012x}")
    if kind == "INET6":
        return quoted(chance.choice(("::", "::1", "ffff::", "2001:db8::1", "::ffff:1.2.3.4")))
    if kind == "INET4":
        return quoted(chance.choice(("0.0.0.0", "1.2.3.4", "255.255.255.255", "127.0.0.1")))
    if kind == "JSON":
        return quoted(chance.choice(DOCUMENTS))
    return f"ST_GeomFromText('{chance.choice(POINTS if kind == 'POINT' else SHAPES)}')"
