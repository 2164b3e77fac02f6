"""PrivateRegression: a linear model of one's own table."""

import logging
import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ldp_flower.expectation import Setting
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import check_choice, check_integer

from ..forecasts.planned import features_of, rows_of
from ..forecasts.tables import TableUsers, synthetic_schema, users_of_tables
from ..runtime.audit_users import table_users
from ..runtime.base import LdpStrategy, Protocol, TooFewReports
from ..runtime.exchange import Ask
from ..runtime.facts import Card
from ..runtime.population import Cohort
from ..runtime.units import contrasts
from .enough import doubts, too_few
from .judges import (
    BIAS,
    EVERYBODY,
    GAIN_STEPS,
    MEAN_STEPS,
    SHIFT,
    USUAL_SIZE,
    WORSE,
    Number,
    ask_line,
    ask_present,
    ask_sizes,
    find_level,
    hold_out,
    hold_out_level,
    hold_out_present,
    line_search,
    mean_radius,
    refine,
    score,
    size_error,
    usual_spread,
)
from .legs import METHODS, chosen, noise_of_centres, too_few_for_two_legs, two_legs
from .regression_fit import RegressionFit
from .ridge_walk import ridge_walk, row_length

logger = logging.getLogger("flwr")

_SURE = 2.5  # standard errors by which a model is surely better than the mean


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegression(LdpStrategy[RegressionFit]):
    """Linear regression on a table of which only bounds and categories are known.

    Every user sends one report. Many of them are asked for the direction in which their own rows
    would move the model, see :func:`~.ridge_walk.ridge_walk`. Where users are many enough to
    estimate all columns' centres and scales, the walk goes on in units of these. The mean target
    is the rule, and slopes have to earn their place: users who have no part in them decide how far
    to go from the mean towards the model, no farther than surely costs at most 2 % of the target's
    variance. If that is nowhere, the mean is returned, and a note says so. The last users, who
    decide nothing, tell the score.

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
    length has to be known. The mean is found by steps, as it may lie anywhere within the bounds.
    On the line from the mean to the model, held-out users report by how much their own squared
    error is less at the end of a step than at the mean: one number, for which noise is least. Two
    such cohorts give the step that is best, and the shorter one that is surely good enough.

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
        fails_when="with fewer than 300 users, or than 3,000 / epsilon^2; weak relations take "
        "several times as many, and the mean is returned",
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
        schema, users = table_users(dim, 8000)
        yield cls(schema, epsilon=epsilon, method="walk"), users
        yield cls(schema, epsilon=epsilon, rows_per_user=5, method="two legs"), users

    plans_with: ClassVar[frozenset[str]] = frozenset(
        {"rows_per_user", "num_features", "quality", "variance_between"}
    )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the one for so many columns of numbers."""
        schema = synthetic_schema(features_of(setting, cls), Numeric(-1, 1))
        return cls(schema, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> TableUsers:
        """Return users with rows of synthetic tables."""
        rows, notes = (
            rows_of(setting, self.rows_per_user or 1),
            doubts(setting.num_users, self.epsilon),
        )
        return users_of_tables(self.schema, setting, rows, notes=tuple(notes))

    def _too_few(self, num_users: int) -> str:
        given = num_users, self.epsilon, self.min_reports
        return (self.method == "two legs" and too_few_for_two_legs(*given)) or too_few(*given)

    def protocol(self) -> Protocol:
        """Descend, and let held-out users decide how much of it is returned."""
        if refusal := self._too_few(self.num_users):
            raise TooFewReports(refusal)
        method, why = self._chosen(self.num_users)
        logger.info("\t     method %s: %s", method, why)
        epsilon, dim = self.epsilon, self.schema.num_features
        one, notes = np.eye(1, dim)[0], doubts(self.num_users, epsilon)
        asked, level = hold_out_present(self), hold_out_level(self)
        means, gains = hold_out(self, "mean", MEAN_STEPS), hold_out(self, "gain", GAIN_STEPS)
        sizers, final, scorers = (hold_out(self, name)[0] for name in ("sizes", "final", "score"))
        present = EVERYBODY
        if asked is not None:
            present = yield from ask_present(asked, epsilon, dim)
        if present.value < 1:
            notes.append(
                f"About {100 * (1 - present.value):.0f} % of the people have no row with a target: "
                "the model is of the others."
            )
        mean = yield from find_level(level, epsilon, dim, present)
        start = mean.value * one
        if method == "walk":
            length = row_length(self.schema)
            descent = ridge_walk(
                self, self.num_unasked, dim, self.rows_per_user, row_length=length, start=start
            )
            theta = (yield from descent).coef
        else:
            theta = yield from two_legs(self, self.schema, self.rows_per_user, start)
            if noise_of_centres(self.num_users, dim, epsilon) > 1:
                notes.append(f"Two legs are not advisable here: {why}.")
        # The line from the mean target to the model, in units of the sizes of either.
        direction = theta - start
        unit = usual_spread(self.schema, direction) / USUAL_SIZE
        scales = yield from ask_sizes(sizers, epsilon, start, direction / unit)
        size, scales = scales[0], scales * [1.0, unit]
        mean = Number(mean.value, math.hypot(mean.std_error, BIAS * size))
        mean = yield from self._mean(means, mean, size, present)
        direction = theta - mean.value * one
        error = size_error(sizers.size, epsilon)
        move, explained = yield from line_search(
            gains, epsilon, mean.value, direction, scales, error, present
        )
        if not move:
            mean = yield from self._mean([final, scorers], mean, size, present)
            return self._constant(mean, size, notes)
        theta, rest = mean.value * one + move * direction, size * math.sqrt(1 - min(explained, 0.8))
        prior = Number(theta[0], math.hypot(mean.std_error, SHIFT * move * size))
        radius = mean_radius(final.size, epsilon, rest)
        intercept = yield from refine(final, epsilon, theta, prior, radius, present)
        theta[0] = intercept.value
        scales = np.array([rest, move * scales[1]])
        worth = score(
            (yield from ask_line(scorers, epsilon, theta, move * direction, scales, present))
        )
        if worth.value + WORSE * worth.std_error < 0:
            return self._constant(mean, size, notes)
        fit = RegressionFit(
            coef=contrasts(self.schema, theta),
            score=worth.value,
            score_std_error=worth.std_error,
            method=method,
        )
        if math.isnan(worth.value):
            notes.append(
                f"The score is not known: by {scorers.size:,} people who had no part in the model, "
                "noise hides how far the target varies."
            )
        elif worth.value < _SURE * worth.std_error:
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

    def _mean(
        self, cohorts: Sequence[Cohort], mean: Number, size: float, present: Number
    ) -> Generator[Ask, Estimate, Number]:
        """Return the mean target by further cohorts; targets have this size around it."""
        for cohort in cohorts:
            coef = mean.value * np.eye(1, self.schema.num_features)[0]
            radius = mean_radius(cohort.size, self.epsilon, size)
            mean = yield from refine(cohort, self.epsilon, coef, mean, radius, present)
        return mean

    def _constant(self, mean: Number, size: float, notes: list[str]) -> RegressionFit:
        """Return the mean, whose error costs a share of the targets' variance."""
        lost = (mean.std_error / size) ** 2
        coef = mean.value * np.eye(1, self.schema.num_features)[0]
        unit = float(np.ptp(self.schema.in_units(np.array([0.0, 1.0]))))
        notes.append(
            "Returned the mean, without slopes: on held-out users they did not surely reduce the "
            f"error. The mean is right within about {1.96 * mean.std_error * unit:.3g} (95 %). "
            "More users or a larger epsilon may show more."
        )
        return RegressionFit(
            coef=coef, score=-lost, score_std_error=1.4 * lost, method="constant", notes=notes
        )
