"""What users who had no part in a classifier's fit tell: shares, and how well its scores rank."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from ldp_flower.guarantee.questions import ClassShare, MeanScore, Ranking, RootCurvature
from ldp_flower.randomizers import Estimate
from ldp_flower.schema import Schema
from ldp_flower.validation import Floats

from ..numerics.two_normals import Ranked, discriminant, likely_share, ranked
from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..subprotocols.squared_errors import number_randomizer
from ..tables.standardisation import Standardisation
from .judges import EVERYBODY, Number, ask_present, usual_spread

_SHARE_ERROR, _MOST_FOR_SHARE = 0.03, 0.08  # wanted, and of all users at most
_SIZE_RANGE, _SIZE_ERROR, _MOST_FOR_SIZE = math.log(6), 0.15, 0.03
_LOG_VARIANCE = 0.5  # of users' logarithms
_USERS_DIFFER = 0.15  # of the logarithm of a root mean square over that of a typical user's
_CENTRE_PRIOR = 0.5  # spread of scores' mean around where it is expected, in their sizes
_SIZE_PRIOR = 0.5  # spread of the logarithm around what the schema lets one expect
_REACH, _CENTRE_ERROR, _MOST_FOR_CENTRE = 2.5, 0.12, 0.025  # in standard deviations of scores
_RANKING_ERROR, _MOST_FOR_RANKING = 0.025, 0.08
_ROW_VARIANCE = 0.2  # of a row's share in a ranking
# Where a user's ranking is clipped: the mean of many rows is seldom as far off as one, unless
# they are all alike. So farther out if the noise of that is small.
_RADII, _ROOM, _AVERAGED = (0.3, 0.6), 0.75, 0.4
_FARTHEST, _RANKING_NOISE = 0.75, 0.02
_TOGETHER = 1.5  # how much farther columns spread scores that have to do with each other
_LEAST_SPREAD = 0.6  # of the mean square of scores, that is not their mean's
_LEAST = 0.01  # share of a class that is told


@dataclass(frozen=True)
class Judges:
    """Cohorts who are kept back for one class."""

    present: Cohort | None
    share: Cohort
    size: Cohort
    centre: Cohort
    ranking: Cohort

    @classmethod
    def of(
        cls, strategy: LdpStrategy[Any], epsilon: float, rows_per_user: float, classes: int
    ) -> "Judges":
        """Take them from users not asked yet, a share for each of so many classes.

        Raises
        ------
        TooFewReports
            If a cohort would be smaller than the strategy's ``min_reports``.
        """
        sizes = num_judges(strategy.num_users / classes, epsilon, rows_per_user)
        share, *others = (max(size, strategy.min_reports) for size in sizes)
        some = num_present(share, strategy.min_reports)
        if not some:
            return cls(None, *strategy.cohorts([share, *others]))
        return cls(*strategy.cohorts([some, share - some, *others]))


def num_present(share_judges: int, min_reports: int) -> int:
    """Return how many of those who tell the share tell who is present; 0 if they are too few."""
    some = round(share_judges / 4)
    return some if some >= min_reports else 0


def num_judges(users: float, epsilon: float, rows_per_user: float) -> list[int]:
    """Return how many of one class's users to keep back, for each question."""
    unit = number_randomizer(epsilon, 1.0).variance
    ranking = _ranking_variance(epsilon, rows_per_user, _radius(rows_per_user))
    wanted = (
        ((unit + 1 / rows_per_user) / 4 / _SHARE_ERROR**2, _MOST_FOR_SHARE),
        ((unit * _SIZE_RANGE**2 + _LOG_VARIANCE) / _SIZE_ERROR**2, _MOST_FOR_SIZE),
        ((unit * _REACH**2 + 1) / _CENTRE_ERROR**2, _MOST_FOR_CENTRE),
        (ranking / _RANKING_ERROR**2, _MOST_FOR_RANKING),
    )
    return [math.ceil(min(n, most * users)) for n, most in wanted]


def score_error(judges: int, epsilon: float, rows_per_user: float) -> float:
    """Return the standard error of an AUC near 1/2 that so many judges tell, of equal classes.

    The covariance that they tell is then ``1 / sqrt(2 pi)`` times the distance of the classes,
    half of it, and the AUC ``1 / sqrt(4 pi)`` times the distance.
    """
    radius = _ranking_radius(judges, epsilon, rows_per_user)
    return math.sqrt(2 * _ranking_variance(epsilon, rows_per_user, radius) / judges)


@dataclass(frozen=True)
class Judged:
    """What the judges said of one class's scores.

    Attributes
    ----------
    share, share_std_error : float
        The class's share of users' rows.
    ranked : Ranked
        How well the scores rank.
    theta : ndarray, shape (num_features,)
        The scores' coefficients, moved and stretched to mean 0 and standard deviation 1.
    present : float
        Share of the users who have a row with a target; 1 unless it is surely less.
    """

    share: float
    share_std_error: float
    ranked: Ranked
    theta: Floats
    present: float

    def logits(self) -> Floats:
        """Return the coefficients of the class's logit."""
        level, slope = discriminant(self.ranked.distance, self.share)
        coef = slope * self.theta
        coef[0] += level
        return coef

    def level(self) -> "Judged":
        """Return the same without slopes: the share for everybody."""
        return replace(self, ranked=replace(self.ranked, distance=0.0))


