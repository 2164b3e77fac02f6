"""Permanent answers: their questions, and estimates of values and changes from them.

Every user answers with one bit. A secret of the user decides whether the bit is flipped, in the
same way at every collection.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import HASH_END
from ldp_flower.questions import Question
from ldp_flower.randomizers import FrequencyOracle
from ldp_flower.randomness import Words
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Answers, Ask, Cohort
from ..runtime.population import Population, SizeOnlyPopulation

#: A function of the estimated shares of items in each part. It returns the values, and their
#: derivatives with respect to each part's shares.
Read = Callable[[Sequence[Floats]], tuple[Floats, list[Floats]]]


@dataclass(frozen=True)
class PermanentForm:
    """The questions and the estimator that a strategy uses for permanent answers."""

    names: list[str]  # names of the estimated values
    # Question and oracle of each part of the users, at every collection; parts are of equal size
    parts: list[tuple[Question, FrequencyOracle]]
    read: Read  # computes the values from the parts' shares of items
    # Standard error of a value from a single user; n users divide it by the root of n
    one_user: float
    useful: float  # largest standard error of a value with which users are asked

    def cohorts(self, population: Population) -> list[Cohort]:
        """Return a cohort for each part of the users, the same at every collection."""
        cuts = [HASH_END * each // len(self.parts) for each in range(len(self.parts) + 1)]
        return [population.between(low, high) for low, high in pairwise(cuts)]

    def expected(self, num_users: int, min_reports: int) -> float:
        """Return the standard error to expect of a value; NaN if the users would be refused."""
        if self.refusal(SizeOnlyPopulation(num_users), min_reports):
            return math.nan
        return self.one_user / math.sqrt(num_users)

    def refusal(self, population: Population, min_reports: int) -> TooFew | None:
        """Return a TooFew if the values would be too imprecise to be useful, or None."""
        sizes = [cohort.size for cohort in self.cohorts(population)]
        users = len(population)
        if min(sizes) < min_reports:
            return TooFew(f"{users:,} users are too few for {len(sizes)} parts.", "cohorts")
        if (error := self.one_user / users**0.5) <= self.useful:
            return None
        why = f"With {users:,} users the standard error would be {error:.2g}."
        return TooFew(f"{why} Nobody has been asked.", "noise")


@runtime_checkable
class AsksPermanently(Protocol):
    """A strategy that can ask for permanent answers."""

    def permanent(self) -> PermanentForm | None:
        """Return the questions and the estimator for permanent answers.

        Return None if the strategy's arguments do not allow permanent answers.
        """


@dataclass(frozen=True)
class Bits:
    """The permanent answers of one part of the users at one collection."""

    coins: Words  # (users,): the users' public coins, which identify them
    reports: NDArray[np.uint8]  # (users,): their bits


def ask_for_bits(
    form: PermanentForm, population: Population, collections: int
) -> Generator[Ask, Answers, list[Bits]]:
    """Ask all users for their permanent bits at one of ``collections`` collections; return them.

    There is one entry for each part of the users.
    """
    bits = []
    for (question, oracle), cohort in zip(form.parts, form.cohorts(population), strict=True):
        answers = yield Ask(cohort, question, oracle, collections=collections)
        bits.append(Bits(answers.coins, answers.reports.astype(np.uint8)))
    return bits


def level_of(form: PermanentForm, answers: Sequence[Bits]) -> tuple[Floats, Floats]:
    """Return the values at one collection, and their standard errors for the population."""
    found, covariances = [], []
    for (_, oracle), bits in zip(form.parts, answers, strict=True):
        mean = oracle.mean(bits.reports, bits.coins)
        likely = np.maximum(mean, 0.0)
        found.append(mean)
        covariances.append(oracle.covariance(likely / likely.sum()) / len(bits.coins))
    values, slopes = form.read(found)
    return values, _errors(slopes, covariances)


def change_of(
    form: PermanentForm, answers: Sequence[Bits], before: Sequence[Bits]
) -> tuple[Floats, Floats]:
    """Return the changes of the values with standard errors, from users who answered both times.

    The permanent noise is the same at both collections, so only answers that changed add noise.
    """
    shares, moved, covariances = [], [], []
    for (_, oracle), now, then in zip(form.parts, answers, before, strict=True):
        shares.append(oracle.mean(now.reports, now.coins))
        coins, here, there = np.intersect1d(now.coins, then.coins, return_indices=True)
        number = max(len(coins), 1)
        other = np.flatnonzero(now.reports[here] != then.reports[there])
        new = oracle.debias(now.reports[here][other], coins[other])
        steps = new - oracle.debias(then.reports[there][other], coins[other])
        mean = steps.sum(axis=0) / number
        moved.append(mean)
        spread = (steps.T @ steps / number - np.outer(mean, mean)) / number
        covariances.append(spread if len(coins) else np.full_like(spread, np.inf))
    _, slopes = form.read(shares)
    change = sum(slope @ each for slope, each in zip(slopes, moved, strict=True))
    return np.asarray(change, np.float64), _errors(slopes, covariances)


def _errors(slopes: Sequence[Floats], covariances: Sequence[Floats]) -> Floats:
    with np.errstate(invalid="ignore"):
        parts = (
            np.einsum("ij,jk,ik->i", slope, covariance, slope)
            for slope, covariance in zip(slopes, covariances, strict=True)
        )
        return np.asarray(np.nan_to_num(np.sqrt(np.maximum(sum(parts), 0.0)), nan=np.inf))
