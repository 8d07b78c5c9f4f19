"""The engine files: what the lab has to know of a storage engine to measure it, as data. An engine without a file works
too, with less known about it: no drain beyond waiting for its disk to be quiet, no direct I/O gate."""
from typing import Dict, List

import pydantic

from . import BUILD, LAB, LabError
from .experiment import Form, size_mb, tomllib

FOLDER = LAB / "engines"


class Drain(Form):
    statements: List[str] = []  # ask for it
    gauges: Dict[str, str] = {}  # what is left, each a query with one number
    zero: Dict[str, float] = {}  # a gauge counts as drained at or below this (0)
    undo: List[str] = []  # back to the settings of the run
    by_shutdown: List[str] = []  # statements before a shutdown that drains; the server then starts anew


class Engine(Form):
    name: str
    plugin: str = ""
    options: List[str] = []
    pool: List[str] = []
    pool_shares: Dict[str, float] = {}  # {pool_NAME} in `pool` is this share of the arm's pool
    idle: List[str] = []  # options when another engine is measured
    durability: List[str] = []
    durability_variable: str = ""
    install_options: List[str] = []  # options that shape a new data directory
    data_files: List[str] = []  # direct I/O is expected of these, below the data directory
    counters: Dict[str, List[str]] = {}  # metric: status variables to add up
    counter_queries: Dict[str, str] = {}
    setup: List[str] = []  # statements after each start
    drain: Drain = Drain()
    debt: Dict[str, str] = {}  # deferred work in MB, each a query with one number

    def server_options(self, pool, durability):
        parts = {f"pool_{name}": f"{int(size_mb(pool) * share * 1024)}K" for name, share in self.pool_shares.items()}
        values = {"pool": pool, "durability": durability, **parts}
        return [option.format(**values) for option in [*self.options, *self.pool, *self.durability]]


def load_all():
    engines = {}
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            engine = Engine(**tomllib.loads(path.read_text()))
        except (tomllib.TOMLDecodeError, pydantic.ValidationError) as error:
            raise LabError(f"{path.name}: {error}") from None
        engines[engine.name.lower()] = engine
    return engines


def find(engines, name):
    return engines.get(name.lower()) or Engine(name=name)


def missing(engine):
    """Why the engine cannot be run here, or ''."""
    if not engine.plugin:
        return ""
    stock = BUILD / "mariadb/usr/lib/mysql/plugin" / f"{engine.plugin}.so"
    own = BUILD / f"{engine.plugin}.so"
    return "" if stock.exists() or own.exists() else f"{engine.name} is not built: there is no {engine.plugin}.so"
