"""Joint distribution of several columns, fitted to noisy tables of pairs of them.

The distribution is a mixture of products: in each component the columns are independent. Least
squares makes its tables fit the measured ones, which need not be consistent or positive.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from ldp_flower.validation import Floats

Codes = NDArray[np.int64]

# More components fit more noise. Their number is _SIGNAL over the noise of a share, in units of the
# share of equally frequent cells, within the limits. Chosen on four tables at three numbers of
# users.
_SIGNAL, _FEWEST, _MOST = 4.0, 8, 80
# Largest number of fits from different starts, whose components are joined. There are as many fits
# as are needed for _MOST components together.
_MOST_FITS = 5
_STEPS, _STEP, _LAST_STEP = 400, 0.1, 0.002  # number of Adam's steps, first and last size
_DECAYS = 0.9, 0.999  # decay rates of Adam's averages of gradients and of their squares
_TINY = 1e-8
_SIMULATIONS = 4  # number of simulated collections from which a fit's distance is estimated
# Half-width of an interval of a distance: a part of the distance, plus a number of standard
# deviations between simulations. Real tables are rougher than the tables of simulated users, who
# are drawn from a mixture.
_SLACK, _DEVIATIONS = 0.2, 2.5
_CLEAR = 2.0  # standard deviations from which on noise does not explain a misfit


@dataclass(frozen=True)
class PairTable:
    """A measured table of two columns: unbiased shares and their standard errors by noise."""

    columns: tuple[int, int]  # indices of the columns
    shares: Floats  # (cells of the first column, cells of the second)
    std_error: Floats  # standard errors, of the same shape

    @property
    def variance(self) -> float:
        """Mean of the squared standard errors of the table's shares."""
        return float(np.mean(self.std_error**2))


@dataclass(frozen=True)
class ProductMixture:
    """A mixture of products of distributions over columns' cells."""

    weights: Floats  # (components,)
    cells: list[Floats]  # for each column, (components, cells): probabilities of its cells

    def one_way(self, column: int) -> Floats:
        """Return the shares of the cells of one column, by the mixture."""
        return np.asarray(self.weights @ self.cells[column])

    def two_way(self, first: int, second: int) -> Floats:
        """Return the shares of the cells in the table of two columns, by the mixture."""
        return np.asarray((self.weights[:, None] * self.cells[first]).T @ self.cells[second])

    def draw(self, number: int, rng: Generator) -> Codes:
        """Return ``number`` rows drawn from the mixture, as cells of columns, (number, columns)."""
        component = rng.choice(len(self.weights), number, p=self.weights)
        drawn = np.empty((number, len(self.cells)), np.int64)
        for column, cells in enumerate(self.cells):
            ends = np.cumsum(cells, axis=1)[component, :-1]
            drawn[:, column] = (rng.random(number)[:, None] > ends).sum(axis=1)
        return drawn


class Distances(NamedTuple):
    """Total variation between a fit's tables and the users' tables, with 95 % intervals."""

    pairs: Floats  # (columns, columns): for each pair, and on the diagonal for each single column
    one_way: tuple[float, float, float]  # mean over columns, and the ends of its interval
    two_way: tuple[float, float, float]  # mean over the measured pairs, and its interval


def fitted(tables: Sequence[PairTable], sizes: Sequence[int]) -> ProductMixture:
    """Fit a mixture of products to the measured tables of pairs, by weighted least squares.

    A table with more noise has less weight, and leads to fewer components. If several fits from
    random starts are made, their components are joined.

    Parameters
    ----------
    tables : sequence of PairTable
        Tables of some pairs of columns.
    sizes : sequence of int
        Number of cells of each column.
    """
    noise = np.mean([math.sqrt(each.variance) * each.shares.size for each in tables])
    number = int(np.clip(round(_SIGNAL / max(float(noise), _TINY)), _FEWEST, _MOST))
    repeats = min(math.ceil(_MOST / number), _MOST_FITS)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    shares = np.zeros((starts[-1], starts[-1]), np.float32)
    precision = np.zeros_like(shares)
    best = min(each.variance for each in tables)
    for table in tables:
        one, other = (slice(starts[i], starts[i + 1]) for i in table.columns)
        shares[one, other], shares[other, one] = table.shares, table.shares.T
        weight = (best + _TINY**2) / (table.variance + _TINY**2)
        precision[one, other], precision[other, one] = weight, weight
    fits = [_fit(shares, precision, starts, number, default_rng(seed)) for seed in range(repeats)]
    weights = np.concatenate([weights for weights, _ in fits]).astype(np.float64)
    cells = np.concatenate([cells for _, cells in fits]).astype(np.float64)
    blocks = np.split(cells, starts[1:-1], axis=1)
    exact = [block / block.sum(axis=1, keepdims=True) for block in blocks]
    return ProductMixture(weights / weights.sum(), exact)


