"""Linear regression by private gradient steps: what LdpIht does with several records per user."""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldp_flower.guarantee.questions import Curvature, Gradient, GradientNorm, RootCurvature
from ldp_flower.randomizers import Estimate, Randomizer
from ldp_flower.values.projections import keep_largest, project_on_ball

from ..numerics.denoising import keep_above, with_least_risk
from ..runtime.base import LdpStrategy, TooFewReports
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.result import LinearResult
from ..subprotocols.norm import estimate_norm, norm_askers
from ..subprotocols.squared_errors import number_randomizer

Floats = NDArray[np.float64]

# Number of rounds, share of a round's users that tell curvatures, and what the bound on
# gradients is multiplied by from round to round: without a given sparsity, and with one.
_DENSE, _SPARSE = (4, 0.1, 0.8), (3, 0.15, 0.7)
_CAP_SHARE = 0.05  # of all users, at most, that tell where to cut off squares
_CAP = 8.0  # where squares of <x, direction> are cut off, in units of users' mean, at least 1
_LONGEST_STEP = 2.0  # without a sparsity: what the rule of least risk leaves is shortened
_FALSE_ALARM = 0.05  # probability that a gradient of pure noise clears its threshold


@dataclass(frozen=True)
class GradientRounds:
    """Gradient steps on all coefficients, each with a cohort of its own.

    A step's cohort reports users' mean gradients, as vectors in a ball whose radius is that of
    users' typical gradient at zero. Noise, whose size is known, is taken off: with a given
    sparsity by a threshold, else by whichever of three rules Stein's unbiased estimate
    of the risk prefers. Other users tell the curvature along the direction that is left, of
    which the step is the inverse.

    Attributes
    ----------
    strategy : LdpStrategy
        Whose users are asked.
    epsilon : float
        Privacy parameter of each user's one report.
    dim : int
        Number of features.
    mechanism : callable
        From a number of coordinates and a radius to the mechanism for gradients.
    sparsity : int, optional
        Number of coefficients that may differ from zero.
    radius : float, optional
        Bound on the Euclidean norm of the coefficients.
    gradient_bound : float, optional
        Bound on a user's gradient at zero; by default it is estimated.
    """

    strategy: LdpStrategy[Any]
    epsilon: float
    dim: int
    mechanism: Callable[[int, float], Randomizer]
    sparsity: int | None = None
    radius: float | None = None
    gradient_bound: float | None = None

    def protocol(self) -> Generator[Ask, Any, LinearResult]:
        """Estimate a bound on gradients, then alternate gradients and step sizes."""
        theta, variance = np.zeros(self.dim), np.zeros(self.dim)
        notes = []
        bound = self.gradient_bound
        if bound is None:
            question = partial(GradientNorm, theta)
            (cohort,) = self.strategy.cohorts([norm_askers(self.strategy, self.epsilon)])
            prior = math.sqrt(self.dim) / 2
            bound = (yield from estimate_norm(cohort, self.epsilon, question, prior)).value
        same_theta: list[Estimate] = []
        rounds, share, decay = _DENSE if self.sparsity is None else _SPARSE
        users, least = self.strategy.num_users, self.strategy.min_reports
        cap, cap_askers = _CAP, None
        if self.sparsity is None:  # a direction of many columns may be far off centre
            askers = min(norm_askers(self.strategy, self.epsilon), int(_CAP_SHARE * users))
            (cap_askers,) = self.strategy.cohorts([max(askers, least)])
        for left in range(rounds, 0, -1):
            size = self.strategy.num_unasked // left
            num_probers = max(round(share * size), least)
            (answerers,) = self.strategy.cohorts([size - num_probers])
            randomizer = self.mechanism(self.dim, bound)
            try:
                same_theta.append((yield Ask(answerers, Gradient(theta), randomizer)))
            except TooFewReports:
                if not theta.any():
                    raise
                break
            gradient = _pooled(same_theta)
            noise = math.sqrt(randomizer.variance / gradient.count)
            descent = self._without_noise(gradient.mean, noise)
            if not descent.any():
                continue  # nothing clears the noise: ask more users at the same place
            direction = descent / np.linalg.norm(descent)
            if cap_askers is not None:
                cap, cap_askers = (yield from self._estimate_cap(cap_askers, direction)), None
            (probers,) = self.strategy.cohorts([num_probers])
            step_size = yield from self._estimate_step_size(probers, direction, cap)
            variance = (1 - step_size) ** 2 * variance + (step_size * gradient.std_error) ** 2
            theta = self._constrained(theta - step_size * descent)
            bound *= decay
            same_theta = []
        if not theta.any():
            notes.append(
                f"No coefficient clears the noise, which is {noise:.2g} per coordinate "
                f"after {gradient.count} reports: more users or a larger epsilon are needed."
            )
        return LinearResult(
            coef=theta, std_error=np.where(theta != 0, np.sqrt(variance), 0.0), notes=notes
        )

    def _without_noise(self, gradient: Floats, noise: float) -> Floats:
        if self.sparsity is None:
            return with_least_risk(gradient, noise**2)
        return keep_above(gradient, noise * ndtri(1 - _FALSE_ALARM / (2 * self.dim)))

    def _constrained(self, theta: Floats) -> Floats:
        if self.sparsity is not None:
            theta = keep_largest(theta, self.sparsity)
        return theta if self.radius is None else project_on_ball(theta, self.radius)

    def _estimate_cap(self, cohort: Cohort, direction: Floats) -> Generator[Ask, Estimate, float]:
        """Ask for users' typical curvature, to cut off squares well above what it surely is."""
        question = partial(RootCurvature, direction)
        root = yield from estimate_norm(cohort, self.epsilon, question, 2.0)
        return _CAP * max(1.0, (root.value * math.exp(-root.log_error)) ** 2)

    def _estimate_step_size(
        self, cohort: Cohort, direction: Floats, cap: float
    ) -> Generator[Ask, Estimate, float]:
        """Ask a cohort for the curvature along a direction; one standard error too much.

        The fewer answer, the smaller the step; if nobody does, there is none.
        """
        randomizer = number_randomizer(self.epsilon, 1.0)
        answer = yield Ask(cohort, Curvature(direction, cap), randomizer, min_reports=0)
        curvature = cap / 2 * float(1 + answer.mean[0] + answer.std_error[0])
        longest = _LONGEST_STEP if self.sparsity is None else 1.0
        return min(longest, 1 / max(curvature, 0.5))


def _pooled(estimates: list[Estimate]) -> Estimate:
    """Average estimates of the same mean from disjoint users."""
    counts = np.array([estimate.count for estimate in estimates])
    shares = (counts / counts.sum())[:, None]
    mean = (shares * [estimate.mean for estimate in estimates]).sum(axis=0)
    variance = (shares**2 * [estimate.std_error**2 for estimate in estimates]).sum(axis=0)
    return Estimate(mean, np.sqrt(variance), int(counts.sum()))
