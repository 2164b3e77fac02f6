"""TwoStageRegression: choose coordinates privately, then descend in these alone."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.iht import keep_largest, project_on_ball
from ldp_flower.randomizers import ConcentratedGaussian, Estimate, RecordVertices
from ldp_flower.validation import Count

from ..runtime import Ask, Card, Cohort, LinearResult, Protocol, Run, ask_on
from .base import ShrinkingClip, record_guarantee

Integers = NDArray[np.int64]

_CHOICE = 0.7  # the bound on targets while coordinates are chosen, in their scale
_LONG = 1.05  # a record's length over its root mean square, that is kept


@dataclass(kw_only=True, eq=False, repr=False)
class TwoStageRegression(ShrinkingClip):
    """Regression over silos: a private choice of features, then noisy gradient steps.

    Every silo is one user of a node. First silos name the features that go along with their
    targets most, one by one without replacement, with noise; then they report their mean
    gradients in the chosen features, with Gaussian noise. For classes; with the squared loss
    :class:`PeelingDpIht`, which may correct a choice, is better.

    Other parameters are those of :class:`~.base.ShrinkingClip`.

    Parameters
    ----------
    num_steps : int (default: 3)
        Number of gradient steps, and of questions (at most ``sparsity``) in which the
        features are chosen.

    Notes
    -----
    Source: the two stages of Kifer, Smith & Thakurta, "Private convex empirical risk
    minimization and high-dimensional regression" (2012). Their selection tries all sets of
    features, or assumes that the data are stable, and their objective perturbation needs
    exact minimisers; here selection is by exponential mechanisms and needs no assumption, and
    gradient steps take the place of the minimiser.

    Both stages share one plan of equal reports, so that about half of the budget goes into
    the choice. With the squared loss residuals are clipped at ``target_scale`` in the first
    gradient step, and at 0.7 times that from step to step, down to 0.8 times ``noise_scale``.
    ``std_error`` is the noise of the last step; it leaves out what the earlier ones left to do,
    and the choice.
    """

    guarantee = record_guarantee("RecordVertices")
    card = Card(
        question="sparse linear or logistic regression over silos",
        guarantee="(epsilon, delta)",
        rounds="6, all silos",
        report="some 4 a coefficient",
        use_when="targets are classes and records few",
        fails_when="for numbers from epsilon 2 on: with 800 records a relative error of .34, by "
        "`PeelingDpIht` of .20",
        page="silos",
    )
    _audited: ClassVar = {"target_scale": 1.0}

    num_steps: Count = 3

    _shrinkage, _floor = 0.7, 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        self.choice(self.dim, 1)  # refuses a bad epsilon now

    @property
    def num_choices(self) -> int:
        """Number of questions in which features are chosen."""
        return min(self.num_steps, self.sparsity)

    def choice(self, candidates: int, how_many: int) -> RecordVertices:
        """Return the mechanism that chooses features among so many candidates."""
        steps = self.num_choices + self.num_steps
        bound = self._choice_bound * self.feature_bound
        return RecordVertices(self.epsilon, candidates, bound, self.delta, steps, how_many)

    def randomizer(self, num_chosen: int, residual_bound: float) -> ConcentratedGaussian:
        """Return the mechanism of a gradient step in the chosen features."""
        steps = self.num_choices + self.num_steps
        usual = _LONG * math.sqrt(self.feature_variance)
        length = min(usual, self.feature_bound) * math.sqrt(num_chosen)
        radius = residual_bound * length
        return ConcentratedGaussian(self.epsilon, num_chosen, radius, self.delta, steps)

    def protocol(self, run: Run) -> Protocol:
        """Choose, then descend."""
        everyone = self.everyone(run)
        chosen = yield from self._choose(everyone)
        theta, noise = np.zeros(self.dim), np.inf
        for bound in self.residual_bounds():
            question = self._gradient(theta, bound, coordinates=chosen)
            ask = Ask(everyone, question, self.randomizer(len(chosen), bound))
            gradient = yield from ask_on(ask, bool(theta.any()))
            if gradient is None:
                break
            theta[chosen] -= self.step_size * gradient.mean
            theta = project_on_ball(theta, self.radius)
            noise = self.step_size * float(gradient.std_error[0])
        return LinearResult(coef=theta, std_error=np.where(theta != 0, noise, 0.0))

    def _choose(self, everyone: Cohort) -> Generator[Ask, Estimate, Integers]:
        """Ask for the steepest coordinates at zero, a few at a time."""
        chosen = np.zeros(0, np.int64)
        for left in range(self.num_choices, 0, -1):
            rest = np.setdiff1d(np.arange(self.dim), chosen)
            how_many = -(-(self.sparsity - len(chosen)) // left)
            mechanism = self.choice(len(rest), how_many)
            at_zero = np.zeros(self.dim)
            question = self._gradient(at_zero, self._choice_bound, coordinates=rest)
            votes = yield Ask(everyone, question, mechanism)
            # A report may name both signs of one feature, which then cancel.
            found = np.flatnonzero(keep_largest(votes.mean, how_many))
            chosen = np.sort(np.append(chosen, rest[found]))
        return chosen if len(chosen) else np.zeros(1, np.int64)

    @property
    def _choice_bound(self) -> float:
        """Bound on the scores at zero: half of the largest one for the logistic loss."""
        return self._first_bound * (_CHOICE if self.link == "identity" else 0.5)