def judge(
    judges: Judges,
    epsilon: float,
    schema: Schema,
    standardisation: Standardisation,
    theta: Floats,
    place: int,
    rows_per_user: float,
) -> Generator[Ask, Estimate, Judged]:
    """Ask the judges of one class about its scores.

    Parameters
    ----------
    judges : Judges
        Who are asked.
    epsilon : float
        Privacy parameter of each one's report.
    schema : Schema
        Of the table.
    standardisation : Standardisation
        Of the features that ``theta`` is for.
    theta : ndarray, shape (num_features,)
        Of the scores, about half of the class's logits.
    place : int
        Of the class.
    rows_per_user : float
        Typical number of a user's rows.
    """
    num_classes = len(schema.classes)
    present = EVERYBODY
    if judges.present is not None:
        present = yield from ask_present(judges.present, epsilon, len(theta), num_classes)
    share, share_error = yield from _share(judges.share, epsilon, place, num_classes, present)
    spread = _TOGETHER * usual_spread(schema, theta)
    # Where the scores' mean is expected: about where the walk balances labels.
    expected = math.log(share / (1 - share)) / 2 * math.sqrt(1 + math.pi / 2 * spread**2)
    moved = theta - expected * np.eye(1, len(theta))[0]
    size = yield from _size(judges.size, epsilon, standardisation, moved, spread, rows_per_user)
    centre = yield from _centre(judges.centre, epsilon, standardisation, moved, size)
    deviation = size * math.sqrt(max(1 - (centre / size) ** 2, _LEAST_SPREAD))
    moved = (moved - centre * np.eye(1, len(theta))[0]) / deviation
    question = Ranking(moved, float(place), share, num_classes)
    radius = _ranking_radius(judges.ranking.size, epsilon, rows_per_user)
    ask = Ask(judges.ranking, question, number_randomizer(epsilon, radius))
    answer = yield standardisation.applied(ask)
    mean = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
    told = ranked(mean.value, mean.std_error, share)
    return Judged(share, share_error, told, moved, present.value)


def _radius(rows_per_user: float) -> float:
    return float(np.clip(_ROOM / rows_per_user**_AVERAGED, *_RADII))


def _ranking_radius(judges: int, epsilon: float, rows_per_user: float) -> float:
    unit = number_randomizer(epsilon, 1.0).variance
    affordable = min(_RANKING_NOISE * math.sqrt(judges / unit), _FARTHEST)
    return max(_radius(rows_per_user), affordable)


def _ranking_variance(epsilon: float, rows_per_user: float, radius: float) -> float:
    """Return the variance of what one judge tells, within a radius."""
    noise = number_randomizer(epsilon, 1.0).variance * radius**2
    return noise + _ROW_VARIANCE / rows_per_user


def _share(
    cohort: Cohort, epsilon: float, place: int, num_classes: int, present: Number
) -> Generator[Ask, Estimate, tuple[float, float]]:
    randomizer = number_randomizer(epsilon, 0.5)
    answer = yield Ask(cohort, ClassShare(float(place), num_classes), randomizer)
    told = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
    mean, error = likely_share(0.5 + told.value, told.std_error)
    return float(np.clip(mean, _LEAST, 1 - _LEAST)), error


def _size(
    cohort: Cohort,
    epsilon: float,
    standardisation: Standardisation,
    theta: Floats,
    expected: float,
    rows_per_user: float,
) -> Generator[Ask, Estimate, float]:
    """Return the scores' root mean square, given what is expected."""
    ask = Ask(cohort, RootCurvature(theta, expected, _SIZE_RANGE), number_randomizer(epsilon, 1.0))
    answer = yield standardisation.applied(ask)
    error = _SIZE_RANGE * float(answer.std_error[0])
    trust = _SIZE_PRIOR**2 / (_SIZE_PRIOR**2 + error**2)
    # Logarithms of few normal numbers' root mean squares are lower in the mean.
    lower = (math.log(rows_per_user / 2) - digamma(rows_per_user / 2)) / 2 + _USERS_DIFFER
    told = _SIZE_RANGE * float(np.clip(answer.mean[0], -1, 1)) + lower
    return expected * math.exp(trust * told)


def _centre(
    cohort: Cohort,
    epsilon: float,
    standardisation: Standardisation,
    theta: Floats,
    size: float,
) -> Generator[Ask, Estimate, float]:
    """Return the scores' mean, given their root mean square."""
    question = MeanScore(theta / (_REACH * size))
    answer = yield standardisation.applied(Ask(cohort, question, number_randomizer(epsilon, 1.0)))
    error = _REACH * float(answer.std_error[0])
    trust = _CENTRE_PRIOR**2 / (_CENTRE_PRIOR**2 + error**2)
    return trust * _REACH * size * float(np.clip(answer.mean[0], -1, 1))
