"""Hold-out cohorts of a classifier, which estimate shares of classes and ranking quality."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import digamma

from ldp_flower.data.schema import Schema
from ldp_flower.questions import ClassShare, MeanScore, Question, Ranking, RootCurvature
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..numerics.two_normals import Ranked, discriminant, likely_share, ranked
from ..runtime import Ask, Cohort, Run
from ..runtime.result import HALF_WIDTH_95
from ..subprotocols.number_mean import EVERYBODY, Number, ask_number
from ..subprotocols.scales import number_randomizer
from ..subprotocols.standardisation import Standardisation, with_standardisation
from .holdout import ask_present, prior_spread

# Wanted standard error of each answer, and the largest share of a class's users who are asked for
# it; the four shares add up to a fifth. The other users fit the slopes, which these users evaluate.
# If there are many users, a fixed share is asked, so that more users make answers more precise.
_SHARE_ERROR, _MAX_FOR_SHARE = 0.03, 0.08  # probabilities have the same error
_SCALE_ERROR, _MAX_FOR_SCALE = 0.15, 0.03  # error of a logarithm: slopes are stretched by 15 %
# With this error of the centre 5 % of normal scores lie on the wrong side, with the wrong sign.
_CENTRE_ERROR, _MAX_FOR_CENTRE = 0.12, 0.025
# With this error an AUC near .5 of equal classes has an error of .035.
_RANKING_ERROR, _MAX_FOR_RANKING = 0.025, 0.08
_LEAST_SHARE = 0.025  # smallest share of a class's users for each of the four answers
# Prior standard deviation of the scale's logarithm around the one expected from the schema: a
# factor of 1.6.
_PRIOR_LOG_SD = 0.5
_LOG_RANGE = math.log(6)  # range of reported logarithms: 3.6 of these standard deviations
# Variance of users' logarithms: for k normal rows it is trigamma(k / 2) / 4, which is .41 for two.
_LOG_VARIANCE = 0.5
# Logarithm of the root mean square of all users over that of a typical user. It is s^2 if the
# users' logarithms have the standard deviation s, here .39.
_USERS_LOG_RATIO = 0.15
# Prior standard deviation of the scores' mean around the point that balances labels, in sizes of
# the scores.
_PRIOR_CENTRE_SD = 0.5
_CLIP_Z = 2.5  # bound of clipped scores, in standard deviations; 1.2 % of normal scores are beyond
_ROW_VARIANCE = 0.2  # variance of a row in a ranking: share (1 - share), which is at most .25
# Bounds at which a user's ranking is clipped. A row of the class has 1 - share, so .6 clips classes
# with shares below .4. The mean of k rows varies as k^-.5, or like one row if rows are alike; the
# power used lies between.
_RADII, _RADIUS_OF_ROW, _AVERAGED = (0.3, 0.6), 0.75, 0.4
# The bound is larger, up to _MAX_RADIUS, if its noise is small: below the wanted error.
_MAX_RADIUS, _RANKING_NOISE = 0.75, 0.02
# Factor of the scores' expected spread for correlated columns: two nearly equal columns spread
# scores 1.41 times as far.
_CORRELATED = 1.5
# Smallest variance of scores over their mean square: a mean beyond .8 of their spread is noise.
_MIN_SPREAD = 0.6
_MIN_SHARE = 0.01  # smallest share of a class that is returned: logits stay within 4.6


@dataclass(frozen=True)
class ClassEvaluation:
    """Estimates of hold-out cohorts on one class's scores."""

    share: float  # share of users' rows that are of the class
    share_std_error: float
    ranked: Ranked  # ranking quality of the scores
    theta: Floats  # (num_features,): the scores' coefficients, for mean 0 and standard deviation 1
    # Share of the users who have a row with a target; 1 unless it is significantly less
    present: float

    def logits(self) -> Floats:
        """Return the coefficients of the class's logit, as a linear function of a row."""
        intercept, slope = discriminant(self.ranked.distance, self.share)
        coef = slope * self.theta
        coef[0] += intercept
        return coef

    def without_slopes(self) -> "ClassEvaluation":
        """Return the evaluation of the model without slopes, which gives all rows one share."""
        return replace(self, ranked=replace(self.ranked, distance=0.0))


