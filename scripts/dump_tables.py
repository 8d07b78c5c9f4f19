"""The tables of dump_roundtrip.py: every column type at its limits, many collations, long values, generated columns, partitions,
foreign keys.

TABLES holds, by name, a definition with {} in the place of the engine's name, and a function (chance, row's number) that gives
the row's values: a list for all columns, or a dict for some. Foreign keys are not checked while the tables are made and filled.
CHANGES are statements that foreign keys refuse or carry out.
"""
ROWS = 300
COLLATIONS = ("latin1_swedish_ci", "latin1_nopad_bin", "utf8mb3_general_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci",
              "utf8mb4_unicode_520_nopad_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_german2_ci",
              "ucs2_general_ci", "utf16_unicode_ci", "utf32_bin", "cp1251_general_ci", "latin2_czech_cs", "tis620_thai_ci",
              "sjis_japanese_ci", "gbk_chinese_ci", "big5_bin")
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
LENGTHS = (0, 1, 255, 256, 700, 8000, 16000, 70000, 1100000)

TABLES = {}
# CHECKSUM TABLE covers the NULL bits of generated columns (a long UNIQUE key has a hidden one) but does not ask the engine for them:
# InnoDB's own differ after a dump and restore. Their rows are compared all the same.
WITHOUT_CHECKSUM = ("computed", "long_unique", "article")


def table(name, definition):
    def add(values):
        TABLES[name] = (definition, values)
        return values
    return add


@table("integers", "(id INT PRIMARY KEY, "
       + "".join(f"{kind[:2]}s {kind}, {kind[:2]}u {kind} UNSIGNED, KEY ({kind[:2]}s, {kind[:2]}u), " for kind in INTEGERS)
       + "z INT(9) UNSIGNED ZEROFILL, yes BOOL) ENGINE={}")
def integers(chance, number):
    row = [number]
    for bits in INTEGERS.values():
        half = 2 ** (bits - 1)
        row += [chance.choice([None, -half, half - 1, 0, -1, chance.randint(-half, half - 1)]),
                chance.choice([None, 0, 2 * half - 1, chance.randint(0, 2 * half - 1)])]
    return [*row, chance.randint(0, 10**9), chance.choice([None, 0, 1])]


@table("numbers", "(id INT PRIMARY KEY, f FLOAT, d DOUBLE, d1 DECIMAL(65,30), d2 DECIMAL(10,0), d3 DECIMAL(5,5), b1 BIT(1), "
                  "b9 BIT(9), b64 BIT(64), KEY (f), KEY (d DESC), KEY (d1), UNIQUE KEY (d2, id), KEY (b9), KEY (b64)) ENGINE={}")
def numbers(chance, number):
    """FLOATs that survive mariadb-dump, which writes six digits."""
    digits = chance.randint(-10**60, 10**60)
    return [number, chance.choice([None, 0.0, -1.5, chance.randint(-1000, 1000) / 4]),
            chance.choice([None, 1.7e308, -2.2e-308, chance.gauss(0, 1e9)]), f"{digits // 10**30}.{abs(digits) % 10**30:030d}",
            chance.randint(-10**10 + 1, 10**10 - 1), f"0.{chance.randint(0, 99999):05d}",
            chance.randint(0, 1), chance.randint(0, 511), chance.choice([None, 0, 2**64 - 1, chance.getrandbits(64)])]


@table("times", "(id INT PRIMARY KEY, d DATE, t TIME, t6 TIME(6), dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, "
                "ts6 TIMESTAMP(6) NULL, y YEAR, KEY (d), KEY (t6), KEY (dt6 DESC), KEY (ts6), KEY (y)) ENGINE={}")
def times(chance, number):
    def date():
        return chance.choice(["0000-00-00", "1000-01-01", "9999-12-31",
                              f"{chance.randint(1, 9999):04d}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"])

    def time():
        return f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}.{chance.randint(0, 999999):06d}"

    def stamp():
        return f"{chance.randint(1971, 2037)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d} {time()}"
    return [number, date(), chance.choice(["-838:59:59", "838:59:59", None]), f"-{time()}" if chance.random() < 0.5 else time(),
            *(f"{date()} {time()}" for _ in range(3)), chance.choice([None, stamp()]), stamp(), chance.choice([None, 1901, 2155, 0, 2024])]


