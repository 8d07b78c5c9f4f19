#!/usr/bin/env python3
"""Prints the apt source (deb822) that the private MariaDB is fetched from: Debian's main suite, on the mirror this system uses.

The main suite alone, because server packages and server source must be one version: the security suite can carry a newer
server than the newest source that can be downloaded. DEBIAN_MIRROR=URL overrides what the system's apt has configured.
Further suites that are named, and configured here, are printed for their sources alone: apt_sources.py bookworm bookworm-security
With APT_BINARIES=1 also for their packages.
Called by private-apt.sh.
"""
import glob
import os
import re
import sys
from dataclasses import dataclass, field


@dataclass
class Source:
    uris: list
    suites: list
    components: list
    signed_by: str = ""
    trusted: bool = False
    types: list = field(default_factory=lambda: ["deb"])


def one_line(text):
    """The classic format: deb [option=value ...] URI suite component..."""
    for line in text.splitlines():
        match = re.match(r"\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s+([^#]*)", line)
        if not match:
            continue
        kind, options, uri, suite, components = match.groups()
        options = dict(o.split("=", 1) for o in (options or "").split() if "=" in o)
        yield Source([uri], [suite], components.split(), options.get("signed-by", ""), options.get("trusted") == "yes", [kind])


def deb822(text):
    """The stanza format of *.sources files. An inline key (Signed-By over several lines) is kept as it stands."""
    for stanza in re.split(r"\n\s*\n", text):
        fields, last = {}, None
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and last:
                fields[last] += "\n" + line
            elif ":" in line:
                last, value = line.split(":", 1)
                last = last.strip().lower()
                fields[last] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0") or "uris" not in fields:
            continue
        yield Source(fields["uris"].split(), fields.get("suites", "").split(), fields.get("components", "").split(),
                     fields.get("signed-by", ""), fields.get("trusted", "").lower() == "yes", fields.get("types", "deb").split())


def system_sources(etc):
    for path in [os.path.join(etc, "sources.list"), *sorted(glob.glob(os.path.join(etc, "sources.list.d", "*")))]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if path.endswith(".sources"):
            yield from deb822(text)
        elif path.endswith(".list"):
            yield from one_line(text)


def main_suite(sources, suite):
    """Debian's own entries first: another vendor may publish a suite of the same name."""
    fitting = [s for s in sources if "deb" in s.types and suite in s.suites and "main" in s.components]
    return next(iter(sorted(fitting, key=lambda s: 0 if "debian-archive" in s.signed_by else 1 if not s.signed_by else 2)), None)


def stanza(types, source, suite):
    print("Types: " + types, "URIs: " + " ".join(source.uris), f"Suites: {suite}", "Components: main", sep="\n")
    if source.signed_by:
        print("Signed-By: " + source.signed_by)
    if source.trusted:
        print("Trusted: yes")


def main(suite, *further, etc="/etc/apt"):
    mirror = os.environ.get("DEBIAN_MIRROR")
    source = Source([mirror], [suite], ["main"]) if mirror else main_suite(system_sources(etc), suite)
    if source is None:
        sys.exit(f"no apt source for Debian's main suite '{suite}' is configured: set DEBIAN_MIRROR=URL to name one")
    stanza("deb deb-src", source, suite)
    for name in further if not mirror else ():
        if more := main_suite(system_sources(etc), name):
            print()
            stanza("deb deb-src" if os.environ.get("APT_BINARIES") else "deb-src", more, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
