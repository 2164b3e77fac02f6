"""Label-LDP-IHT: sparse regression where only the targets are private."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.linear_model import Lasso

from ldp_flower.guarantee.questions import Labels
from ldp_flower.guarantee.users import Users
from ldp_flower.iht import iht
from ldp_flower.planning import Expectation, Setting
from ldp_flower.randomizers import (
    Composed,
    Estimate,
    GaussianMechanism,
    HybridMechanism,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.randomizers.composed import sum_rounded_up
from ldp_flower.validation import (
    check_choice,
    check_fraction,
    check_integer,
    check_positive,
    check_unused,
)
from ldp_flower.values.projections import keep_largest, project_on_ball

from ..forecasts.dry_run import check_enough
from ..forecasts.label_regression import expected_of_labels, scales_told, single
from ..forecasts.linear_users import equal_coefficients, quality_of
from ..forecasts.planned import features_of
from ..numerics.attenuation import clipped_square, kept
from ..numerics.denoising import keep_above
from ..numerics.row_weights import of_unusual_rows, row_weights, typical_sizes
from ..runtime.audit_users import normal_users
from ..runtime.base import Protocol, TooFewReports
from ..runtime.card import Card
from ..runtime.exchange import Answers, Ask
from ..runtime.features import SparseStrategy
from ..runtime.result import LinearResult
from ..subprotocols.scale import estimate_label_scale

Floats = NDArray[np.float64]

_MECHANISMS = ("hybrid", "bit", "gaussian")
_SOLVERS = ("iht", "lasso")
_UNITS = {"user": "user (labels only)", "label": "label"}
_SCALE_SHARE = 0.1  # by default
_CERTAIN = 0.95  # probability below which an estimated scale is called a guess
_PRECISE = 0.1  # relative error of a scale that is better than an estimated one
_PLANNED_SPARSITY = 8  # of a plan that is made without the protocol
_FARTHEST = 4.0  # how many times too small or large an estimated one may be to be corrected


@dataclass(kw_only=True, eq=False, repr=False)
class LabelLdpIht(SparseStrategy):
    """Sparse regression from one randomised label per user, the features being public.

    Every user reports its label through a mechanism for numbers, and its features as they
    are. The server solves for sparse coefficients: all of that is post-processing.
    Clients answer only if their operator has declared the features public
    (``features-public``); and by default, since the hybrid mechanism is not exact,
    only if inexact mechanisms are allowed.

    Other parameters are those of :class:`~..runtime.features.SparseStrategy`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of a unit.
    delta : float (default: 0.0)
        Privacy parameter of a unit, for the Gaussian mechanism only.
    mechanism : {"hybrid", "bit", "gaussian"}, optional
        ``hybrid`` reports 4 bytes a label, ``bit`` one bit (as a byte; exact), both at pure
        epsilon. By default hybrid, or Gaussian if ``delta`` is not 0.
    solver : {"iht", "lasso"} (default: "iht")
        Hard thresholding to convergence, or scikit-learn's Lasso and least squares on the
        largest of what it selects.
    label_bound : float, optional
        Bound on labels, if one is public; larger ones are clipped. By default the scale of
        the labels is estimated, 1 to 2.5 times that is the bound, and what clipping takes away is
        undone as for normal labels: for others (classes, say) declare a bound.
    scale_share : float, optional
        Share of the users that report the scale of their labels instead of their labels, by
        default 0.1; nobody does if there is a ``label_bound``.
    labels_per_user : int (default: 1)
        Largest number of labels that a user reports, the first ones, 1 to 16.
    unit : {"user", "label"} (default: "user")
        Whether the parameters are for all labels of a user together, which divides
        epsilon by their number, or for each label. A user pays for all its labels.
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients, if there is one.

    Notes
    -----
    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy
    Model", ICML 2019, Algorithm 2 and the Lasso that follows it. Changes: the noise is for
    the labels' range, not for that of their noise term, with which nominal epsilon 1 is truly
    up to 130; the step goes down the gradient (line 5 goes up), has the best length, and is
    repeated until nothing changes; there is no projection on the unit ball, in which the
    paper's own coefficients do not lie; pure mechanisms are more precise than the Gaussian.

    Coefficients below sqrt(2 log(dim)) standard errors are left out: as large a one is
    expected of noise alone. They are compared in units of their features' typical sizes.

    Rows, as nodes send them, are weighted so that none counts for more than the largest of
    nine in ten, nor than twice the median row: see
    :func:`~..numerics.row_weights.row_weights`. Features of one size, such as signs, all
    count in full. The result notes rows that hardly count.

    ``std_error`` is that of least squares on the support, from the residuals' spread.

    Guarantee
    ---------
    1. Protected: the labels of a user against any other labels, or each label if the unit
       is "label", at ``epsilon`` (and ``delta``). Features, how many rows a user has and
       in which order are not protected at all, nor is what they tell about the label.
    2. Every user answers one question, in one of two disjoint cohorts, non-interactively but
       for the bound that the first one estimates.
    3. No matter what the strategy sends, the clients' mechanisms and ledgers enforce this
       on their side, and refuse unless the operator has declared the features public.
    """

    card = Card(
        question="sparse linear regression",
        guarantee="pure epsilon or (epsilon, delta), labels only",
        rounds="1, or 2 with an estimated scale",
        report="4 a label (a bit: 1), and the public features",
        use_when="features are public and labels are not",
        fails_when="at epsilon 0.5 with 8,000 users, a tenth of whom cannot tell the labels' "
        "scale; for labels far from normal without a declared bound: coefficients up to 15 % too "
        "long",
        page="label-ldp-iht",
    )

    plans_with = frozenset({"num_features", "quality"})

    delta: float = 0.0
    mechanism: str | None = None
    solver: str = "iht"
    label_bound: float | None = None
    scale_share: float | None = None
    labels_per_user: int = 1
    unit: str = "user"
    radius: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism is None:
            self.mechanism = "gaussian" if self.delta else "hybrid"
        check_choice("mechanism", self.mechanism, _MECHANISMS)
        if (self.mechanism == "gaussian") != (self.delta != 0):
            raise ValueError(
                "Expected delta > 0 with the Gaussian mechanism, and only with it, "
                f"got {self.delta}."
            )
        check_choice("solver", self.solver, _SOLVERS)
        check_choice("unit", self.unit, _UNITS)
        self._scale_share = _SCALE_SHARE if self.scale_share is None else self.scale_share
        check_fraction("scale_share", self._scale_share)
        if self.label_bound is not None:
            check_unused(self, "with a label_bound", "scale_share")
        check_integer("labels_per_user", self.labels_per_user, 1, Labels.most)
        for name, value in (("label_bound", self.label_bound), ("radius", self.radius)):
            if value not in (None, math.inf):
                check_positive(name, value)
        self.randomizer(1.0)  # refuses a bad epsilon now

    def randomizer(self, bound: float) -> Randomizer:
        """Return the mechanism for a user's labels within ``bound``."""
        many = self.labels_per_user
        if self.unit == "user" and self.mechanism == "gaussian":
            return GaussianMechanism(self.epsilon, many, bound * math.sqrt(many), self.delta)
        epsilon = self.epsilon
        if self.unit == "user":
            epsilon /= many
            while sum_rounded_up([epsilon] * many) > self.epsilon:
                epsilon = math.nextafter(epsilon, 0.0)
        one: Randomizer
        if self.mechanism == "gaussian":
            one = GaussianMechanism(epsilon, 1, bound, self.delta)
        else:
            one = (HybridMechanism if self.mechanism == "hybrid" else RandomizedResponse)(
                epsilon, bound
            )
        return one if many == 1 else Composed((one,) * many)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield all mechanisms, bounds that are declared and estimated, one label and two."""
        variants: tuple[dict[str, Any], ...] = (
            {"label_bound": 1.0},
            {"label_bound": 1.0, "mechanism": "bit", "labels_per_user": 2},
            {"delta": 1e-3},
        )
        for options in variants:
            yield cls(dim, sparsity=1, epsilon=epsilon, **options), normal_users(dim, 2)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the default mechanism and solver for eight coefficients."""
        dim = features_of(setting, cls)
        return cls(dim, epsilon=epsilon, sparsity=min(_PLANNED_SPARSITY, dim))

    def expect(self, setting: Setting) -> Expectation:
        """Return what least squares on the largest coefficients make of noisy labels."""
        check_enough(self, setting.num_users)
        askers, bounds = 0, [(self.label_bound or 1.0, 1.0)]
        if self.label_bound is None:
            askers = round(self._scale_share * setting.num_users)
            question = partial(
                estimate_label_scale, epsilon=self.epsilon, labels_per_user=self.labels_per_user
            )
            over = self._bound_over_scale()
            scales = scales_told(question, askers, self.labels_per_user)
            # Whose error is undone if the reports' own spread tells it.
            corrected = self._tells_scale(setting.num_users - askers)
            bounds = [(over * s, kept(over if not corrected else over * s)) for s in scales]
        return expected_of_labels(
            self.randomizer,
            (setting.num_users - askers) * self.labels_per_user,
            equal_coefficients(self.dim, self.sparsity, math.sqrt(quality_of(setting))),
            self.sparsity,
            bounds,
            1 if self.label_bound else 2,
        )

    def _tells_scale(self, num_users: int) -> bool:
        """Whether the spread of so many users' reports tells a scale, see :meth:`_scale_of`."""
        bound = self._bound_over_scale()
        one = single(self.randomizer(bound))
        square = clipped_square(bound) + one.variance / bound**2
        error = math.sqrt(2 / (num_users * self.labels_per_user)) * square
        return _has_known_noise(one) and error < _PRECISE * abs(_slope(bound))

    def protocol(self) -> Protocol:
        """Estimate the scale unless there is a bound, collect the labels, solve."""
        notes: list[str] = []
        bound, scale = self.label_bound, None
        if bound is None:
            scale = yield from self._estimate_scale(notes)
            bound = self._bound_over_scale() * scale
        (cohort,) = self.cohorts([self._population.remaining])
        randomizer = self.randomizer(bound)
        question = Labels(self.labels_per_user, bound)
        shape = (self.labels_per_user, self.dim)
        answers: Answers = yield Ask(cohort, question, randomizer, public=shape)
        x = answers.public.reshape(-1, self.dim).astype(np.float64)
        y = randomizer.debias(answers.reports, answers.coins).ravel()
        rows = np.isfinite(x).all(axis=1) & x.any(axis=1)  # a user with fewer labels has zeros
        x, y = x[rows], y[rows]
        if scale is not None:
            y = y / kept(bound / self._scale_of(y, randomizer, bound, scale))
        return self._fitted(x, y, notes)

    def _finished(self, fit: LinearResult, seeded: bool) -> LinearResult:
        result = super()._finished(fit, seeded)
        assert result.privacy is not None
        # What was added up for the ledger is about all labels of a user.
        result.privacy = replace(
            result.privacy, epsilon=self.epsilon, delta=self.delta, unit=_UNITS[self.unit]
        )
        return result

    def _estimate_scale(self, notes: list[str]) -> Generator[Ask, Estimate, float]:
        size = round(self._scale_share * self.num_users)
        if size < self.min_reports:
            raise TooFewReports(
                f"A share of {self._scale_share:g} of {self.num_users} users is fewer than "
                f"{self.min_reports}. Declare label_bound if it is public, or ask more users."
            )
        (cohort,) = self.cohorts([size])
        scale = yield from estimate_label_scale(cohort, self.epsilon, self.labels_per_user)
        if scale.certainty < _CERTAIN:
            notes.append(
                f"The scale of the labels, {scale.value:.2g}, is a guess from {size} reports: more "
                "users, a larger scale_share or a declared label_bound are needed."
            )
        return scale.value

    def _scale_of(self, y: Floats, randomizer: Randomizer, bound: float, estimated: float) -> float:
        """Return the labels' scale from the spread of their reports, where that tells it.

        The spread is that of clipped normal labels plus the mechanism's, which is known
        unless it makes up for the former, as that of bits does.
        """
        one = single(randomizer)
        if not _has_known_noise(one) or not len(y):
            return estimated
        square = (float(np.mean(y**2)) - one.variance) / bound**2
        error = float(np.std(y**2)) / math.sqrt(len(y)) / bound**2
        low, high = (clipped_square(f) for f in (_FARTHEST, 1 / _FARTHEST))
        if not low < square < high:
            return estimated
        ratio = brentq(lambda r: clipped_square(r) - square, 1 / _FARTHEST, _FARTHEST)
        return bound / ratio if error < _PRECISE * abs(_slope(ratio)) else estimated

    def _bound_over_scale(self) -> float:
        """Return where to clip, in scales: the less noise, the more labels are left as they are.

        How clipping shrinks coefficients is known for normal labels only, so that for others
        it leaves a bias, which is worth its saving of noise at small epsilon alone.
        """
        each = self.epsilon / (self.labels_per_user if self.unit == "user" else 1)
        return min(2.5, max(1.0, 0.75 + each / 4))

    def _fitted(self, x: Floats, y: Floats, notes: list[str]) -> LinearResult:
        """Return least squares on the support that clears the noise."""
        units = typical_sizes(x)
        x = x / units
        weights = row_weights(x)
        notes += of_unusual_rows(weights)
        x, y = weights[:, None] * x, weights * y
        if self.solver == "iht":
            coef = iht(x, y, self.sparsity)
        else:
            size = math.sqrt(2 * math.log(max(self.dim, 2)) / max(len(y), 1))
            penalty = size * float(np.std(y)) * math.sqrt(float(np.mean(x**2)))
            model = Lasso(alpha=penalty, fit_intercept=False, precompute=False).fit(x, y)
            coef = _least_squares(x, y, keep_largest(model.coef_, self.sparsity))
        clears = math.sqrt(2 * math.log(max(self.dim, 2)))
        coef = _least_squares(x, y, keep_above(coef, clears * _errors(x, y, coef)))
        coef, errors = project_on_ball(coef / units, self.radius), _errors(x, y, coef) / units
        if not coef.any():
            notes.append("No coefficient clears the noise: zero is returned.")
        return LinearResult(coef=coef, std_error=errors, notes=notes)