@table("strings", "(id INT PRIMARY KEY, "
       + ", ".join(f"c{n} CHAR(20) COLLATE {name}, v{n} VARCHAR(30) COLLATE {name}, KEY (c{n}, v{n}(3) DESC)"
                   for n, name in enumerate(COLLATIONS)) + ") ENGINE={}")
def strings(chance, number):
    """Letters that every character set has, with case and trailing spaces, in columns of all collations."""
    return [number, *(chance.choice([None, "", " ", "a", "A ", "".join(chance.choices("abcABCxyz 019_-", k=chance.randint(1, 20)))])
                      for _ in range(2 * len(COLLATIONS)))]


@table("letters", "(c VARCHAR(40) COLLATE utf8mb4_unicode_ci NOT NULL, n INT, PRIMARY KEY (c, n), "
                  "u VARCHAR(40) COLLATE utf8mb4_nopad_bin, UNIQUE KEY (u, n), x CHAR(10) CHARACTER SET ucs2) ENGINE={}")
def letters(chance, number):
    text = "".join(chance.choices("aäßñéŁшЖ中文日本語한국🙂👩‍🚀\u0301 ", k=chance.randint(0, 20)))
    return [text, number, text, chance.choice([None, "żółw", "中"])]


@table("binaries", "(id BINARY(16) PRIMARY KEY, b BINARY(10), v VARBINARY(300), KEY (v, b), KEY (v(5))) ENGINE={}")
def binaries(chance, number):
    return [chance.randbytes(16), chance.choice([None, b"", b"\0\0", chance.randbytes(10)]),
            chance.choice([b"", b"\0", b"\xff" * 5, chance.randbytes(chance.randint(0, 300))])]


@table("long_values", "(id INT PRIMARY KEY, tb TINYBLOB, b BLOB, mb MEDIUMBLOB, lb LONGBLOB, tt TINYTEXT, t TEXT, mt MEDIUMTEXT, "
                      "lt LONGTEXT, KEY (b(100)), KEY (lt(50)), KEY (tt(20))) CHARACTER SET utf8mb4 ENGINE={}")
