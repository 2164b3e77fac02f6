"""Numbers as levels: how many, which noise that makes, and how uncertain the rounding was."""

from collections.abc import Generator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np

from ldp_flower.guarantee.questions import LevelRounding, TableCell
from ldp_flower.randomizers import Estimate, Randomizer
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort
from ..subprotocols.one_number import number_randomizer
from .cells import MOST_CELLS, CellShares, Shares, oracle_of

_NUMBERS = (2, 3, 5, 9, 17, 33)  # of levels: each has those before it among its own
_PLACES = 17  # of a number between the middle and an end, at which noise is looked at
_MATTERS = 0.05  # of the variance, as which the rounding's share may be guessed
_PILOT, _LARGEST_PILOT = 100, 0.05  # users who report the rounding, and part of all of them


@dataclass(frozen=True)
class Levels:
    """A number in [-1, 1] as one of several levels, beside one of several groups.

    It becomes one of the two levels around it, at random with the right mean, which goes through a
    frequency oracle. The number of levels is the least noisy one: two at small epsilon (randomized
    response), more at a larger one, less noisy than all other mechanisms for a number.
    """

    epsilon: float  # privacy parameter of each user's one report
    groups: int = 1  # how many groups there are

    @cached_property
    def number(self) -> int:
        """How many levels there are."""
        options = [number for number in _NUMBERS if self.groups * number < MOST_CELLS]
        return min(options, key=lambda number: _worst(self.epsilon, self.groups, number))

    @property
    def values(self) -> Floats:
        """The levels."""
        return np.linspace(-1.0, 1.0, self.number)

    @property
    def shares(self) -> CellShares:
        """The estimator of their shares in all groups."""
        return CellShares(self.epsilon, self.groups * self.number)

    @cached_property
    def variance(self) -> float:
        """Variance that one report adds to a group's mean, at most, if all are equally large."""
        return _worst(self.epsilon, self.groups, self.number)

    def pilot(self, num_users: int, fewest: int) -> int:
        """Return how many users report how uncertain the rounding is; 0 where it is no matter."""
        if (1 / (self.number - 1)) ** 2 / 2 < _MATTERS * self.variance:
            return 0
        return max(fewest, min(_PILOT, int(_LARGEST_PILOT * num_users)))

    @property
    def rounding(self) -> Randomizer:
        """The randomizer of users who report how uncertain the rounding is."""
        return number_randomizer(self.epsilon, 0.5)

    def uncertainty(
        self, cohort: Cohort, question: TableCell
    ) -> Generator[Ask, Estimate, "LevelEstimate"]:
        """Ask how uncertain the rounding is, at most 1, less 1 / 2; 0 counts without an answer."""
        given = {each.name: getattr(question, each.name) for each in fields(question)}
        answer = yield Ask(cohort, LevelRounding(**given), self.rounding)
        return LevelEstimate(float(answer.mean[0]), float(answer.std_error[0]))

    def means(self, found: Shares, uncertain: float | None, num_users: int) -> "GroupMeans":
        """Return each group's mean from the shares of groups and levels."""
        levels, cells = self.values, found.cells.reshape(self.groups, self.number)
        share = cells.sum(axis=1)
        blocks: Floats = np.repeat(np.eye(self.groups), self.number, axis=1)
        share_error = found.error_of(blocks)
        held = np.maximum(share, 1e-9)
        mean = np.clip(cells @ levels / held, -1, 1)
        gradients = np.tile(levels, self.groups) - np.repeat(mean, self.number)
        population = found.error_of(blocks * gradients / held[:, None]) ** 2
        # From uncertainty(); without it numbers count as spread evenly.
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


@lru_cache(maxsize=1024)
def _worst(epsilon: float, groups: int, number: int) -> float:
    """Return the variance wherever a group's users are, all at one place."""
    oracle = oracle_of(epsilon, max(2, groups * number), 1)
    levels = np.linspace(-1.0, 1.0, number)
    worst = 0.0
    for place in np.linspace(0.0, 1.0, _PLACES):
        near = np.maximum(1 - np.abs(levels - place) * (number - 1) / 2, 0.0) / groups
        from_here = levels - place
        noise = float(from_here @ oracle.covariance(near) @ from_here)
        worst = max(worst, noise * groups**2)
    return worst


@dataclass(frozen=True)
class LevelEstimate:
    """A number and its standard error."""

    value: float
    std_error: float


@dataclass(frozen=True)
class GroupMeans:
    """Means of groups in [-1, 1], with errors of these users' and of a population's."""

    mean: Floats
    std_error: Floats
    population_std_error: Floats
    share: Floats  # of all users, in each group
    share_error: Floats
