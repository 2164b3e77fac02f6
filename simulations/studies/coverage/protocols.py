"""What each protocol states of a population, and what of it is not so."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from ldp_flower import Categories, Schema, Users, assigned_arms, simulate
from ldp_flower.strategies import (
    Counts,
    Describe,
    Difference,
    Distribution,
    HeavyHitters,
    Means,
    Quantiles,
    TooFewReports,
    TwoWay,
)

from .populations import COLUMNS, Floats, Integers, draw_items, groups_of, items

_NORMAL = 1.95996
_BAND = 1.358  # Kolmogorov's distribution at 95 %
_POINTS = (np.arange(1000) + 0.5) / 1000
_QUARTERS = [0.25, 0.5, 0.75]
_FIRST = {1: 0.5, 3: 0.2, 9: 0.7}  # shares of the first of two arms; private if they are the last
_EFFECT = 0.2  # difference between arms, in standard deviations
_KINDS = {1: 2, 3: 8, 9: 40}  # categories of Counts; Describe has two more columns of them


@dataclass(frozen=True)
class Cell:
    """A population, and ``number`` levels or columns, or kinds of categories; rows of a user.

    ``nodes`` is the number of nodes that add noise to the sums over their users, or share it; 0 if
    users add noise.
    """

    column: str
    users: int
    epsilon: float
    number: int
    rows: str
    nodes: int = 0
    shared: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the strategy."""
        return {"epsilon": self.epsilon, "noise": self.noise}

    @property
    def noise(self) -> str:
        """Where the noise is."""
        return "shared" if self.shared else "node" if self.nodes else "user"

    @property
    def name(self) -> str:
        """The parts of its name in a pattern, and in the seeds of its random numbers."""
        *population, nodes, _ = astuple(self)
        place = {"user": (), "node": (nodes,), "shared": (nodes, "shared")}[self.noise]
        return "/".join(map(str, (*population, *place)))

    def asked(self, strategy: Any, users: Users, seed: int) -> Any:
        """Return what a strategy finds."""
        return simulate(strategy, users, seed=seed, num_nodes=self.nodes or 1)


def measure(protocol: str, cell: Cell, seed: int) -> dict[str, Any]:
    """Return how many intervals a run states, how many miss, and how wide and far off they are.

    ``width`` and ``error`` are those of quantiles in rank, and of distribution functions. Each
    cell has random numbers of its own: with those of another, it would miss where that one does.
    """
    rng = np.random.default_rng([seed, crc32(f"{protocol}/{cell.name}".encode())])
    groups = groups_of(cell.users, cell.rows, rng)
    try:
        return _MEASURES[protocol](cell, groups, rng, int(rng.integers(1 << 31)))
    except TooFewReports:
        nothing = {"intervals": 0, "missed": 0, "noted": 0, "width": np.nan, "error": np.nan}
        return {**nothing, "refused": 1}


def levels_of(number: int) -> list[float]:
    """Return one, three or nine levels."""
    return [0.5] if number == 1 else np.linspace(0.1, 0.9, number).round(3).tolist()


def _row(missed: NDArray[np.bool_], result: Any, width: float, error: float) -> dict[str, Any]:
    return {
        "intervals": missed.size,
        "missed": int(missed.sum()),
        "noted": int(bool(result.notes)),
        "width": f"{width:.4g}",
        "error": f"{error:.4g}",
        "refused": 0,
    }


def _noise(epsilon: float) -> float:
    """Return the variance of what one bit tells of a share, beside that of the users."""
    return float(np.exp(epsilon) / np.expm1(epsilon) ** 2)


