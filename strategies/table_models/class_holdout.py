"""Hold-out cohorts of a classifier: users who have no part in a fit estimate shares and ranking."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma

from ldp_flower.data.schema import Schema
from ldp_flower.questions import ClassShare, MeanScore, Ranking, RootCurvature
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..numerics.two_normals import Ranked, discriminant, likely_share, ranked
from ..runtime import Ask, Cohort, Run
from ..subprotocols.scales import number_randomizer
from ..subprotocols.standardisation import Standardisation
from .holdout import EVERYBODY, Number, ask_present, prior_spread

# The wanted standard error of each answer, and the largest part of a class's users who are asked
# for it: together a fifth. The others make the slopes that these evaluate. Where users are many a
# fixed share of them is asked, so that probabilities sharpen with users.
_SHARE_ERROR, _MAX_FOR_SHARE = 0.03, 0.08  # probabilities are off by as much
_SCALE_ERROR, _MAX_FOR_SCALE = 0.15, 0.03  # of a logarithm: slopes are stretched by 15 %
_CENTRE_ERROR, _MAX_FOR_CENTRE = 0.12, 0.025  # 5 % of normal scores lie between, and change sign
_RANKING_ERROR, _MAX_FOR_RANKING = 0.025, 0.08  # an AUC near .5 of equal classes is off by .035
_LEAST_SHARE = 0.025  # of a class's users, for each answer: a tenth together
_PRIOR_LOG_SD = 0.5  # of the scale around what the schema lets one expect: a factor of 1.6
_LOG_RANGE = math.log(6)  # of reported logarithms: 3.6 of these standard deviations
_LOG_VARIANCE = 0.5  # of users' logarithms: trigamma(k / 2) / 4 of k normal rows is .41 of two
_USERS_LOG_RATIO = 0.15  # of a root mean square over that of a typical user: s^2 for factors e^.39
_PRIOR_CENTRE_SD = 0.5  # of scores' mean around where labels balance, in scores' sizes
_REACH = 2.5  # standard deviations at which scores are clipped: of normal ones 1.2 % are farther
_ROW_VARIANCE = 0.2  # of a row in a ranking: share (1 - share), which is .25 at most
# Where a user's ranking is clipped. A row of the class has 1 - share: .6 cuts classes below .4. The
# mean of k rows varies as k^-.5, or as one row does where they are alike: in between.
_RADII, _RADIUS_OF_ROW, _AVERAGED = (0.3, 0.6), 0.75, 0.4
# Farther out if the noise of that is small: below the error that is wanted.
_MAX_RADIUS, _RANKING_NOISE = 0.75, 0.02
_CORRELATED = 1.5  # two columns that all but repeat each other spread scores 1.41 times as far
_MIN_SPREAD = 0.6  # of scores' mean square: a mean beyond .8 of their spread is taken for noise
_MIN_SHARE = 0.01  # of a class, that is returned: logits stay within 4.6


@dataclass(frozen=True)
class HoldOut:
    """The hold-out cohorts of one class."""

    present: Cohort | None
    share: Cohort
    scale: Cohort
    centre: Cohort
    ranking: Cohort

    @classmethod
    def of(cls, run: Run, epsilon: float, rows_per_user: float, classes: int) -> "HoldOut":
        """Take them from users not asked yet, a share for each of so many classes.

        Raises
        ------
        TooFewReports
            If a cohort would be smaller than the strategy's ``min_reports``.
        """
        sizes = num_held_out(run.num_users / classes, epsilon, rows_per_user)
        share, *others = (max(size, run.min_reports) for size in sizes)
        some = round(share / 4)  # report who is present
        if some < run.min_reports:
            return cls(None, *run.cohorts([share, *others]))
        return cls(*run.cohorts([some, share - some, *others]))


def num_held_out(users: float, epsilon: float, rows_per_user: float) -> list[int]:
    """Return how many of one class's users are held out, for each question."""
    unit = number_randomizer(epsilon, 1.0).variance
    ranking = unit * _radius(rows_per_user) ** 2 + _ROW_VARIANCE / rows_per_user
    wanted = (
        ((unit + 1 / rows_per_user) / 4 / _SHARE_ERROR**2, _MAX_FOR_SHARE),
        ((unit * _LOG_RANGE**2 + _LOG_VARIANCE) / _SCALE_ERROR**2, _MAX_FOR_SCALE),
        ((unit * _REACH**2 + 1) / _CENTRE_ERROR**2, _MAX_FOR_CENTRE),
        (ranking / _RANKING_ERROR**2, _MAX_FOR_RANKING),
    )
    return [math.ceil(min(max(n, _LEAST_SHARE * users), most * users)) for n, most in wanted]


@dataclass(frozen=True)
class ClassEvaluation:
    """What hold-out cohorts estimate of one class's scores."""

    share: float  # of users' rows that are of the class
    share_std_error: float
    ranked: Ranked  # how well the scores rank
    theta: Floats  # (num_features,): the scores' coefficients, for mean 0 and standard deviation 1
    present: float  # share of the users who have a row with a target; 1 unless it is surely less

    def logits(self) -> Floats:
        """Return the coefficients of the class's logit."""
        intercept, slope = discriminant(self.ranked.distance, self.share)
        coef = slope * self.theta
        coef[0] += intercept
        return coef

    def without_slopes(self) -> "ClassEvaluation":
        """Return the same without slopes: the share for everybody."""
        return replace(self, ranked=replace(self.ranked, distance=0.0))


