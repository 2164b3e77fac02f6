"""Vectors that are reported shortened, with a word of each whether it was.

How long vectors are need not be known then: the share that was not shortened says it, whatever
their law, and says what of a direction the shortening leaves.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass

from ldp_flower.questions import Question, Shortened
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort

_TOLD, _TOLD_OF_FEW = 0.125, 0.5  # of a report's energy, for the word; and over the dimension


@dataclass(frozen=True)
class ShortenedMean:
    """The mean of shortened vectors, and the share that was not shortened."""

    mean: Floats
    std_error: Floats
    whole: float
    whole_error: float
    count: int


def ask_shortened(
    cohort: Cohort, question: Question, dim: int, radius: float, epsilon: float
) -> Generator[Ask, Estimate, ShortenedMean]:
    """Ask a cohort for a vector of ``dim`` coordinates, shortened to ``radius``."""
    told = radius * math.sqrt(_TOLD + _TOLD_OF_FEW / dim)
    mechanism = ball_codebook(epsilon, dim + 1, math.hypot(radius, told))
    answer = yield Ask(cohort, Shortened(question, radius, told), mechanism)
    return ShortenedMean(
        answer.mean[:-1],
        answer.std_error[:-1],
        float(1 + answer.mean[-1] / told) / 2,
        float(answer.std_error[-1]) / told / 2,
        answer.count,
    )


def word_variance(epsilon: float, dim: int) -> float:
    """Return the variance of one user's word, as an estimate of the share that is whole."""
    told = math.sqrt(_TOLD + _TOLD_OF_FEW / dim)
    return ball_codebook(epsilon, dim + 1, math.hypot(1.0, told)).variance / (2 * told) ** 2
