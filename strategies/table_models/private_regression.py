"""PrivateRegression: a private linear model of a table."""

import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.randomizers import ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, Floats, check_choice, check_unused

from ..forecasts.populations import MAX_PLANNED, features_of, rows_for, table_users
from ..forecasts.tables import TableUsers, synthetic_schema, users_of_tables
from ..runtime import Card, Cohort, LdpStrategy, Protocol, Run, TooFewReports, guarantees
from ..runtime.at_node import AtNode
from ..runtime.prints import LATER
from ..runtime.result import HALF_WIDTH_95
from ..runtime.units import contrasts
from ..subprotocols.number_mean import Number
from ..subprotocols.size_histogram import SizeHistogram
from ..subprotocols.standardisation import (
    Standardisation,
    estimate_standardisation,
    with_standardisation,
)
from ..sums import regression as sums
from . import descent, holdout, public_features
from .enough_users import precision_notes, too_few_for_regression
from .fits import RegressionFit
from .holdout import HoldOut
from .line_search import MIN_PREDICTED, line_search

logger = logging.getLogger("flwr")

# Number of standard errors by which a score has to exceed 0; otherwise there is a note. One useless
# model in 160 has none.
_BETTER_Z = 2.5
_WORSE_Z = 2.0  # number of standard errors of a score below 0 with which the mean is returned
# Largest share of variance that a line search may seem to explain, so that residuals are not
# assumed to vanish.
_MOST_EXPLAINED = 0.9
# Prior standard deviations, in scales of the targets: of the mean around its rough estimate, and of
# a model's mean residual, in addition to the error of the mean.
_OFF, _OFFSET = 0.5, 0.15
_MAY_BE_NO_BETTER = (
    "The model may be no better than the mean: its R2 is not clearly above 0. More users per node, "
    "fewer nodes or a larger epsilon may show more."
)
_NO_INTERVALS = (
    "Intervals are not known: noise hides how columns vary together. Fewer columns, closer bounds, "
    "more users per node, fewer nodes or a larger epsilon would show."
)
_SCALE_ERROR = 0.15  # standard error of the logarithms of estimated sizes


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegression(AtNode, LdpStrategy[RegressionFit]):
    """Linear regression on a table of which only bounds and categories are known.

    Every user sends one report. Most of the users report how their own rows would change the model,
    see :func:`~.descent.table_descent`. If there are enough users to estimate all columns' centres
    and scales, the steps are in units of these. By default the model is the mean target; slopes are
    kept only if they reduce the error on held-out users. Those users decide how far to go from the
    mean towards the model: only so far that it costs at most 1 % of the target's variance with high
    probability. If no step is good enough, the mean is returned, and a note says so. Other users
    report the mean. The last users, whose reports do not affect the model, evaluate the score.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    schema : Schema
        Public facts about the users' tables. The target is a number.
    rows_per_user : int, optional
        Number of rows for which each user's own regression counts, the same for all users. By
        default it is the user's own number of rows; rows that repeat each other carry less
        information.
    method : {"auto", "one-stage", "two-stage"} (default: "auto")
        The descent works on columns scaled by their bounds (``"one-stage"``) or by centres and
        scales that are estimated first (``"two-stage"``). By default the numbers of users and
        features and epsilon determine the method.
    features : {"private", "public"} (default: "private")
        Protection of the features. If they are public, each user sends one of its rows, drawn at
        random, without noise, and a private report on the target alone. Far fewer users are then
        enough, and coefficients have intervals. Clients answer only if their operator has declared
        the features public (``features-public``).
    intervals : bool (default: False)
        With noise at the node: True to spend half of the budget on intervals of the coefficients,
        which are then those of least squares. They need few columns, up to some six.

    Notes
    -----
    Source: this library. A user reports the change of the coefficients by a ridge regression of its
    own residuals from the model; with one row it is a least squares step. So the model is that of
    least squares, also if targets are classes, counts or money. Changes are shortened to the radius
    that minimises noise and loss together. For this some users report the octave of their change's
    size before the descent, and others late in the descent. The mean is first located roughly, as
    it may lie anywhere within the bounds. It is then estimated with a clipping bound chosen in the
    same way, and its error includes the possible bias of clipping. On the line from the mean to the
    model, held-out users report the reduction of their own squared error by a step from the mean.
    This is a single number, which needs the least noise. Two such cohorts determine the best step,
    and the shorter one that is good enough with high probability.

    If features are public, users report residuals of their target in two rounds: first from the
    mean, then from a first model, a ridge regression with the most likely penalty. The last model
    is fitted to all reports. It is returned if, in cross-validation, models of four fifths of the
    users have a smaller error than the mean on the others.

    With ``intervals`` users report, after the descent, their part in the normal equations, and the
    products of their scores, which say how much the sums vary by the sample of users. Rows that are
    longer than the root of the number of coefficients weigh less, by the square of their length.
    """

    guarantee = (
        *guarantees.PER_USER,
        'With ``features="public"`` a user\'s targets alone are protected, against any others: one '
        "of its rows leaves as it is.",
    )
    card = Card(
        question="linear regression on one's own table",
        guarantee='pure epsilon; ``features="public"``: of targets only',
        rounds="up to 39; public features: 9",
        report="1-2, and a public row where features are public",
        use_when="bounds and categories of a table's columns are known",
        fails_when="with fewer than 4,615 users at epsilon 1, 1,378 at 2 or 412 at 8; for weak "
        "relations the mean is returned",
        page="your-own-data",
    )

    schema: Schema = field(kw_only=False)
    rows_per_user: Count | None = None
    method: str = "auto"
    features: Literal["private", "public"] = "private"
    intervals: bool = field(default=False, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Schema):
            raise ValueError(f"Expected a Schema, got {type(self.schema).__name__}.")
        if not isinstance(self.schema.bounds, Numeric):
            raise ValueError(
                "Expected a schema whose target is a number, "
                f"got the target {self.schema.target!r} with bounds {self.schema.bounds!r}."
            )
        if self.method == "walk":
            warnings.warn('"walk" is now "one-stage".', DeprecationWarning, stacklevel=3)
            self.method = "one-stage"
        check_choice("method", self.method, descent.METHODS)
        if self._public:
            check_unused(self, 'with features="public"', "rows_per_user", "method", "noise")
        if self.noise != "user":
            check_unused(self, 'with noise="node"', "rows_per_user", "method", "min_reports")
        else:
            check_unused(self, 'with noise="user"', "intervals")
        ball_codebook(self.epsilon, self.schema.num_features)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: of each method, and of public features."""
        schema, users = table_users(dim, 8000)
        yield cls(schema, epsilon=epsilon, method="one-stage"), users
        yield cls(schema, epsilon=epsilon, rows_per_user=5, method="two-stage"), users
        yield cls(schema, epsilon=epsilon, features="public"), users

    plans_with: ClassVar[frozenset[str]] = frozenset(
        {"rows_per_user", "num_features", "quality", "variance_between"}
    )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for the setting's numeric columns."""
        schema = synthetic_schema(features_of(setting, cls), Numeric(-1, 1))
        return cls(schema, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> TableUsers:
        """Return a population for plans: users with rows of synthetic tables."""
        rows = rows_for(setting, self.rows_per_user or 1)
        at_node = self.noise != "user"
        notes = (
            () if at_node else tuple(precision_notes(setting.num_users, self.epsilon, self._public))
        )
        most = MAX_PLANNED // self.schema.num_features if self._public else None
        return users_of_tables(self.schema, setting, rows, notes=notes, max_users=most)

    def _too_few(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            return super()._too_few(num_users)  # the sums' own rule depends on the nodes, too
        given = num_users, self.epsilon, self.min_reports
        if self.method == "two-stage" and (few := descent.too_few_for_two_stages(*given)):
            return few
        return too_few_for_regression(*given, self._public)

    def protocol(self, run: Run) -> Protocol:
        """Descend to a model, and return it.

        Held-out users decide how far to go from the mean to the model.
        """
        if self.noise != "user":
            return self._of_sums(
                (yield from sums.regress(run, self.schema, self.delta, self.intervals))
            )
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        epsilon, dim = self.epsilon, self.schema.num_features
        one, notes = np.eye(1, dim)[0], precision_notes(run.num_users, epsilon, self._public)
        wanted = public_features.COHORTS if self._public else holdout.COHORTS
        # A node whose features are not public refuses the first question, before any user pays.
        residual = public_features.mean_drawn_residual if self._public else holdout.mean_residual
        held_out = HoldOut.of(run, dim, wanted, residual)
        yield from held_out.ask_present()
        if (absent := 1 - held_out.present.value) > 0:
            notes.append(
                f"About {100 * absent:.0f} % of the people have no row with a target: the model is "
                "of the others."
            )
        about = yield from held_out.place()
        law = yield from held_out.sizes("sizes", about * one)
        scale = law.root_mean_square
        if self._public:
            return (yield from self._of_public_rows(run, held_out, about * one, law, notes))
        method, why = self._chosen(run.num_users)
        logger.info("\t     method %s: %s", method, why)
        off = yield from held_out.mean(["mean"], about * one, law)
        mean = off.shrunk(_OFF * scale).plus(about)
        start = mean.value * one
        columns, spread = Standardisation.identity(dim), holdout.NUMERIC_SPREAD
        if method == "two-stage":
            columns, spread = (yield from estimate_standardisation(run, self.schema)), 1.0
        steps = descent.table_descent(
            run,
            dim,
            self.rows_per_user,
            row_length=descent.row_length(self.schema),
            start=columns.moved(start),
            present=held_out.present.value,
        )
        if method == "two-stage":
            steps = with_standardisation(steps, columns)
        theta = yield from steps
        direction = columns.restored(theta) - start
        usual = holdout.prior_spread(self.schema, theta * (1 - one), spread)
        unit = yield from held_out.step_size(direction, usual)
        scales = np.array([scale, unit])
        step, explained = yield from line_search(held_out, start, direction, scales, _SCALE_ERROR)
        if not step:
            off = yield from held_out.mean(["intercept", "left", "spread"], start, law)
            return self._constant(off.shrunk(mean.std_error).plus(mean.value), scale, notes)
        explained = min(explained, _MOST_EXPLAINED)
        theta, left = start + step * direction, scale * math.sqrt(1 - explained)
        of_model = yield from held_out.sizes("model's sizes", theta, left)
        off = yield from held_out.mean(["intercept"], theta, of_model)
        off = off.shrunk(math.hypot(mean.std_error, _OFFSET * scale))
        theta = theta + off.value * one
        gain = held_out.gain(theta, mean.value, law, step * unit)
        evaluated = yield from held_out.score(theta, mean.value, (law, of_model), explained, gain)
        if evaluated.value + _WORSE_Z * evaluated.std_error < 0:
            return self._constant(mean, scale, notes)
        return self._model(theta, evaluated, off, method, held_out.cohorts, notes)

    def _of_sums(self, found: sums.Regressed) -> RegressionFit:
        """Return the result from noisy sums over nodes, whose score is that of all users."""
        r2, error, notes = found.score
        if r2 < _BETTER_Z * error:
            notes.append(_MAY_BE_NO_BETTER)
        coef, interval = contrasts(self.schema, found.theta), None
        if found.covariance is not None:
            half = contrasts(self.schema, found.covariance)
            variances = np.diag(contrasts(self.schema, half.T))
            reach = HALF_WIDTH_95 * np.sqrt(np.maximum(variances, 0.0))
            interval = np.stack([coef - reach, coef + reach], axis=1)
            if np.isnan(reach).any():
                notes.append(_NO_INTERVALS)
        return RegressionFit(
            coef=coef,
            score=r2,
            score_std_error=error,
            method="sums of nodes",
            interval=interval,
            notes=notes,
        )

    def _of_public_rows(
        self, run: Run, held_out: HoldOut, start: Floats, law: SizeHistogram, notes: list[str]
    ) -> Protocol:
        """Fit a model to public rows and privately reported targets, in two rounds; return it."""
        known, of_model = yield from public_features.ask_targets(run, held_out, start, law)
        theta, gain, mean = known.fit(), known.gain(), known.mean()
        moved, scale = float((known.rows @ theta).std()), law.root_mean_square
        if gain.value < gain.std_error or moved < MIN_PREDICTED * scale:
            return self._constant(mean, scale, notes)
        evaluated = yield from held_out.score(
            *(theta, mean.value, (law, of_model), gain.value / scale**2),
            public_features.ask_drawn_gain(held_out, theta, mean.value, of_model),
        )
        if evaluated.value + _WORSE_Z * evaluated.std_error < 0:
            return self._constant(mean, scale, notes)
        fit = self._model(theta, evaluated, mean, "public", held_out.cohorts, notes)
        fit.interval = known.interval(self.schema)
        return fit

    def _model(
        self,
        theta: Floats,
        evaluated: Number,
        mean: Number,
        method: str,
        cohorts: dict[str, Cohort],
        notes: list[str],
    ) -> RegressionFit:
        """Return the result for a fitted model, with a note if its score is doubtful."""
        fit = RegressionFit(
            coef=contrasts(self.schema, theta),
            score=evaluated.value,
            score_std_error=evaluated.std_error,
            method=method,
            mean_std_error=mean.std_error * self._unit,
        )
        if math.isnan(evaluated.value):
            notes.append(
                f"The score is not known: by {cohorts['spread'].size:,} people who had no part in "
                "the model, noise hides how far the target varies."
            )
        elif evaluated.value < _BETTER_Z * evaluated.std_error:
            low, high = fit.score_interval
            notes.append(
                f"The model may be no better than the mean: by {cohorts['left'].size:,} people who "
                f"had no part in it, it explains {100 * max(low, -1):.0f} to {100 * high:.0f} % of "
                "the target's variance. More users or a larger epsilon would show."
            )
        fit.notes = notes
        return fit

    def _chosen(self, num_users: int) -> tuple[str, str]:
        """Return the method for this number of users, and a text with the reason."""
        dim = self.schema.num_features
        facts = f"{num_users:,} users, {dim} features, epsilon {self.epsilon:g}"
        noise = math.sqrt(descent.noise_of_centres(num_users, dim, self.epsilon))
        why = f"{facts} report a column's centre within {25 * noise:.0f} % of its range"
        if self.method != "auto":
            return self.method, f"as asked for, where {why}"
        return descent.better_method(num_users, dim, self.epsilon, self.min_reports), why

    def _constant(self, mean: Number, scale: float, notes: list[str]) -> RegressionFit:
        """Return the result for the mean as the model; its score is the R2 to expect, below 0."""
        lost = (mean.std_error / scale) ** 2
        reach = HALF_WIDTH_95 * mean.std_error * self._unit
        notes.append(
            "Returned the mean, without slopes: on held-out users they did not surely reduce the "
            f"error. The mean is right within about {reach:.3g} (95 %). More users or a larger "
            "epsilon may show more."
        )
        return RegressionFit(
            coef=mean.value * np.eye(1, self.schema.num_features)[0],
            score=-lost,
            score_std_error=1.4 * lost,
            method="constant",
            mean_std_error=mean.std_error * self._unit,
            notes=notes,
        )

    def finished(self, run: Run, found: RegressionFit) -> RegressionFit:
        """Return the result; with public features its cost is marked as that of targets only."""
        if self._public and found.privacy is not None:
            found.privacy = replace(found.privacy, part=guarantees.LABELS)
        return found

    @property
    def _public(self) -> bool:
        return self.features == "public"

    @property
    def _unit(self) -> float:
        """Factor from the standardised targets to the target's own units."""
        return float(np.ptp(self.schema.in_units(np.array([0.0, 1.0]))))
