"""PrivateRegression: a linear model of one's own table."""

import logging
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.users import Users
from ldp_flower.planning import Expectation, Setting, WouldRefuse
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import check_choice, check_integer

from ..forecasts.planned import features_of, made_up_schema
from ..runtime.audit_users import table_users
from ..runtime.base import LdpStrategy, Protocol, TooFewReports
from ..runtime.card import Card
from ..runtime.exchange import Ask
from ..runtime.units import contrasts
from .enough import doubts, too_few
from .expected import expected_regression
from .judges import (
    EVERYBODY,
    LENGTH,
    LEVEL_NOISE,
    LEVEL_SPREAD,
    MOMENTS,
    SCORE,
    SHORTEST,
    SIZES,
    TOLD,
    USUAL_R2,
    Line,
    Number,
    ask_level,
    ask_line,
    ask_present,
    ask_sizes,
    judges,
    level_judges,
    line_tells,
    score,
)
from .legs import METHODS, chosen, noise_of_centres, too_few_for_two_legs, two_legs
from .regression_fit import RegressionFit
from .ridge_walk import ridge_walk, row_length

Floats = NDArray[np.float64]

logger = logging.getLogger("flwr")

_SHORT = 0.75  # length that is worth a note
_SURE = 2.5  # standard errors by which a model is surely better than the mean


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegression(LdpStrategy[RegressionFit]):
    """Linear regression on a table of which only bounds and categories are known.

    Every user sends one report. Most of them are asked for the direction in which their own rows
    would move the model, see :func:`~.ridge_walk.ridge_walk`. Where users are many enough to
    estimate all columns' centres and scales, the walk goes on in units of these. Others, who
    have no part in that, tell the level and the length of the slopes, and the last ones the
    score. If slopes seem to be worth nothing, or the model worse than a mean that is well known,
    the mean is returned, and a note says so.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    schema : Schema
        What is publicly known about the users' tables. The target is a number.
    rows_per_user : int, optional
        How many rows a user's own regression is trusted as, for all users. By default it is as
        many as the user holds; rows that repeat each other tell less.
    method : {"auto", "walk", "two legs"} (default: "auto")
        Whether the walk stays within the bounds of columns or goes on around their estimated
        centres. By default the numbers of users and features and epsilon decide.

    Notes
    -----
    Source: this library. A user's direction is that of a ridge regression of what the model
    leaves of the user's own targets; only its direction is reported, so that no bound on its
    length has to be known. Level and length are least squares on a line, drawn to what is usual
    where few users tell. Where these are too few for a line, they tell the level only.

    Guarantee
    ---------
    1. Protected: a user's whole set of rows, against any other set (user-level local
       differential privacy), at pure ``epsilon``.
    2. Every user answers one question in one cohort; cohorts are disjoint and cut by public
       hashes. Later questions depend on data through earlier reports only, so the whole is
       epsilon-LDP by parallel composition, sequentially interactive.
    3. No matter what the strategy sends, the clients' randomizers and ledgers enforce this on
       their side.
    """

    card = Card(
        question="linear regression on one's own table",
        guarantee="pure epsilon",
        rounds="up to 52",
        report="1-2",
        use_when="users hold tables of which bounds and categories are known",
        fails_when="with fewer than 300 users, or than 400 / epsilon^2; weak relations take ten "
        "times as many",
        page="your-own-data",
    )

    schema: Schema = field(kw_only=False)
    rows_per_user: int | None = None
    method: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Schema):
            raise ValueError(f"Expected a Schema, got {type(self.schema).__name__}.")
        if not isinstance(self.schema.bounds, Numeric):
            raise ValueError(
                "Expected a schema whose target is a number, "
                f"got the target {self.schema.target!r} with bounds {self.schema.bounds!r}."
            )
        if self.rows_per_user is not None:
            check_integer("rows_per_user", self.rows_per_user, 1)
        check_choice("method", self.method, METHODS)
        ball_codebook(self.epsilon, self.schema.num_features)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a walk and two legs, with numbers of rows that are estimated."""
        schema, users = table_users(dim)
        yield cls(schema, epsilon=epsilon, method="walk"), users
        yield cls(schema, epsilon=epsilon, rows_per_user=5, method="two legs"), users

    plans_with: ClassVar[frozenset[str]] = frozenset({"rows_per_user", "num_features", "quality"})

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the one for so many columns of numbers."""
        schema = made_up_schema(features_of(setting, cls), Numeric(-1, 1))
        return cls(schema, epsilon=epsilon)

    def expect(self, setting: Setting) -> Expectation:
        """Return the R2 that noise is expected to cost."""
        if refusal := self.refusal(setting.num_users):
            raise WouldRefuse(refusal)
        method = self._chosen(setting.num_users)[0]
        return expected_regression(self, setting, self.schema, self.rows_per_user, method)

    def _too_few(self, num_users: int) -> str:
        given = num_users, self.epsilon, self.min_reports
        return (self.method == "two legs" and too_few_for_two_legs(*given)) or too_few(*given)

    def protocol(self) -> Protocol:
        """Walk, then have judges tell level, length and score."""
        if refusal := self._too_few(self.num_users):
            raise TooFewReports(refusal)
        notes = doubts(self.num_users, self.epsilon)
        (levelers, *askers), sizers = level_judges(self), judges(self, SIZES)
        line, scorers = judges(self, MOMENTS), judges(self, SCORE)
        method, why = self._chosen(self.num_users)
        logger.info("\t     method %s: %s", method, why)
        dim = self.schema.num_features
        present = EVERYBODY
        for cohort in askers:
            present = yield from ask_present(cohort, self.epsilon, dim)
        if present.value < 1:
            notes.append(
                f"About {100 * (1 - present.value):.0f} % of the people have no row with a target: "
                "the model is of the others."
            )
        level = yield from ask_level(levelers, self.epsilon, np.zeros(dim))
        mean = level.of_those(present)
        middle = mean.value / (1 + mean.std_error**2)
        start = middle * np.eye(1, dim)[0]
        if method == "walk":
            length = row_length(self.schema)
            walk = ridge_walk(self, self.num_unasked, dim, self.rows_per_user, row_length=length)
            theta = (yield from walk).coef
        else:
            theta = yield from two_legs(self, self.schema, self.rows_per_user)
            if noise_of_centres(self.num_users, dim, self.epsilon) > 1:
                notes.append(f"Two legs are not advisable here: {why}.")
        # The line: predictions around the mean target, so that it begins at a constant.
        direction = theta - start
        scales = yield from ask_sizes(sizers, self.epsilon, theta, direction)
        lines: list[Line] = []
        if line_tells(line.size, self.epsilon):
            found = yield from ask_line(line, self.epsilon, theta, direction, scales, present)
            length = 1 + found.best_move(*LENGTH)
            if length < SHORTEST:
                at = found.level_after(-1.0)
                target = mean.pooled(Number(middle + at.value, at.std_error))
                return (yield from self._mean(scorers, target, scales, present, notes))
            theta = theta + (length - 1) * direction
            left, usual = found.level_after(length - 1), self._usual_level_error() * scales[0]
            if length < _SHORT:
                notes.append(
                    f"The slopes were {100 / length - 100:.0f} % too long for the {line.size:,} "
                    "people who judged them and were shortened."
                )
            lines, scales = [found], found.sizes
        else:
            told = yield from ask_level(line, self.epsilon, theta, float(scales[0]))
            left, usual = told.of_those(present), self._usual_level_error() * scales[0]
        theta = theta + left.value / (1 + (left.std_error / usual) ** 2) * np.eye(1, dim)[0]
        last = yield from ask_line(scorers, self.epsilon, theta, theta - start, scales, present)
        lines.append(last)
        worth = score(*lines)
        for each in lines:
            at = each.level_after(-1.0)
            mean = mean.pooled(Number(middle + at.value, at.std_error))
        lost = (mean.std_error / float(np.hypot(*scales))) ** 2
        if lost < TOLD and worth.pooled(Number(*USUAL_R2)).value < -lost:
            return self._constant(mean, lost, notes)
        fit = RegressionFit(
            coef=contrasts(self.schema, theta),
            score=worth.value,
            score_std_error=worth.std_error,
            method=method,
        )
        if worth.value < _SURE * worth.std_error:
            low, high = fit.score_interval
            notes.append(
                f"The model may be no better than the mean: by {scorers.size:,} people who had no "
                f"part in it, it explains {100 * max(low, -1):.0f} to {100 * high:.0f} % of the "
                "target's variance. More users or a larger epsilon would tell."
            )
        fit.notes = notes
        return fit

    def _chosen(self, num_users: int) -> tuple[str, str]:
        """Return the method, and why."""
        dim = self.schema.num_features
        facts = f"{num_users:,} users, {dim} features, epsilon {self.epsilon:g}"
        noise = math.sqrt(noise_of_centres(num_users, dim, self.epsilon))
        tell = f"{facts} tell a column's centre within {25 * noise:.0f} % of its range"
        if self.method != "auto":
            return self.method, f"as asked for, where {tell}"
        return chosen(num_users, dim, self.epsilon, self.min_reports), tell

    def _usual_level_error(self) -> float:
        """Return how far off a walk's level usually is, in sizes of residuals."""
        dim = self.schema.num_features
        noise = ball_codebook(self.epsilon, dim).variance * dim / self.num_users
        return LEVEL_SPREAD + LEVEL_NOISE * math.sqrt(noise)

    def _mean(
        self, cohort: Any, known: Number, scales: Floats, present: Number, notes: list[str]
    ) -> Generator[Ask, Estimate, RegressionFit]:
        """Return the mean, after the users who would have told the score have told more of it."""
        coef = known.value * np.eye(1, self.schema.num_features)[0]
        size = float(np.hypot(*scales))
        radius = float(np.clip(1.5 * size, 0.2, 2.0))
        told = yield from ask_level(cohort, self.epsilon, coef, radius)
        level = told.of_those(present)
        total = known.pooled(Number(known.value + level.value, level.std_error))
        return self._constant(total, (total.std_error / size) ** 2, notes)

    def _constant(self, mean: Number, lost: float, notes: list[str]) -> RegressionFit:
        """Return the mean, which costs a share ``lost`` of the targets' variance."""
        coef = mean.value * np.eye(1, self.schema.num_features)[0]
        unit = float(np.ptp(self.schema.in_units(np.array([0.0, 1.0]))))
        notes.append(
            "The model is the mean, without slopes: to those who judged, they were worth nothing. "
            f"The mean is right within about {1.96 * mean.std_error * unit:.3g} (95 %). More "
            "users or a larger epsilon may show more."
        )
        return RegressionFit(
            coef=coef, score=-lost, score_std_error=1.4 * lost, method="constant", notes=notes
        )
