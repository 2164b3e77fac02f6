"""SparseRegression: linear and logistic regression for users with many records each."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.expectation import LowerBound, NoPlan, Setting
from ldp_flower.questions import (
    SELECTORS,
    ClassCoefficients,
    LocalCoefficients,
    OfClasses,
    Question,
    ResidualCoefficients,
)
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Count, Floats, Positive, check_choice, check_unused

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
    rows_for,
)
from ..numerics.denoising import ridge_moments
from ..numerics.logistic_view import as_logistic, logistic_std_error, logistic_unexplained
from ..numerics.spike_and_slab import Evidence, Posterior, posterior
from ..runtime import Ask, Card, Cohort, Protocol, Run, ask_on, guarantees
from ..runtime.at_node import AtNode
from ..runtime.coefficients import MOST_OF_R2
from ..runtime.result import HALF_WIDTH_95
from ..subprotocols.holdout_r2 import R2HoldOut
from ..subprotocols.scales import TargetScale, estimate_target_scale, scale_cohorts
from ..subprotocols.vote import typical_score
from ..sums.sparse import regress_sparsely
from .base import CENTRED, Integers, SparseResult, SparseWaves

_LINKS = ("identity", "logistic")
_FEWEST_OF_CLASSES = 10  # with fewer labels of a user, logistic coefficients are noise
_WORTH_SHOWING = 0.2  # a large coefficient in a note, in units of the targets' scale
_PLANNED_SPARSITY = 8  # number of non-zero coefficients in a plan
_RIDGE = 1.0  # penalty of the local regressions, in units of a feature's mean square
# Users scale coefficients by their own rows. This is the resulting relative error, times the number
# of rows.
_OWN_SCALE = 0.5
_GUESSED_SCALE = 0.1  # relative error of a declared scale
# Constants of the comparison with held-out users.
_OTHERS = 0.05  # share of the users, whose local regressions are compared with the result
_ROWS_EACH = 4  # number of rows per coefficient in these local regressions
_SMALL_RIDGE = 0.1  # penalty of these regressions, in units of the user's features' mean square
_FARTHEST = 4.0  # clipping radius of the regressions' coefficients, over the norm of the result's
# Significance threshold for different norms, in standard errors; and the relative error of a norm
# that the features' distribution may cause.
_NORM_Z, _NORM_ERROR = 3.0, 0.04
_APART = (
    "Local regressions of held-out users have coefficients {:.2f} times as long (give or take "
    "{:.2f}): the errors of the coefficients are not known. Are features centred and of unit "
    "scale, and are they different from zero in many of every user's rows? PrivateRegression takes "
    "any table whose bounds are known."
)
_UNCHECKED = (
    "R2 is not known ({:.2g}, give or take {:.2g}), and users have too few rows for a comparison: "
    "standard errors may be too small. To check them takes {} rows a user, more users or a larger "
    "epsilon."
)


@dataclass(kw_only=True, eq=False, repr=False)
class SparseRegression(AtNode, SparseWaves):
    """Strategy for sparse linear or logistic regression if users have many records each.

    Every user sends one report. A first cohort votes: each user names the ``k`` features that
    matter most in its own rows, through :class:`SubsetSelection` with sets. The other users answer
    in waves. They subtract the current estimate's predictions from their targets and regress the
    residuals on the features that are still uncertain. They report the coefficients as one vector
    in a ball. The weight of a coefficient grows with the information that reports can add about it.
    The server keeps one posterior over all coefficients and returns its mean. No feature is ever
    excluded for good. Sparsity and size of the coefficients need not be known.

    Other parameters are those of :class:`~.base.SparseWaves` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    dim : int
        Number of features. With noise at the user they should be roughly centred and of unit scale.
        For tables with known bounds, use :class:`~ldp_flower.strategies.PrivateRegression`.
    samples_per_user : int
        Typical number of records of a user. It is a public guess; a user may hold any number of
        records.
    link : str (default: "identity")
        ``"identity"``: linear regression. ``"logistic"``: targets are classes, 0 and 1 (or -1 and
        1), and ``coef`` are the coefficients of the log-odds. It requires 10 or more samples per
        user. For tables with classes, use
        :class:`~ldp_flower.strategies.PrivateClassification`.
    target_scale : float, optional
        Root mean square of the (centred) targets, if it is public within some 10 %. The waves
        refine it. By default a small cohort estimates it: 11 users at epsilon 4, 52 at 2 and 237 at
        1, and sometimes twice as many.
    selector : str (default: "lasso")
        Method by which users rank features. ``"lasso"``, ``"post-lasso"`` and ``"pursuit"``
        (orthogonal matching pursuit) take about a millisecond per user. ``"ridge"`` and
        ``"marginal"`` are faster, and worse if features are correlated. If there are at most a
        third as many features as ``samples_per_user``, there is no vote.

    Notes
    -----
    Source: the setting is that of Ma, Jia & Yang, "Better Locally Private Sparse Estimation Given
    Multiple Samples Per User", ICML 2024; the protocol is not. The noise of a report depends on the
    squared norm of the reported vector rather than on its dimension. Subtracting the current
    estimate removes the part of the norm that is already known. Weighting removes the part about
    which nothing can be learnt. Local regressions are ridge regressions with a fixed penalty. With
    unit, independent features they shrink all coefficients by one factor, which is known from the
    Marchenko-Pastur law and corrected. With correlated features they stay close to the
    coefficients, while marginal correlations would mix correlated features.

    With ``link="logistic"`` users regress labels of -1 and 1 minus the current estimate's
    predictions. No user fits a logistic model, which would be biased. The norm of the coefficients
    (:func:`~..numerics.logistic_view.as_logistic`) is right for normal features. For other features
    it becomes right as the subtracted estimate approaches the coefficients.

    With noise at the node all users answer every step of a descent, and features need not be
    centred or scaled, see :func:`~..sums.sparse.regress_sparsely`. Most coefficients have to be
    zero. The result keeps the coefficients that are larger than the noise of this descent, as
    estimated by least squares, and sets the others to zero. Inclusion probabilities have the same
    prior.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="sparse linear or logistic regression",
        guarantee="pure epsilon",
        rounds="9 to 11",
        report="1; votes some bytes",
        use_when="users have many records each; sparsity and sizes are not known",
        fails_when="at epsilon 1 with 400 users, who show nothing; 400 users with 50 records miss "
        "a quarter of the coefficients",
        page="sparse-regression",
    )

    plans_with = frozenset({"num_features", "rows_per_user", "quality", "variance_between"})

    _scale_argument = "target_scale"

    samples_per_user: Count
    link: str = "identity"
    target_scale: Positive | None = None
    selector: str = "lasso"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("link", self.link, _LINKS)
        check_choice("selector", self.selector, SELECTORS)
        self._logistic = self.link == "logistic"
        if self._logistic:
            check_unused(self, "with link='logistic'", "target_scale")
            if self.samples_per_user < _FEWEST_OF_CLASSES:
                raise ValueError(
                    f"Expected samples_per_user >= {_FEWEST_OF_CLASSES} with link='logistic', got "
                    f"{self.samples_per_user}: fewer labels leave noise. "
                    "PrivateClassification(schema, epsilon=...) takes any number."
                )
        if self.noise != "user":
            names = "link", "target_scale", "selector", "num_waves", "min_reports"
            check_unused(self, 'with noise="node"', *names)
        if self._few:
            check_unused(self, "with samples_per_user >= 3 * dim", "selector")

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: for each link, with a vote and two waves."""
        for link, rows in zip(_LINKS, (2, _FEWEST_OF_CLASSES), strict=True):
            users = normal_users(dim, rows)
            if link == "logistic":
                users = replace(users, targets=np.sign(users.targets))
            strategy = cls(dim, epsilon=epsilon, samples_per_user=rows, link=link, num_waves=2)
            yield strategy, users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for a linear model."""
        rows = round(setting.rows_per_user)
        return cls(features_of(setting, cls), epsilon=epsilon, samples_per_user=rows)

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return a population for plans: users whose targets follow one linear model."""
        if self._logistic:
            raise NoPlan("Only link='identity' of SparseRegression has a plan.")
        sparsity, rows = min(_PLANNED_SPARSITY, self.dim), self.samples_per_user
        return linear_users(
            setting, self.dim, sparsity, samples_per_user=rows, scale=self.target_scale
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the known lower bounds on the error of sparse regression with private users."""
        rows, sparsity = rows_for(setting, self.samples_per_user), min(_PLANNED_SPARSITY, self.dim)
        return lower_bounds.many_rows(self.epsilon, setting.num_users, self.dim, sparsity, rows)

    def protocol(self, run: Run) -> Protocol:
        """Run the waves and evaluate the model on held-out users; return the model."""
        if self.noise != "user":
            return (yield from self._at_node(run))
        held_out = R2HoldOut(run, self.link, self.samples_per_user)
        others = round(_OTHERS * run.num_users)
        enough = others >= run.min_reports and not self._logistic
        compared = run.cohorts([others]) if enough else []
        result, scale = yield from self._posterior(run)
        for cohort in compared:
            result = yield from self._compared(cohort, result, scale.value)
        mean, size = (0.5, 0.5) if self._logistic else (0.0, scale.value)
        result = yield from held_out.with_r2(result, mean, size)
        r2, error = result.r2, result.r2_error
        if self._logistic or r2 is None or error is None or not result.coef.any():
            return result
        reach = HALF_WIDTH_95 * error
        if reach >= MOST_OF_R2 and self.samples_per_user < 2 * _ROWS_EACH:
            note = _UNCHECKED.format(r2, reach, 2 * _ROWS_EACH)
            result = replace(result, notes=[*result.notes, note])
        # Compare R2 with the share of variance that the coefficients explain if features are
        # uncorrelated. This share is smaller than R2 if the waves have not converged, and larger if
        # they went too far.
        said = float(np.sum(np.square(result.coef))) / size**2
        apart = max(abs(said - r2) - 2 * error, 0.0)
        each = apart * size**2 / max(int(np.sum(result.inclusion > CENTRED)), 1)
        return replace(result, std_error=np.sqrt(result.std_error**2 + each))

    def _at_node(self, run: Run) -> Protocol:
        """Ask for sums over nodes, and return the coefficients that exceed the sums' noise."""
        found, units = yield from regress_sparsely(
            run, self.dim, None, self.samples_per_user, self.delta
        )
        evidence = Evidence(self.dim, self.samples_per_user)
        # If noise hid the last step, take the errors of the coefficients that were left out.
        unknown = np.isnan(found.std_error)
        errors = np.where(unknown, np.nanmax(found.std_error * units) / units, found.std_error)
        evidence.add(np.arange(self.dim), found.coef * units, (errors * units) ** 2)
        return SparseResult(**vars(found), inclusion=posterior(evidence).inclusion)

    def _compared(
        self, cohort: Cohort, result: SparseResult, size: float
    ) -> Generator[Ask, Estimate, SparseResult]:
        """Compare the result with local regressions of held-out users on the largest coefficients.

        The local regressions are in the data's units and have an intercept. Their small penalty is
        in units of the user's own features. The waves assume that features have unit scale and that
        targets are equally large for all users. If so, both vectors of coefficients have the same
        norm. Return the result with larger standard errors; or, if the norms contradict each other,
        with a note and standard errors of NaN.
        """
        likely = np.flatnonzero(result.inclusion > CENTRED)
        most = max(self.samples_per_user // _ROWS_EACH - 1, 0)
        support = np.sort(likely[np.argsort(-np.abs(result.coef[likely]))][:most])
        if not len(support):
            return result
        coef, dim = result.coef[support], len(support) + 1
        factor, noise = ridge_moments(dim / self.samples_per_user, _SMALL_RIDGE)
        square = float(coef @ coef)
        spread = size * math.sqrt(dim * noise / self.samples_per_user)
        radius = _FARTHEST * math.hypot(factor * math.sqrt(square), spread)
        question = LocalCoefficients(np.zeros(self.dim), 0.0, _SMALL_RIDGE, 1.0, support)
        answer = yield from ask_on(Ask(cohort, question, self.randomizer(dim, radius)), True)
        if answer is None:
            return result
        found, errors = answer.mean[:-1] / factor, answer.std_error[:-1] / factor
        length = float(found @ coef) / square
        error = math.hypot(float(np.linalg.norm(errors * coef)) / square, _NORM_ERROR)
        if abs(length - 1) > _NORM_Z * error:
            note = _APART.format(length, 2 * error)
            unknown = np.full(self.dim, np.nan)
            return replace(result, std_error=unknown, notes=[*result.notes, note])
        apart = np.abs(found - coef) - 2 * np.hypot(errors, _NORM_ERROR * coef)
        std_error = result.std_error.copy()
        std_error[support] = np.hypot(std_error[support], np.maximum(apart, 0.0))
        return replace(result, std_error=std_error)

    def _typical(self) -> tuple[int, float, bool]:
        rows = self.samples_per_user
        return rows, typical_score(rows), 3 * self.dim <= rows

    def _learn_scale(self, run: Run) -> Generator[Ask, Estimate, TargetScale]:
        if self._logistic:
            return TargetScale(1.0, 0.0)  # labels are -1 and 1
        if self.target_scale is not None:
            return TargetScale(self.target_scale, _GUESSED_SCALE**2)
        cohorts = scale_cohorts(run, self.epsilon)
        return (yield from estimate_target_scale(cohorts, self.epsilon, self.samples_per_user))

    def _selection(self, set_size: int) -> Question:
        question = SELECTORS[self.selector](set_size)
        return OfClasses(question) if self._logistic else question

    def _difference(
        self, centre: Floats, rest: float, active: Integers, weights: Floats, scale: TargetScale
    ) -> Question:
        if self._logistic:
            return ClassCoefficients(as_logistic(centre), weights, _RIDGE, active)
        return ResidualCoefficients(centre, weights, _RIDGE, active)

    def _moments(self, num_active: int) -> tuple[float, float]:
        return ridge_moments(num_active / self.samples_per_user, _RIDGE)

    def _unexplained(self, centre: Floats) -> float:
        return logistic_unexplained(centre) if self._logistic else super()._unexplained(centre)

    def _coefficients(self, belief: Posterior, scale: TargetScale) -> tuple[Floats, Floats]:
        # Votes, posterior and weights use linear coefficients of classes. The subtracted and the
        # returned coefficients are logistic.
        if self._logistic:
            return as_logistic(belief.mean), logistic_std_error(belief.mean, belief.deviation**2)
        own = scale.variance + (_OWN_SCALE / self.samples_per_user) ** 2
        squares = belief.deviation**2 + own * belief.mean**2
        return scale.value * belief.mean, scale.value * np.sqrt(squares)

    def _showing(self) -> tuple[str, str, float]:
        large = f"A coefficient that explains {_WORTH_SHOWING**2:.0%} of the targets' variance"
        return "coefficient", large, math.sqrt(self.samples_per_user) * _WORTH_SHOWING
