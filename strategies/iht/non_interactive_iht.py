"""NonInteractiveIht: sparse regression whose questions do not depend on earlier answers."""

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
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
    planned_length,
)
from ..numerics.denoising import attenuation, drawn_together
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
from ..runtime.coefficients import METHODS, Method, support_notes
from ..subprotocols.octaves import ask_size

_PLANNED_SPARSITY = 4  # sparsity in a plan for which no strategy was constructed
_SIZES_SHARE = 0.03  # share of the users for each of three questions about sizes
_SIGN = 2.0**-30  # bound at which targets are clipped to keep their signs only
# Relative error of all coefficients if targets are not normal: up to .35 on six distributions.
_SHAPE = 0.3
_CLIPPED_SHAPE = 0.05  # the same error for targets that are clipped at their size
_CLIPPED = 0.05  # tolerance for features beyond 1, in the logarithm of the rows' length
# Smallest mean square of a feature, over the average over features; and smallest average.
_MIN_SQUARE_RATIO, _MIN_SQUARE = 0.1, 1e-3
# A declared scale is contradicted if its logarithm differs from the estimated one by more than
# _CONTRADICTION_Z standard errors plus _CONTRADICTION_LOG.
_CONTRADICTION_Z, _CONTRADICTION_LOG = 3.0, 0.5
_OFF_CENTRE = 0.3  # mean sign of the targets above which coefficients are too far off
_CONTRADICTED = (
    "Expected a target_scale near the targets' root mean square, got {:g}: reports show {:.3g}."
)
_BEYOND_ONE = (
    "Features exceed [-1, 1]: clipping leaves {:.0%} of their mean square, and coefficients are "
    "wrong by the same factor. Divide features by public bounds."
)
_NOT_CENTRED = (
    "Targets are not centred: {:.0%} have the same sign. Coefficients may be wrong by any amount; "
    "subtract a public typical value, or use LdpIht, which does not need centred targets."
)
_BEYOND = "Coefficients of length {:.3g} were shortened to radius={:g}."


