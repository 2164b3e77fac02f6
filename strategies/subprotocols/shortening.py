"""Mean of shortened vectors, where each report also says whether its vector was shortened.

The lengths of the vectors need not be known beforehand. The share of vectors that were not
shortened indicates how long they are, for any distribution, and how much of a direction shortening
leaves.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass

from ldp_flower.questions import Question, Shortened
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort

# Square of the coordinate that says whether a vector was shortened, over the squared radius: a
# constant part, and a part that is divided by the dimension.
_TOLD, _TOLD_OF_FEW = 0.125, 0.5


@dataclass(frozen=True)
class ShortenedMean:
    """The mean of shortened vectors, and the share of vectors that were not shortened."""

    mean: Floats
    std_error: Floats  # standard errors of the mean
    whole: float  # share of the vectors that were not shortened
    whole_error: float  # standard error of this share


def ask_shortened(
    cohort: Cohort, question: Question, dim: int, radius: float, epsilon: float
) -> Generator[Ask, Estimate, ShortenedMean]:
    """Ask a cohort for vectors shortened to length ``radius``; return their mean.

    The result also has the share of vectors that were not shortened.
    """
    told = radius * math.sqrt(_TOLD + _TOLD_OF_FEW / dim)
    mechanism = ball_codebook(epsilon, dim + 1, math.hypot(radius, told))
    answer = yield Ask(cohort, Shortened(question, radius, told), mechanism)
    return ShortenedMean(
        answer.mean[:-1],
        answer.std_error[:-1],
        float(1 + answer.mean[-1] / told) / 2,
        float(answer.std_error[-1]) / told / 2,
    )


def word_variance(epsilon: float, dim: int) -> float:
    """Return the variance of one report on whether its vector was shortened.

    Divided by a number of users, it is the variance of ``ShortenedMean.whole``.
    """
    told = math.sqrt(_TOLD + _TOLD_OF_FEW / dim)
    return ball_codebook(epsilon, dim + 1, math.hypot(1.0, told)).variance / (2 * told) ** 2