def _has_known_noise(one: Randomizer) -> bool:
    """Whether the variance of a label's mechanism is the same for all labels."""
    if isinstance(one, HybridMechanism):
        return math.isclose(one.variance_at(0.0), one.variance_at(1.0))
    return isinstance(one, GaussianMechanism)


def _slope(bound: float) -> float:
    """Return how much the mean square of clipped labels changes with the logarithm of the bound."""
    return (clipped_square(1.01 * bound) - clipped_square(bound)) / 0.01


def _least_squares(x: Floats, y: Floats, selected: Floats) -> Floats:
    """Return the least squares coefficients on the support of ``selected``."""
    coef, support = np.zeros(len(selected)), np.flatnonzero(selected)
    coef[support] = np.linalg.lstsq(x[:, support], y, rcond=None)[0]
    return coef


def _errors(x: Floats, y: Floats, coef: Floats) -> Floats:
    """Return the standard errors of least squares on the support of ``coef``."""
    errors, support = np.zeros(len(coef)), np.flatnonzero(coef)
    square = np.sum((y - x @ coef) ** 2) / max(len(y) - len(support), 1)
    covariance = np.linalg.pinv(x[:, support].T @ x[:, support])
    errors[support] = np.sqrt(square * np.diag(covariance))
    return errors
