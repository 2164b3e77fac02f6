"""Sparse regression in one round: everybody reports its record times its target."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.data.users import Users
from ldp_flower.expectation import LowerBound, NoPlan, Setting
from ldp_flower.questions import DistanceOctave, Gradient, ResidualOctave, Squares
from ldp_flower.questions.sparse import keep_largest, project_on_ball
from ldp_flower.randomizers import GaussianMechanism, Randomizer, SubsetHypercube
from ldp_flower.validation import Positive

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    USUAL_R2,
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
    planned_length,
)
from ..numerics.denoising import kept
from ..runtime import (
    Ask,
    Card,
    ContradictedValue,
    LinearResult,
    Protocol,
    Run,
    SparseStrategy,
    guarantees,
)
from ..runtime.coefficients import METHODS, Method, support_doubts
from ..subprotocols.octaves import ask_size
from .one_record import drawn_together

_PLANNED_SPARSITY = 4  # of a plan that is made without the protocol
_SHARE = 0.03  # of the users, of each of three questions about sizes
_SIGN = 2.0**-30  # targets are clipped so narrowly that their signs are left
_SHAPE = 0.3  # relative error of all coefficients if targets are not normal: up to .35 on six laws
_CLIPPED_SHAPE = 0.05  # likewise, of targets that are clipped at their size
_CLIPPED = 0.05  # of the logarithm of rows' lengths, that features beyond 1 may have
_LEAST, _LEAST_SQUARE = 0.1, 1e-3  # a feature's mean square, over the mean one; and that one
_SURE, _APART = 3.0, 0.5  # errors of the logarithm of a size, and how far it may be beyond these
_OFF_CENTRE = 0.3  # of targets' signs: from which coefficients are off by more
_CONTRADICTED = (
    "Expected a target_scale near the targets' root mean square, got {:g}: it is {:.3g}."
)
_BEYOND_ONE = (
    "Features are beyond [-1, 1]: clipped, they have {:.0%} of their mean square. Coefficients are "
    "off by as much. Divide features by public bounds."
)
_NOT_CENTRED = (
    "Targets are not centred: {:.0%} have one sign. Coefficients may be anything; subtract a "
    "public typical value, or ask LdpIht, which takes targets as they are."
)
_BEYOND = "Coefficients of length {:.3g} were shortened to radius={:g}."


@dataclass(kw_only=True, eq=False, repr=False)
class NonInteractiveIht(SparseStrategy):
    """Sparse regression from questions that are the same whatever others answer.

    Nine users in ten report a few bits of their target's sign times their record, the others the
    size of their target or of their row, or the squares of their features. The server averages,
    solves and keeps the largest coefficients. For when there is one round only: with more,
    :class:`LdpIht` gets by with a fraction of the users. Features are clipped to [-1, 1]; they and
    targets are expected to be centred.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    delta : float (default: 0.0)
        Privacy parameter likewise, for ``method="paper"`` only.
    method : {"auto", "paper"} (default: "auto")
        ``auto`` reports through :class:`SubsetHypercube` at pure epsilon, ``paper`` adds
        Gaussian noise to the whole vector, which takes some ten times as many users.
    covariance : array_like, shape (dim, dim), optional
        Public second moment of the features; by default features are taken for uncorrelated, and
        their mean squares are asked of some users (``paper``: taken for 1), and whether they are
        beyond [-1, 1].
    radius : float, optional
        Bound on the Euclidean norm of the coefficients; by default none (``paper``: 1).
    target_scale : float, optional
        Root mean square of the targets, if it is public, by default the radius with ``paper``.
        Targets are clipped there, and what that takes away is undone as for normal targets. That
        is sharper than their signs: some 5 % off for laws that are not normal, instead of 30 %.
        ``auto`` checks it by some users before the others are asked.

    Raises
    ------
    ContradictedValue
        If reports say that ``target_scale`` is not that of the targets.

    Notes
    -----
    Source: the estimator behind the upper bound of Wang & Xu, "On Sparse Linear Regression
    in the Local Differential Privacy Model", ICML 2019, Theorem 1, whose proof is not in the
    paper. ``paper`` is what it can be: clip(y) x plus Gaussian noise for its diameter. For normal
    targets of standard deviation s, ``E[sign(y) x] = sqrt(2 / pi) E[y x] / s``.

    ``std_error`` of ``paper`` is the mechanism's known noise alone. That of ``auto`` has the errors
    of the sizes in it, and that targets may not be normal; what is left out may be as large as it
    seems.
    """

    guarantee = (guarantees.USER_BY_METHOD, guarantees.NON_INTERACTIVE, guarantees.ENFORCED)
    card = Card(
        question="sparse linear regression",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="4, non-interactive; paper: 1",
        report="1-2",
        use_when="everybody is asked at once; features are within [-1, 1], targets centred",
        fails_when="with few users: for four normal coefficients of 64, 100,000 at epsilon 1 leave "
        "a relative error of .56, of .32 with target_scale",
        page="ldp-iht",
    )

    plans_with = frozenset({"num_features", "quality"})

    delta: float = 0.0
    method: Method = "auto"
    covariance: ArrayLike | None = None
    radius: Positive | None = None
    target_scale: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.method == "paper") != (self.delta != 0):
            raise ValueError(
                f"Expected delta > 0 with method='paper', and only there, got {self.delta}."
            )
        spread = np.asarray(np.eye(self.dim) if self.covariance is None else self.covariance)
        if spread.shape != (self.dim, self.dim) or not np.isfinite(spread).all():
            raise ValueError(f"Expected a finite covariance of shape ({self.dim}, {self.dim}).")
        if np.linalg.matrix_rank(spread) < self.dim:
            raise ValueError("Expected a covariance that can be inverted.")
        self._covariance = spread.astype(np.float64)
        self._clip = self.target_scale or _SIGN
        if self.method == "paper" and not self.target_scale:
            self._clip = (self.radius or 1.0) * math.sqrt(float(np.mean(np.diag(spread))))
        self.randomizer()  # refuses a bad epsilon now

    def randomizer(self) -> Randomizer:
        """Return the mechanism for a clipped target times a record and a constant."""
        if self.method == "auto":
            return SubsetHypercube(self.epsilon, self.dim + 1, self._clip)
        return GaussianMechanism(
            self.epsilon, self.dim, self._clip * math.sqrt(self.dim), self.delta
        )

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield both methods."""
        for method, delta in zip(METHODS, (0.0, 1e-3), strict=True):
            strategy = cls(dim, sparsity=1, epsilon=epsilon, method=method, delta=delta)
            yield strategy, normal_users(dim, 1)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the default method for four coefficients."""
        dim = features_of(setting, cls)
        return cls(dim, epsilon=epsilon, sparsity=min(_PLANNED_SPARSITY, dim))

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return users who obey one linear model, with coefficients as long as the radius."""
        variance = float(self._covariance[0, 0])
        if not np.allclose(self._covariance, variance * np.eye(self.dim)):
            raise NoPlan("NonInteractiveIht has a plan for features of one size and uncorrelated.")
        return linear_users(
            self.dim,
            self.sparsity,
            setting.quality or USUAL_R2,
            planned_length(self.radius or 1.0, self.dim),
            feature_size=math.sqrt(variance),
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved of sparse regressions from one question."""
        return lower_bounds.one_row(self.epsilon, self.delta, rounds=False)

    def protocol(self, run: Run) -> Protocol:
        """Ask for the gradient at zero, solve, threshold."""
        if self.method == "paper":
            return (yield from self._paper(run))
        return (yield from self._auto(run))

    def _paper(self, run: Run) -> Protocol:
        (everyone,) = run.cohorts([run.num_users])
        randomizer = self.randomizer()
        question = Gradient(np.zeros(self.dim), feature_bound=1.0, residual_bound=self._clip)
        answer = yield Ask(everyone, question, randomizer)
        inverse = np.linalg.inv(self._covariance) / kept(1.0)
        coef = keep_largest(-inverse @ answer.mean, self.sparsity)
        noise = math.sqrt(randomizer.variance / answer.count) * np.linalg.norm(inverse, axis=1)
        noise = np.where(coef != 0, noise, np.nan)
        return LinearResult(coef=project_on_ball(coef, self.radius or 1.0), std_error=noise)

    def _auto(self, run: Run) -> Protocol:
        share = max(math.ceil(_SHARE * run.num_users), run.min_reports)
        octaves, *others = run.cohorts([share] * (3 if self.covariance is None else 1))
        zero = np.zeros(self.dim)
        size = yield from ask_size(octaves, ResidualOctave(zero, 0.0), self.epsilon, 1.0)
        unit = size.value * math.sqrt(math.pi / 2) / self._clip
        law = math.hypot(size.error, _SHAPE)
        if self.target_scale is not None:
            if abs(size.log - math.log(self.target_scale)) > _SURE * size.error + _APART:
                raise ContradictedValue(_CONTRADICTED.format(self.target_scale, size.value))
            unit, law = 1 / kept(1.0), _CLIPPED_SHAPE
        covariance, of_sizes, notes = self._covariance, 0.0, []
        if self.covariance is None:
            lengths, squares = others
            length = yield from ask_size(lengths, DistanceOctave(zero), self.epsilon)
            box = SubsetHypercube(self.epsilon, self.dim, 1.0)
            answer = yield Ask(squares, Squares(zero), box)
            found, error = drawn_together(answer.mean, box.variance / answer.count)
            usual = max(float(found.mean()), _LEAST_SQUARE)
            covariance = np.diag(np.maximum(found, _LEAST * usual))
            of_sizes = math.sqrt(error) / usual
            within = min(self.dim * usual, self.dim)
            clipped = length.log - math.log(within) / 2
            if clipped > _SURE * length.error + _CLIPPED:
                notes.append(_BEYOND_ONE.format(math.exp(-2 * clipped)))
                law = math.hypot(law, math.expm1(2 * clipped))
        (rest,) = run.cohorts([run.num_unasked])
        question = Gradient(zero, feature_bound=1.0, residual_bound=self._clip, constant=1.0)
        randomizer = self.randomizer()
        answer = yield Ask(rest, question, randomizer)
        inverse = unit * np.linalg.inv(covariance)
        every = -inverse @ answer.mean[:-1]
        noise = math.sqrt(randomizer.variance / answer.count) * np.linalg.norm(inverse, axis=1)
        coef = keep_largest(every, self.sparsity)
        std_error = np.hypot(noise, np.where(coef != 0, math.hypot(law, of_sizes), 1.0) * every)
        notes += support_doubts(every / noise, self.sparsity)
        off_centre = abs(float(answer.mean[-1])) / self._clip
        if off_centre > _OFF_CENTRE + _SURE * float(answer.std_error[-1]) / self._clip:
            notes.append(_NOT_CENTRED.format((1 + off_centre) / 2))
            std_error = np.full(self.dim, np.nan)
        if self.radius is not None and np.linalg.norm(coef) > self.radius:
            notes.append(_BEYOND.format(np.linalg.norm(coef), self.radius))
            coef = project_on_ball(coef, self.radius)
        return LinearResult(coef=coef, std_error=std_error, notes=notes)
