"""ConstrainedMean: a strategy for a sparse mean in many dimensions from one collection."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.expectation import Setting
from ldp_flower.questions import Mean
from ldp_flower.randomizers import Estimate, GaussianMechanism, Randomizer
from ldp_flower.validation import Floats, Positive, check_integer

from ..forecasts.populations import MeanUsers
from ..numerics.denoising import garrote, project_on_l1_ball, soften
from ..numerics.first_order import fista
from ..runtime import Ask, Card, Cohort, LinearResult, Protocol, Run
from .base import MAX_REPORT, Once, ProjectedCollection

# Assumptions of a plan: norm of the mean and users' distance from it, in units of feature_bound;
# and the number of non-zero coordinates.
_PLANNED, _PLANNED_SPREAD, _PLANNED_SPARSITY = 0.5, 0.3, 8
_SUGGESTED = 512  # projected_dim that an error message suggests


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedMean(ProjectedCollection[LinearResult]):
    """Strategy that estimates a (nearly) sparse mean row of features, from one collection.

    Users report their row, or a public random projection of it, as a vector in a ball. The server
    knows the size of the noise. It sets insignificant coordinates to zero and shrinks coordinates
    that are barely significant.

    Other parameters are those of :class:`~.base.ProjectedCollection`.

    Parameters
    ----------
    l1_bound : float, optional
        Public bound on the sum of the mean's absolute values. The estimate is projected to it.
    projected_dim : int, optional
        Number of dimensions to which a public random matrix projects features first. It is required
        for more than 5,000 features. With ``"paper"`` the default is ``l1_bound epsilon sqrt(n)``
        if that is less than ``dim``.

    Notes
    -----
    ``coef`` of the result is the mean. The significance threshold is the noise's standard deviation
    times ``sqrt(2 log(dim))``, which noise alone hardly exceeds. A projected mean is recovered by
    the Lasso with this penalty, followed by least squares on its support. A user with several rows
    reports their mean.

    Source: Zheng, Mou & Wang, "Collect at Once, Use Effectively" (ICML 2017), Algorithm 2.
    ``"paper"`` is this algorithm with its calibration corrected: projected rows are clipped (at ``1
    + 2 / sqrt(p)`` in p dimensions), which the original omits, and the noise is scaled to the
    diameter of their domain; the plain mean replaces the median of 18 log(1/delta) means, since
    reports have light tails; the Lasso, with the threshold above, replaces a constraint so wide
    that 0 is its solution below 1e13 users. It needs 30 to 100 times as many users as ``"auto"``.
    Without projection the noise of a coordinate does not depend on the number of coordinates, so
    projecting only saves bytes.
    """

    card = Card(
        question="sparse mean of hundreds or thousands of features",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="2, non-interactive; paper: 1",
        report="1",
        use_when="everybody is asked at once",
        fails_when="for means below several times sqrt(V / n) of the bound, V = 6.3, 1.6, 0.44 at "
        "epsilon 1, 2, 4 and n users",
        page="collect-once",
    )

    plans_with = frozenset({"num_features"})
    _clipped = ("feature_bound",)

    l1_bound: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.projected_dim is not None:
            check_integer("projected_dim", self.projected_dim, 1, min(self.dim, MAX_REPORT))
        elif self.method == "auto" and self.dim > MAX_REPORT:
            raise ValueError(
                f"Expected at most {MAX_REPORT} numbers in a report, got {self.dim} features: "
                f"project them with projected_dim <= {MAX_REPORT}, for example {_SUGGESTED}."
            )

    def synthetic(self, setting: Setting) -> MeanUsers:
        """Return a population for plans: users around a mean of half the bound's norm.

        Eight coordinates of the mean are not zero.
        """
        sparsity = min(self.dim, _PLANNED_SPARSITY)
        return MeanUsers(
            error="distance of the mean, in feature_bound",
            dim=self.dim,
            sparsity=sparsity,
            length=_PLANNED * self.feature_bound,
            spread=_PLANNED_SPREAD * self.feature_bound,
            unit=self.feature_bound,
            radius=self.feature_bound,
            assumes=(
                f"The mean has length {_PLANNED} of feature_bound, in {sparsity} equal "
                f"coordinates; the others are 0. Users lie {_PLANNED_SPREAD} of it from the mean.",
            ),
        )

    def _by_moments(self, run: Run, everyone: Cohort) -> Once[LinearResult]:
        size = self.projected_dim or self.dim
        mechanism = self.randomizer(size, self._length(size))
        answer = yield self._question(run, everyone, size, mechanism)
        if size == self.dim:
            return self._bounded(garrote(answer.mean, self._threshold(answer)), answer)
        matrix = self._matrix(run, size)
        support = np.flatnonzero(self._lasso(matrix, answer))
        found = np.zeros(self.dim)
        found[support] = np.linalg.lstsq(matrix[support].T, answer.mean)[0]
        return self._bounded(garrote(found, self._threshold(answer)), answer)

    def _as_printed(self, run: Run, everyone: Cohort) -> Protocol:
        radius = (self.l1_bound or self.feature_bound) / self.feature_bound
        wanted = math.ceil(radius * self.epsilon * math.sqrt(run.num_users))
        size = self.projected_dim or min(self.dim, wanted, MAX_REPORT)
        mechanism = GaussianMechanism(self.epsilon, size, self._length(size), self._delta)
        answer = yield self._question(run, everyone, size, mechanism)
        return self._bounded(self._lasso(self._matrix(run, size), answer), answer)

    def _question(self, run: Run, everyone: Cohort, size: int, mechanism: Randomizer) -> Ask:
        return Ask(everyone, self._mapped(run, Mean(np.zeros(size)), size), mechanism)

    def _threshold(self, answer: Estimate) -> float:
        return _noise(answer) * math.sqrt(2 * math.log(max(self.dim, 2)))

    def _lasso(self, matrix: Floats, answer: Estimate) -> Floats:
        """Return the Lasso solution: a sparse vector whose projection is close to ``answer``."""
        penalty = self._threshold(answer)
        return fista(
            lambda vector: np.asarray(matrix @ (vector @ matrix - answer.mean)),
            lambda vector, step: soften(vector, penalty * step),
            float(np.linalg.norm(matrix, 2)) ** 2,
            np.zeros(self.dim),
            400,
        )

    def _bounded(self, found: Floats, answer: Estimate) -> LinearResult:
        if self.l1_bound is not None:
            found = project_on_l1_ball(found, self.l1_bound)
        return LinearResult(coef=found, std_error=np.where(found != 0, _noise(answer), 0.0))


def _noise(answer: Estimate) -> float:
    """Return the root mean square of the answer's standard errors over coordinates."""
    return float(np.sqrt(np.mean(answer.std_error**2)))
