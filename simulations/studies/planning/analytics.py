"""Populations for what describes tables and finds items, and how far off a run on them is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, assigned_arms, simulate

from .cell import MadeUp

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

#: Numbers in [0, 1]; formulas of ranks were fitted on all but the last four.
SHAPES: dict[str, Draw] = {
    "uniform": lambda rng, size: rng.uniform(0, 1, size),
    "income": lambda rng, size: np.exp(rng.normal(-1.8, 0.7, size)),
    "two peaks": lambda rng, size: rng.normal(rng.choice([0.3, 0.75], size), 0.05),
    "skewed": lambda rng, size: rng.beta(1.2, 6, size),
    "wide": lambda rng, size: rng.normal(0.45, 0.2, size),
    "beta": lambda rng, size: rng.beta(2, 5, size),
    "normal": lambda rng, size: rng.normal(0.6, 0.12, size),
    "gamma": lambda rng, size: rng.gamma(4, 0.08, size),
    "far bounds": lambda rng, size: rng.normal(0.51, 0.01, size),
    "weibull": lambda rng, size: 0.45 * rng.weibull(2, size),
    "triangle": lambda rng, size: rng.triangular(0, 0.35, 1, size),
    "logistic": lambda rng, size: rng.logistic(0.4, 0.07, size),
    "gumbel": lambda rng, size: rng.gumbel(0.3, 0.09, size),
}
EVEN, ZIPF = "even", "zipf"
_WITHIN = 0.1  # the standard deviation of rows of one user
_NUMBERS = ("beta", "normal", "income")
_JUDGED = ("weibull", "triangle", "logistic", "gumbel")
_EACH = (3500, 7000, 14_000)  # users for each column of a description
_POINTS = np.linspace(0, 1, 4097)


#: Errors that all runs of a cell tell together, one of each column or cell.
_ERRORS_TOLD = {"Means": 24, "Difference": 24, "Counts": 24, "TwoWay": 24, "Describe": 24}


@dataclass(frozen=True)
class Cell(MadeUp):
    """A protocol and a population."""

    shape: str

    @property
    def seeds(self) -> int:
        """How often it is run: oftener where a run has few errors."""
        if self.protocol in _ERRORS_TOLD:
            return _ERRORS_TOLD[self.protocol] // min(self.features, 8)
        return {"Quantiles": 20, "Distribution": 24, "HeavyHitters": 10}[self.protocol]

    def measured(self, errors: Sequence[Floats]) -> float:
        """Return what the plan is about."""
        return summary(self.protocol, errors)


def numbers(cell: Cell, rng: np.random.Generator) -> Floats:
    """Return entries, shape (rows of all users, columns)."""
    draw, own = SHAPES[cell.shape], (cell.users, cell.features)
    if cell.protocol in ("Means", "Describe"):  # what users are like on the whole is assumed
        entries = np.repeat(draw(rng, own), cell.rows, axis=0)
        entries += rng.normal(0, _WITHIN, entries.shape) * (cell.rows > 1)
    else:
        entries = draw(rng, (cell.users * cell.rows, cell.features))
    return np.clip(entries, 0, 1)


def items(cell: Cell, rng: np.random.Generator, number: int) -> NDArray[np.int64]:
    """Return one item of each row."""
    weights = 1.0 / np.arange(1, min(number, 1000) + 1) if cell.shape == ZIPF else np.ones(number)
    return rng.choice(len(weights), cell.users * cell.rows, p=weights / weights.sum())


def errors(cell: Cell, seed: int) -> Floats:
    """Return the errors of a run, of all that it tells."""
    rng = np.random.default_rng([seed, cell.users, cell.rows])
    return _ERRORS[cell.protocol](cell, rng, seed)


def _groups(cell: Cell) -> NDArray[np.int64]:
    return np.repeat(np.arange(cell.users), cell.rows)


def _means(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    entries = numbers(cell, rng)
    strategy = cell.strategy
    table = dict(zip(strategy.columns, entries.T, strict=True))
    found = simulate(strategy, strategy.schema.users(table, groups=_groups(cell)), seed=seed)
    return found.means[:, 0] - entries.mean(axis=0)


def _difference(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    """Return the difference of two arms of one law."""
    strategy = cell.strategy
    arms = assigned_arms(strategy.by, np.arange(cell.users))
    table = {strategy.column: numbers(cell, rng)[:, 0], strategy.by: np.array(["a", "b"])[arms]}
    found = simulate(strategy, strategy.schema.users(table), seed=seed)
    return np.array([found.difference])


def _counts(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    drawn = items(cell, rng, cell.features)
    strategy = cell.strategy
    users = strategy.schema.users({"column": drawn.astype(str)}, groups=_groups(cell))
    return simulate(strategy, users, seed=seed).shares - _shares(drawn, cell.features)


def _shares(drawn: NDArray[np.int64], number: int) -> Floats:
    return np.bincount(drawn, minlength=number) / len(drawn)


def _two_way(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    drawn = items(cell, rng, cell.features**2)
    row, column = np.divmod(drawn, cell.features)
    strategy = cell.strategy
    table = {"row": row.astype(str), "column": column.astype(str)}
    found = simulate(strategy, strategy.schema.users(table, groups=_groups(cell)), seed=seed)
    return found.shares.ravel() - _shares(drawn, cell.features**2)


def rank_errors(entries: Floats, values: Floats, levels: Floats) -> Floats:
    """Return how far values are from quantiles, in rank; ties are not off."""
    ordered = np.sort(entries)
    below, up_to = (np.searchsorted(ordered, values, side=s) / len(ordered) for s in _SIDES)
    return np.maximum(np.maximum(below - levels, levels - up_to), 0)


_SIDES = ("left", "right")


def _quantiles(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    entries = numbers(cell, rng)[:, 0]
    strategy = cell.strategy
    users = strategy.schema.users({"column": entries}, groups=_groups(cell))
    found = simulate(strategy, users, seed=seed)
    return rank_errors(entries, found.values, found.levels)


def _distribution(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    entries = numbers(cell, rng)[:, 0]
    strategy = cell.strategy
    users = strategy.schema.users({"column": entries}, groups=_groups(cell))
    found = simulate(strategy, users, seed=seed)
    truth = np.searchsorted(np.sort(entries), _POINTS, side="right") / len(entries)
    return np.abs(found.cdf(_POINTS) - truth).max(keepdims=True)


def _describe(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    entries = numbers(cell, rng)
    strategy = cell.strategy
    table = dict(zip(strategy.schema.columns, entries.T, strict=True))
    found = simulate(strategy, strategy.schema.users(table, groups=_groups(cell)), seed=seed)
    return found.values[1] - entries.mean(axis=0)


def _heavy_hitters(cell: Cell, rng: np.random.Generator, seed: int) -> Floats:
    kinds = np.unique(rng.integers(cell.features, size=3000)) if cell.features > 3000 else None
    names = rng.permutation(cell.features if kinds is None else kinds)[:1000]
    drawn = names[items(cell, rng, cell.features)]
    found = simulate(cell.strategy, Users.from_items(drawn, _groups(cell)), seed=seed)
    return ~np.isin(names[:10], found.items)


_ERRORS: dict[str, Callable[[Cell, np.random.Generator, int], Floats]] = {
    "Means": _means,
    "Difference": _difference,
    "Counts": _counts,
    "TwoWay": _two_way,
    "Quantiles": _quantiles,
    "Distribution": _distribution,
    "Describe": _describe,
    "HeavyHitters": _heavy_hitters,
}


def cells() -> Iterator[Cell]:
    """Yield what plans are judged on: no setting that a formula was fitted on."""
    for rows, epsilon, users in product((1, 4), (0.6, 1.2, 2.5, 5.0), (800, 3000, 9000)):
        turn = round(10 * epsilon) + users // 100 + rows
        for number, shape in ((1, _NUMBERS[turn % 3]), (4, _NUMBERS[(turn + 1) % 3])):
            yield Cell("Means", users, number, rows, epsilon, shape)
        if rows == 1:
            yield Cell("Difference", users, 1, rows, epsilon, _NUMBERS[turn % 3])
        for number, shape in ((3, EVEN), (30, ZIPF)):
            yield Cell("Counts", users, number, rows, epsilon, shape)
        for number, shape in ((2, ZIPF), (5, EVEN)):
            yield Cell("TwoWay", users, number, rows, epsilon, shape)
        for number in (64, 3000, 1 << 30):
            if rows == 1 and (number < 1 << 30 or users < 9000):
                yield Cell("HeavyHitters", users, number, rows, epsilon, ZIPF)
    for turn, (epsilon, users) in enumerate(product((0.7, 1.4, 2.2, 4.5), (1000, 2500, 7000))):
        for step, rows in enumerate((1, 1, 4)):
            shape = _JUDGED[(turn + turn // 3 + step) % 4]
            yield Cell("Quantiles", users, 1, rows, epsilon, shape)
            yield Cell("Distribution", users, 1, rows, epsilon, shape)
    for turn, (epsilon, users) in enumerate(product((1.0, 1.8, 3.0, 5.0, 7.0), _EACH)):
        for number, rows in ((1 + turn % 2, 1), (3, 1 + 3 * (turn % 2))):
            yield Cell("Describe", number * users, number, rows, epsilon, _NUMBERS[turn % 3])


def summary(protocol: str, runs: Sequence[Floats]) -> float:
    """Return a standard error, the error of the median run, or the mean of a share."""
    if protocol == "HeavyHitters":
        return float(np.mean(runs))
    told = [run[np.isfinite(run)] for run in runs]  # means of which it is not clear whose they are
    squares = [float(np.mean(np.square(run))) for run in told if len(run)]
    middle = np.median if protocol in ("Quantiles", "Distribution") else np.mean
    return float(np.sqrt(middle(squares)))
