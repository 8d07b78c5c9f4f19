#!/usr/bin/env python3
"""Prints Debian's copyright file of the packages: packages/copyright, and the crates that are linked into the programs.

Every crate must offer the MIT licence, which GPL-2 permits; another one ends the build with the crate's name.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIT_TEXT = """License: MIT
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 in the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE."""


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def linked():
    """(name, version) of what ends in a program: no macros, no tools of the build."""
    tools = re.sub(r"#.*", "", (ROOT / "packages/tools").read_text()).split()
    programs = [word for name in ["sluice-ffi", *tools] for word in ("-p", name)]
    listed = cargo("tree", "--locked", *programs, "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    return {tuple(line.split()[:2]) for line in listed.splitlines() if line}


def holders(crate):
    """The copyright lines of the crate's licence files; its authors where it has none."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if re.match(r"(LICEN[CS]E|COPYRIGHT|COPYING)", file.name) and "APACHE" not in file.name)
    lines = [line.strip() for file in files if file.is_file() for line in file.read_text(errors="replace").splitlines()]
    found = [line for line in lines if re.match(r"Copyright\s.*(\d{4}|contributors|authors|developers)", line, re.I)]
    return list(dict.fromkeys(found)) or crate["authors"] or [f"the authors of {crate['name']}"]


def main():
    print((ROOT / "packages/copyright").read_text())
    wanted = linked()
    for crate in json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]:
        if crate["source"] is None or (crate["name"], "v" + crate["version"]) not in wanted:
            continue
        if "MIT" not in re.split(r"[^\w.-]+", crate["license"] or ""):
            sys.exit(f"error: the crate {crate['name']} has the licence {crate['license']}: packages/copyright must say how it may be used")
        print(f"Files: crates/{crate['name']}-{crate['version']}/*")
        print("Copyright: " + "\n           ".join(holders(crate)))
        print("License: MIT\n")
    print("Files: std/*\nCopyright: The Rust Project Developers\nLicense: MIT\n")
    print(MIT_TEXT)


if __name__ == "__main__":
    main()
