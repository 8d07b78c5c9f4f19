#!/usr/bin/env python3
"""Every command in docs/guide is run by a test. This runs those that no other test runs. A part of make test.

A command is a line of a fenced block, or a word in code letters that begins with a statement of SQL or with a program. scripts/guide.toml
has a table for each page, with every command of the page word for word:

    run      [[PAGE.run]]: it is run here, and prints what the regular expression `shows` or `refuses` says; `before`: SQL that runs first;
             `instead`: what is replaced in it; `then`: a command after it, and its regular expression; `stopped`: without the server;
             `file`: a file that it reads, and its content
    tested   {command = [file, text]}: the file is a test that runs it, and has the text
    not_run  {command = reason}
    named    statements that a sentence names, and that nobody is told to type

A command that the page has and the file has not is an error, and so is the reverse. Of `make TARGET` the Makefile must have the target.
The commands run on one server, in the order of the list.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from server import Server, ServerError, free_port  # noqa: E402

GUIDE = ROOT / "docs/guide"
LIST = ROOT / "scripts/guide.toml"
STATEMENT = re.compile(r"(SET|ALTER|CREATE|SHOW|CHECK|CHECKSUM|REPAIR|DROP|SELECT|INSERT|FLUSH|XA|KILL|LOAD|START|STOP|TRUNCATE|OPTIMIZE|"
                       r"UPDATE|DELETE|BACKUP|ANALYZE|INSTALL|UNINSTALL|LOCK|RENAME|BEGIN|SOURCE)\b(?!=)")
PROGRAM = re.compile(r"(apt|dpkg|systemctl|mariadb|mariadb-\w+|mysql|sluice-backup|sluice-check|chown|chattr|ddrescue|dd|touch|sed|scripts/\S+)( |$)")
# Names of packages and programs alone are no commands.
NAME_ALONE = re.compile(r"(mariadb|sluice)-[\w-]+$|mariadb$|mysql$|apt$|ddrescue$|scripts/\S+$")
MAKE = re.compile(r"make (?:[A-Z_]+=\S+ )*([a-z][\w.-]*)")
OPTIONS = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--innodb-buffer-pool-size=16M", "--sluice-buffer-pool-size=16M"]
SECONDS_MAX = 60


class Wrong(Exception):
    """The manual and its tests differ; the text says where."""


# ---- the commands of a page ----

def words(text):
    return " ".join(text.split())


def of_block(kind, text):
    """The commands of a fenced block."""
    if kind == "sql":
        return [words(part) for part in re.split(r";\s*(?:\n|$)", text) if part.strip()]
    if kind != "sh":
        return [words(text)]
    lines, found, here = re.sub(r"\s{2,}#.*", "", text).splitlines(), [], None
    for line in lines:
        # A quoted text may have several lines, and so may a here-document.
        if here or found and (found[-1].count('"') % 2 or found[-1].endswith("\\")):
            found[-1] += "\n" + line
            here = None if line == here else here
        elif line.strip():
            found.append(line)
            here = next(iter(re.findall(r"<<'(\w+)'$", line)), None)
    return [words(command) for command in found]


def is_command(span):
    return bool(STATEMENT.match(span) or PROGRAM.match(span)) and not NAME_ALONE.match(span)


def code_of(page):
    """Lines of fenced blocks, and words in code letters."""
    text = page.read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [command for kind, body in blocks if kind for command in of_block(kind, body)], [words(span).replace("\\|", "|") for span in re.findall(r"`([^`]+)`", rest)]


def commands_of(page):
    lines, spans = code_of(page)
    lines = [line for line in lines if not line.startswith("make ")]
    return list(dict.fromkeys([*lines, *(span for span in spans if is_command(span))]))


def targets_of(page):
    """The targets of make that the page names."""
    return {target for code in code_of(page) for text in code for target in MAKE.findall(text) if text.startswith("make ")}


def listed(about):
    return [*(words(one["text"]) for one in about.get("run", ())), *map(words, about.get("tested", ())), *map(words, about.get("not_run", ())),
            *map(words, about.get("named", ()))]


def compare(pages, about):
    """Every command is in the list, and every file that is said to test one has it."""
    wrong = []
    targets = set(re.findall(r"^([\w.-]+):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in pages:
        has, told = commands_of(page), listed(about.get(page.stem, {}))
        wrong += [f"docs/guide/{page.name}: scripts/guide.toml does not say who runs: {command}" for command in has if command not in told]
        wrong += [f"scripts/guide.toml: docs/guide/{page.name} has no command: {command}" for command in told if command not in has]
        wrong += [f"docs/guide/{page.name}: the Makefile has no target {name}" for name in targets_of(page) if name not in targets]
        for command, (file, text) in about.get(page.stem, {}).get("tested", {}).items():
            path = ROOT / file
            if not path.exists() or words(text) not in words(path.read_text(errors="replace")):
                wrong.append(f"scripts/guide.toml, {page.stem}: {file} does not have {text!r} (for: {command})")
    wrong += [f"scripts/guide.toml: there is no docs/guide/{name}.md" for name in about if not (GUIDE / f"{name}.md").exists()]
    if wrong:
        raise Wrong("\n".join(wrong))


# ---- running ----

class Runner:
    def __init__(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        self.place = folder / "files"
        self.place.mkdir(parents=True)
        self.server = Server(folder / "server", free_port(), OPTIONS)
        self.programs = folder / "programs"
        self.programs.mkdir()
        client = f"--no-defaults --socket={self.server.socket} --user=root"
        for name in ("mariadb", "mariadb-dump", "mariadb-check"):
            self.program(name, f'exec {self.server.base}/bin/{name} {client} "$@"')
        for name in ("sluice-check", "sluice-backup"):
            self.program(name, f'exec {ROOT}/target/release/{name} "$@"')

    def program(self, name, text):
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def page(self, name, about):
        if not about.get("run"):
            return
        self.server.start()
        self.server.sql("DROP DATABASE IF EXISTS guide; CREATE DATABASE guide")
        if "before" in about:
            self.server.sql(about["before"], "guide")
        for one in about["run"]:
            self.command(name, one)

    def command(self, page, one):
        if one.get("stopped"):
            self.server.stop()
        else:
            self.server.start()
        if "before" in one:
            self.server.sql(one["before"], "guide")
        if "file" in one:
            name, content = one["file"]
            (self.place / name).write_text(content)
        text = one["text"]
        for old, new in one.get("instead", ()):
            if old not in text:
                raise Wrong(f"scripts/guide.toml, {page}: {old!r} is not in {text!r}")
            text = text.replace(old, new.replace("DATADIR", str(self.server.data)).replace("ROOT", str(ROOT)))
        code, printed = self.spoken_by(text)
        wanted = one.get("refuses") or one["shows"]
        if not re.search(wanted, printed, flags=re.DOTALL) or bool(code) != ("refuses" in one):
            raise Wrong(f"docs/guide/{page}.md: {text}\nended with {code}, and not with {wanted!r}:\n{printed}")
        if "then" in one:
            text, wanted = one["then"]
            code, printed = self.spoken_by(text)
            if not re.search(wanted, printed, flags=re.DOTALL):
                raise Wrong(f"docs/guide/{page}.md: after {one['text']}: {text}\nprinted, and not {wanted!r}:\n{printed}")

    def spoken_by(self, text):
        return self.sql(text) if STATEMENT.match(text) else self.shell(text)

    def sql(self, text):
        return self.spoken(self.server.client("--table", "-vv", "--show-warnings", "guide"), input=text, cwd=self.place)

    def shell(self, text):
        return self.spoken(["bash", "-o", "pipefail", "-c", f"PATH={shlex.quote(str(self.programs))}:$PATH; {text}"], cwd=self.place)

    @staticmethod
    def spoken(command, **more):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, **more)
        return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description="Runs the commands of docs/guide, or says which test does.")
    parser.add_argument("page", nargs="*", help="some pages: moving-tables")
    parser.add_argument("--list", action="store_true", help="only compare the pages with scripts/guide.toml")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/run/guide", help="where the server lives; made anew")
    arguments = parser.parse_args()
    began = time.monotonic()
    about = tomllib.loads(LIST.read_text())
    pages = sorted(GUIDE.glob("*.md"))
    runner = None
    try:
        compare(pages, about)
        if not arguments.list:
            runner = Runner(arguments.folder)
            for name in arguments.page or about:
                runner.page(name, about[name])
    except (Wrong, ServerError, subprocess.TimeoutExpired) as error:
        sys.exit(f"error: {error}")
    finally:
        if runner:
            runner.server.stop()
    count = {kind: sum(len(page.get(kind, ())) for name, page in about.items() if name in (arguments.page or about)) for kind in ("run", "tested", "not_run")}
    print(f"docs/guide: {count['run']} commands run here, {count['tested']} by other tests, {count['not_run']} not ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
