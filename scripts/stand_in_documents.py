#!/usr/bin/env python3
"""The commands of five published documents about InnoDB, run on the stand-in, each output checked.

scripts/stand_in_documents.toml has the commands word for word, and what each must print. By default the tables are smaller and the
runs shorter than in the documents; --full runs every command as it is (more than an hour). --page writes
docs/stand-in-documents.md. The client programs find the server by its socket; nothing else is changed. Exit code 1 when an output
is not as it must be.
"""
import argparse
import os
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
from server import PREFIX, Server, ServerError, free_port  # noqa: E402

COMMANDS = ROOT / "scripts/stand_in_documents.toml"
PAGE = ROOT / "docs/stand-in-documents.md"
CHARACTERS_SHOWN = 90
PASSWORD = "password"
SECONDS_MAX = 3 * 3600


def programs(server):
    """A folder with the programs that the documents call, told where the server is."""
    folder = server.folder / "programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    share = server.prefix / "usr/share/sysbench"
    sysbench = (f'arguments=()\nfor argument; do\n  case $argument in --mysql-host=*|--mysql-port=*) ;; *) arguments+=("$argument") ;; esac\ndone\n'
                f'cd {share}\nLUA_PATH="{share}/?.lua" exec {server.prefix}/usr/bin/sysbench --mysql-socket={server.socket} "${{arguments[@]}}"\n')
    texts = {
        "mysql": f'exec {server.base}/bin/mariadb --no-defaults --socket={server.socket} --user=root "$@"\n',
        "mysqlslap": f'exec {server.base}/bin/mariadb-slap --no-defaults --socket={server.socket} --user=root "$@"\n',
        "sysbench": sysbench,
    }
    for name, text in texts.items():
        (folder / name).write_text("#!/bin/bash\n" + text)
        (folder / name).chmod(0o755)
    return folder


class Document:
    def __init__(self, name, about, full, folder):
        self.name = name
        self.about = about
        self.full = full
        self.server = Server(folder / name, free_port(), stand_in=True)
        self.results = []  # (command, what it printed, whether that is right)
        self.log_read = 0

    def run(self):
        shutil.rmtree(self.server.folder, ignore_errors=True)
        try:
            self.server.start()
            # The documents log in with -ppassword.
            self.server.sql(f"SET PASSWORD FOR root@localhost = PASSWORD('{PASSWORD}')")
            for command in self.about["commands"]:
                self._run(command)
        finally:
            self.server.stop()

    def _run(self, command):
        if command["kind"] == "not-run":
            self.results.append((command, "", True))
            return
        printed = getattr(self, "_" + command["kind"])(command)
        wanted = command.get("refuses") or command["shows"]
        right = bool(re.search(wanted, printed, flags=re.DOTALL)) and ("refuses" in command or "ERROR" not in printed)
        if "log" in command:
            right = right and bool(re.search(command["log"], self.server.log.read_text(errors="replace")))
        self.results.append((command, printed, right))

    def text_of(self, command, key="text"):
        text = command[key]
        for long, short in () if self.full else command.get("smaller", ()):
            text = text.replace(long, short)
        return text

    def _sql(self, command, key="text"):
        # As a terminal shows it: tables, and "Query OK".
        arguments = ["-vvv", "--table", *([command["database"]] if "database" in command else [])]
        result = subprocess.run(self.server.client(*arguments), input=self.text_of(command, key), env={**os.environ, "MYSQL_PWD": PASSWORD},
                                capture_output=True, text=True, timeout=SECONDS_MAX)
        return result.stdout + result.stderr

    def _shell(self, command):
        environment = {**os.environ, "MYSQL_PWD": PASSWORD, "PATH": f"{programs(self.server)}:{os.environ['PATH']}"}
        result = subprocess.run(["bash", "-c", self.text_of(command)], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
        return result.stdout + result.stderr

    def _option(self, command):
        self.server.stop()
        own = ["--ignore-builtin-innodb"]
        self.server.options = own + shlex.split(self.text_of(command, "as_option"))
        self.server.start()
        return self._sql(command, "ask")


def page(documents, full):
    lines = ["# The documents' commands on the stand-in", "",
             "Written by `scripts/stand_in_documents.py --page`. The commands of five published documents about InnoDB ran, word for word, on",
             "[the stand-in](guide/stand-in.md). Every output was checked against what `scripts/stand_in_documents.toml` says it must be."]
    if not full:
        lines += ["Tables were smaller and runs shorter than in the documents where a row says so."]
    for document in documents:
        ran = [right for command, _, right in document.results if command["kind"] != "not-run"]
        lines += ["", f"## {document.name}", "", f"Of {document.about['source']}. {sum(ran)} of {len(ran)} outputs are as they must be.", "",
                  "| command | outcome | the last that it printed |", "|---|---|---|"]
        seen = []
        for command, printed, right in document.results:
            lines.append(row(document, command, printed, right, seen))
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


def cell(text):
    return text.replace("|", "\\|")


def code(text):
    return f"`` {cell(text)} ``" if "`" in text else f"`{cell(text)}`"


def row(document, command, printed, right, seen):
    text = " ".join(command["text"].replace("\\\n", " ").split())
    if text in seen:
        text = text[:text.index(" ")] + " ... " + " ".join(text.split()[-2:]) + " (as above)"
    seen.append(text)
    outcome = "not run" if command["kind"] == "not-run" else "WRONG" if not right else "refused, as it must be" if "refuses" in command else "ok"
    notes = [command["note"]] if "note" in command else []
    if not document.full and command.get("smaller"):
        notes.append("with " + ", ".join(f"{short} for {long}" for long, short in command["smaller"]))
    if command["kind"] == "option":
        notes.append(f"as `{document.text_of(command, 'as_option')}`")
    shown = [line.strip() for line in printed.splitlines() if re.search(r"\w", line) and not line.startswith("Bye")]
    # A table's row says more than how long it took.
    shown = [line for line in shown if not re.match(r"\d+ rows? in set", line)] or shown
    last = shown[-1][:CHARACTERS_SHOWN] if shown else ""
    return f"| {code(text)} | {cell('; '.join([outcome, *notes]))} | {code(last) if last else ''} |"


def main():
    parser = argparse.ArgumentParser(description="The commands of five documents about InnoDB, run on the stand-in.")
    parser.add_argument("--full", action="store_true", help="as large and long as in the documents")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="DOCUMENT,...", help="only these documents")
    parser.add_argument("--page", action="store_true", help="write docs/stand-in-documents.md")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/run/documents", help="where the servers live")
    arguments = parser.parse_args()
    if not (ROOT / "build/ha_innodb.so").exists():
        sys.exit("error: there is no build/ha_innodb.so: run make stand-in first")
    began = time.monotonic()
    documents = [Document(name, about, arguments.full, arguments.folder) for name, about in tomllib.loads(COMMANDS.read_text()).items()
                 if not arguments.only or name in arguments.only]
    wrong = 0
    try:
        for document in documents:
            document.run()
            for command, printed, right in document.results:
                if not right:
                    wrong += 1
                    print(f"{document.name}: wrong: {document.text_of(command)}\n{printed}\n", file=sys.stderr)
    except ServerError as error:
        sys.exit(f"error: {error}")
    if arguments.page:
        page(documents, arguments.full)
    total = sum(command["kind"] != "not-run" for document in documents for command, _, _ in document.results)
    print(f"{len(documents)} documents, {total} commands, {total - wrong} outputs as they must be, {wrong} wrong ({time.monotonic() - began:.0f} s)")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
