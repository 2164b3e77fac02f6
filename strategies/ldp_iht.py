"""LDP-IHT: sparse linear regression by private hard thresholding."""

import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldp_flower.links import LINKS
from ldp_flower.randomizers import (
    Codebook,
    Estimate,
    PrivUnit,
    RandomizedResponse,
    Randomizer,
    SubsetHypercube,
)
from ldp_flower.validation import check_choice, check_integer, check_positive

from .base import LdpStrategy, Protocol
from .exchange import Ask
from .population import Cohort
from .result import Fit, LinearResult
from .thresholding import keep_above, keep_largest, project_on_ball

Floats = NDArray[np.float64]

_MAX_STEPS = 6
_CLASSES = 0.6  # bound on the residuals of classes, after the first step
_STANDS_OUT = 4.0  # standard deviations of the noise
_CURVATURE_CAP = 8.0  # squares of <x, direction> are cut off here
_LOG_RANGE = math.log(16)  # the bought gradient norm lies within this factor of its prior
_NUM_ROUNDS = 3  # gradient rounds with several records per user
_CURVATURE_SHARE = 0.15  # of a round's users
_FALSE_ALARM = 0.05  # probability that a gradient of pure noise clears its threshold
_SHRINKAGE = 0.7  # of the gradient bound from round to round


