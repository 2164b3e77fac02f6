"""Base classes of SparseRegression and SparseMean: a vote, then waves, and one posterior.

A wave is a round of vector reports. It comes after the vote.
"""

import math
from abc import abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import Question, ResidualCoefficients
from ldp_flower.randomizers import Estimate, Randomizer, ball_codebook
from ldp_flower.validation import Count, Floats, check_integer

from ..numerics.denoising import shortened_slope
from ..numerics.spike_and_slab import Evidence, Posterior, posterior
from ..runtime import Ask, Cohort, FeatureStrategy, LinearResult, Protocol, Run, TooFewReports
from ..subprotocols.scales import USERS_SPREAD, TargetScale
from ..subprotocols.vote import ask_vote, best_vote, enough_voters, needed_for_selection

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class SparseResult(LinearResult):
    """A result whose coefficients are posterior means.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        Posterior means. For coefficients that are probably zero, they are close to zero, but not
        zero. With noise at the node they are least squares coefficients, or zero.
    std_error : ndarray of float64, shape (dim,)
        Standard errors from the reports about each coefficient alone, without a prior on sparsity
        and sizes. They are large if few reports after the vote informed about the coefficient.
    inclusion : ndarray of float64, shape (dim,)
        Posterior probability that a coefficient is not zero.
    """

    inclusion: Floats

    @property
    def support(self) -> NDArray[np.int64]:
        """Indices of the coefficients with an inclusion probability above one half."""
        return np.flatnonzero(self.inclusion > 0.5)

    def table(self) -> "DataFrame":
        """Return the coefficients by name, with the probability that each is not zero."""
        return super().table().assign(**{"probability of not zero": self.inclusion})


