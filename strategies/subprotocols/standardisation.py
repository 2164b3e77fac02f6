"""Standardisation of a table's columns: centres and scales are estimated, applied and undone.

Clients apply them to their rows, and results undo them in the coefficients.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import ColumnLogSizes, ColumnMeanNorm, ColumnMeans, Standardised
from ldp_flower.randomizers import Estimate, Randomizer, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.denoising import shrink
from ..runtime import Ask, Cohort, Run
from .scales import estimate_norm, norm_askers

Integers = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class Standardisation:
    """Public constants that transform columns to about mean 0 and scale 1."""

    # Both arrays have the shape (num_features + 1,): one entry for each feature of a schema and,
    # last, one for the target. A mean of 0 and a scale of 1 leave a column as it is
    means: Floats
    scales: Floats

    @classmethod
    def identity(cls, num_features: int) -> Self:
        """Return the standardisation that changes no column."""
        size = num_features + 1
        return cls(np.zeros(size), np.ones(size))

    def applied(self, ask: Ask) -> Ask:
        """Return the same question, asked about standardised columns."""
        return replace(ask, question=Standardised(ask.question, self.means, self.scales))

    def moved(self, coef: Floats) -> Floats:
        """Return the coefficients for standardised columns, from those for the features."""
        slopes = coef * self.scales[:-1] / self.scales[-1]
        slopes[0] = (coef[0] + coef @ self.means[:-1] - self.means[-1]) / self.scales[-1]
        return np.asarray(slopes)

    def restored(self, coef: Floats) -> Floats:
        """Convert coefficients of standardised columns to those of the features.

        The first coefficient is the intercept.
        """
        slopes = self.scales[-1] / self.scales[:-1] * coef
        slopes[0] += self.means[-1] - slopes @ self.means[:-1]
        return np.asarray(slopes)


def with_standardisation(
    asks: Generator[Ask, Any, T], standardisation: Standardisation
) -> Generator[Ask, Any, T]:
    """Run the protocol ``asks`` with every question asked about standardised columns.

    Return its result.
    """
    answer = None
    while True:
        try:
            ask = asks.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = yield standardisation.applied(ask)


# A size is a root mean square in units of the schema's features. In these units, columns with
# bounds lie within [-2, 2]: the size is some 1.5 if bounds fit, and 0.1 if they are 10 times too
# wide.
_CLIP_RADIUS = 2.0
# A prior is a size, the spread of logarithms around it, and the bound at which logarithms are
# clipped.
_FIRST_SIZES = 0.4, 2.0, 3.0
# Prior of sizes around estimated centres. It is narrower, since sizes are known except for columns
# that were off-centre.
_SECOND_SIZES = 0.6, 0.7, math.log(3)
_SAFETY_FACTOR = 1.2  # radius of the second wave of centres over users' typical distance
_QUESTION_SHARE = 0.05  # largest share of all users for each question
_TARGET_STD_ERROR = 0.1  # standard error of a logarithm or a centre that is precise enough


def estimate_standardisation(run: Run, schema: Schema) -> Generator[Ask, Estimate, Standardisation]:
    """Ask small cohorts for the centres and scales that a schema does not declare.

    The first question is for sizes, as bounds may be much too wide. Two questions for centres
    follow, the second around the first estimate, which is near users' means. The last question is
    for sizes around the centres. A user reports one vector of all columns in question. Centres and
    scales that the schema declares are not asked for.
    """
    estimated = Standardisation.identity(schema.num_features)
    centres = np.flatnonzero(~schema.centred)
    scales = np.flatnonzero(~schema.scaled)
    columns = np.union1d(centres, scales)
    farthest = np.where(schema.scaled, np.inf, _CLIP_RADIUS)
    estimator = _Estimator(run, farthest)
    if not len(columns):
        return estimated
    estimated = yield from estimator.sizes(estimated, columns, _FIRST_SIZES)
    if len(centres):
        estimated = yield from estimator.centres(estimated, centres)
    estimated = replace(estimated, scales=np.where(schema.scaled, 1.0, estimated.scales))
    if len(scales):
        estimated = yield from estimator.sizes(estimated, scales, _SECOND_SIZES)
    return estimated


@dataclass(frozen=True)
class _Estimator:
    """Estimator of sizes and centres, which asks cohorts for vectors of columns."""

    run: Run
    farthest: Floats  # largest possible distance of each column from 0

    def _cohort(self, mechanism: Randomizer) -> Cohort:
        size = min(_QUESTION_SHARE * self.run.num_users, mechanism.variance / _TARGET_STD_ERROR**2)
        return self.run.cohorts([max(math.ceil(size), self.run.min_reports)])[0]

    def sizes(
        self,
        known: Standardisation,
        columns: Integers,
        prior: tuple[float, float, float],
    ) -> Generator[Ask, Estimate, Standardisation]:
        """Ask a cohort for its columns' root mean squares; multiply the scales by them.

        Users report logarithms. Each column's estimated logarithm is first shrunk towards the mean
        over all columns. No scale exceeds the column's largest possible distance from 0.
        """
        centre, spread, reach = prior
        radius = spread * math.sqrt(len(columns))
        mechanism = ball_codebook(self.run.epsilon, len(columns), radius)
        question = ColumnLogSizes(centre, reach, columns)
        answer = yield known.applied(Ask(self._cohort(mechanism), question, mechanism))
        common = answer.mean.mean()
        own = shrink(answer.mean - common, mechanism.variance / answer.count)
        scales = known.scales.copy()
        sizes = scales[columns] * centre * np.exp(common + own)
        scales[columns] = np.minimum(sizes, self.farthest[columns])
        return replace(known, scales=scales)

    def centres(
        self, known: Standardisation, columns: Integers
    ) -> Generator[Ask, Estimate, Standardisation]:
        """Estimate means by two waves of vectors.

        The first wave clips to the length of a typical row, the second, around the first estimate,
        to users' typical distance from it.
        """
        root, epsilon = math.sqrt(len(columns)), self.run.epsilon
        centre, means = np.zeros(len(known.means)), known.means.copy()
        coarse, coarse_variance = yield from self._mean(known, centre, columns, root)
        centre[columns] = shrink(coarse, coarse_variance)
        question = partial(ColumnMeanNorm, centre, coordinates=columns)
        (cohort,) = self.run.cohorts([norm_askers(self.run, epsilon)])
        asks = estimate_norm(cohort, epsilon, question, root / 2)
        distance = yield from with_standardisation(asks, known)
        radius = min(_SAFETY_FACTOR * distance, root)
        fine, fine_variance = yield from self._mean(known, centre, columns, radius)
        weight = coarse_variance / (coarse_variance + fine_variance)
        mean = (1 - weight) * coarse + weight * (centre[columns] + fine)
        estimated = known.scales[columns] * shrink(mean, weight * fine_variance)
        farthest = self.farthest[columns]
        means[columns] = np.clip(estimated, -farthest, farthest)
        return replace(known, means=means)

    def _mean(
        self, known: Standardisation, centre: Floats, columns: Integers, radius: float
    ) -> Generator[Ask, Estimate, tuple[Floats, float]]:
        """Return the mean of columns minus ``centre``, and the variance of its noise."""
        mechanism = ball_codebook(self.run.epsilon, len(columns), radius)
        question = ColumnMeans(centre.copy(), columns)
        answer = yield known.applied(Ask(self._cohort(mechanism), question, mechanism))
        return answer.mean, mechanism.variance / answer.count


_CENTRES_SHARE = 0.04  # largest share of all users that is asked for centres
_CENTRES_NOISE = 0.1  # noise, over a typical row's norm, that is small enough
_MAX_CENTRES_NOISE = 1.2  # largest noise, likewise, with which centres are estimated at all
USUAL, FARTHEST = 2.0, 4.0  # usual and largest mean square of a numeric column with bounds only


def _columns(schema: Schema, numeric: float) -> dict[int, float]:
    """Return the mean squares of the features whose centres are not declared, by index.

    Indicators have no declared centres: they are centred as if categories were equally likely.
    ``numeric`` is the mean square of a numeric column.
    """
    found: dict[int, float] = {}
    for name, kind in schema.columns.items():
        if not isinstance(kind, Numeric):
            found |= dict.fromkeys(schema.places(name), (1 - 1 / kind.width) / kind.width)
        elif kind.centre is None:
            found |= dict.fromkeys(schema.places(name), numeric)
    return found


def usual_square(schema: Schema) -> float:
    """Return the squared norm that a row of features usually has, by the schema's declarations."""
    undeclared = _columns(schema, USUAL)
    return 1.0 + sum(undeclared.get(column, 1.0) for column in range(1, schema.num_features))