def _fit(
    shares: NDArray[np.float32],
    precision: NDArray[np.float32],
    starts: Codes,
    number: int,
    rng: Generator,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights of the components, and the probabilities of all columns' cells in each.

    Both are fitted by Adam (Kingma & Ba 2015), on their logarithms, from a random start.
    """
    firsts, sizes = starts[:-1], np.diff(starts)

    def over(operation: np.ufunc, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.repeat(operation.reduceat(numbers, firsts, axis=1), sizes, axis=1)

    logits = [np.zeros(number, np.float32), rng.standard_normal((number, starts[-1]), np.float32)]
    means, squares = [0 * each for each in logits], [0 * each for each in logits]
    for step in range(1, _STEPS + 2):
        weights = np.exp(logits[0] - logits[0].max())
        weights /= weights.sum()
        cells = np.exp(logits[1] - over(np.maximum, logits[1]))
        cells /= over(np.add, cells)
        if step > _STEPS:
            break
        off = precision * (cells.T @ (cells * weights[:, None]) - shares)
        slopes = cells @ off
        of_weights = np.einsum("rs,rs->r", slopes, cells)
        of_cells = 2 * weights[:, None] * slopes * cells
        gradients = [
            weights * (of_weights - weights @ of_weights),
            of_cells - cells * over(np.add, of_cells),
        ]
        size = _STEP * (1 - (step - 1) / _STEPS) + _LAST_STEP
        for place, gradient in enumerate(gradients):
            means[place] += (1 - _DECAYS[0]) * (gradient - means[place])
            squares[place] += (1 - _DECAYS[1]) * (gradient**2 - squares[place])
            unbiased = means[place] / (1 - _DECAYS[0] ** step)
            scale = np.sqrt(squares[place] / (1 - _DECAYS[1] ** step)) + _TINY
            logits[place] -= size * unbiased / scale
    return weights, cells


def distances(
    tables: Sequence[PairTable], sizes: Sequence[int], found: ProductMixture, users: int
) -> Distances:
    """Return how far a fit's tables are from the users' true tables, estimated by simulation.

    The same number of users is drawn from the fit. Their tables are measured with the same noise
    and fitted again, and the new fit is compared with their true tables. If the real measured
    tables are farther from their fit than the simulated ones, the difference is what no mixture
    fits, and is added.
    """
    runs = [_simulated(tables, sizes, found, users, default_rng(s)) for s in range(_SIMULATIONS)]
    usual = np.array([misfit for _, misfit in runs])
    beyond = _misfit(tables, found) - usual.mean() - _CLEAR * usual.std(ddof=1)
    # Half the mean size of normal deviations with this mean square.
    extra = math.sqrt(2 / math.pi) / 2 * math.sqrt(max(beyond, 0.0))
    pairs = np.mean([each for each, _ in runs], axis=0)
    single = np.diag_indices(len(sizes))
    measured = tuple(np.array([each.columns for each in tables]).T)
    counts = np.array([each.shares.size for each in tables])
    of_pairs = pairs[measured]
    pairs[measured] = pairs[measured[::-1]] = np.hypot(of_pairs, extra * counts)
    return Distances(
        pairs,
        _interval(float(pairs[single].mean()), [each[single].mean() for each, _ in runs]),
        _interval(float(pairs[measured].mean()), [each[measured].mean() for each, _ in runs]),
    )


def _simulated(
    tables: Sequence[PairTable],
    sizes: Sequence[int],
    found: ProductMixture,
    users: int,
    rng: Generator,
) -> tuple[Floats, float]:
    """Return the distances and the misfit of a fit to simulated data, for which truth is known.

    The users are drawn from the fit ``found``, and their tables get the noise of ``tables``.
    """
    drawn = found.draw(users, rng)
    counted: dict[tuple[int, int], Floats] = {}
    measured = []
    for table in tables:
        one, other = table.columns
        flat = drawn[:, one] * sizes[other] + drawn[:, other]
        counts = np.bincount(flat, minlength=table.shares.size) / users
        counted[table.columns] = counts.reshape(table.shares.shape)
        noise = table.std_error * rng.standard_normal(table.shares.shape)
        measured.append(PairTable(table.columns, counted[table.columns] + noise, table.std_error))
    again = fitted(measured, sizes)
    apart = np.full((len(sizes), len(sizes)), np.nan)
    for (one, other), shares in counted.items():
        apart[one, other] = apart[other, one] = _distance(again.two_way(one, other), shares)
    for column, size in enumerate(sizes):
        own = np.bincount(drawn[:, column], minlength=size) / users
        apart[column, column] = _distance(again.one_way(column), own)
    return apart, _misfit(measured, again)


def _distance(one: Floats, other: Floats) -> float:
    """Return the total variation distance between two tables of shares."""
    return float(np.abs(one - other).sum()) / 2


def _misfit(tables: Sequence[PairTable], found: ProductMixture) -> float:
    """Return the mean square distance of the measured shares from those of the fit ``found``."""
    off = [(each.shares - found.two_way(*each.columns)).ravel() for each in tables]
    return float(np.mean(np.concatenate(off) ** 2))


def _interval(mean: float, runs: Sequence[float]) -> tuple[float, float, float]:
    reach = _SLACK * mean + _DEVIATIONS * float(np.std(runs, ddof=1))
    return mean, max(mean - reach, 0.0), min(mean + reach, 1.0)
