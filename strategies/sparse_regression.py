"""SparseRegression: a set vote, then waves of re-centred and re-weighted coefficients."""

import math
from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, gammaln

from ldp_flower.randomizers import Codebook, Estimate, PrivUnit, Randomizer
from ldp_flower.validation import check_choice, check_integer, check_positive

from .base import LdpStrategy, Protocol
from .exchange import Ask
from .population import Cohort
from .ridge_shrinkage import ridge_moments
from .selectors import SELECTORS
from .set_vote import Vote, best_vote, enough_voters, needed_for_selection
from .sparse_result import SparseFit, SparseResult
from .spike_and_slab import Evidence, Posterior, posterior
from .target_scale import USERS_SPREAD, TargetScale, buy_target_scale, scale_cohorts
from .water_filling import water_fill

Floats = NDArray[np.float64]

_FEWEST_VOTERS, _MOST_VOTERS = 0.3, 0.55  # shares of the users
_TYPICAL = 0.175  # size of a coefficient, in units of the targets' scale
_SURELY = 4  # times the voters that usually find a coefficient find it nearly always
_RIDGE = 1.0  # of the local regressions, in units of a feature's mean square
_CENTRED = 0.3  # inclusion probability above which users subtract a coefficient's mean
_NEGLIGIBLE = 1e-3  # of the largest share of information
_CLIP = 1.0  # radius over the root mean square length of a user's vector
_LEAST_RESIDUAL = 0.25  # share of the targets' variance that always counts as unexplained
_TYPICAL_ACTIVE = 32  # number of features in question; precision hardly depends on it
_DOUBT = 1.2  # a vote tells little of sizes: room for larger ones than are believed
_SCALE_ENERGY = 0.05  # of a wave's vector, for a coordinate that refines the scale
_GUESSED_SCALE = 0.1  # relative error of a declared scale