def _quantiles(cell: Cell, groups: Integers, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    column, levels = COLUMNS[cell.column], np.array(levels_of(cell.number))
    schema = Schema({"x": column.bounds})
    strategy = Quantiles(schema, "x", levels.tolist(), **cell.options)
    users = schema.users({"x": column.draw(groups, rng)}, groups=groups)
    found = cell.asked(strategy, users, seed)
    slack = 1e-9 * (column.bounds.high - column.bounds.low)
    true = column.quantile(levels)
    missed = (true < found.lower - slack) | (true > found.upper + slack)
    spread = np.sqrt((_noise(cell.epsilon) + levels * (1 - levels)) * len(levels) / cell.users)
    width = column.cdf(found.upper + slack) - column.below(found.lower - slack)
    below, up_to = column.below(found.values - slack), column.cdf(found.values + slack)
    off = np.maximum(np.maximum(below - levels, levels - up_to), 0)
    wide = float(np.mean(width / (2 * _NORMAL * spread)))
    return _row(missed, found, wide, float(np.sqrt(np.mean(off**2))))


def _distribution(
    cell: Cell, groups: Integers, rng: np.random.Generator, seed: int
) -> dict[str, Any]:
    column = COLUMNS[cell.column]
    schema = Schema({"x": column.bounds})
    users = schema.users({"x": column.draw(groups, rng)}, groups=groups)
    found = cell.asked(Distribution(schema, "x", **cell.options), users, seed)
    band = found.band()
    at, lower, upper = (band[name].to_numpy() for name in ("x", "lower", "upper"))
    # A function that jumps has two values at one place, of which the first is from below. So is the
    # first of all, since the band begins at 0.
    from_below = np.append(at[1:] == at[:-1], False)
    from_below[0] = True
    true = np.where(from_below, column.below(at), column.cdf(at))
    missed = ((true < lower - 1e-9) | (true > upper + 1e-9)).any(keepdims=True)
    values = np.unique(column.quantile(_POINTS))
    error = np.abs(found.cdf(values) - column.cdf(values)).max()
    error = max(error, np.abs(found.cdf(at) - column.cdf(at)).max())  # where nobody is, too
    place = np.searchsorted(at, column.quantile(_POINTS), side="right")
    above = np.append(upper, 1.0)[place]
    under = np.append(0.0, lower)[place]
    ideal = 2 * _BAND * np.sqrt((1 + 4 * _noise(cell.epsilon)) / cell.users)
    return _row(missed, found, float(np.mean(above - under) / ideal), float(error))


def _stated(table: DataFrame, value: str) -> tuple[Floats, Floats]:
    """Return the ends of the intervals that a table states, of 95 % where it has errors only."""
    if "95 % from" in table:
        return table["95 % from"].to_numpy(), table["95 % to"].to_numpy()
    middle, error = table[value].to_numpy(), table["standard error"].to_numpy()
    return middle - _NORMAL * error, middle + _NORMAL * error


def _missed(ends: tuple[Floats, Floats], true: Floats, result: Any) -> dict[str, Any]:
    lower, upper = ends
    told = np.isfinite(lower) & np.isfinite(upper)
    true, lower, upper = true[told], lower[told], upper[told]
    missed = (true < lower - 1e-9) | (true > upper + 1e-9)
    off = (lower + upper) / 2 - true
    return _row(missed, result, np.nan, float(np.linalg.norm(off) / np.sqrt(max(off.size, 1))))


def _means(cell: Cell, groups: Integers, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    column, names = COLUMNS[cell.column], [f"x{i}" for i in range(cell.number)]
    schema = Schema({name: column.bounds for name in names})
    users = schema.users({name: column.draw(groups, rng) for name in names}, groups=groups)
    found = cell.asked(Means(schema, names, **cell.options), users, seed)
    true = np.full(len(names), column.entries.mean())
    return _missed(_stated(found.table(), "mean"), true, found)


def _difference(
    cell: Cell, groups: Integers, rng: np.random.Generator, seed: int
) -> dict[str, Any]:
    """Compare two arms, which differ by a shift within the bounds."""
    column, first = COLUMNS[cell.column], _FIRST[cell.number]
    low, high = column.bounds.low, column.bounds.high
    assigned = not cell.nodes and cell.number < max(_FIRST)
    schema = Schema({"x": column.bounds, "arm": _kinds(2)})
    arms = assigned_arms("arm", np.arange(cell.users), first)
    if not assigned:
        arms = (rng.random(cell.users) >= first).astype(np.int64)
    shift = _EFFECT * column.entries.std()
    rows = np.clip(column.draw(groups, rng) + shift * arms[groups], low, high)
    users = schema.users({"x": rows, "arm": arms[groups].astype(str)}, groups=groups)
    options = {"assigned": True, "allocation": first} if assigned else {}
    found = cell.asked(Difference(schema, "x", by="arm", **options, **cell.options), users, seed)
    true = np.clip(column.entries + shift, low, high).mean() - column.entries.mean()
    return _missed((np.array([found.lower]), np.array([found.upper])), np.array([true]), found)


def _counts(cell: Cell, groups: Integers, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    shares = items(_KINDS[cell.number])
    schema = Schema({"x": _kinds(len(shares))})
    users = schema.users({"x": draw_items(shares, groups, rng).astype(str)}, groups=groups)
    found = cell.asked(Counts(schema, "x", **cell.options), users, seed)
    return _missed(_stated(found.table(), "share"), shares, found)


def _two_way(cell: Cell, groups: Integers, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    size = {1: 2, 3: 3, 9: 6}[cell.number]
    shares = items(size**2)
    row, column = np.divmod(draw_items(shares, groups, rng), size)
    schema = Schema({"row": _kinds(size), "column": _kinds(size)})
    users = schema.users({"row": row.astype(str), "column": column.astype(str)}, groups=groups)
    found = cell.asked(TwoWay(schema, "row", "column", **cell.options), users, seed)
    return _missed(_stated(found.table(), "share"), shares, found)


def _describe(cell: Cell, groups: Integers, rng: np.random.Generator, seed: int) -> dict[str, Any]:
    """Describe a column of numbers; of several, each third has categories."""
    column, shares = COLUMNS[cell.column], items(4)
    number = cell.number - cell.number // 3
    schema = Schema(
        {f"x{i}": column.bounds for i in range(number)}
        | {f"k{i}": _kinds(4) for i in range(cell.number // 3)}
    )
    table: dict[str, Any] = {f"x{i}": column.draw(groups, rng) for i in range(number)}
    for i in range(cell.number // 3):
        table[f"k{i}"] = draw_items(shares, groups, rng).astype(str)
    strategy = Describe(schema, **cell.options)
    found = cell.asked(strategy, schema.users(table, groups=groups), seed)
    true = np.array([column.entries.mean(), column.entries.std(), *column.quantile(_QUARTERS)])
    told, errors = (
        np.concatenate([numbers[1:].ravel(), *kinds])
        for numbers, kinds in (
            (found.values, found.shares),
            (found.std_error, found.share_errors),
        )
    )
    every = np.concatenate([np.repeat(true, number), *[shares] * (cell.number // 3)])
    return _missed((told - _NORMAL * errors, told + _NORMAL * errors), every, found)


def _heavy_hitters(
    cell: Cell, groups: Integers, rng: np.random.Generator, seed: int
) -> dict[str, Any]:
    shares = items({1: 50, 3: 1000, 9: 1000}[cell.number])
    domain = {1: 64, 3: 1 << 12, 9: 1 << 30}[cell.number]
    names = rng.permutation(min(domain, 1 << 20))[: len(shares)]
    users = Users.from_items(names[draw_items(shares, groups, rng)], groups)
    found = cell.asked(HeavyHitters(domain, **cell.options), users, seed)
    true = dict(zip(names.tolist(), cell.users * shares, strict=True))
    ends = _stated(found.table(), "users")
    return _missed(ends, np.array([true.get(int(item), 0.0) for item in found.items]), found)


def _kinds(number: int) -> Categories:
    return Categories([str(i) for i in range(number)])


_MEASURES: dict[str, Callable[[Cell, Integers, np.random.Generator, int], dict[str, Any]]] = {
    "Quantiles": _quantiles,
    "Distribution": _distribution,
    "Means": _means,
    "Difference": _difference,
    "Counts": _counts,
    "TwoWay": _two_way,
    "Describe": _describe,
    "HeavyHitters": _heavy_hitters,
}
#: Of these the column is one of numbers; others have items by Zipf's law.
OF_NUMBERS = ("Quantiles", "Distribution", "Means", "Difference", "Describe")
PROTOCOLS = tuple(_MEASURES)
