"""Sparse regression in one round: everybody reports its record times its target."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.expectation import LowerBound, NoPlan, Setting
from ldp_flower.guarantee.questions import Gradient
from ldp_flower.guarantee.users import Users
from ldp_flower.iht import keep_largest, project_on_ball
from ldp_flower.randomizers import GaussianMechanism, Randomizer, SubsetHypercube
from ldp_flower.validation import Positive, check_unused

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
from ..runtime import Ask, Card, LinearResult, Protocol, Run, SparseStrategy, guarantees
from ..runtime.coefficients import METHODS, Method

_PLANNED_SPARSITY = 4  # of a plan that is made without the protocol


@dataclass(kw_only=True, eq=False, repr=False)
class NonInteractiveIht(SparseStrategy):
    """Sparse regression from one question that is the same for everybody.

    Every user reports a few bits of its clipped target times its record. The server averages,
    solves with the public covariance of the features and keeps the largest coefficients. For when
    there is one round only: with more, :class:`LdpIht` gets by with a fraction of the users.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    delta : float (default: 0.0)
        Privacy parameter likewise, for ``method="paper"`` only.
    method : {"auto", "paper"} (default: "auto")
        ``auto`` reports through :class:`SubsetHypercube` at pure epsilon, ``paper`` adds
        Gaussian noise to the whole vector, which takes some ten times as many users.
    covariance : array_like, shape (dim, dim), optional
        Public second moment of the features; by default ``feature_variance`` times the identity.
    feature_variance : float, optional
        Mean square of a feature, where no covariance gives it: 1, the default, for signs, 1/3
        for uniform features.
    radius : float (default: 1.0)
        Bound on the Euclidean norm of the coefficients.
    target_scale : float, optional
        Standard deviation of the targets, a public guess, by default ``radius`` times the
        root mean square of a feature. Targets are clipped there, and what that takes away
        is undone as for normal targets.

    Notes
    -----
    Source: the estimator behind the upper bound of Wang & Xu, "On Sparse Linear Regression
    in the Local Differential Privacy Model", ICML 2019, Theorem 1, whose proof is not in the
    paper. ``paper`` is what it can be: clip(y) x plus Gaussian noise for its diameter.

    ``std_error`` is the mechanism's known noise alone.
    """

    guarantee = (guarantees.USER_BY_METHOD, guarantees.NON_INTERACTIVE, guarantees.ENFORCED)
    card = Card(
        question="sparse linear regression",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="1, non-interactive",
        report="1-2",
        use_when="everybody is asked at once and the features' covariance is public",
        fails_when="with few users: for four normal coefficients of 64, 100,000 at epsilon 1 leave "
        "a relative error of .30",
        page="ldp-iht",
    )

    plans_with = frozenset({"num_features", "quality"})

    delta: float = 0.0
    method: Method = "auto"
    covariance: ArrayLike | None = None
    feature_variance: Positive | None = None
    radius: Positive = 1.0
    target_scale: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.method == "paper") != (self.delta != 0):
            raise ValueError(
                f"Expected delta > 0 with method='paper', and only there, got {self.delta}."
            )
        mean_square = self.feature_variance or 1.0
        spread = mean_square * np.eye(self.dim)
        if self.covariance is not None:
            check_unused(self, "with a covariance", "feature_variance")
            spread = np.asarray(self.covariance, np.float64)
        if spread.shape != (self.dim, self.dim) or not np.isfinite(spread).all():
            raise ValueError(f"Expected a finite covariance of shape ({self.dim}, {self.dim}).")
        if np.linalg.matrix_rank(spread) < self.dim:
            raise ValueError("Expected a covariance that can be inverted.")
        self._covariance = spread
        if self.covariance is not None:
            mean_square = float(np.mean(np.diag(spread)))
        self._target_scale = self.target_scale or self.radius * math.sqrt(mean_square)
        self.randomizer()  # refuses a bad epsilon now

    def randomizer(self) -> Randomizer:
        """Return the mechanism for a clipped target times a record."""
        if self.method == "auto":
            return SubsetHypercube(self.epsilon, self.dim, self._target_scale)
        length = self._target_scale * math.sqrt(self.dim)
        return GaussianMechanism(self.epsilon, self.dim, length, self.delta)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield both methods."""
        for method, delta in zip(METHODS, (0.0, 1e-3), strict=True):
            strategy = cls(dim, sparsity=1, epsilon=epsilon, method=method, delta=delta)
            yield strategy, normal_users(dim, 1)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the default method for four coefficients of length 1, and features of size 1."""
        dim = features_of(setting, cls)
        scale = planned_length(1.0, dim) / math.sqrt(setting.quality or USUAL_R2)
        sparsity = min(_PLANNED_SPARSITY, dim)
        return cls(dim, epsilon=epsilon, sparsity=sparsity, target_scale=scale)

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return users who obey one linear model, with coefficients as long as the radius."""
        variance = float(self._covariance[0, 0])
        if not np.allclose(self._covariance, variance * np.eye(self.dim)):
            raise NoPlan("NonInteractiveIht has a plan for features of one size and uncorrelated.")
        return linear_users(
            self.dim,
            self.sparsity,
            setting.quality or USUAL_R2,
            planned_length(self.radius, self.dim),
            feature_size=math.sqrt(variance),
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved of sparse regressions from one question."""
        return lower_bounds.one_row(self.epsilon, self.delta, rounds=False)

    def protocol(self, run: Run) -> Protocol:
        """Ask everybody for the gradient at zero, solve, threshold."""
        (everyone,) = run.cohorts([run.num_users])
        randomizer = self.randomizer()
        question = Gradient(
            np.zeros(self.dim), feature_bound=1.0, residual_bound=self._target_scale
        )
        answer = yield Ask(everyone, question, randomizer)
        inverse = np.linalg.inv(self._covariance) / kept(1.0)
        coef = keep_largest(-inverse @ answer.mean, self.sparsity)
        noise = math.sqrt(randomizer.variance / answer.count) * np.linalg.norm(inverse, axis=1)
        noise = np.where(coef != 0, noise, 0.0)
        return LinearResult(coef=project_on_ball(coef, self.radius), std_error=noise)