def water_fill(variances: Floats, information: float) -> Floats:
    """Return the shares of information that minimise the total variance (water-filling).

    The waves share their precision between coordinates by it. ``variances`` are the coordinates',
    and ``information`` is the precision that reports add if all of it goes to one coordinate. The
    shares are non-negative, add up to 1 and minimise ``sum 1 / (1 / variances + information *
    shares)``. Precisions are raised to a common level. A coordinate above that level gets 0.
    """
    precision = 1 / variances
    ordered = np.sort(precision)
    levels = (information + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    level = levels[np.flatnonzero(levels > ordered)[-1]]
    return np.asarray(np.maximum(level - precision, 0.0) / information)


Integers = NDArray[np.int64]

_FEWEST_VOTERS, _MOST_VOTERS = 0.3, 0.55  # smallest and largest share of the users who vote
# Number of voters that find a coefficient nearly always, over the number that find it usually.
_SURELY = 4
CENTRED = 0.3  # inclusion probability above which users subtract a coefficient's mean
_NEGLIGIBLE = 1e-3  # a share of information below this part of the largest is dropped
# Clipping radius over the root mean square norm of a user's vector, as in UserLevelMean. In ten
# settings .75, .85 and 1 had the same errors within 4 %, and so had ten waves instead of six.
_CLIP = 0.75
# Clipping radius for the users' common vector, over its norm; so it is not clipped.
_WIDE = 1.5
# Part of a wave's squared step that is assumed to remain: a tenth of the step.
_STEP_LEFT = 0.01
# A wave's mean is saturated if its squared norm exceeds this part of the squared radius.
_SATURATED = 0.7
_LEAST_REST = 0.02  # smallest unexplained share of the mean square
_TYPICAL_ACTIVE = 32  # assumed number of active coordinates; precision hardly depends on it
# Smallest and largest squared norm of the coordinate that refines the scale, over that of the other
# coordinates of a wave's vector.
_SCALE_ENERGY, _MOST_SCALE_ENERGY = 0.05, 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class SparseWaves(FeatureStrategy[SparseResult]):
    """Base class of strategies that estimate a sparse vector of which users hold noisy versions.

    The model of a user's data is ``rows`` observations of a linear model with unit columns. Its
    coefficients, in units of the observations' scale, have a norm of at most 1. Subclasses define
    the questions.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy`.

    Parameters
    ----------
    num_waves : int (default: 6)
        Number of rounds after the vote. With few users there are fewer rounds.
    min_reports : int (default: 10)
        Smallest number of reports with which a step goes on.
    """

    _scale_argument: ClassVar[str]  # name of the argument that declares the scale

    num_waves: Count = 6
    min_reports: Count = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 2)
        self._rows, self._score, self._few = self._typical()
        self.randomizer(self.dim, 1.0)  # raises an error now if epsilon is invalid

    @abstractmethod
    def _typical(self) -> tuple[int, float, bool]:
        """Return a user's number of observations, a coefficient's mean score, and if there are few.

        They are public guesses. The score is in standard deviations in one user's data. The third
        is True if the coefficients are few enough for waves without a vote.
        """

    @abstractmethod
    def _learn_scale(self, run: Run) -> Generator[Ask, Estimate, TargetScale]:
        """Return the declared or estimated scale; with a variance of 0, waves do not refine it."""

    @abstractmethod
    def _selection(self, set_size: int) -> Question:
        """Return the question for the ``set_size`` coordinates that a user votes for."""

    @abstractmethod
    def _difference(
        self, centre: Floats, rest: float, active: Integers, weights: Floats, scale: TargetScale
    ) -> Question:
        """Return the question for a user's coefficients minus ``centre``, times ``weights``.

        ``rest`` is the share of the observations' mean square that ``centre`` does not explain.
        Differences are in units in which ``rest`` is 1.
        """

    @abstractmethod
    def _moments(self, num_active: int) -> tuple[float, float]:
        """Return the factor by which one user's estimate shrinks ``num_active`` coefficients.

        The second number is the variance of each, times the number of the user's observations.
        """

    @abstractmethod
    def _coefficients(self, belief: Posterior, scale: TargetScale) -> tuple[Floats, Floats]:
        """Return the coefficients and standard errors in the data's units."""

    @abstractmethod
    def _showing(self) -> tuple[str, str, float]:
        """Return three parts of the note on a result in which every coefficient is probably zero.

        They are the word for a coefficient, a phrase for one that is worth finding, and that one's
        mean score. The note computes from the score how many users would be needed to find it.
        """

    def _notes(self, belief: Posterior, scale: TargetScale, num_users: int) -> list[str]:
        """Return the result's notes."""
        notes = scale.notes(self._scale_argument)
        if not (belief.inclusion > 0.5).any():
            one, large, score = self._showing()
            needed = needed_for_selection(large, self.epsilon, self.dim, score, num_users)
            notes.append(
                f"No {one} is more likely than not to differ from zero, and returning (almost) "
                f"zero is the best guess. {needed}"
            )
        return notes

    def _unexplained(self, centre: Floats) -> float:
        """Return the share of the observations' mean square that ``centre`` does not explain."""
        return 1 - float(centre @ centre)

    def randomizer(self, dim: int, radius: float) -> Randomizer:
        """Return the mechanism for a wave's vectors of ``dim`` coordinates."""
        return ball_codebook(self.epsilon, dim, radius)

    def protocol(self, run: Run) -> Protocol:
        """Run the vote and the waves; return the coefficients by their posterior."""
        return (yield from self._posterior(run))[0]

    def _posterior(self, run: Run) -> Generator[Ask, Estimate, tuple[SparseResult, TargetScale]]:
        """Run scale, vote and waves; return the posterior's result, and the estimated scale."""
        scale = yield from self._learn_scale(run)
        evidence = Evidence(self.dim, self._rows)
        if voters := self._num_voters(run.num_unasked):
            (cohort,) = run.cohorts([voters])
            oracle = best_vote(self.epsilon, self.dim, self._score)
            evidence.vote = yield from ask_vote(cohort, oracle, self._selection, self._rows)
        belief = posterior(evidence)
        for information, cohort in self._waves(run):
            try:
                scale = yield from self._wave(cohort, information, belief, evidence, scale)
            except TooFewReports:
                if not evidence.precision.any():
                    raise
                break
            belief = posterior(evidence)
        # Waves contradict each other if they have not converged.
        belief = replace(belief, deviation=belief.deviation * evidence.scatter())
        coef, std_error = self._coefficients(belief, scale)
        notes = self._notes(belief, scale, run.num_users)
        result = SparseResult(
            coef=coef, std_error=std_error, notes=notes, inclusion=belief.inclusion
        )
        return result, scale

    def _num_voters(self, users: int) -> int:
        """Return the number of users who vote; 0 if the coefficients are few."""
        if self._few:
            return 0
        enough = _SURELY * enough_voters(self.epsilon, self.dim, self._score)
        return int(np.clip(enough, _FEWEST_VOTERS * users, _MOST_VOTERS * users))

    def _waves(self, run: Run) -> Iterator[tuple[float, Cohort]]:
        """Yield, for each wave, the precision that all remaining users can add, and its cohort."""
        waves = min(self.num_waves, max(1, run.num_unasked // self.min_reports))
        precision = self._rows / self.randomizer(_TYPICAL_ACTIVE, 1.0).variance
        for left in range(waves, 0, -1):
            remaining = run.num_unasked
            (cohort,) = run.cohorts([remaining // left])
            yield precision * remaining, cohort

    def _wave(
        self,
        cohort: Cohort,
        information: float,
        belief: Posterior,
        evidence: Evidence,
        scale: TargetScale,
    ) -> Generator[Ask, Estimate, TargetScale]:
        """Ask the cohort of a wave, add its reports to ``evidence``, and return the scale.

        Users report their coefficients minus the current estimate. The weight of a coordinate
        grows with the information that reports can add about it.
        """
        centre = np.where(belief.inclusion > CENTRED, belief.mean, 0.0)
        uncertain = float(belief.variance.sum())
        rest = max(self._unexplained(centre), uncertain, _LEAST_REST)
        shares = water_fill(belief.variance, information)
        active = np.flatnonzero(shares > _NEGLIGIBLE * shares.max())
        shares, weights = shares[active], np.sqrt(shares[active])
        factor, noise = self._moments(len(active))
        noise /= self._rows
        errors = belief.variance[active] + (belief.mean - centre)[active] ** 2
        first = not evidence.precision.any()
        # The users' common difference is at most ``rest``, and in the first wave it is assumed to
        # be that large.
        most = float(shares.max())
        signal = (
            most / _WIDE**2 if first else min(evidence.boost * float(shares @ errors) / rest, most)
        )
        users, shift = float(shares.sum()) * noise, factor**2 * signal
        energy = users + shift
        question = self._difference(centre, rest, active, weights, scale)
        degrees = float(shares.sum() ** 2 / (shares @ shares))
        # The radius clips the spread between users, but not their common shift.
        radius = math.sqrt(_CLIP**2 * users + _WIDE**2 * shift)
        kept = float(shortened_slope(max(degrees, 2.0), radius / math.sqrt(energy)))
        scale_weight = scale_energy = 0.0
        if scale.variance:
            # The scale's share of the squared norm is its share of the error.
            along = scale.variance * float(belief.mean @ belief.mean)
            part = along / (along + uncertain)
            scale_energy = min(max(part, _SCALE_ENERGY), _MOST_SCALE_ENERGY)
            scale_weight = math.sqrt(scale_energy * energy / scale.spread)
            assert isinstance(question, ResidualCoefficients)  # no other question has a scale
            question = replace(question, scale=scale.value, scale_weight=scale_weight)
        dim = len(active) + (scale_weight > 0)
        radius *= math.sqrt(1 + scale_energy)
        mechanism = self.randomizer(dim, radius)
        answer = yield Ask(cohort, question, mechanism)
        mean = answer.mean[: len(active)]
        unit = math.sqrt(rest) / (factor * kept * weights)
        variance = (mechanism.variance + shares * noise) / answer.count * unit**2
        moved = (unit * mean) ** 2
        left = _STEP_LEFT * (belief.variance[active] + np.maximum(moved - variance, 0.0))
        # If the mean is about as long as the radius, all reports were clipped.
        square = float(mean @ mean) - len(active) * mechanism.variance / answer.count
        saturated = not first and square > _SATURATED * radius**2
        if saturated:
            left = left + float(moved.sum()) / len(active)
        evidence.boost = 4 * evidence.boost if saturated else max(1.0, evidence.boost / 4)
        evidence.add(active, centre[active] + unit * mean, variance + left)
        if not scale_weight:
            return scale
        scale_unit = 1 / (kept * scale_weight)
        scale_variance = mechanism.variance * scale_unit**2 + USERS_SPREAD**2
        return scale.updated(scale_unit * answer.mean[-1], scale_variance / answer.count)