def centre_askers(num_users: int, epsilon: float, min_reports: int, schema: Schema) -> int:
    """Return the number of users to ask for columns' centres; 0 if noise would dominate."""
    if not (columns := len(_columns(schema, FARTHEST))):
        return 0
    noise = columns * ball_codebook(epsilon, columns, 1.0).variance
    most = math.floor(_CENTRES_SHARE * num_users)
    if noise > _MAX_CENTRES_NOISE**2 * most:
        return 0
    return max(math.ceil(min(most, noise / _CENTRES_NOISE**2)), min_reports)


def estimate_centres(
    run: Run, epsilon: float, schema: Schema, askers: int
) -> Generator[Ask, Estimate, Standardisation]:
    """Ask a cohort for the means of columns whose centres are not declared.

    Each user sends one report, clipped to the largest norm of a row. The estimates are shrunk to
    the mean over all columns.
    """
    known = Standardisation.identity(schema.num_features)
    if not askers:
        return known
    squares = _columns(schema, FARTHEST)
    columns = np.array(list(squares), np.int64)
    mechanism = ball_codebook(epsilon, len(columns), math.sqrt(sum(squares.values())))
    question = ColumnMeans(np.zeros(len(known.means)), columns)
    (cohort,) = run.cohorts([askers])
    answer = yield known.applied(Ask(cohort, question, mechanism))
    common = float(answer.mean.mean())
    own = shrink(answer.mean - common, mechanism.variance / answer.count)
    known.means[columns] = common + own
    return known