def evaluate_class(
    cohorts: HoldOut,
    epsilon: float,
    schema: Schema,
    standardisation: Standardisation,
    theta: Floats,
    place: int,
    rows_per_user: float,
) -> Generator[Ask, Estimate, ClassEvaluation]:
    """Evaluate the scores of the class at a place on its hold-out cohorts.

    theta: Of the scores, about half of the class's logits, shape (num_features,); of standardised
        features.
    rows_per_user: Typical number of a user's rows.
    """
    num_classes = len(schema.classes)
    present = EVERYBODY
    if cohorts.present is not None:
        present = yield from ask_present(cohorts.present, epsilon, len(theta), num_classes)
    share, share_error = yield from _share(cohorts.share, epsilon, place, num_classes, present)
    spread = _CORRELATED * prior_spread(schema, theta)
    # Where the scores' mean is expected: about where the descent balances labels.
    expected = math.log(share / (1 - share)) / 2 * math.sqrt(1 + math.pi / 2 * spread**2)
    moved = theta - expected * np.eye(1, len(theta))[0]
    size = yield from _scale(cohorts.scale, epsilon, standardisation, moved, spread, rows_per_user)
    scale = size.value
    found = yield from _centre(cohorts.centre, epsilon, standardisation, moved, scale)
    centre = found.value
    deviation = scale * math.sqrt(max(1 - (centre / scale) ** 2, _MIN_SPREAD))
    moved = (moved - centre * np.eye(1, len(theta))[0]) / deviation
    question = Ranking(moved, float(place), share, num_classes)
    unit = number_randomizer(epsilon, 1.0).variance
    affordable = min(_RANKING_NOISE * math.sqrt(cohorts.ranking.size / unit), _MAX_RADIUS)
    radius = max(_radius(rows_per_user), affordable)
    ask = Ask(cohorts.ranking, question, number_randomizer(epsilon, radius))
    answer = yield standardisation.applied(ask)
    mean = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
    # The share's error counts by how much more scores are above what is taken for their mean than
    # below it: of normal ones .8 of its distance, if their scale is smaller than it seems by two
    # standard errors.
    off = found.std_error / deviation * math.exp(2 * size.std_error)
    unbalanced = min(math.sqrt(2 / math.pi) * off, 1.0)
    ranking = ranked(mean.value, math.hypot(mean.std_error, unbalanced * share_error), share)
    return ClassEvaluation(share, share_error, ranking, moved, present.value)


def _radius(rows_per_user: float) -> float:
    return float(np.clip(_RADIUS_OF_ROW / rows_per_user**_AVERAGED, *_RADII))


def _share(
    cohort: Cohort, epsilon: float, place: int, num_classes: int, present: Number
) -> Generator[Ask, Estimate, tuple[float, float]]:
    randomizer = number_randomizer(epsilon, 0.5)
    answer = yield Ask(cohort, ClassShare(float(place), num_classes), randomizer)
    found = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
    mean, error = likely_share(0.5 + found.value, found.std_error)
    return float(np.clip(mean, _MIN_SHARE, 1 - _MIN_SHARE)), error


def _scale(
    cohort: Cohort,
    epsilon: float,
    standardisation: Standardisation,
    theta: Floats,
    expected: float,
    rows_per_user: float,
) -> Generator[Ask, Estimate, Number]:
    """Return the scores' root mean square, given what is expected, and its logarithm's error."""
    ask = Ask(cohort, RootCurvature(theta, expected, _LOG_RANGE), number_randomizer(epsilon, 1.0))
    answer = yield standardisation.applied(ask)
    error = _LOG_RANGE * float(answer.std_error[0])
    trust = _PRIOR_LOG_SD**2 / (_PRIOR_LOG_SD**2 + error**2)
    # Logarithms of few normal numbers' root mean squares are lower in the mean.
    lower = (math.log(rows_per_user / 2) - digamma(rows_per_user / 2)) / 2 + _USERS_LOG_RATIO
    log_ratio = _LOG_RANGE * float(np.clip(answer.mean[0], -1, 1)) + lower
    return Number(expected * math.exp(trust * log_ratio), math.sqrt(trust) * error)


def _centre(
    cohort: Cohort,
    epsilon: float,
    standardisation: Standardisation,
    theta: Floats,
    scale: float,
) -> Generator[Ask, Estimate, Number]:
    """Return the scores' mean, given their root mean square."""
    question = MeanScore(theta / (_REACH * scale))
    answer = yield standardisation.applied(Ask(cohort, question, number_randomizer(epsilon, 1.0)))
    error = _REACH * float(answer.std_error[0])
    trust = _PRIOR_CENTRE_SD**2 / (_PRIOR_CENTRE_SD**2 + error**2)
    mean = _REACH * float(np.clip(answer.mean[0], -1, 1))
    return Number(trust * scale * mean, math.sqrt(trust) * scale * error)