@dataclass(kw_only=True, eq=False, repr=False)
class NonInteractiveIht(SparseStrategy):
    """Strategy for sparse regression whose questions do not depend on the users' answers.

    Nine users in ten report a few bits about the product of their target's sign and their record.
    The other users report the size of their target, the length of their row, or the squares of
    their features. The server averages the reports, solves for the coefficients and keeps the
    largest ones. Use it only if all users must be queried at once: in several rounds,
    :class:`LdpIht` needs a fraction of the users. Features are clipped to [-1, 1]. Features and
    targets should be centred.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    delta : float (default: 0.0)
        Privacy parameter of the Gaussian noise, for ``method="paper"`` only.
    method : {"auto", "paper"} (default: "auto")
        ``auto`` randomises with :class:`SubsetHypercube` at pure epsilon. ``paper`` adds Gaussian
        noise to the whole vector, which takes some ten times as many users.
    covariance : array_like, shape (dim, dim), optional
        Public second moment of the features. By default features are assumed to be uncorrelated,
        and some users report on their mean squares and on whether they exceed [-1, 1]. ``paper``
        assumes mean squares of 1 instead.
    radius : float, optional
        Bound on the Euclidean norm of the coefficients. By default there is none (``paper``: 1).
    target_scale : float, optional
        Root mean square of the targets, if it is public. With ``paper`` the default is the radius.
        Targets are clipped at this value, and the effect of clipping is corrected as for normal
        targets. This is more precise than using their signs: for other distributions, the error is
        some 5 % instead of 30 %. ``auto`` checks the value on some users before it queries the
        others.

    Raises
    ------
    ContradictedValue
        If reports contradict ``target_scale``.

    Notes
    -----
    Source: the estimator behind the upper bound of Wang & Xu, "On Sparse Linear Regression
    in the Local Differential Privacy Model", ICML 2019, Theorem 1, whose proof is not in the
    paper. ``paper`` is a reconstruction: clip(y) x plus Gaussian noise for its diameter. For normal
    targets of standard deviation s, ``E[sign(y) x] = sqrt(2 / pi) E[y x] / s``.

    ``std_error`` of ``paper`` covers the mechanism's known noise only. That of ``auto`` also covers
    the errors of the estimated sizes and the possibility that targets are not normal. For a
    coefficient that is set to zero, it covers the coefficient's estimated size.
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
                "Expected delta > 0 if method='paper' and delta = 0 otherwise, got "
                f"delta={self.delta} with method={self.method!r}."
            )
        spread = np.asarray(np.eye(self.dim) if self.covariance is None else self.covariance)
        if spread.shape != (self.dim, self.dim) or not np.isfinite(spread).all():
            raise ValueError(f"Expected a finite covariance of shape ({self.dim}, {self.dim}).")
        if self.covariance is not None and np.linalg.matrix_rank(spread) < self.dim:
            raise ValueError("Expected a covariance that can be inverted.")
        self._covariance = spread.astype(np.float64)
        self._clip = self.target_scale or _SIGN
        if self.method == "paper" and not self.target_scale:
            self._clip = (self.radius or 1.0) * math.sqrt(float(np.mean(np.diag(spread))))
        self.randomizer()  # raises an error now if epsilon is invalid

    def randomizer(self) -> Randomizer:
        """Return the mechanism for the product of a clipped target and a record.

        With ``method="auto"`` the record has a constant as an additional coordinate.
        """
        if self.method == "auto":
            return SubsetHypercube(self.epsilon, self.dim + 1, self._clip)
        return GaussianMechanism(
            self.epsilon, self.dim, self._clip * math.sqrt(self.dim), self.delta
        )

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: one for each method."""
        for method, delta in zip(METHODS, (0.0, 1e-3), strict=True):
            strategy = cls(dim, sparsity=1, epsilon=epsilon, method=method, delta=delta)
            yield strategy, normal_users(dim, 1)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for at most four non-zero coefficients."""
        dim = features_of(setting, cls)
        return cls(dim, epsilon=epsilon, sparsity=min(_PLANNED_SPARSITY, dim))

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return a population for plans: users of a linear model, whose norm is ``radius``."""
        variance = float(self._covariance[0, 0])
        if not np.allclose(self._covariance, variance * np.eye(self.dim)):
            raise NoPlan("NonInteractiveIht has a plan for uncorrelated features of one size only.")
        length, size = planned_length(self.radius or 1.0, self.dim), math.sqrt(variance)
        return linear_users(setting, self.dim, self.sparsity, length, feature_size=size)

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the known lower bounds on the error of sparse regression in one round."""
        return lower_bounds.one_row(self.epsilon, self.delta, rounds=False)

    def protocol(self, run: Run) -> Protocol:
        """Ask for the gradients at zero, and return the largest coefficients of the solution.

        With ``method="auto"``, a few users report on sizes first.
        """
        if self.method == "paper":
            return (yield from self._paper(run))
        share = max(math.ceil(_SIZES_SHARE * run.num_users), run.min_reports)
        octaves, *others = run.cohorts([share] * (3 if self.covariance is None else 1))
        zero = np.zeros(self.dim)
        size = yield from ask_size(octaves, ResidualOctave(zero, 0.0), self.epsilon, 1.0)
        unit = size.value * math.sqrt(math.pi / 2) / self._clip
        law = math.hypot(size.error, _SHAPE)
        if self.target_scale is not None:
            off = abs(size.log - math.log(self.target_scale))
            if off > _CONTRADICTION_Z * size.error + _CONTRADICTION_LOG:
                raise ContradictedValue(_CONTRADICTED.format(self.target_scale, size.value))
            unit, law = 1 / attenuation(1.0), _CLIPPED_SHAPE
        covariance, of_sizes, notes = self._covariance, 0.0, []
        if self.covariance is None:
            lengths, squares = others
            length = yield from ask_size(lengths, DistanceOctave(zero), self.epsilon)
            box = SubsetHypercube(self.epsilon, self.dim, 1.0)
            answer = yield Ask(squares, Squares(zero), box)
            found, error = drawn_together(answer.mean, box.variance / answer.count)
            usual = max(float(found.mean()), _MIN_SQUARE)
            covariance = np.diag(np.maximum(found, _MIN_SQUARE_RATIO * usual))
            of_sizes = math.sqrt(error) / usual
            within = min(self.dim * usual, self.dim)
            clipped = length.log - math.log(within) / 2
            if clipped > _CONTRADICTION_Z * length.error + _CLIPPED:
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
        notes += support_notes(every / noise, self.sparsity)
        off_centre = abs(float(answer.mean[-1])) / self._clip
        if off_centre > _OFF_CENTRE + _CONTRADICTION_Z * float(answer.std_error[-1]) / self._clip:
            notes.append(_NOT_CENTRED.format((1 + off_centre) / 2))
            std_error = np.full(self.dim, np.nan)
        if self.radius is not None and np.linalg.norm(coef) > self.radius:
            notes.append(_BEYOND.format(np.linalg.norm(coef), self.radius))
            coef = project_on_ball(coef, self.radius)
        return LinearResult(coef=coef, std_error=std_error, notes=notes)

    def _paper(self, run: Run) -> Protocol:
        """Run the paper's method, in which all users answer one question."""
        (everyone,) = run.cohorts([run.num_users])
        randomizer = self.randomizer()
        question = Gradient(np.zeros(self.dim), feature_bound=1.0, residual_bound=self._clip)
        answer = yield Ask(everyone, question, randomizer)
        inverse = np.linalg.inv(self._covariance) / attenuation(1.0)
        coef = keep_largest(-inverse @ answer.mean, self.sparsity)
        noise = math.sqrt(randomizer.variance / answer.count) * np.linalg.norm(inverse, axis=1)
        noise = np.where(coef != 0, noise, np.nan)
        return LinearResult(coef=project_on_ball(coef, self.radius or 1.0), std_error=noise)
