"""The lab: asks a storage engine one question and gives an answer that can be trusted. See lab/README.md."""
import pathlib

LAB = pathlib.Path(__file__).resolve().parent.parent.parent
ROOT = LAB.parent
BUILD = ROOT / "build"
RESULTS = BUILD / "lab" / "results"


class LabError(Exception):
    """What the person at the terminal has to know; one line, no traceback."""
