"""Estimator of means from cells: a number is rounded at random to one of a few levels."""

from collections.abc import Generator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np

from ldp_flower.questions import LevelRounding, TableCell
from ldp_flower.randomizers import Estimate, FrequencyOracle
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort
from ..subprotocols.scales import number_randomizer
from ..sums.statistics import GroupMeans
from .cells import MOST_CELLS, ShareEstimates, ShareEstimator, oracle_of

_NUMBERS = (2, 3, 5, 9, 17, 33)  # numbers of levels; each grid contains the coarser ones
_PLACES = 17  # number of positions from 0 to 1 at which the noise is evaluated
# The variance by rounding is measured only if it may be at least this share of the variance.
_MATTERS = 0.05
# Number of users who report on the rounding, and the limit as a share of all users.
_PILOT, _LARGEST_PILOT = 100, 0.05


@dataclass(frozen=True)
class Levels:
    """Estimator of the means of groups, from reports of a number's level and the user's group.

    A number in [-1, 1] is rounded at random to one of the two levels around it, such that its
    expectation is kept. A frequency oracle randomises the pair of group and level. The number of
    levels is the one with the least noise: two at a small epsilon (randomized response), more at
    a larger one, where this is less noisy than all other mechanisms for a number.
    """

    epsilon: float  # privacy parameter of each user's one report
    groups: int = 1  # number of groups

    @cached_property
    def number(self) -> int:
        """Number of levels to which numbers are rounded."""
        options = [number for number in _NUMBERS if self.groups * number < MOST_CELLS]
        return min(options, key=lambda number: _worst(self.epsilon, self.groups, number))

    @property
    def shares(self) -> ShareEstimator:
        """Estimator of the shares of all cells, one cell for each pair of group and level."""
        return ShareEstimator(self.epsilon, self.groups * self.number)

    @cached_property
    def variance(self) -> float:
        """Largest variance that a report adds to a group's mean, if the groups are equally large.

        It is that of the least favourable numbers. Runs with too few users are refused by it.
        """
        return _worst(self.epsilon, self.groups, self.number)

    def variance_of(self, numbers: Floats) -> float:
        """Return the variance that a report adds to a group's mean.

        ``numbers`` is the sample of the numbers in every group.
        """
        near = rounded(numbers, self.number).mean(axis=0)
        return _variance(self._oracle, self.groups, near, float(numbers.mean()))

    @cached_property
    def _oracle(self) -> FrequencyOracle:
        return oracle_of(self.epsilon, max(2, self.groups * self.number), 1)

    def pilot(self, num_users: int, fewest: int) -> int:
        """Return the number of users who report how uncertain the rounding of their number is.

        It is 0 if the rounding is negligible.
        """
        if (1 / (self.number - 1)) ** 2 / 2 < _MATTERS * self.variance:
            return 0
        return max(fewest, min(_PILOT, int(_LARGEST_PILOT * num_users)))

    def uncertainty(
        self, cohort: Cohort, question: TableCell
    ) -> Generator[Ask, Estimate, Estimate]:
        """Query users for the uncertainty of their rounding, minus 1/2, and return its mean.

        The uncertainty is 4 f (1 - f) for a number a fraction f of the way from one level to the
        next, and so at most 1. A user without an answer reports 0.
        """
        given = {each.name: getattr(question, each.name) for each in fields(question)}
        return (yield Ask(cohort, LevelRounding(**given), number_randomizer(self.epsilon, 0.5)))

    def means(self, found: ShareEstimates, uncertain: float | None, num_users: int) -> GroupMeans:
        """Return the means of the groups in [-1, 1], from the shares of groups and levels.

        ``uncertain`` is the mean from :meth:`uncertainty`, or None if it was not measured.
        """
        levels = np.linspace(-1.0, 1.0, self.number)
        cells = found.cells.reshape(-1, self.number)
        share = cells.sum(axis=1)
        share_error = found.error_of(self._blocks(len(cells)))
        held = np.maximum(share, 1e-9)
        mean = np.clip(cells @ levels / held, -1, 1)
        population = found.error_of(self._slopes(mean, held)) ** 2
        # If the uncertainty was not measured, assume that numbers are uniform between two levels.
        evenly = 1 / 6 if uncertain is None else uncertain / max(float(share.sum()), 1e-9)
        rounding = (1 / (self.number - 1)) ** 2 * min(max(evenly + 0.5, 0.0), 1.0)
        likely = found.likely.reshape(cells.shape)
        inside = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-9)
        variance = inside @ levels**2 - (inside @ levels) ** 2 - rounding
        spread = np.maximum(variance, 0.0) / (np.minimum(held, 1.0) * num_users)
        return GroupMeans(
            mean,
            np.sqrt(np.maximum(population - spread, 0.0)),
            np.sqrt(population),
            share,
            share_error,
        )

    def error_of_difference(self, found: ShareEstimates) -> float:
        """Return the standard error of the second group's mean minus the first one's."""
        groups = self.means(found, None, found.users)
        first, second = self._slopes(groups.mean, np.maximum(groups.share, 1e-9))
        return float(found.error_of((second - first)[None])[0])

    def joined(self, found: ShareEstimates) -> ShareEstimates:
        """Return the shares of the levels when all groups are one group, for :meth:`means`."""
        sums = np.tile(np.eye(self.number), self.groups)
        return ShareEstimates(sums @ found.cells, sums @ found.covariance @ sums.T, found.users)

    def _blocks(self, groups: int) -> Floats:
        """Return a 0-1 matrix, shape (groups, cells), that marks the cells of each group."""
        return np.repeat(np.eye(groups), self.number, axis=1)

    def _slopes(self, mean: Floats, held: Floats) -> Floats:
        """Return the derivatives of the groups' means in the cells' shares, (groups, cells).

        ``held`` are the groups' shares.
        """
        levels = np.tile(np.linspace(-1.0, 1.0, self.number), len(mean))
        gradients = levels - np.repeat(mean, self.number)
        return np.asarray(self._blocks(len(mean)) * gradients / held[:, None])


def rounded(numbers: Floats, number: int) -> Floats:
    """Return the chances of each level when numbers are rounded at random, (numbers, levels)."""
    levels = np.linspace(-1.0, 1.0, number)
    return np.asarray(np.maximum(1 - np.abs(levels - numbers[:, None]) * (number - 1) / 2, 0.0))


@lru_cache(maxsize=1024)
def _worst(epsilon: float, groups: int, number: int) -> float:
    """Return a group's largest variance per report, over the number that all its users have."""
    oracle = oracle_of(epsilon, max(2, groups * number), 1)
    places = np.linspace(0.0, 1.0, _PLACES)
    each = zip(places, rounded(places, number), strict=True)
    return max(_variance(oracle, groups, near, place) for place, near in each)


def _variance(oracle: FrequencyOracle, groups: int, near: Floats, mean: float) -> float:
    """Return the variance that a report adds to a group's mean; groups are equally large.

    ``near`` are the levels' shares within each group, and ``mean`` is the group's mean.
    """
    from_here = np.linspace(-1.0, 1.0, len(near)) - mean
    return float(from_here @ oracle.covariance(near / groups) @ from_here) * groups**2
