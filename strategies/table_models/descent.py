"""The descent of a regression: steps along the mean of users' own, with their length."""

import math
from bisect import bisect_left
from collections.abc import Generator
from typing import Any

import numpy as np

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.questions import RidgeShift, RidgeShiftOctave
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Cohort, Run, TooFewReports
from ..subprotocols.scales import enough_for_norm
from ..subprotocols.size_histogram import ask_histogram
from .holdout import held_out

STEPS = 20  # at most
RIDGE = 1.0  # over a user's number of rows, in units of a row's mean square norm: as one row more
RESIDUAL_BOUND = 4.0  # no target is farther from another one
# Of one step and of all, in units in which rows have norm 1: a target is within 2 of the middle.
_FARTHEST, _MOST = 4.0, 100.0
_PER_SIGNAL = 0.5  # size of all steps, over the signal to noise ratio of all users together
_LONGER = 2.0  # as fitted steps begin with half of what is planned
INTERCEPT = 2.0  # how many times as far as slopes the intercept moves
# Share of the users who report how long their own steps are, at first, and after so many steps.
_SIZES, _LATE_SIZES, _LATE = 0.02, 0.02, 2 / 3
_USUAL_LENGTH = 0.35  # of steps, in units of the targets
# How much of the mean length is shortened costs so much of its square, beside the noise: some of
# it only makes all slopes smaller, which the line search undoes.
_SHORTENED = 0.1


class RidgeDescent:
    """Steps along the mean of how users' own ridge regressions would change the coefficients.

    Changes are shortened where few are longer; their mean is the direction of the next step. So
    many of the users who are not asked yet answer. Features, shape (rows, dim), are each within
    about [-2, 2]; a row of them is typically ``row_length`` long, see :func:`row_length`. A user's
    number of rows is taken for ``rows_per_user``; None: for what it is. It begins at
    ``start``, shape (dim,). So large a share of the users is ``present`` and has a row.
    """

    def __init__(
        self,
        run: Run,
        num_users: int,
        dim: int,
        rows_per_user: float | None,
        *,
        row_length: float,
        start: Floats,
        present: float = 1.0,
    ) -> None:
        self._epsilon, self._dim, self._rows = run.epsilon, dim, rows_per_user
        self._present = present
        self._unit = unit = 1 / row_length  # so that a row has about length 1, as its target has
        shares = [_SIZES * num_users, _LATE_SIZES * num_users]
        self._askers = run.cohorts([max(math.ceil(each), run.min_reports) for each in shares])
        self._users = num_users - sum(cohort.size for cohort in self._askers)
        self._cohorts = run.equal_cohorts(self._users, STEPS)
        self._late = round(_LATE * len(self._cohorts))
        self._variance = ball_codebook(run.epsilon, dim, 1.0).variance
        signal = math.sqrt(self._users / self._variance)  # over noise, of all users together
        planned = unit * min(_FARTHEST, min(_MOST, _PER_SIGNAL * signal) / len(self._cohorts))
        steps = [_LONGER * planned] * len(self._cohorts)
        self._descent = NoisyDescent(start, steps, _FARTHEST * unit, fitted=True)
        self._usual, self._radius, self._unanswered = _USUAL_LENGTH * unit, 0.0, False

    def steps(self) -> Generator[Ask, Any, None]:
        """Take all steps.

        Raise TooFewReports if a step's cohort would be smaller than ``min_reports``.
        """
        pace = 1 + (INTERCEPT - 1) * np.eye(1, self._dim)[0]
        for number, cohort in enumerate(self._cohorts):
            if number in (0, self._late):
                yield from self._shorten(self._askers[bool(number)])
            mechanism = ball_codebook(self._epsilon, self._dim, self._radius)
            shift = RidgeShift(self._descent.position, *self._arguments)
            try:
                answer = yield Ask(cohort, shift, mechanism)
            except TooFewReports:
                if self._unanswered:  # twice in a row: nodes are lost
                    raise
                self._unanswered = True
                continue  # the next cohort gets the question
            self._unanswered = False
            mean = answer.mean / self._radius
            self._descent.follow(mean, math.sqrt(self._variance / answer.count), pace * mean)

    @property
    def _arguments(self) -> tuple[float, float, float, float, float | None]:
        return RIDGE / self._unit**2, RESIDUAL_BOUND, 0.0, 1.0, self._rows

    def _shorten(self, cohort: Cohort) -> Generator[Ask, Estimate, None]:
        """Set where changes are shortened: noise over what is left, and what is cut, are least."""
        octave = RidgeShiftOctave(self._descent.position, *self._arguments)
        law = yield from ask_histogram(cohort, octave, self._epsilon, self._usual, self._present)
        self._usual = law.root_mean_square
        noise = self._variance * self._dim / self._users
        self._radius = law.shortening(noise, _SHORTENED)

    @property
    def theta(self) -> Floats:
        """Where it has led to."""
        return self._descent.estimate


def row_length(schema: Schema) -> float:
    """Return the usual length of a row of features, from what a schema declares.

    Numbers count 1, as within bounds that are not too wide; the indicators of K categories
    together 1 - 1/K.
    """
    kinds = schema.columns.values()
    return math.sqrt(1 + sum(1 - 1 / k.width if isinstance(k, Categories) else 1 for k in kinds))


_COLUMNS = 0.05  # share of the users who report all centres at first
_WORTH = 0.25  # variance of a centre up to which it helps: that of a column within its bounds
_FEWEST = 1000  # users of two stages
_COHORTS = 50  # of min_reports users each, that all questions of two stages may take
FOR_COLUMNS = 0.2  # share of the users that report centres and scales at most
_DESCENT = 0.1  # least share of the users that is left for the descent
METHODS = ("auto", "one-stage", "two-stage")


def noise_of_centres(num_users: int, dim: int, epsilon: float) -> float:
    """Return the variance of a column's estimated centre, in units of its bounds."""
    return ball_codebook(epsilon, dim, 1.0).variance * dim / (_COLUMNS * num_users)


def chosen(num_users: int, dim: int, epsilon: float, min_reports: int) -> str:
    """Return the better method by public numbers alone.

    Of the table cps with bounds ten times too wide one stage explains .20 and .24 of the
    variance at epsilon 4 and 8, two stages .30 and .32 (medians of five splits).
    """
    known = noise_of_centres(num_users, dim, epsilon) <= _WORTH
    enough = num_users >= _FEWEST and enough_for_two_stages(num_users, epsilon, min_reports)
    return "two-stage" if known and enough else "one-stage"


def enough_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> bool:
    """Whether enough users are left for the second stage."""
    left = (1 - FOR_COLUMNS - _DESCENT) * num_users - enough_for_norm(epsilon)
    left -= held_out(num_users, epsilon)
    return left >= 0 and num_users >= _COHORTS * min_reports


def too_few_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> TooFew | None:
    """Return why so many users are too few for two stages; None if they are not."""
    if enough_for_two_stages(num_users, epsilon, min_reports):
        return None
    most = 2 * num_users
    while not enough_for_two_stages(most, epsilon, min_reports):
        most *= 2
    each = range(num_users, most)
    needed = each[
        bisect_left(each, True, key=lambda n: enough_for_two_stages(n, epsilon, min_reports))
    ]
    return TooFew(
        f"{num_users:,} users are too few for two stages at epsilon {epsilon:g}: the second would "
        "lack them.",
        "cohorts",
        needed,
        advice='Fewer do with method="one-stage".',
    )
