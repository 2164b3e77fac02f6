"""Cell frequencies of a contingency table, corrected for non-response; numbers as such cells."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.questions import LevelRounding, TableCell
from ldp_flower.randomizers import (
    Estimate,
    FrequencyOracle,
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    Randomizer,
    best_frequency_oracle,
)
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, TooFewReports
from ..subprotocols.scales import number_randomizer

MOST_CELLS = 2048  # whose covariances are held
_AFFORDABLE = 1 << 31  # pairs of a report and a cell: some 5 s of one core
_SHORT = 64  # bytes of a report
_FIRST_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)  # of the users, in a first wave
_JITTER = 1e-9  # added to the diagonal of a covariance, far below any variance of a share
_FEWEST = 50  # users of a first wave
_NOISY = 0.5  # variances of the cells themselves, above which two waves are thought of
_WORTH = 0.99  # of the variance of one wave: two are not taken for less


def cell_question(
    schema: Schema, categories: Sequence[str], number: str | None = None, levels: int | None = None
) -> TableCell:
    """Return the question in which cell of these columns a user falls."""
    columns = [*categories, *([] if number is None else [number])]
    places = np.array([place for name in columns for place in schema.places(name)], np.int64)
    kinds = [schema.kind(name) for name in categories]
    sizes = np.array([len(kind.values) for kind in kinds if isinstance(kind, Categories)], float)
    if number is None:
        return TableCell(places, sizes)
    kind = schema.kind(number)
    assert isinstance(kind, Numeric)
    low, high = kind.coded([kind.low, kind.high]).tolist()
    return TableCell(places, sizes, levels, low, high)


def oracle_of(epsilon: float, num_items: int, num_users: int) -> FrequencyOracle:
    """Return the frequency oracle of the least noise that is short and decoded in time."""
    if num_users * num_items > _AFFORDABLE:
        quick: list[FrequencyOracle] = [
            HadamardResponse(epsilon, num_items),
            KRandomizedResponse(epsilon, num_items),
        ]
        return min(quick, key=lambda oracle: oracle.variance_at(1 / num_items))
    oracle = best_frequency_oracle(epsilon, num_items, num_users)
    if oracle.report_bytes > _SHORT:
        return OptimizedLocalHashing(epsilon, num_items)
    return oracle


@dataclass(frozen=True)
class Shares:
    """What is known of the cells."""

    # (cells,): share of all users who were asked that falls in each cell; the rest has no answer
    cells: Floats
    # (cells, cells): of these estimates: randomisation, drawing and the choice of users from a
    # population
    covariance: Floats
    users: int

    @cached_property
    def likely(self) -> Floats:
        """The shares as such: none below 0, no more than 1 in all."""
        return clipped(self.cells)

    def error_of(self, weights: Floats) -> Floats:
        """Return the standard errors of weighted sums of the shares, weights (sums, cells)."""
        variances = np.einsum("ij,jk,ik->i", weights, self.covariance, weights)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    @property
    def answering(self) -> float:
        """The share of the users who have an answer."""
        return max(float(self.cells.sum()), 1e-9)

    def among_answering(self) -> tuple[Floats, Floats]:
        """Return the shares among those who have an answer, and their covariance."""
        shares = self.cells / self.answering
        jacobian = (np.eye(len(shares)) - shares[:, None]) / self.answering
        return shares, np.asarray(jacobian @ self.covariance @ jacobian.T)


def sampling(shares: Floats, users: int) -> Floats:
    """Return the covariance of shares of users who are a sample of a population with these."""
    return np.asarray((np.diag(shares) - np.outer(shares, shares)) / users)


def clipped(shares: Floats) -> Floats:
    """Return shares without negative ones, of no more than 1 in all."""
    positive = np.maximum(shares, 0.0)
    return np.asarray(positive / max(1.0, positive.sum()))


@dataclass(frozen=True)
class CellShares:
    """Estimator of the shares of cells.

    Users may have no answer, and must not weigh on the others' shares. One wave asks with one
    more cell for them, which costs precision where there are few cells. With two waves the
    first is asked like that, and in the second whoever has no answer gives one drawn from the
    first wave's shares: then the shares stay what they are however many such users there are.
    What the first wave reports of them corrects for the difference that is left, which is the
    product of two small errors. Where they turn out to be many the second wave is asked as the
    first. All reports are fitted together, by generalised least squares.
    """

    epsilon: float  # privacy parameter of each user's one report
    num_cells: int  # how many cells there are, at least two

    def sizes(self, num_users: int, fewest: int = 1) -> list[int]:
        """Divide users into one wave, or into two where that is less noisy."""
        first, later = self._variances(num_users)
        best, sizes = first / num_users * _WORTH, [num_users]
        if later < _NOISY * (1 - 1 / self.num_cells) / self.num_cells:
            return sizes  # the noise is not what limits
        for share in _FIRST_SHARES:
            size = int(share * num_users)
            if size < max(fewest, _FEWEST) or num_users - size < fewest:
                continue
            fitted = 1 / (size / first + (num_users - size) / later)
            left = (first / size) ** 2
            if fitted + left < best:
                best, sizes = fitted + left, [size, num_users - size]
        return sizes

    def _variances(self, num_users: int) -> tuple[float, float]:
        """Return the variance of one report about a cell, with one more cell and without."""
        numbers = (self.num_cells + 1, self.num_cells)
        oracles = (oracle_of(self.epsilon, number, num_users) for number in numbers)
        first, later = (oracle.variance_at(1 / self.num_cells) for oracle in oracles)
        return first, later

    def noise(self, num_users: int) -> float:
        """Return the variance of one report about a cell that is as frequent as the others."""
        return self._variances(num_users)[len(self.sizes(num_users)) - 1]

    def oracles(self, sizes: Sequence[int]) -> list[FrequencyOracle]:
        """Return what waves of these sizes answer with: the first with one more cell."""
        numbers = (self.num_cells + 1, self.num_cells)
        return [oracle_of(self.epsilon, *each) for each in zip(numbers, sizes, strict=False)]

    def waves(self, num_users: int, fewest: int = 1) -> list[tuple[FrequencyOracle, int]]:
        """Return what users would answer with, and how many of them."""
        sizes = self.sizes(num_users, fewest)
        return list(zip(self.oracles(sizes), sizes, strict=True))

    def estimate(
        self, cohorts: Sequence[Cohort], question: TableCell
    ) -> Generator[Ask, Estimate, Shares]:
        """Ask the cohorts, of the sizes of :meth:`sizes`, in which cell they fall."""
        oracle, *others = self.oracles([cohort.size for cohort in cohorts])
        answer = yield Ask(cohorts[0], question, oracle)
        fit, users = _Fit.of(oracle, answer, None), answer.count
        if len(cohorts) > 1:
            found = clipped(fit.solved()[0])
            instead = (found + 1e-9) / (found + 1e-9).sum()
            drawn = found + (1 - found.sum()) * instead
            if _noise(others[0], drawn) < _noise(oracle, found):
                oracle, question = others[0], replace(question, instead=instead)
            try:
                answer = yield Ask(cohorts[1], question, oracle)
            except TooFewReports:  # the first wave estimates the shares, less well
                return Shares(*fit.solved(), users)
            more = _Fit.of(oracle, answer, question.instead)
            fit, users = fit + more, users + answer.count
        return Shares(*fit.solved(), users)


@dataclass(frozen=True)
class _Fit:
    """Normal equations of the shares of cells."""

    information: Floats
    score: Floats

    @classmethod
    def of(cls, oracle: FrequencyOracle, answer: Estimate, instead: Floats | None) -> "_Fit":
        """Return those of one wave, whose mean is ``design u + offset``.

        Users without an answer are in one more cell or have drawn one ``instead``.
        """
        if instead is None:
            cells = len(answer.mean) - 1
            design, offset = np.vstack([np.eye(cells), -np.ones(cells)]), np.eye(cells + 1)[-1]
        else:
            design, offset = np.eye(len(instead)) - instead[:, None], instead
        covariance: Floats = oracle.covariance(clipped(answer.mean)) / answer.count
        covariance += _JITTER * np.eye(len(covariance))
        # Where the counts add up the last one says nothing.
        rows = slice(None if oracle.support_size is None else -1)
        weighted = np.asarray(np.linalg.solve(covariance[rows, rows], design[rows]).T, np.float64)
        return cls(weighted @ design[rows], weighted @ (answer.mean - offset)[rows])

    def __add__(self, other: "_Fit") -> "_Fit":
        return _Fit(self.information + other.information, self.score + other.score)

    def solved(self) -> tuple[Floats, Floats]:
        covariance = np.linalg.inv(self.information)
        return np.asarray(covariance @ self.score), np.asarray(covariance)


def _noise(oracle: FrequencyOracle, cells: Floats) -> float:
    """Return the sum of the variances of one report about the cells, as parts of their sum."""
    rest = np.append(cells, max(1 - cells.sum(), 0.0))[: oracle.domain_size]
    covariance = oracle.covariance(rest)[: len(cells), : len(cells)]
    projection = np.eye(len(cells)) - (cells / max(cells.sum(), 1e-9))[:, None]
    return float(np.trace(projection @ covariance @ projection.T))


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
    ) -> Generator[Ask, Estimate, Estimate]:
        """Ask how uncertain the rounding is, at most 1, less 1 / 2; 0 counts without an answer."""
        given = {each.name: getattr(question, each.name) for each in fields(question)}
        return (yield Ask(cohort, LevelRounding(**given), self.rounding))

    def means(self, found: Shares, uncertain: float | None, num_users: int) -> "GroupMeans":
        """Return each group's mean from the shares of groups and levels."""
        levels = np.linspace(-1.0, 1.0, self.number)
        cells = found.cells.reshape(self.groups, self.number)
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


class GroupMeans(NamedTuple):
    """Means of groups in [-1, 1], with errors of these users' and of a population's."""

    mean: Floats
    std_error: Floats
    population_std_error: Floats
    share: Floats  # of all users, in each group
    share_error: Floats
