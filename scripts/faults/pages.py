"""Pages in the engine's files, read and damaged from outside: what the fault trials need to know of the formats (drawn at the head of
engine/src/pool/page.rs and engine/src/space/mod.rs). A file of the server may be open meanwhile: reads and writes are whole pages.
"""
import struct
from collections import namedtuple

PAGE = 16384
DELTA_BIT = 1 << 31
FREE, FILE_HEADER, BITMAP, TREE, OVERFLOW, UNDO, SYSTEM = range(7)
CATALOG_FILE, UNDO_FILE = "00000001.slu", "00000002.slu"

Page = namedtuple("Page", "no kind level index lsn data")

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def sealed(data):
    """The page with a right checksum."""
    return struct.pack("<I", crc32c(data[4:])) + data[4:]


def pages(path):
    """Every page that has been written."""
    found = []
    with open(path, "rb") as file:
        no = 0
        while len(data := file.read(PAGE)) == PAGE:
            if any(data[:32]):
                index, lsn, kind, level = struct.unpack_from("<IQBB", data, 12)
                found.append(Page(no, kind, level, index, lsn, data))
            no += 1
    return found


def read(path, no):
    with open(path, "rb") as file:
        file.seek(no * PAGE)
        return file.read(PAGE)


def write(path, no, data):
    with open(path, "r+b") as file:
        file.seek(no * PAGE)
        file.write(data)
        file.flush()


def indexes(path):
    """Numbers of the indexes in a table's file, the clustered one first."""
    return sorted({page.index for page in pages(path) if page.kind == TREE and page.index < DELTA_BIT})


# ---- ways to damage a page: bytes before -> bytes after ----

def flipped(data):
    return data[:9000] + bytes([data[9000] ^ 4]) + data[9001:]


def zeroed(_data):
    return bytes(PAGE)
