"""PrivateRegression: a linear model of one's own table."""

import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ldp_flower.expectation import Setting
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers import ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import check_choice, check_integer

from ..forecasts.populations import features_of, rows_of, table_users
from ..forecasts.tables import TableUsers, synthetic_schema, users_of_tables
from ..runtime.base import Card, LdpStrategy
from ..runtime.coefficients import contrasts
from ..runtime.run import Protocol, Run, TooFewReports
from .enough import doubts, too_few
from .holdout import (
    EVERYBODY,
    MEAN_STEPS,
    PRIOR_SCALE,
    Number,
    ask_line,
    ask_present,
    ask_scales,
    hold_out,
    hold_out_present,
    hold_out_rough_mean,
    log_scale_error,
    prior_spread,
    refined_mean,
    rough_mean,
    score,
)
from .line_search import GAIN_STEPS, INTERCEPT_STEPS, Intercepts, line_search
from .regression_fit import RegressionFit
from .ridge_walk import ridge_walk, row_length
from .two_stage import METHODS, chosen, noise_of_centres, too_few_for_two_stages, two_stages

logger = logging.getLogger("flwr")

_BETTER_Z = 2.5  # standard errors of a score above 0, or a note says so: one useless model in 160
_WORSE_Z = 2.0  # standard errors of a score below 0, from where on the mean is returned instead
# Of the scale: what clipping moves a returned mean by, beside its noise. Of 1,163 such means of
# tables in chosen_on.txt 3 % missed 1.96 of both together, at most 4.9 % at any epsilon (9 % with
# .1, 26 % with the noise alone). Of 134 on 53 other tables 1 missed (seeds 8100 and 8200).
_CLIPPING = 0.15
_MAX_EXPLAINED = 0.8  # of the variance, by a line search: the intercept's radius stays wide enough


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegression(LdpStrategy[RegressionFit]):
    """Linear regression on a table of which only bounds and categories are known.

    Every user sends one report. Many of them are asked for the direction in which their own rows
    would move the model, see :func:`~.ridge_walk.ridge_walk`. Where users are many enough to
    estimate all columns' centres and scales, the walk goes on in units of these. The mean target
    is the rule, and slopes have to earn their place: users who have no part in them decide how far
    to go from the mean towards the model, no farther than surely costs at most 1 % of the target's
    variance. If that is nowhere, the mean is returned, and a note says so. The last users, who
    decide nothing, evaluate the score.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    schema : Schema
        What is publicly known about the users' tables. The target is a number.
    rows_per_user : int, optional
        How many rows a user's own regression is trusted as, for all users. By default it is as
        many as the user holds; rows that repeat each other carry less information.
    method : {"auto", "walk", "two-stage"} (default: "auto")
        Whether the walk stays within the bounds of columns or goes on around their estimated
        centres. By default the numbers of users and features and epsilon decide.

    Notes
    -----
    Source: this library. A user's direction is that of a ridge regression of what the model
    leaves of the user's own targets; only its direction is reported, so that no bound on its
    norm has to be known. The mean is found by steps, as it may lie anywhere within the bounds.
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
        fails_when="with fewer than 4,615 users at epsilon 1, 1,378 at 2 or 412 at 8; weak "
        "relations take several times as many, and the mean is returned",
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
        if self.method == "two legs":
            warnings.warn('"two legs" is now "two-stage".', DeprecationWarning, stacklevel=3)
            self.method = "two-stage"
        check_choice("method", self.method, METHODS)
        ball_codebook(self.epsilon, self.schema.num_features)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a walk and two stages, with numbers of rows that are estimated."""
        schema, users = table_users(dim, 8000)
        yield cls(schema, epsilon=epsilon, method="walk"), users
        yield cls(schema, epsilon=epsilon, rows_per_user=5, method="two-stage"), users

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
        return (self.method == "two-stage" and too_few_for_two_stages(*given)) or too_few(*given)

    def protocol(self, run: Run) -> Protocol:
        """Descend, and let held-out users decide how much of it is returned."""
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        method, why = self._chosen(run.num_users)
        logger.info("\t     method %s: %s", method, why)
        epsilon, dim = self.epsilon, self.schema.num_features
        one, notes = np.eye(1, dim)[0], doubts(run.num_users, epsilon)
        asked, rough = hold_out_present(run), hold_out_rough_mean(run)
        means, gains = hold_out(run, "mean", MEAN_STEPS), hold_out(run, "gain", GAIN_STEPS)
        scale_users, scorers = (hold_out(run, name)[0] for name in ("scales", "score"))
        at_end, at_model = hold_out(run, "intercept", INTERCEPT_STEPS)
        present = EVERYBODY
        if asked is not None:
            present = yield from ask_present(asked, epsilon, dim)
        if present.value < 1:
            notes.append(
                f"About {100 * (1 - present.value):.0f} % of the people have no row with a target: "
                "the model is of the others."
            )
        mean = yield from rough_mean(rough, epsilon, dim, present)
        start = mean.value * one
        if method == "walk":
            length = row_length(self.schema)
            theta = yield from ridge_walk(
                run, run.num_unasked, dim, self.rows_per_user, row_length=length, start=start
            )
        else:
            theta = yield from two_stages(run, self.schema, self.rows_per_user, start)
            if noise_of_centres(run.num_users, dim, epsilon) > 1:
                notes.append(f"Two stages are not advisable here: {why}.")
        # The line from the mean target to the model, in units of the scales of either.
        direction = theta - start
        unit = prior_spread(self.schema, direction) / PRIOR_SCALE
        scales = yield from ask_scales(scale_users, epsilon, start, direction / unit)
        scale, scales = scales[0], scales * [1.0, unit]
        mean = yield from refined_mean(means, epsilon, dim, mean, scale, present)
        # Both ends of the line get the intercept that held-out users estimate, then the step.
        slopes, intercepts = theta * (1 - one), Intercepts.of_descent(mean, theta[0], scales)
        end = yield from intercepts.model(at_end, epsilon, slopes, 1.0, max(scales), present)
        mean = intercepts.at(0.0)
        start = mean.value * one
        error = log_scale_error(scale_users.size, epsilon)
        step, explained = yield from line_search(
            gains, epsilon, start, end - start, scales, error, present
        )
        if not step:
            rest = [at_model, scorers]
            mean = yield from refined_mean(rest, epsilon, dim, mean, scale, present)
            return self._constant(mean, scale, notes)
        rest_scale = scale * math.sqrt(1 - min(explained, _MAX_EXPLAINED))
        theta = yield from intercepts.model(at_model, epsilon, slopes, step, rest_scale, present)
        scales, line = np.array([rest_scale, step * scales[1]]), step * (end - start)
        moments = yield from ask_line(scorers, epsilon, theta, line, scales, present)
        evaluated = score(moments)
        if evaluated.value + _WORSE_Z * evaluated.std_error < 0:
            return self._constant(mean, scale, notes)
        fit = RegressionFit(
            coef=contrasts(self.schema, theta),
            score=evaluated.value,
            score_std_error=evaluated.std_error,
            method=method,
        )
        if math.isnan(evaluated.value):
            notes.append(
                f"The score is not known: by {scorers.size:,} people who had no part in the model, "
                "noise hides how far the target varies."
            )
        elif evaluated.value < _BETTER_Z * evaluated.std_error:
            low, high = fit.score_interval
            notes.append(
                f"The model may be no better than the mean: by {scorers.size:,} people who had no "
                f"part in it, it explains {100 * max(low, -1):.0f} to {100 * high:.0f} % of the "
                "target's variance. More users or a larger epsilon would show."
            )
        fit.notes = notes
        return fit

    def _chosen(self, num_users: int) -> tuple[str, str]:
        """Return the method, and why."""
        dim = self.schema.num_features
        facts = f"{num_users:,} users, {dim} features, epsilon {self.epsilon:g}"
        noise = math.sqrt(noise_of_centres(num_users, dim, self.epsilon))
        why = f"{facts} report a column's centre within {25 * noise:.0f} % of its range"
        if self.method != "auto":
            return self.method, f"as asked for, where {why}"
        return chosen(num_users, dim, self.epsilon, self.min_reports), why

    def _constant(self, mean: Number, scale: float, notes: list[str]) -> RegressionFit:
        """Return the mean, whose error costs a share of the targets' variance."""
        error = math.hypot(mean.std_error, _CLIPPING * scale)
        lost = (error / scale) ** 2
        coef = mean.value * np.eye(1, self.schema.num_features)[0]
        unit = float(np.ptp(self.schema.in_units(np.array([0.0, 1.0]))))
        notes.append(
            "Returned the mean, without slopes: on held-out users they did not surely reduce the "
            f"error. The mean is right within about {1.96 * error * unit:.3g} (95 %). "
            "More users or a larger epsilon may show more."
        )
        return RegressionFit(
            coef=coef, score=-lost, score_std_error=1.4 * lost, method="constant", notes=notes
        )
