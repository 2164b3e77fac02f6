"""ConstrainedRegression: a strategy for linear regression in an l1 ball from one collection."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ldp_flower.expectation import Setting
from ldp_flower.questions import Record, SecondMoments
from ldp_flower.questions.moments import num_moments
from ldp_flower.validation import Positive, check_integer

from ..forecasts.populations import SphereUsers
from ..numerics.denoising import project_on_l1_ball
from ..numerics.first_order import fista
from ..runtime import Ask, Card, Cohort, LinearResult, Protocol, Run
from .base import MAX_REPORT, Once, ProjectedCollection, check_report
from .moment_losses import PRODUCT_WEIGHT, SQUARE_WEIGHT, LeastSquares

# Assumptions of a plan: l1 norm of the coefficients over the ball's radius, and their number.
_SHARE, _PLANNED_SPARSITY = 0.8, 4


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedRegression(ProjectedCollection[LinearResult]):
    """Strategy for linear regression with coefficients in an l1 ball, from one collection.

    With ``method="auto"`` users report the products of their features with each other and with the
    target as one vector in a ball. With ``method="paper"`` they report features and target with
    Gaussian noise, and the server computes the products.

    Other parameters are those of :class:`~.base.ProjectedCollection`.

    Parameters
    ----------
    target_bound : float (default: 1.0)
        Public bound on targets; larger ones are clipped. Noise grows with it.
    l1_bound : float (default: 1.0)
        Largest sum of the coefficients' absolute values.
    projected_dim : int, optional
        Number of dimensions to which a public random matrix projects features first. It is required
        for more than 98 features. By default features are not projected (``"paper"``: projected to
        ``epsilon sqrt(n log(dim))`` dimensions if that is less than ``dim``).

    Notes
    -----
    A user with several rows reports the mean of its rows' products (``"paper"``: the first row
    only). For an intercept, add a constant feature.

    Source: Zheng, Mou & Wang, "Collect at Once, Use Effectively" (ICML 2017), Algorithm 3.
    ``"paper"`` is this algorithm with its calibration corrected: the noise is scaled to the
    diameter of the records' domain, not to the radius; projected features, half of which have a
    norm above 1, are clipped at ``1 + 2 / sqrt(projected_dim)`` instead of 1; features and target
    share one Gaussian report. The server multiplies noisy records, which squares the noise.
    Therefore it is useful from epsilon 4, 16 features and 400,000 users on, if the relevant
    features vary most. With ``"auto"``, users multiply before the noise is added. Eigenvalues of
    the second moments below a part of the noise's are raised to it.
    """

    card = Card(
        question="linear regression with up to 98 features (more: projected)",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="3, non-interactive; paper: 1",
        report="1",
        use_when="everybody is asked at once",
        fails_when="for signals in directions of little variance: below some 10,000 users at "
        "epsilon 2 it can be worse than zero",
        page="collect-once",
    )

    plans_with = frozenset({"num_features"})

    target_bound: Positive = 1.0
    l1_bound: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method == "auto":
            check_report(self.dim, self.projected_dim, [2])
        elif self.projected_dim is not None:
            check_integer("projected_dim", self.projected_dim, 1, min(self.dim, MAX_REPORT - 1))

    def synthetic(self, setting: Setting) -> SphereUsers:
        """Return a population for plans: users whose targets depend on four coefficients."""
        sparsity, l1_norm = min(_PLANNED_SPARSITY, self.dim), _SHARE * self.l1_bound
        l1_norm = min(l1_norm, _SHARE * self.target_bound / self.feature_bound)
        return SphereUsers(
            dim=self.dim,
            sparsity=sparsity,
            radius=self.feature_bound,
            l1_norm=l1_norm,
            assumes=(
                f"{sparsity} coefficients of one size that sum to {l1_norm:.2g}; rows of features "
                "are as long as the bound, in any direction.",
            ),
        )

    def _by_moments(self, run: Run, everyone: Cohort) -> Once[LinearResult]:
        size = self.projected_dim or self.dim
        mechanism = self.randomizer(num_moments(size, [2]))
        weights = (PRODUCT_WEIGHT, SQUARE_WEIGHT)
        moments = SecondMoments(self._length(size), self.target_bound, *weights)
        answer = yield Ask(everyone, self._mapped(run, moments, size), mechanism)
        found = LeastSquares.from_moments(answer, size, weights)
        return self._solved(run, found, size)

    def _as_printed(self, run: Run, everyone: Cohort) -> Protocol:
        wanted = math.ceil(self.epsilon * math.sqrt(run.num_users * math.log(max(self.dim, 2))))
        size = self.projected_dim or min(self.dim, wanted, MAX_REPORT - 1)
        mechanism = self.mechanism(size + 1, math.sqrt(2))
        record = Record(self._length(size), self.target_bound)
        answers = yield Ask(everyone, self._mapped(run, record, size), mechanism)
        return self._solved(run, LeastSquares.from_records(answers, mechanism), size)

    def _solved(self, run: Run, found: LeastSquares, size: int) -> LinearResult:
        """Return the minimiser of the quadratic loss in the l1 ball, in the clients' units."""
        # The coefficients belong to the original features, before the projection.
        matrix = self._matrix(run, size)
        unit = self.target_bound / self._length(size)
        products, half = matrix @ found.products, matrix @ found.squares
        smoothness = found.largest_eigenvalue * float(np.linalg.norm(matrix, 2)) ** 2
        coef = fista(
            lambda vector: np.asarray(half @ (matrix.T @ vector) - products),
            lambda vector, _: project_on_l1_ball(vector, self.l1_bound / unit),
            max(smoothness, 1e-12),
            np.zeros(self.dim),
        )
        found = replace(found, products=products, squares=half @ matrix.T)
        return LinearResult(coef=coef * unit, std_error=found.std_error(coef) * unit)
