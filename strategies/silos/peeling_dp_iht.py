"""Peeling DP-IHT: sparse regression with very many features over few silos."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldp_flower.guarantee.questions import Gradient
from ldp_flower.iht import keep_largest, project_on_ball
from ldp_flower.randomizers import Estimate, RecordPeeling
from ldp_flower.validation import Floats
from ldp_flower.values.links import LINKS

from ..runtime.base import Card
from ..runtime.coefficients import LinearResult
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.run import Protocol, Run, TooFewReports
from .base import ShrinkingClip


@dataclass(kw_only=True, eq=False, repr=False)
class PeelingDpIht(ShrinkingClip):
    """Sparse regression from the largest coordinates of silos' noisy steps.

    Every silo is one user of a node. In every step it moves the current estimate along
    the gradient of its records, and reports which coefficients are the largest then, and
    their values, both with noise. Noise falls on as many coordinates as the estimate
    has, instead of all. For one silo, or a few: choices of many silos do not average out.

    Other parameters are those of :class:`~.base.ShrinkingClip`.

    Parameters
    ----------
    num_steps : int (default: 5)
        Number of steps; every silo answers each.

    Notes
    -----
    Not in Wang & Xu (2019): the private hard thresholding of Cai, Wang & Zhang, "The cost
    of privacy" (2021), with Gumbel noise, tighter accounting and a shrinking clip. The
    paper's dense noise (:class:`DpIht`) drowns everything at a thousand features and a
    few thousand records.

    With the squared loss residuals are clipped at 1.5 times ``target_scale`` at first, and
    at half of that from step to step, down to half of ``noise_scale``.

    ``std_error`` is the noise of the last step's values; it leaves out what the
    earlier ones left to do, and the choice.

    Guarantee
    ---------
    1. That of :class:`DpIht`: (``epsilon``, ``delta``) for each record and the whole run.
    2. The steps are one plan of the silo's ledger, paid as a whole with the first: see
       :class:`ldp_flower.randomizers.RecordPeeling` for the composition.
    """

    card = Card(
        question="sparse linear or logistic regression over silos",
        guarantee="(epsilon, delta)",
        rounds="5, all silos in each",
        report="8 a coefficient",
        use_when="features are very many and silos one or few",
        fails_when="over more than some 20 silos, where choices do not average out: over 50 its "
        "error is .24, that of `DpIht` .21",
        page="silos",
    )
    no_plan = (
        "What its choices of coefficients cost depends on how far apart features' scores are, "
        "which no public number shows: simulate it on synthetic records of the same size."
    )
    _audited: ClassVar = {"target_scale": 1.0}

    num_steps: int = 5

    _prior, _shrinkage, _floor = 1.5, 0.5, 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.randomizer(self._first_bound)  # refuses a bad epsilon now

    def randomizer(self, residual_bound: float) -> RecordPeeling:
        """Return the mechanism of a step with this bound on residuals."""
        bound = residual_bound * self.feature_bound
        return RecordPeeling(
            self.epsilon, self.dim, bound, self.delta, self.num_steps, self.sparsity
        )

    def protocol(self, run: Run) -> Protocol:
        """Let everybody peel the moved estimate; ``num_steps`` times."""
        theta, noise = yield from self.descend(self.everyone(run))
        return LinearResult(coef=theta, std_error=np.where(theta != 0, noise, 0.0))

    def descend(self, cohort: Cohort) -> Generator[Ask, Estimate, tuple[Floats, float]]:
        """Return the estimate of a cohort, and the noise of the last step's values."""
        theta, noise = np.zeros(self.dim), 0.0
        step_size = 1 / (LINKS[self.link].curvature * self.feature_variance)
        for bound in self.residual_bounds():
            question = Gradient(
                theta,
                centre=-theta / step_size,
                feature_bound=self.feature_bound,
                residual_bound=bound,
                link=self.link,
            )
            try:
                moved = yield Ask(cohort, question, self.randomizer(bound))
            except TooFewReports:
                if not noise:
                    raise
                break
            theta = project_on_ball(
                keep_largest(-step_size * moved.mean, self.sparsity), self.radius
            )
            noise = step_size * float(moved.std_error[0])
        return theta, noise