class SparseRegression(LdpStrategy[SparseResult]):
    """Sparse linear regression for users with many records each; one report per user.

    A first cohort votes: each user names the ``k`` features that matter most to its own
    rows, through :class:`SubsetSelection` with sets. The others answer in waves. A wave's
    users subtract the current estimate from their targets, regress what is left on
    the features that are still in question, and report the coefficients, weighted by
    how much a report can still teach about each, as one vector in a ball. The server
    keeps one posterior over all coefficients and returns its mean. No feature is
    ever cut for good, and sparsity and size of the coefficients need not be known.

    Parameters
    ----------
    dim : int
        Number of features, expected roughly centred and of unit scale.
    epsilon : float
        Privacy parameter of each user's one report.
    samples_per_user : int
        Typical number of records of a user, a public guess; a user may hold any number.
    num_waves : int (default: 6)
        Rounds after the vote; fewer if users are few.
    target_scale : float, optional
        Root mean square of the (centred) targets, if it is public within some 10 %; the
        waves refine it. By default it is bought from a small cohort, which takes
        11 users at epsilon 4, 52 at 2 and 237 at 1, and sometimes twice as many.
    selector : str (default: "lasso")
        How users rank features: ``"lasso"``, ``"post-lasso"`` or ``"pursuit"`` (orthogonal
        matching pursuit), about a millisecond per user, or ``"ridge"`` or ``"marginal"``,
        faster, and worse if features are correlated.
    exact : bool (default: True)
        Report waves through :class:`Codebook`. False: :class:`PrivUnit`, many times faster
        and not free of floating-point caveats; clients outside simulations refuse it
        unless their operator allows inexact mechanisms.
    min_reports : int (default: 10)
        Fewest reports with which a step goes on.

    Notes
    -----
    Source: the setting is that of Ma, Jia & Yang, "Better Locally Private Sparse
    Estimation Given Multiple Samples Per User", ICML 2024; the protocol is not. What a
    report costs is not the dimension but the energy of the vector that is reported,
    so re-centring removes the energy of what is known already and weighting that of
    what is hopeless. Local regressions are ridge regressions with a fixed penalty:
    with unit, independent features they shrink all coefficients by one factor, which
    is known from the Marchenko-Pastur law and undone; with correlated features
    they stay close to the coefficients, where marginal correlations mix neighbours.

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

    result_type = SparseResult

    def __init__(
        self,
        dim: int,
        *,
        epsilon: float,
        samples_per_user: int,
        num_waves: int = 6,
        target_scale: float | None = None,
        selector: str = "lasso",
        exact: bool = True,
        min_reports: int = 10,
    ) -> None:
        super().__init__(min_reports=min_reports)
        check_integer("dim", dim, 2)
        check_integer("samples_per_user", samples_per_user, 1)
        check_integer("num_waves", num_waves, 1)
        check_choice("selector", selector, SELECTORS)
        if target_scale is not None:
            check_positive("target_scale", target_scale)
        self.dim = dim
        self.epsilon = epsilon
        self.samples_per_user = samples_per_user
        self.num_waves = num_waves
        self.target_scale = target_scale
        self.selector = selector
        self.exact = exact
        self.randomizer(dim, 1.0)  # refuses a bad epsilon now

    def randomizer(self, dim: int, radius: float) -> Randomizer:
        """Return the mechanism for a wave's vectors of ``dim`` coordinates."""
        return (Codebook if self.exact else PrivUnit)(self.epsilon, dim, radius)

    def protocol(self) -> Protocol:
        """Buy the scale, let a cohort vote, then refine the posterior wave by wave."""
        if self.target_scale is None:
            scale = yield from self._buy_scale()
        else:
            scale = TargetScale(self.target_scale, _GUESSED_SCALE**2)
        evidence = Evidence(self.dim)
        if voters := self._num_voters():
            evidence.vote = yield from self._vote(*self.cohorts([voters]))
        belief = posterior(evidence)
        for information, cohort in self._waves():
            scale = yield from self._wave(cohort, information, belief, evidence, scale)
            belief = posterior(evidence)
        return SparseFit(
            coef=scale.value * belief.mean,
            std_error=scale.value * np.sqrt(belief.variance),
            notes=self._notes(belief),
            inclusion=belief.inclusion,
        )

    def _buy_scale(self) -> Generator[Ask, Estimate, TargetScale]:
        cohorts = scale_cohorts(self, self.epsilon)
        return (yield from buy_target_scale(cohorts, self.epsilon, self.samples_per_user))

    def _num_voters(self) -> int:
        """Return how many users vote: none where the waves can hold all features at once."""
        if 3 * self.dim <= self.samples_per_user:
            return 0
        users = self._population.remaining
        enough = _SURELY * enough_voters(self.epsilon, self.dim, self.samples_per_user, _TYPICAL)
        return int(np.clip(enough, _FEWEST_VOTERS * users, _MOST_VOTERS * users))

    def _vote(self, cohort: Cohort) -> Generator[Ask, Estimate, Vote]:
        statistic, params = SELECTORS[self.selector]
        oracle = best_vote(self.epsilon, self.dim)
        params = {"set_size": oracle.set_size, **params}
        answer = yield Ask(cohort, statistic, oracle, params=params)
        own, other = float(oracle.own), float(oracle.other)
        counts = np.rint(answer.count * (answer.mean * (own - other) + other))
        return Vote(counts, answer.count, own, other, oracle.set_size, self.samples_per_user)

    def _waves(self) -> Iterator[tuple[float, Cohort]]:
        """Yield cohorts, each with the precision that all users still to come can add."""
        waves = min(self.num_waves, max(1, self._population.remaining // self.min_reports))
        precision = self.samples_per_user / self.randomizer(_TYPICAL_ACTIVE, 1.0).variance
        for left in range(waves, 0, -1):
            remaining = self._population.remaining
            (cohort,) = self.cohorts([remaining // left])
            yield precision * remaining, cohort

    def _wave(
        self,
        cohort: Cohort,
        information: float,
        belief: Posterior,
        evidence: Evidence,
        scale: TargetScale,
    ) -> Generator[Ask, Estimate, TargetScale]:
        """Ask for the residual's coefficients, weighted by what a report can teach of each."""
        centre = np.where(belief.inclusion > _CENTRED, belief.mean, 0.0)
        residual = max(1 - float(centre @ centre), _LEAST_RESIDUAL)  # variance, targets' is 1
        shares = water_fill(belief.variance, information)
        active = np.flatnonzero(shares > _NEGLIGIBLE * shares.max())
        shares, weights = shares[active], np.sqrt(shares[active])
        factor, noise = ridge_moments(len(active) / self.samples_per_user, _RIDGE)
        noise /= self.samples_per_user
        errors = belief.variance[active] + (belief.mean - centre)[active] ** 2
        # What is left is at most the residual's variance, whatever the belief says.
        signal = min(_DOUBT * float(shares @ errors) / residual, float(shares.max()))
        energy = shares.sum() * noise + factor**2 * signal
        scale_weight = math.sqrt(_SCALE_ENERGY * energy / scale.spread)
        mechanism = self.randomizer(
            len(active) + 1, _CLIP * math.sqrt((1 + _SCALE_ENERGY) * energy)
        )
        answer = yield Ask(
            cohort,
            "residual_coefficients",
            mechanism,
            {"theta": centre, "coordinates": active, "weights": weights},
            {"ridge": _RIDGE, "scale": scale.value, "scale_weight": scale_weight},
        )
        kept = _kept_by_clipping(float(shares.sum() ** 2 / (shares @ shares)))
        unit = math.sqrt(residual) / (factor * kept * weights)
        variance = (mechanism.variance + shares * noise) / answer.count * unit**2
        evidence.add(active, centre[active] + unit * answer.mean[:-1], variance)
        scale_unit = 1 / (kept * scale_weight)
        scale_variance = mechanism.variance * scale_unit**2 + USERS_SPREAD**2
        return scale.updated(scale_unit * answer.mean[-1], scale_variance / answer.count)

    def _notes(self, belief: Posterior) -> list[str]:
        if (belief.inclusion > 0.5).any():
            return []
        return [
            "No coefficient is more likely than not to differ from zero, and returning (almost) "
            "zero is the best guess. "
            + needed_for_selection(self.epsilon, self.dim, self.samples_per_user, self.num_users)
        ]


def _kept_by_clipping(degrees: float) -> float:
    """Return ``E min(1, _CLIP / sqrt(x))`` for x a chi-square over its degrees of freedom."""
    degrees = max(degrees, 2.0)
    inverse_root = math.exp(gammaln((degrees - 1) / 2) - gammaln(degrees / 2))
    inverse_root *= math.sqrt(degrees / 2) * chdtrc(degrees - 1, degrees * _CLIP**2)
    return float(chdtr(degrees, degrees * _CLIP**2) + _CLIP * inverse_root)
