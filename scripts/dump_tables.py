"""The tables of dump_roundtrip.py: every column type at its limits, many collations, long values, generated columns, partitions.

TABLES holds, by name, a definition with {} in the place of the engine's name, and a function (chance, row's number) that gives
the row's values: a list for all columns, or a dict for some.
"""
ROWS = 300
COLLATIONS = ("latin1_swedish_ci", "latin1_nopad_bin", "utf8mb3_general_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci",
              "utf8mb4_unicode_520_nopad_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_german2_ci",
              "ucs2_general_ci", "utf16_unicode_ci", "utf32_bin", "cp1251_general_ci", "latin2_czech_cs", "tis620_thai_ci",
              "sjis_japanese_ci", "gbk_chinese_ci", "big5_bin")
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
LENGTHS = (0, 1, 255, 256, 700, 8000, 16000, 70000, 1100000)

TABLES = {}
# CHECKSUM TABLE covers the NULL bits of virtual columns (a long UNIQUE key has a hidden one) but does not ask the engine for them:
# InnoDB's own differ after a dump and restore. Their rows are compared all the same.
WITHOUT_CHECKSUM = ("computed", "long_unique")


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
