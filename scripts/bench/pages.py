#!/usr/bin/env python3
"""`make bench-pages`: writes docs/benchmarks/*.md from stored results.

docs/benchmarks/measurements.toml has the words, docs/benchmarks/results/*.json the figures (record.py
stores them). With --check it writes nothing, and fails when a page differs from what it would write.
"""
import argparse
import json
import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import display  # noqa: E402

FOLDER = HERE.parent.parent / "docs/benchmarks"
RESULTS = FOLDER / "results"
GENERATED = "<!-- Written by `make bench-pages` from measurements.toml and results/. Change those. -->"


def load():
    return tomllib.loads((FOLDER / "measurements.toml").read_text())["page"]


def result_of(name):
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def section(one):
    lines = [f"## {one['title']}", "", one["about"].strip(), "", "```sh", *one["commands"], "```", ""]
    found = result_of(one["name"])
    if found is None:
        return lines + [f"Not measured yet: `make record BENCH={one['name']}`.", ""]
    lines += [f"Commit {found['commit']}, {found['date']}; {found['machine']}.", ""]
    for entry in found["entries"]:
        if "text" in entry:
            lines += [entry["text"], ""]
            continue
        lines += [f"**{entry['title']}**", ""] if entry["title"] else []
        lines += [display.markdown(entry["columns"], entry["rows"]), ""]
    return lines


def text(page):
    lines = [f"# {page['title']}", "", GENERATED, "", page["about"].strip(), ""]
    for one in page["measurement"]:
        lines += section(one)
    return "\n".join(lines).rstrip() + "\n"


def index(all_pages):
    lines = ["# Measurements", "", GENERATED, "", "| page | question | measured on commit |", "|---|---|---|"]
    for page in all_pages:
        found = filter(None, (result_of(one["name"]) for one in page["measurement"]))
        commits = ", ".join(dict.fromkeys(result["commit"] for result in found)) or "not yet"
        lines.append(f"| [{page['file']}]({page['file']}) | {page['question']} | {commits} |")
    return "\n".join([*lines, "", (FOLDER / "conditions.txt").read_text().strip()]) + "\n"


def all_texts():
    found = load()
    return {FOLDER / page["file"]: text(page) for page in found} | {FOLDER / "README.md": index(found)}


def write():
    for path, content in all_texts().items():
        path.write_text(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is not as it would be written")
    if not parser.parse_args().check:
        return write()
    differ = [path.name for path, content in all_texts().items() if not path.exists() or path.read_text() != content]
    if differ:
        sys.exit(f"error: docs/benchmarks/{differ[0]} is not what its results say: make bench-pages")


if __name__ == "__main__":
    main()
