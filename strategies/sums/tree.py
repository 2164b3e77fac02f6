"""Distribution function of a column from noisy histograms of several widths.

A coarse histogram says where entries are. Finer cells, of which a half lies where the coarse ones
have their mass, are counted at four levels, each four times as fine as the one before. Least
squares makes the levels agree.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import BinShares
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..numerics.density import DistributionEstimates
from ..numerics.sample import clipped, sampling
from ..runtime import Ask
from .budget import Budget

_COARSE, _COARSE_SHARE = 256, 0.1  # number of coarse cells, and their share of the budget
_BRANCHES, _LEVELS = 4, 4  # number of cells into which a level divides a cell, and of levels
_ENTRIES_Z = 3.0  # standard errors that the share of users with an entry has to exceed
_ATOM = 1e-9  # width of the cell of the upper bound, over the distance of the bounds
_ROUNDING = 1e-10  # largest distance of an edge from a multiple by rounding, in steps
_MASS_Z = 2.0  # standard errors that the share of a coarse cell has to exceed to count


@dataclass(frozen=True)
class Function:
    """A column's distribution function, estimated at the edges of cells, with its covariance."""

    edges: Floats  # (cells + 1,), increasing, from bound to bound
    cells: Floats  # (cells,): unbiased estimates of the shares of all users
    noise: Floats  # (cells, cells): covariance of these estimates by noise
    users: int  # number of users

    @cached_property
    def present(self) -> float:
        """Estimated share of the users who have an entry, at least the noise's standard error."""
        return max(float(self.cells.sum()), math.sqrt(self.noise.sum()))

    @property
    def is_hidden(self) -> bool:
        """True if the entries' number does not exceed the noise: there may be none."""
        return self.present < _ENTRIES_Z * math.sqrt(self.noise.sum())

    @property
    def _with_entry(self) -> float:
        """Estimated number of users who have an entry, but never less than 1."""
        return max(min(self.present, 1.0) * self.users, 1.0)

    @cached_property
    def below(self) -> Floats:
        """Share of the entries at or below each edge, not decreasing, shape (cells + 1,)."""
        raw = self._raw
        up, down = np.maximum.accumulate(raw), np.minimum.accumulate(raw[::-1])[::-1]
        shares = np.clip((up + down) / 2, 0.0, 1.0)
        shares[0], shares[-1] = 0.0, 1.0
        return np.asarray(shares)

    @property
    def _raw(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.cells)]) / self.present

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of :attr:`below` by noise, shape (cells + 1, cells + 1)."""
        last = len(self.cells)
        slopes = (np.tril(np.ones((last + 1, last)), -1) - self._raw[:, None]) / self.present
        return np.asarray(slopes @ self.noise @ slopes.T)

    @property
    def sampling(self) -> Floats:
        """Covariance of :attr:`below` by sampling of the users, shape (cells + 1, cells + 1)."""
        below = self.below
        covariance = np.minimum.outer(below, below) - np.outer(below, below)
        return np.asarray(covariance) / self._with_entry

    @property
    def variance(self) -> tuple[float, float]:
        """Two numbers: the entries' variance over the bounds' squared distance, and its error."""
        middles = (self.edges[1:] + self.edges[:-1]) / 2 / (self.edges[-1] - self.edges[0])
        squares = (middles - middles @ self.cells / self.present) ** 2
        variance = float(squares @ self.cells / self.present)
        slope = (squares - variance) / self.present
        # Squared distances from the mean are at most b, so that they vary by at most v (b - v).
        sampling = max(variance * (squares.max() - variance), 0.0) / self._with_entry
        return variance, math.sqrt(float(slope @ self.noise @ slope) + sampling)

    def linear(self, normals: Floats) -> DistributionEstimates:
        """Return unbiased estimates of the shares below the edges, from which bands are computed.

        ``normals`` are standard normal numbers, with one row for each cell.
        """
        inner = np.arange(1, len(self.cells))
        sums = np.tril(np.ones((len(self.cells),) * 2))
        each = self.noise + sampling(clipped(self.cells), self.users)
        covariance = sums @ each @ sums.T
        held, with_held = float(covariance[-1, -1]), covariance[:-1, -1]
        ratios = np.clip(self._raw[1:-1], 0.0, 1.0)
        weights = sums[:-1] - ratios[:, None]
        values, vectors = np.linalg.eigh(each)
        drawn = weights @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ normals
        off = np.sqrt(np.einsum("ij,jk,ik->i", weights, each, weights))
        shares = np.cumsum(self.cells)
        return DistributionEstimates(
            inner,
            inner,
            np.column_stack([shares[:-1], np.diag(covariance)[:-1], with_held]),
            np.array([shares[-1], held]),
            np.sort(np.abs(drawn / off[:, None]).max(axis=0)),
        )

    def quantiles(self, levels: Sequence[float], z: float) -> Floats:
        """Return quantiles and the ends of their intervals, shape (levels, 3).

        An interval holds every edge at which the share below may be the level: by ``z`` standard
        errors of noise and of the sample of users together. It needs no density.
        """
        last = len(self.edges) - 1
        found = np.empty((len(levels), 3))
        noise = np.diag(self.covariance)
        for place, level in enumerate(levels):
            reach = z * np.sqrt(noise + level * (1 - level) / self._with_entry)
            low = np.flatnonzero(self.below + reach >= level)[0]
            high = np.flatnonzero(self.below - reach <= level)[-1]
            at = min(max(int(np.searchsorted(self.below, level)), 1), last)
            step = self.below[at] - self.below[at - 1]
            part = min(max((level - self.below[at - 1]) / max(step, 1e-12), 0.0), 1.0)
            value = self.edges[at - 1] + part * (self.edges[at] - self.edges[at - 1])
            found[place] = value, self.edges[max(low - 1, 0)], self.edges[min(high + 1, last)]
        return found

    def at_multiples(self, step: float) -> "Function":
        """Return the function of a column all of whose entries are multiples of ``step``.

        It rises at multiples only. So each edge may lie in the middle between two of them, and
        cells between the same two multiples are joined to the one before.
        """
        low = (math.ceil(self.edges[0] / step - _ROUNDING) - 0.5) * step
        high = (math.floor(self.edges[-1] / step + _ROUNDING) + 0.5) * step
        middles = (np.floor(self.edges[1:-1] / step + _ROUNDING) + 0.5) * step
        kept = (np.diff(middles, append=high) > step / 2) & (middles > low + step / 2)
        starts = np.append(0, np.flatnonzero(kept) + 1)
        joined = np.add.reduceat(np.add.reduceat(self.noise, starts, axis=0), starts, axis=1)
        edges = np.concatenate([[low], middles[kept], [high]])
        return Function(edges, np.add.reduceat(self.cells, starts), joined, self.users)

    def part_of_noise(self, levels: Floats) -> Floats:
        """Return what part of each quantile's error the noise causes, a number from 0 to 1."""
        at, each = np.searchsorted(self.below, levels), np.diag(self.covariance)
        noise = np.maximum(each[at - 1], each[at])
        return np.asarray(np.sqrt(noise / (noise + levels * (1 - levels) / self._with_entry)))