class LdpIht(LdpStrategy[LinearResult]):
    """Sparse linear regression from one randomised gradient per user.

    Users are cut into disjoint cohorts. Every step sends the current estimate to
    one cohort, averages its randomised gradients and hard-thresholds the updated
    estimate. With one record per user a gradient is the clipped residual times the
    record, reported as one or two bytes through :class:`SubsetHypercube`. With
    several, a user reports the mean over its records through :class:`Codebook`.

    Parameters
    ----------
    dim : int
        Number of features.
    sparsity : int
        Number of coefficients that may differ from zero.
    epsilon : float
        Privacy parameter of each user's one report.
    samples_per_user : int (default: 1)
        Typical number of records of a user, a public guess; a user may hold any
        number. With 1, features are expected (and clipped) in [-1, 1]; with more,
        they are expected to be roughly centred and of unit scale.
    radius : float (default: 1.0)
        Bound on the Euclidean norm of the coefficients.
    noise_scale : float (default: 0.04)
        Guessed standard deviation of the targets given the features, which stops
        the residual clip from shrinking below the noise (one record per user).
    feature_variance : float (default: 1.0)
        Mean square of a feature: 1 for signs, 1/3 for uniform features (one record
        per user). The step size is its inverse.
    gradient_bound : float, optional
        Bound on a user's mean gradient at zero (several records per user). By default
        it is bought from a small cohort.
    link : {"identity", "logistic", "cosine"} (default: "identity")
        How targets depend on ``u = <x, coef>``: as ``u`` plus noise, as 0 or 1 with
        probability 1 / (1 + exp(-u)) of the latter, or as ``2 u + cos(u)`` plus noise.
        Others than the first are for one record per user.
    exact : bool (default: True)
        With several records per user, use :class:`Codebook`. False: :class:`PrivUnit`,
        many times faster and not free of floating-point caveats; clients outside
        simulations refuse it unless their operator allows inexact mechanisms.
    min_reports : int (default: 20)
        Fewest reports with which a step goes on.

    Notes
    -----
    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential
    Privacy Model", ICML 2019, Algorithm 1. Changes: the gradient is truncated at
    the new iterate (line 6 is misprinted); cohorts are disjoint and cover everyone
    (line 1 overlaps by one); the randomizer is one that is private for even
    dimensions too; the residual is clipped at a bound that shrinks with the a-priori
    error instead of the worst case, without which the noise drowns everything; few
    users lead to fewer steps and a last step on the selected support only.

    Other links are the paper's section 6 and its non-linear measurements (Yang et al.,
    ICML 2016): the same client with another scalar in front of the record, clipped alike.

    With several records, a step's size comes from a bought curvature (an upper bound
    in most cases), so that a direction in which features vary much does not make it
    diverge. Curvature beyond 8 is not told apart from 8: with many columns that are far
    from centred it does diverge (R2 of -19 where zero has 0; see docs/your-own-data.md).

    Guarantee
    ---------
    1. Protected: a user's whole set of records, against any other set (user-level
       local differential privacy), at pure ``epsilon``.
    2. Every user answers one question in one cohort; cohorts are disjoint and cut by
       public hashes. Later questions depend on data through earlier reports only, so
       the whole is epsilon-LDP by parallel composition, sequentially interactive.
    3. No matter what the strategy sends, the clients' randomizers and ledgers
       enforce this on their side.
    """

    def __init__(
        self,
        dim: int,
        *,
        sparsity: int,
        epsilon: float,
        samples_per_user: int = 1,
        radius: float = 1.0,
        noise_scale: float = 0.04,
        feature_variance: float = 1.0,
        gradient_bound: float | None = None,
        link: str = "identity",
        exact: bool = True,
        min_reports: int = 20,
    ) -> None:
        super().__init__(min_reports=min_reports)
        check_integer("dim", dim, 1)
        check_integer("sparsity", sparsity, 1, dim)
        check_integer("samples_per_user", samples_per_user, 1)
        for name, value in (
            ("radius", radius),
            ("noise_scale", noise_scale),
            ("feature_variance", feature_variance),
            ("gradient_bound", 1.0 if gradient_bound is None else gradient_bound),
        ):
            check_positive(name, value)
        check_choice("link", link, LINKS)
        if link != "identity" and samples_per_user > 1:
            raise ValueError(
                f"Expected samples_per_user = 1 with the link {link}, got {samples_per_user}."
            )
        self.dim = dim
        self.sparsity = sparsity
        self.epsilon = epsilon
        self.samples_per_user = samples_per_user
        self.radius = radius
        self.noise_scale = noise_scale
        self.feature_variance = feature_variance
        self.gradient_bound = gradient_bound
        self.link = link
        self.exact = exact
        self.randomizer()  # refuses a bad epsilon now

    def randomizer(self, bound: float = 1.0, dim: int | None = None) -> Randomizer:
        """Return the mechanism for gradients of ``dim`` coordinates within ``bound``."""
        dim = self.dim if dim is None else dim
        if self.samples_per_user == 1:
            return SubsetHypercube(self.epsilon, dim, bound)
        return (Codebook if self.exact else PrivUnit)(self.epsilon, dim, bound)

    def protocol(self) -> Protocol:
        """Run the variant for one record or for several records per user."""
        if self.samples_per_user == 1:
            return (yield from self._one_record())
        return (yield from self._several_records())

    # ------------------------------------------------------------ one record per user

    def _one_record(self) -> Protocol:
        sizes, refit, step_size = self._plan()
        theta, variance = np.zeros(self.dim), np.zeros(self.dim)
        error = self.radius
        cohorts = self.cohorts(sizes)
        statistic = "gradient" if self.link == "identity" else f"{self.link}_gradient"
        for cohort in cohorts:
            last = refit and cohort is cohorts[-1]
            wanted = np.flatnonzero(theta) if last and theta.any() else np.arange(self.dim)
            bound = self._residual_bound(error, bool(theta.any()))
            randomizer = self.randomizer(bound, len(wanted))
            arrays = {"theta": theta} | ({} if len(wanted) == self.dim else {"coordinates": wanted})
            params = {"residual_bound": bound, "feature_bound": 1.0}
            gradient = yield Ask(cohort, statistic, randomizer, arrays, params)
            noise = math.sqrt(randomizer.variance / gradient.count)
            theta, variance = theta.copy(), (1 - step_size * self._curvature) ** 2 * variance
            theta[wanted] -= step_size * gradient.mean
            variance[wanted] += (step_size * noise) ** 2
            theta = project_on_ball(keep_largest(theta, self.sparsity), self.radius)
            # The error is as small as planned only if the support is right: a gradient
            # that stands out where theta is zero says that it is not.
            missed = np.abs(gradient.mean[theta[wanted] == 0]) > _STANDS_OUT * noise
            if not missed.any():
                error = min(error, max(self._error(noise), error / self._contraction))
        return Fit(theta, np.where(theta != 0, np.sqrt(variance), 0.0))

    @property
    def _curvature(self) -> float:
        """Usual curvature of the loss in each coefficient."""
        return LINKS[self.link].curvature * self.feature_variance

    @property
    def _contraction(self) -> float:
        """How many times smaller a step makes the error at best: less where slopes vary."""
        return 4.0 if self.link == "identity" else 2.0

    def _residual_bound(self, error: float, started: bool = False) -> float:
        """Clip scores at their typical size, given the error of the coefficients."""
        link = LINKS[self.link]
        if link.largest_score < math.inf:
            # All residuals of classes are 1/2 at zero, and their size hardly changes after.
            return link.largest_score * (_CLASSES if started else 0.5)
        slope = math.sqrt(link.curvature)
        typical = slope * error * math.sqrt(self.feature_variance)
        return slope * max(typical, 2 * self.noise_scale + 0.02)

    def _error(self, noise: float) -> float:
        """A-priori error of a thresholded step whose gradient has this noise per coordinate."""
        largest = math.sqrt(2 * self.sparsity * math.log(max(self.dim, 2)))
        return largest * noise / self._curvature

    def _plan(self) -> tuple[list[int], bool, float]:
        """Return the cohorts' sizes, whether the last one refits the support, and the step size.

        As many equal steps as leave each a gradient that is informative; if that is
        fewer than three, a last cohort refits the selected coordinates only, where the
        noise is ``dim / sparsity`` times smaller.
        """
        users = self.num_users
        variance = self.randomizer(self._residual_bound(self.radius)).variance

        def informative(steps: int) -> bool:
            return self._error(math.sqrt(variance * steps / users)) <= 0.7 * self.radius

        steps = next((t for t in range(_MAX_STEPS, 1, -1) if informative(t)), 1)
        if steps >= 3:
            sizes = [users // steps + (i < users % steps) for i in range(steps)]
            return sizes, False, 1 / self._curvature
        first = int(0.7 * users) if steps == 1 else int(0.45 * users)
        second = [] if steps == 1 else [int(0.4 * users)]
        return [first, *second, users - first - sum(second)], True, 1.3 / self._curvature

    # ------------------------------------------------------- several records per user

    def _several_records(self) -> Protocol:
        theta, variance = np.zeros(self.dim), np.zeros(self.dim)
        notes = []
        bound = self.gradient_bound
        if bound is None:
            bound = yield from self._buy_gradient_bound()
        users = self._population.remaining
        sizes = [users // _NUM_ROUNDS + (i < users % _NUM_ROUNDS) for i in range(_NUM_ROUNDS)]
        probes = [round(_CURVATURE_SHARE * size) for size in sizes]
        cohorts = self.cohorts([*(np.array(sizes) - probes).tolist(), *probes])
        same_theta: list[Estimate] = []
        for answerers, probers in zip(cohorts[:_NUM_ROUNDS], cohorts[_NUM_ROUNDS:], strict=True):
            randomizer = self.randomizer(bound)
            same_theta.append((yield Ask(answerers, "gradient", randomizer, {"theta": theta})))
            gradient = _pooled(same_theta)
            noise = math.sqrt(randomizer.variance / gradient.count)
            descent = keep_above(gradient.mean, noise * ndtri(1 - _FALSE_ALARM / (2 * self.dim)))
            if not descent.any():
                continue  # nothing clears the noise: ask more users at the same place
            step_size = yield from self._buy_step_size(probers, descent / np.linalg.norm(descent))
            variance = (1 - step_size) ** 2 * variance + (step_size * gradient.std_error) ** 2
            theta = keep_largest(theta - step_size * descent, self.sparsity)
            theta = project_on_ball(theta, self.radius)
            bound *= _SHRINKAGE
            same_theta = []
        if not theta.any():
            notes.append(
                f"No coefficient clears the noise, which is {noise:.2g} per coordinate "
                f"after {gradient.count} reports: more users or a larger epsilon are needed."
            )
        return Fit(theta, np.where(theta != 0, np.sqrt(variance), 0.0), notes)

    def _buy_gradient_bound(self) -> Generator[Ask, Estimate, float]:
        """Ask a small cohort for the typical norm of a gradient at zero (mean log-norm)."""
        randomizer = RandomizedResponse(self.epsilon)
        wanted = (_LOG_RANGE**2 * randomizer.variance + 0.5) / 0.4**2
        size = min(int(0.12 * self.num_users), math.ceil(wanted))
        (cohort,) = self.cohorts([max(size, self.min_reports)])
        centre = math.sqrt(self.dim) / 2
        answer = yield Ask(
            cohort,
            "gradient_norm",
            randomizer,
            {"theta": np.zeros(self.dim)},
            {"centre": centre, "log_range": _LOG_RANGE},
            min_reports=0,
        )
        return centre * math.exp(_LOG_RANGE * float(np.clip(answer.mean[0], -1, 1)))

    def _buy_step_size(self, cohort: Cohort, direction: Floats) -> Generator[Ask, Estimate, float]:
        """Ask a cohort for the curvature along a direction; one standard error too much.

        The fewer answer, the smaller the step; if nobody does, there is none.
        """
        randomizer = RandomizedResponse(self.epsilon)
        arrays, params = {"direction": direction}, {"cap": _CURVATURE_CAP}
        answer = yield Ask(cohort, "curvature", randomizer, arrays, params, min_reports=0)
        curvature = _CURVATURE_CAP / 2 * float(1 + answer.mean[0] + answer.std_error[0])
        return min(1.0, 1 / max(curvature, 0.5))


def _pooled(estimates: list[Estimate]) -> Estimate:
    """Average estimates of the same mean from disjoint users."""
    counts = np.array([estimate.count for estimate in estimates])
    shares = (counts / counts.sum())[:, None]
    mean = (shares * [estimate.mean for estimate in estimates]).sum(axis=0)
    variance = (shares**2 * [estimate.std_error**2 for estimate in estimates]).sum(axis=0)
    return Estimate(mean, np.sqrt(variance), int(counts.sum()))
