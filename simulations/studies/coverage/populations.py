"""Populations of which everything is known: twelve columns of numbers, and items by Zipf's law."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ldp_flower import Numeric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SIZE = 100_000  # quantiles that stand for a continuous law: its function is off by 1e-5
_MOST_ROWS, _OWN = 5, 0.5  # of one user; the share of its rows that repeat its own value


@dataclass(frozen=True)
class Column:
    """A population of entries.

    Attributes
    ----------
    bounds : Numeric
        What is publicly known.
    entries : ndarray
        All entries, in order and equally likely.
    missing : float (default: 0)
        The share of rows without an entry.
    """

    bounds: Numeric
    entries: Floats
    missing: float = 0.0

    def cdf(self, values: ArrayLike) -> Floats:
        """Return the share of entries that are not above each value."""
        return np.searchsorted(self.entries, values, side="right") / len(self.entries)

    def below(self, values: ArrayLike) -> Floats:
        """Return the share of entries below each value."""
        return np.searchsorted(self.entries, values, side="left") / len(self.entries)

    def quantile(self, levels: ArrayLike) -> Floats:
        """Return the smallest entries with at least these shares not above them."""
        places = np.ceil(np.asarray(levels) * len(self.entries) - 1e-6).astype(np.int64) - 1
        return self.entries[np.maximum(places, 0)]

    def draw(self, groups: Integers, rng: np.random.Generator) -> Floats:
        """Return an entry, or NaN, for each row of users who are told by ``groups``."""
        rows = _rows_of(self.entries, groups, rng)
        return np.where(rng.random(len(groups)) < self.missing, np.nan, rows)


def _rows_of(values: NDArray[np.generic], groups: Integers, rng: np.random.Generator) -> Floats:
    """Draw a value for each row: half of a user's rows have the same one."""
    own = rng.choice(values, int(groups[-1]) + 1)[groups]
    alone = np.bincount(groups)[groups] == 1
    return np.where(alone | (rng.random(len(groups)) < _OWN), own, rng.choice(values, len(groups)))


def items(number: int) -> Floats:
    """Return the shares of so many items by Zipf's law."""
    weights = 1.0 / np.arange(1, number + 1)
    return np.asarray(weights / weights.sum())


def draw_items(shares: Floats, groups: Integers, rng: np.random.Generator) -> Integers:
    """Return an item for each row."""
    rows = rng.choice(len(shares), len(groups), p=shares)
    own = rng.choice(len(shares), int(groups[-1]) + 1, p=shares)[groups]
    return np.where(rng.random(len(groups)) < _OWN, own, rows)


def groups_of(users: int, rows: str, rng: np.random.Generator) -> Integers:
    """Return which user each row is of: one row each, or one to five."""
    number = rng.integers(1, _MOST_ROWS + 1, users) if rows == "some" else np.ones(users, int)
    return np.repeat(np.arange(users), number)


def _continuous(ppf: Callable[[Floats], Floats], low: float, high: float) -> Floats:
    return np.clip(ppf((np.arange(_SIZE) + 0.5) / _SIZE), low, high)


def _atoms(values: ArrayLike, shares: ArrayLike) -> Floats:
    counts = np.rint(np.asarray(shares, np.float64) * _SIZE).astype(int)
    return np.repeat(np.asarray(values, np.float64), counts)


def _mixed(*parts: tuple[float, Floats]) -> Floats:
    """Return parts with these shares, each thinned evenly."""
    thinned = [
        np.sort(part)[np.linspace(0, len(part) - 1, round(share * _SIZE)).astype(int)]
        for share, part in parts
    ]
    return np.sort(np.concatenate(thinned))


_NORMAL = stats.norm.ppf

#: Each has another difficulty: the first six of generous shapes, then ties, tails and few entries.
COLUMNS: dict[str, Column] = {
    "uniform": Column(Numeric(0, 100), _continuous(lambda p: 100 * p, 0, 100)),
    "half missing": Column(
        Numeric(0, 100), _continuous(lambda p: 50 + 10 * _NORMAL(p), 0, 100), missing=0.5
    ),
    "ratings": Column(Numeric(1, 5), _atoms([1, 2, 3, 4, 5], [0.05, 0.1, 0.2, 0.4, 0.25])),
    "years": Column(
        Numeric(1900, 2030), _atoms([1978, 1979, 1980, 1981], [0.045, 0.33, 0.62, 0.005])
    ),
    "two humps": Column(
        Numeric(0, 100),
        _mixed(
            (2 / 3, _continuous(lambda p: 20 + _NORMAL(p), 0, 100)),
            (1 / 3, _continuous(lambda p: 80 + 2 * _NORMAL(p), 0, 100)),
        ),
    ),
    "lognormal": Column(Numeric(0, 2e5), _continuous(lambda p: np.exp(8 + _NORMAL(p)), 0, 2e5)),
    "zero-inflated": Column(
        Numeric(0, 1000),
        _mixed((0.6, np.zeros(1)), (0.4, _continuous(lambda p: -60 * np.log1p(-p), 0, 1000))),
    ),
    "heavy-tailed": Column(
        Numeric(-1e4, 1e4), _continuous(lambda p: 30 * stats.t.ppf(p, 1.5), -1e4, 1e4)
    ),
    "integers": Column(
        Numeric(0, 1000), np.rint(_continuous(lambda p: 1000 * stats.beta.ppf(p, 2, 5), 0, 1000))
    ),
    "dates": Column(  # days since 1970, of some ten years
        Numeric(0, 25_000), np.rint(_continuous(lambda p: 16_436 + 3650 * p**0.8, 0, 25_000))
    ),
    "constant": Column(Numeric(0, 100), np.full(_SIZE, 42.0)),
    "95 % missing": Column(
        Numeric(0, 200),
        _continuous(lambda p: stats.gamma.ppf(p, 4, scale=10), 0, 200),
        missing=0.95,
    ),
}
