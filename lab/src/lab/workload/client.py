"""The lab's own load generator (lab/client); it prints the common form already."""
import json
import subprocess

from .. import BUILD, LAB, LabError
from . import run_program, words

TARGET = BUILD / "lab" / "target"
PROGRAM = TARGET / "release" / "lab-client"


def build():
    """Compiles the client when it is not up to date; cargo knows."""
    try:
        result = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", str(TARGET)], cwd=LAB / "client",
                                stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise LabError("Rust is missing: the load client is compiled with cargo") from None
    if result.returncode != 0:
        raise LabError(f"the load client does not compile: {result.stderr.strip().splitlines()[0] if result.stderr.strip() else 'see cargo build in lab/client'}")


def run(line, target, log):
    where = ["--socket", target.socket] if target.socket else ["--host", target.host, "--port", target.port]
    command = [PROGRAM, *where, "--database", target.database, "--engine", target.engine, "--seed", target.seed, *words(line)]
    output, _, cpu_s = run_program(command, log)
    return {**json.loads(output), "client_cpu_s": cpu_s}
