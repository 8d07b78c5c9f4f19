"""The SQL of an application: out of its Debian package (downloaded by scripts/apps/fetch), made ready for an engine.

read() gives the files' texts; ready() gives the text to run: without the statements that choose a database, with what the client
would include, and with the engine's name in the place of InnoDB's. Statements stay on their lines, except behind an included file.
"""
import fnmatch
import gzip
import io
import pathlib
import posixpath
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
APPS = ROOT / "build/apps"
SAMPLES = pathlib.Path(__file__).resolve().parent / "samples"


class PackageError(Exception):
    """A package or a file in it cannot be had; the text says which."""


def fetch(packages):
    """Downloads what is not there, and returns the names that this Debian does not have."""
    wanted = sorted(name for name in set(packages) if not archives(name))
    missing = APPS / "missing"
    known = set(missing.read_text().split()) if missing.exists() else set()
    if set(wanted) - known and subprocess.run([ROOT / "scripts/apps/fetch", *wanted], check=False).returncode != 0:
        raise PackageError("the packages of the applications cannot be downloaded")
    return set(missing.read_text().split()) if missing.exists() else set()


def archives(package):
    return sorted((APPS / "archives").glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)


def version(package):
    """Such as 2.11.4-2+deb12u1, without the epoch."""
    return archives(package)[-1].name.split("_")[1].rpartition("%3a")[2]


def read(application):
    """[(path, text)] of an application's files, in their order."""
    if application.package == "":
        return [(path, (SAMPLES / path).read_text(encoding="utf-8")) for path in application.files]
    folder = unpacked(application)
    result = []
    for pattern in application.files:
        paths = sorted(fnmatch.filter((str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()), pattern))
        if not paths:
            raise PackageError(f"the package {application.package} has no file {pattern}: correct scripts/apps/catalogue.py")
        result += [(path, text_of(folder / path)) for path in paths if path not in dict(result)]
    return result


def unpacked(application):
    """The folder with the files of a package that may hold SQL. Links are left out."""
    archive = archives(application.package)[-1]
    folder = APPS / "files" / archive.stem
    done = folder / ".complete"
    if done.exists():
        return folder
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            path = posixpath.normpath(member.name)
            if not member.isfile() or not re.search(r"sql|schema", path) or path.startswith(("..", "/")):
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(member).read())
    folder.mkdir(parents=True, exist_ok=True)
    done.touch()
    return folder


def text_of(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="surrogateescape")


def ready(application, path, text, engine):
    for pattern, replacement in application.changes:
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    if path.endswith(".php"):
        text = "\n".join(match.group(1) for match in re.finditer(r'=\s*"(CREATE TABLE.*?)";', text, re.DOTALL))
    text = re.sub(r"^[ \t]*source[ \t]+(/\S+)[ \t]*$", lambda match: included(application, match.group(1)), text, flags=re.MULTILINE)
    text = without_databases(text)
    return in_engine(text, "InnoDB", engine)


def included(application, path):
    """What the client would read there. Its path is that of the installed package."""
    file = unpacked(application) / path.lstrip("/")
    if not file.is_file():
        raise PackageError(f"the package {application.package} includes {path}, and does not have it")
    return text_of(file)


def without_databases(text):
    """Every application is loaded into a database that is already chosen."""
    def blank(match):
        return "\n" * match.group(0).count("\n")
    text = re.sub(r"^[ \t]*CREATE DATABASE\b[^;]*;", blank, text, flags=re.MULTILINE | re.IGNORECASE)
    return re.sub(r"^[ \t]*USE[ \t]+[`\w]+[ \t]*;", "", text, flags=re.MULTILINE | re.IGNORECASE)


def in_engine(text, before, after):
    return re.sub(rf"\b(ENGINE ?= ?){before}\b", rf"\g<1>{after}", text, flags=re.IGNORECASE)
