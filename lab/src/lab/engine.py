"""The engine files: what the lab has to know of a storage engine to measure it, as data. An engine without one is refused: without
the name of its pool, its files and its durability nothing measured of it could be compared."""
import difflib
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


class Pages(Form):
    """A setting that counts pages of the pool: a share of them within bounds."""
    share: float
    least: int
    most: int
    page_kb: int = 16
    page_option: str = ""  # the server option that changes the page size, in bytes

    def of(self, pool, options):
        page_kb = self.page_kb
        for option in options:
            name, _, value = option.lstrip("-").replace("_", "-").partition("=")
            if name == self.page_option:
                page_kb = size_mb(value) * 1024
        return min(max(int(size_mb(pool) * 1024 / page_kb * self.share), self.least), self.most)


class Engine(Form):
    name: str
    plugin: str = ""
    options: List[str] = []
    pool: List[str] = []
    pool_shares: Dict[str, float] = {}  # {pool_NAME} in `pool` is this share of the arm's pool
    pool_pages: Dict[str, Pages] = {}  # {pages_NAME} in `pool` is a number of pages
    idle: List[str] = []  # options when another engine is measured
    durability: List[str] = []
    durability_variable: str = ""
    install_options: List[str] = []  # options that shape a new data directory
    data_files: List[str] = []  # direct I/O is expected of these, below the data directory
    table_files: List[str] = []  # those of the experiment's own tables; without, INFORMATION_SCHEMA.TABLES tells their size
    counters: Dict[str, List[str]] = {}  # metric: status variables to add up
    counter_queries: Dict[str, str] = {}
    setup: List[str] = []  # statements after each start
    drain: Drain = Drain()
    debt: Dict[str, str] = {}  # deferred work in MB, each a query with one number
    debt_bounds: Dict[str, str] = {}  # the engine's own bound of a debt, by the same name, in MB

    @pydantic.model_validator(mode="after")
    def bounds_of_debts(self):
        unknown = [name for name in self.debt_bounds if name not in self.debt]
        if unknown:
            raise ValueError(f"[debt_bounds] has {unknown[0]!r}, which [debt] has not")
        return self

    def server_options(self, pool, durability, more=()):
        """The engine's options for a pool and a durability; `more` are options that follow and may say the size of a page."""
        parts = {f"pages_{name}": pages.of(pool, more) for name, pages in self.pool_pages.items()}
        parts |= {f"pool_{name}": f"{int(size_mb(pool) * share * 1024)}K" for name, share in self.pool_shares.items()}
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
    found = engines.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), engines, 1)
        hint = f"did you mean {engines[near[0]].name}?" if near else "lab/docs/engine-file.md tells how to write one"
        raise LabError(f"there is no engine {name!r} in lab/engines, which has {', '.join(one.name for one in engines.values())}; {hint}")
    return found


def missing(engine):
    """Why the engine cannot be run here, or ''."""
    if not engine.plugin:
        return ""
    stock = BUILD / "mariadb/usr/lib/mysql/plugin" / f"{engine.plugin}.so"
    own = BUILD / f"{engine.plugin}.so"
    return "" if stock.exists() or own.exists() else f"{engine.name} is not built: there is no {engine.plugin}.so; `make` builds it"