def ask_function(
    budget: Budget, coordinates: NDArray[np.int64], ends: tuple[float, float], share: float = 1.0
) -> Generator[Ask, Any, Function]:
    """Ask all users for noisy histograms of a column, and return its distribution function.

    ``ends`` are the column's bounds, and ``share`` is the share of the budget that is spent.
    """
    even = np.linspace(*ends, _COARSE + 1)
    coarse = yield from _ask(budget, coordinates, even, _COARSE_SHARE * share)
    edges = _edges(even, coarse)
    counts = []
    for level in range(1, _LEVELS + 1):
        own = edges[:: _BRANCHES ** (_LEVELS - level)]
        part = (1 - _COARSE_SHARE) * share / _LEVELS
        counts.append((yield from _ask(budget, coordinates, own, part)))
    solve, covariance = _level_weights()
    cells = solve @ np.concatenate([each.mean for each in counts])
    # If nodes were lost at some level, all levels get the noise and the users of that level.
    noise = max(float(each.std_error[0]) for each in counts)
    users = min(each.count for each in (coarse, *counts))
    return Function(edges, cells, noise**2 * covariance, users)


def _ask(
    budget: Budget, coordinates: NDArray[np.int64], edges: Floats, share: float
) -> Generator[Ask, Estimate, Estimate]:
    question = BinShares(coordinates, edges[1:-1])
    return (yield budget.ask(question, budget.cells(len(edges) - 1, share)))


def adapted(even: Floats, mass: Floats, cells: int) -> Floats:
    """Return the edges of ``cells`` cells of equal weight.

    Half of the weight is the ``mass`` in the ``even`` cells, and half is the length of the range.
    """
    part = np.full(len(mass), 1 / len(mass))
    if mass.sum() > 0:
        part = (part + mass / mass.sum()) / 2
    up_to = np.concatenate([[0.0], np.cumsum(part)]) / part.sum()
    return np.asarray(np.interp(np.linspace(0, 1, cells + 1), up_to, even))


def _edges(even: Floats, coarse: Estimate) -> Floats:
    """Return the edges of the finest cells, of equal weight by the histogram of ``coarse`` cells.

    The first and the last cell hold only a bound, since many entries may be clipped to it.
    """
    mass = np.where(coarse.mean > _MASS_Z * coarse.std_error, coarse.mean, 0.0)
    edges = adapted(even, mass, _BRANCHES**_LEVELS)
    edges[:2] = even[0]
    edges[-2], edges[-1] = even[-1] - _ATOM * (even[-1] - even[0]), even[-1]
    return edges


@cache
def _level_weights() -> tuple[Floats, Floats]:
    """Return a matrix that estimates the finest cells from those of all levels.

    The second array is the covariance of these estimates.
    """
    cells = _BRANCHES**_LEVELS
    levels = (_BRANCHES**level for level in range(1, _LEVELS + 1))
    design = np.vstack([np.kron(np.eye(n), np.ones((1, cells // n))) for n in levels])
    covariance = np.linalg.inv(design.T @ design)
    return np.asarray(covariance @ design.T), np.asarray(covariance)


def users_for_ranks(epsilon: float, delta: float, error: float) -> int:
    """Return the number of users on one node with which a rank has an error of ``error``.

    The error is by noise, as a share of the users. A run with fewer users is refused.
    """
    budget = Budget(epsilon, delta, 1, 1)
    noise = math.sqrt(budget.cells(2, (1 - _COARSE_SHARE) / _LEVELS).variance)
    return math.ceil(_LEVELS * noise / error)
