"""Programs that only some experiments need, fetched by scripts/fetch-lab-tools into build/lab-tools when they are first
asked for. What cannot be had is refused with the one line that the script ends with; the cells say so in the report."""
import functools
import os
import pathlib
import re
import shutil
import subprocess

from . import BUILD, ROOT, LabError

TOOLS = BUILD / "lab-tools"


class Missing(LabError):
    """A program that cannot be had here; its cells are marked, and the run goes on."""


@functools.lru_cache(maxsize=None)
def _fetch(name):
    """'' or the reason; asked once a run."""
    result = subprocess.run([ROOT / "scripts" / "fetch-lab-tools", name], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode == 0:
        return ""
    lines = result.stderr.strip().splitlines() or ["fetch-lab-tools said nothing"]
    # Reports are handed on: no paths and no mirrors of this machine in them.
    return re.sub(r" \(https?://[^)]*\)|; log: \S+| \(log: [^)]*\)", "", lines[-1].removeprefix("error: "))


def prefix(name):
    """The folder that a set of programs is unpacked in."""
    reason = _fetch(name)
    if reason:
        raise Missing(reason)
    return TOOLS / name


def program(name):
    """A single program: the system's when it has one, else ours."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found:
        return pathlib.Path(found), dict(os.environ)
    folder = prefix(name)
    path = next((folder / place / name for place in ("usr/sbin", "usr/bin", "bin") if (folder / place / name).exists()), None)
    if path is None:
        raise Missing(f"{name} is not in build/lab-tools/{name}: remove that folder and try again")
    return path, environment(folder)


def environment(folder):
    """Where a program of a prefix finds its libraries."""
    libraries = [str(path) for path in [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu")]]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def ruby_environment(folder):
    """Debian's Ruby, run from a prefix: its compiled-in paths are replaced by these."""
    folders = ["usr/lib/ruby/vendor_ruby", "usr/lib/*-linux-gnu/ruby/vendor_ruby/*", "usr/lib/ruby/[0-9]*", "usr/lib/*-linux-gnu/ruby/[0-9]*"]
    gems = ["usr/share/rubygems-integration/*", "usr/lib/*-linux-gnu/rubygems-integration/*", "usr/lib/ruby/gems/*"]

    def paths(patterns):
        return os.pathsep.join(str(path) for pattern in patterns for path in sorted(folder.glob(pattern)))
    return {**environment(folder), "RUBYLIB": paths(folders), "GEM_PATH": paths(gems), "RACK_ENV": "production", "RAILS_ENV": "production", "LANG": "C.UTF-8"}
