"""Means over users of one number each, as estimates with a standard error."""

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ldp_flower.questions import Question
from ldp_flower.randomizers import Estimate

from ..runtime import Ask, Cohort
from .scales import number_randomizer


@dataclass(frozen=True)
class Number:
    """An estimated number and its standard error."""

    value: float
    std_error: float

    def pooled(self, other: "Number") -> "Number":
        """Return the average of the two estimates, weighted by their precision."""
        weights = np.array([self.std_error, other.std_error]) ** -2.0
        value = float(weights @ [self.value, other.value]) / weights.sum()
        return Number(value, 1 / math.sqrt(weights.sum()))

    def plus(self, known: float) -> "Number":
        """Return the estimate of this number plus ``known``, whose error is 0."""
        return Number(self.value + known, self.std_error)

    def shrunk(self, spread: float) -> "Number":
        """Return the posterior of this number, under a normal prior around 0.

        ``spread`` is the prior's standard deviation.
        """
        kept = 1 / (1 + (self.std_error / spread) ** 2)
        return Number(kept * self.value, math.sqrt(kept) * self.std_error)

    def of_those(self, present: "Number") -> "Number":
        """Return the mean over the users who are present, from a mean over all users.

        In the latter, users who are not present count as 0; ``present`` is the share of the others.
        """
        value = self.value / present.value
        return Number(value, math.hypot(self.std_error, value * present.std_error) / present.value)


EVERYBODY = Number(1.0, 0.0)  # the share of users with a row if every user has one


def ask_number(
    cohort: Cohort, epsilon: float, question: Question, radius: float
) -> Generator[Ask, Estimate, Number]:
    """Ask a cohort for a number, clipped to ``[-radius, radius]``; return the users' mean."""
    answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
    return Number(float(answer.mean[0]), float(answer.std_error[0]))