def long_values(chance, number):
    def length(most):
        fitting = [size for size in LENGTHS if size <= most]
        return chance.choice(fitting if number % 20 == 0 else fitting[:5])
    blobs = [chance.choice([None, chance.randbytes(length(most))]) for most in (255, 65535, 2**24, 2**32)]
    texts = [chance.choice([None, "xé" * (length(most) // 3)]) for most in (255, 65535, 2**24, 2**32)]
    return [number, *blobs, *texts]


@table("choices", "(id INT PRIMARY KEY, e ENUM('a','b','','ü'), s SET('x','y','z'), "
       "big SET(" + ",".join(f"'m{n}'" for n in range(64)) + "), j JSON, u UUID, i6 INET6, "
       "KEY (e), KEY (s), KEY (u), KEY (i6)) ENGINE={}")
def choices(chance, number):
    return [number, chance.choice([None, "a", "b", "", "ü"]), chance.choice([None, "", "x,z", "y"]),
            ",".join(f"m{n}" for n in sorted(chance.sample(range(64), chance.randint(0, 5)))), f'{{"n": {number}, "s": "é"}}',
            f"{chance.getrandbits(128):032x}", chance.choice([None, "::1", "2001:db8::ff", f"::ffff:10.0.{number % 256}.1"])]


@table("shapes", "(id INT PRIMARY KEY, p POINT, g GEOMETRY) ENGINE={}")
def shapes(chance, number):
    point = b"\0\0\0\0\1\1\0\0\0" + chance.randbytes(6) + b"\x40\x40" + chance.randbytes(6) + b"\x40\x40"
    return [number, chance.choice([None, point]), point]


@table("computed", "(id INT PRIMARY KEY, a INT, b VARCHAR(30), v INT AS (a * 2) VIRTUAL, s VARCHAR(70) AS (CONCAT(b, '-', a)) STORED, "
                   "u VARCHAR(30) AS (UPPER(b)) VIRTUAL, d DATETIME DEFAULT (NOW() - INTERVAL 1 DAY), hidden INT INVISIBLE DEFAULT 7, "
                   "CHECK (a < 100000), KEY (v), KEY (u, a), UNIQUE KEY (s, id)) ENGINE={}")
def computed(chance, number):
    return {"id": number, "a": chance.choice([None, chance.randint(-1000, 1000)]), "b": chance.choice([None, "", f"name {number}"])}


@table("no_key", "(a INT, b VARCHAR(20), c TEXT) ENGINE={}")
def no_key(chance, number):
    return [number % 7, chance.choice([None, "same"]), "same" if number % 2 else None]


@table("numbered", "(n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, a INT, PRIMARY KEY (n), KEY (a)) ENGINE={} AUTO_INCREMENT=1000000")
def numbered(chance, number):
    return {"a": number}


@table("descending", "(a INT NOT NULL, b VARCHAR(20) NOT NULL, c INT, PRIMARY KEY (a DESC, b), UNIQUE KEY (b DESC, a), UNIQUE KEY (c)) ENGINE={}")
def descending(chance, number):
    return [number % 10, f"b{number}", None if number % 3 else number]


@table("long_unique", "(id INT PRIMARY KEY, t TEXT, b LONGBLOB, UNIQUE KEY (t), UNIQUE KEY (b)) ENGINE={}")
def long_unique(chance, number):
    return [number, f"{number} " * 500, None if number % 5 == 0 else bytes([number % 256]) * 5000 + str(number).encode()]


@table("squeezed", "(id INT PRIMARY KEY, v VARCHAR(5000) COMPRESSED, b BLOB COMPRESSED) ENGINE={}")
def squeezed(chance, number):
    return [number, "abc" * chance.randint(0, 1600), chance.choice([None, b"\0" * chance.randint(0, 60000)])]


PARTITIONS = {
    "by_range": "RANGE (id) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (200), "
                "PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "by_list": "LIST (id % 3) (PARTITION l0 VALUES IN (0), PARTITION l1 VALUES IN (1, 2))",
    "by_hash": "HASH (id) PARTITIONS 5",
    "by_key": "KEY (id) PARTITIONS 3",
    "by_both": "RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 "
               "(PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)",
}
for kind, clause in PARTITIONS.items():
    @table(kind, f"(id INT PRIMARY KEY, a VARCHAR(50), KEY (a)) ENGINE={{}} PARTITION BY {clause}")
    def partitioned(chance, number):
        return [number, f"row {number}"]


# ---- foreign keys: a circle, a table that refers to itself, keys of several columns and of many types, names that need quotes ----
# No name has a backquote: InnoDB's SHOW CREATE TABLE does not double it.

@table("egg", "(id INT PRIMARY KEY, hen INT NOT NULL, CONSTRAINT egg_of_hen FOREIGN KEY (hen) REFERENCES hen (id) "
              "ON DELETE CASCADE ON UPDATE CASCADE) ENGINE={}")
def egg(chance, number):
    return [number, number]


@table("hen", "(id INT PRIMARY KEY, egg INT, name VARCHAR(20), FOREIGN KEY (egg) REFERENCES egg (id) ON DELETE SET NULL) ENGINE={}")
def hen(chance, number):
    return [number, None if number < 3 else number // 2, f"hen {number}"]


@table("person", "(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, mother BIGINT UNSIGNED, friend BIGINT UNSIGNED, KEY friend (friend, id), "
                 "CONSTRAINT `of mother` FOREIGN KEY (mother) REFERENCES person (id) ON DELETE CASCADE, "
                 "CONSTRAINT `of friend` FOREIGN KEY (friend) REFERENCES person (id) ON DELETE SET NULL ON UPDATE RESTRICT) ENGINE={}")
def person(chance, number):
    return [number, chance.choice([None, number]) if number < 5 else number // 2, chance.choice([None, chance.randint(1, ROWS)])]


@table("article", "(id INT PRIMARY KEY, region CHAR(3) COLLATE latin1_swedish_ci NOT NULL, code VARCHAR(20) COLLATE utf8mb4_unicode_ci NOT NULL, "
                  "price DECIMAL(10,2), day DATE, twin INT AS (id * 2) STORED, UNIQUE KEY by_code (region, code), UNIQUE KEY (twin), "
                  "KEY by_price (price, day)) ENGINE={}")
def article(chance, number):
    return {"id": number, "region": f"r{number % 5}", "code": f"é{number // 2}" if number % 2 else f"x{number}", "price": f"{number % 40}.50",
            "day": f"2024-01-{number % 28 + 1:02d}"}


@table("line", "(id INT NOT NULL, region CHAR(3) COLLATE latin1_swedish_ci, code VARCHAR(20) COLLATE utf8mb4_unicode_ci, price DECIMAL(10,2), "
               "twin INT, KEY `the key` (code, region), PRIMARY KEY (id DESC), "
               "CONSTRAINT `Größe, 'in quotes'` FOREIGN KEY (region, code) REFERENCES article (region, code) ON UPDATE CASCADE, "
               "CONSTRAINT FOREIGN KEY (price) REFERENCES article (price) ON DELETE NO ACTION ON UPDATE SET NULL, "
               "FOREIGN KEY (twin) REFERENCES article (twin) ON DELETE SET NULL) ENGINE={}")
def line(chance, number):
    of = chance.randint(1, ROWS)
    parent = article(chance, of)
    return [number, *chance.choice([(None, None), (parent["region"], None), (parent["region"].upper(), parent["code"].upper())]),
            chance.choice([None, parent["price"]]), chance.choice([None, 2 * of])]


KINDS = ("DATE", "TIME(3)", "DATETIME(6)", "TIMESTAMP(2) NULL", "YEAR", "DECIMAL(12,4)", "BIT(9)", "UUID", "INET6", "BINARY(4)", "VARBINARY(30)",
         "ENUM('a','b','c')", "DOUBLE", "BIGINT UNSIGNED", "CHAR(9) COLLATE utf8mb4_german2_ci")


def of_every_kind(number):
    """The same for every tenth number but for the first value."""
    n = number % 10
    return [f"2000-01-0{n or 9}", f"0{n}:00:00.125", f"2001-02-03 04:05:06.00000{n}", f"2001-02-03 04:05:06.{n}0", 2000 + n, f"{n}.2500",
            n, f"{n:032x}", f"::{n}", bytes([n, 0, 255, n]), b"\0" * n, "abc"[n % 3], n / 4, 2**63 + n, f"ä{n}"]


@table("kinds", "(id INT PRIMARY KEY, " + ", ".join(f"k{n} {kind}, KEY (k{n})" for n, kind in enumerate(KINDS)) + ") ENGINE={}")
def kinds(chance, number):
    return [number, *of_every_kind(number)]


@table("of_kinds", "(id INT PRIMARY KEY, " + ", ".join(
    f"k{n} {kind}, FOREIGN KEY (k{n}) REFERENCES kinds (k{n}) ON UPDATE CASCADE" for n, kind in enumerate(KINDS)) + ") ENGINE={}")
def of_kinds(chance, number):
    return [number, *(chance.choice([None, value]) for value in of_every_kind(number))]


# The tables that CHANGES concern.
FAMILIES = ("egg", "hen", "person", "article", "line", "kinds", "of_kinds")
# With foreign_key_checks = 1. The last parent of a kind goes, or a parent moves: refused, or the children follow.
CHANGES = (
    "INSERT INTO egg VALUES (5000, 5000)",
    "INSERT INTO hen VALUES (5000, 5000, '')",
    "INSERT INTO line VALUES (5000, 'r1', 'nowhere', NULL, NULL)",
    "INSERT INTO of_kinds (id, k7) VALUES (5000, 'ffffffff-0000-0000-0000-000000000000')",
    "UPDATE hen SET id = 6000 WHERE id = 200",
    "UPDATE person SET id = 6000 WHERE id = 1",
    "UPDATE article SET code = 'moved', price = 999 WHERE id IN (7, 9)",
    "UPDATE kinds SET k0 = '1999-12-31', k5 = 77, k9 = 'mov', k14 = 'Ö' WHERE id % 10 = 3",
    "DELETE FROM kinds WHERE id % 10 = 4",
    "DELETE FROM article WHERE id = 30",
    "DELETE line FROM line JOIN article USING (region, code) WHERE article.id > 100",
    "DELETE FROM article WHERE id > 280",
    "DELETE FROM hen WHERE id = 20",
    "DELETE FROM person WHERE id = 6",
    "DELETE FROM person WHERE id = 1",
    "DROP TABLE article",
    "TRUNCATE TABLE kinds",
    "DROP TABLE line",
    "DROP TABLE article",
)
