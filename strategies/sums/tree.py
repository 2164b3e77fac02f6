"""Distribution function of a column from noisy histograms of several widths.

A coarse histogram says where entries are. Finer cells, of which a half lies where the coarse ones
have their mass, are counted at four levels, each four times as fine as the one before. Least
squares makes the levels agree.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import BinShares
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort
from .budget import Budget

_COARSE, _COARSE_SHARE = 256, 0.1
_BRANCHES, _LEVELS = 4, 4
_SEEN = 2.0  # errors of a coarse cell above which it counts as mass


@dataclass(frozen=True)
class Function:
    """An estimated distribution function at the edges of cells."""

    edges: Floats  # (cells + 1,), increasing, from bound to bound
    below: Floats  # (cells + 1,): share of the entries at or below each edge, not decreasing
    noise: Floats  # (cells + 1,): standard error of these shares by noise
    present: float  # share of the users who have an entry
    users: int

    def quantiles(self, levels: Sequence[float], z: float) -> Floats:
        """Return quantiles and the ends of their intervals, shape (levels, 3).

        An interval holds every edge at which the share below may be the level: by ``z`` standard
        errors of noise and of the sample of users together. It needs no density.
        """
        last = len(self.edges) - 1
        found = np.empty((len(levels), 3))
        sample = self.users * max(self.present, 1 / self.users)
        for place, level in enumerate(levels):
            reach = z * np.sqrt(self.noise**2 + level * (1 - level) / sample)
            low = np.flatnonzero(self.below + reach >= level)[0]
            high = np.flatnonzero(self.below - reach <= level)[-1]
            at = min(max(int(np.searchsorted(self.below, level)), 1), last)
            step = self.below[at] - self.below[at - 1]
            part = min(max((level - self.below[at - 1]) / max(step, 1e-12), 0.0), 1.0)
            value = self.edges[at - 1] + part * (self.edges[at] - self.edges[at - 1])
            found[place] = value, self.edges[max(low - 1, 0)], self.edges[min(high + 1, last)]
        return found


def ask_function(
    cohort: Cohort,
    budget: Budget,
    coordinates: NDArray[np.int64],
    ends: tuple[float, float],
    share: float = 1.0,
) -> Generator[Ask, Any, Function]:
    """Return the distribution function of one column between its bounds."""
    even = np.linspace(*ends, _COARSE + 1)
    coarse = yield from _ask(cohort, budget, coordinates, even, _COARSE_SHARE * share)
    edges = _adapted(even, coarse)
    counts = []
    for level in range(1, _LEVELS + 1):
        own = edges[:: _BRANCHES ** (_LEVELS - level)]
        part = (1 - _COARSE_SHARE) * share / _LEVELS
        counts.append((yield from _ask(cohort, budget, coordinates, own, part)))
    solve, covariance = _least_squares()
    noise = counts[0].std_error[0]
    cells = solve @ np.concatenate([each.mean for each in counts])
    present = max(float(cells.sum()), float(noise))
    below = np.concatenate([[0.0], np.cumsum(cells)]) / present
    slopes = np.tril(np.ones((len(cells) + 1, len(cells))), -1) - below[:, None]
    spread = np.einsum("ij,jk,ik->i", slopes, covariance, slopes)
    up, down = np.maximum.accumulate(below), np.minimum.accumulate(below[::-1])[::-1]
    shares = np.clip((up + down) / 2, 0.0, 1.0)
    shares[0], shares[-1] = 0.0, 1.0
    errors = noise / present * np.sqrt(np.maximum(spread, 0.0))
    return Function(edges, shares, errors, min(present, 1.0), coarse.count)


def _ask(
    cohort: Cohort,
    budget: Budget,
    coordinates: NDArray[np.int64],
    edges: Floats,
    share: float,
) -> Generator[Ask, Estimate, Estimate]:
    question = BinShares(coordinates, edges[1:-1])
    return (yield Ask(cohort, question, budget.cells(len(edges) - 1, share)))


def _adapted(even: Floats, coarse: Estimate) -> Floats:
    """Return the edges of cells that have equal parts of the coarse mass and of the range."""
    mass = np.where(coarse.mean > _SEEN * coarse.std_error, coarse.mean, 0.0)
    part = np.full(len(mass), 1 / len(mass))
    if mass.sum() > 0:
        part = (part + mass / mass.sum()) / 2
    cells = _BRANCHES**_LEVELS
    edges = np.interp(np.linspace(0, 1, cells + 1), np.r_[0, np.cumsum(part)] / part.sum(), even)
    edges[0], edges[-1] = even[0], even[-1]
    return edges


@cache
def _least_squares() -> tuple[Floats, Floats]:
    """Return the operator from all levels' cells to the finest ones, and their covariance."""
    cells = _BRANCHES**_LEVELS
    levels = (_BRANCHES**level for level in range(1, _LEVELS + 1))
    design = np.vstack([np.kron(np.eye(n), np.ones((1, cells // n))) for n in levels])
    covariance = np.linalg.inv(design.T @ design)
    return np.asarray(covariance @ design.T), np.asarray(covariance)


def users_for_ranks(epsilon: float, delta: float, error: float) -> int:
    """Return how many users of one node know ranks within an error by noise."""
    budget = Budget(epsilon, delta, 1, 1)
    noise = math.sqrt(budget.cells(2, (1 - _COARSE_SHARE) / _LEVELS).variance)
    return math.ceil(_LEVELS * noise / error)