@dataclass(frozen=True)
class ClassHoldOut:
    """The hold-out cohorts of one class, each of which answers one question about its scores.

    Without the cohort ``"present"`` every user is taken to have a row with a target.
    """

    epsilon: float
    schema: Schema
    columns: Standardisation
    place: int  # index of the class
    rows_per_user: float  # typical number of a user's rows
    cohorts: dict[str, Cohort]  # by question: present, share, scale, centre, ranks

    @classmethod
    def of(
        cls, run: Run, schema: Schema, columns: Standardisation, place: int, rows: float, parts: int
    ) -> Self:
        """Take the cohorts of one class from users that have not been asked yet.

        ``rows`` is the typical number of a user's rows. The users are divided among ``parts``
        classes.

        Raises
        ------
        TooFewReports
            If a cohort would be smaller than the strategy's ``min_reports``.
        """
        each = _sizes(run.num_users / parts, run.epsilon, rows)
        names = "share", "scale", "centre", "ranks"
        sizes = {name: max(n, run.min_reports) for name, n in zip(names, each, strict=True)}
        some = round(sizes["share"] / 4)  # users who report if they have a row with a target
        if some >= run.min_reports:
            sizes = {"present": some} | sizes | {"share": sizes["share"] - some}
        cohorts = dict(zip(sizes, run.cohorts(list(sizes.values())), strict=True))
        return cls(run.epsilon, schema, columns, place, rows, cohorts)

    def evaluate(self, theta: Floats) -> Generator[Ask, Any, ClassEvaluation]:
        """Ask the cohorts to evaluate the class's scores, and return the estimates.

        ``theta``, shape (num_features,), has the coefficients of the scores for standardised
        features. Scores are about half of the class's logits.
        """
        num_classes, one = len(self.schema.classes), np.eye(1, len(theta))[0]
        present = EVERYBODY
        if cohort := self.cohorts.get("present"):
            present = yield from ask_present(cohort, self.epsilon, len(theta), num_classes)
        share, share_error = yield from self._share(num_classes, present)
        spread = _CORRELATED * prior_spread(self.schema, theta)
        # Expected mean of the scores: about the point at which the descent balances labels.
        expected = math.log(share / (1 - share)) / 2 * math.sqrt(1 + math.pi / 2 * spread**2)
        moved = theta - expected * one
        size = yield from self._scale(moved, spread)
        scale = size.value
        found = yield from self._centre(moved, scale)
        centre = found.value
        deviation = scale * math.sqrt(max(1 - (centre / scale) ** 2, _MIN_SPREAD))
        moved = (moved - centre * one) / deviation
        unit = number_randomizer(self.epsilon, 1.0).variance
        affordable = min(_RANKING_NOISE * math.sqrt(self.cohorts["ranks"].size / unit), _MAX_RADIUS)
        radius = max(_radius(self.rows_per_user), affordable)
        question = Ranking(moved, float(self.place), share, num_classes)
        mean = (yield from self._asked("ranks", question, radius)).of_those(present)
        # The error of the share counts in proportion to the imbalance of scores around their
        # estimated mean. For normal scores it is .8 times the error of the mean over their scale,
        # which may be two standard errors smaller than estimated.
        off = found.std_error / deviation * math.exp(2 * size.std_error)
        unbalanced = min(math.sqrt(2 / math.pi) * off, 1.0)
        error = math.hypot(mean.std_error, unbalanced * share_error)
        ranking = ranked(mean.value, error, share, HALF_WIDTH_95)
        return ClassEvaluation(share, share_error, ranking, moved, present.value)

    def _asked(self, name: str, question: Question, radius: float) -> Generator[Ask, Any, Number]:
        """Ask a cohort for a number that is computed from standardised columns."""
        asks = ask_number(self.cohorts[name], self.epsilon, question, radius)
        return with_standardisation(asks, self.columns)

    def _share(
        self, num_classes: int, present: Number
    ) -> Generator[Ask, Estimate, tuple[float, float]]:
        """Return the class's share of the rows, and its standard error."""
        question = ClassShare(float(self.place), num_classes)
        asks = ask_number(self.cohorts["share"], self.epsilon, question, 0.5)
        found = (yield from asks).of_those(present)
        mean, error = likely_share(0.5 + found.value, found.std_error)
        return float(np.clip(mean, _MIN_SHARE, 1 - _MIN_SHARE)), error

    def _scale(self, theta: Floats, expected: float) -> Generator[Ask, Any, Number]:
        """Return the scores' root mean square, with the standard error of its logarithm.

        ``expected`` is the prior value of the root mean square.
        """
        found = yield from self._asked("scale", RootCurvature(theta, expected, _LOG_RANGE), 1.0)
        error = _LOG_RANGE * found.std_error
        trust = _PRIOR_LOG_SD**2 / (_PRIOR_LOG_SD**2 + error**2)
        # The logarithm of the root mean square of few normal numbers has a negative bias.
        half = self.rows_per_user / 2
        lower = (math.log(half) - digamma(half)) / 2 + _USERS_LOG_RATIO
        log_ratio = _LOG_RANGE * float(np.clip(found.value, -1, 1)) + lower
        return Number(expected * math.exp(trust * log_ratio), math.sqrt(trust) * error)

    def _centre(self, theta: Floats, scale: float) -> Generator[Ask, Any, Number]:
        """Return the mean of the scores, whose root mean square is ``scale``."""
        found = yield from self._asked("centre", MeanScore(theta / (_CLIP_Z * scale)), 1.0)
        error = _CLIP_Z * found.std_error
        trust = _PRIOR_CENTRE_SD**2 / (_PRIOR_CENTRE_SD**2 + error**2)
        mean = _CLIP_Z * float(np.clip(found.value, -1, 1))
        return Number(trust * scale * mean, math.sqrt(trust) * scale * error)


def _sizes(users: float, epsilon: float, rows_per_user: float) -> list[int]:
    """Return how many of a class's ``users`` are held out for each of the four answers.

    The answers are the share, the scale, the centre and the ranking.
    """
    unit = number_randomizer(epsilon, 1.0).variance
    ranking = unit * _radius(rows_per_user) ** 2 + _ROW_VARIANCE / rows_per_user
    wanted = (
        ((unit + 1 / rows_per_user) / 4 / _SHARE_ERROR**2, _MAX_FOR_SHARE),
        ((unit * _LOG_RANGE**2 + _LOG_VARIANCE) / _SCALE_ERROR**2, _MAX_FOR_SCALE),
        ((unit * _CLIP_Z**2 + 1) / _CENTRE_ERROR**2, _MAX_FOR_CENTRE),
        (ranking / _RANKING_ERROR**2, _MAX_FOR_RANKING),
    )
    return [math.ceil(min(max(n, _LEAST_SHARE * users), most * users)) for n, most in wanted]


def _radius(rows_per_user: float) -> float:
    return float(np.clip(_RADIUS_OF_ROW / rows_per_user**_AVERAGED, *_RADII))
