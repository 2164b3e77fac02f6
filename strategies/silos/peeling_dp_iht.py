"""Peeling DP-IHT: sparse regression with very many features over few silos."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users
from ldp_flower.guarantee.questions import Gradient
from ldp_flower.randomizers import Estimate, RecordPeeling
from ldp_flower.validation import check_integer, check_positive
from ldp_flower.values.links import LINKS

from ..numerics.denoising import keep_largest, project_on_ball
from ..runtime.base import Protocol
from ..runtime.card import Card
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.result import LinearResult
from .base import SiloRegression

Floats = NDArray[np.float64]

_PRIOR = 1.5  # the first bound on residuals, in scales of the targets
_SHRINKAGE = 0.5  # of that bound from step to step
_FLOOR = 0.5  # of that bound, in scales of the noise


@dataclass(kw_only=True, eq=False, repr=False)
class PeelingDpIht(SiloRegression):
    """Sparse regression from the largest coordinates of silos' noisy steps.

    Every silo is one user of a node. In every step it moves the current estimate along
    the gradient of its records, and reports which coefficients are the largest then, and
    their values, both with noise. Noise falls on as many coordinates as the estimate
    has, instead of all. For one silo, or a few: choices of many silos do not average out.

    Parameters
    ----------
    dim : int
        Number of features.
    sparsity : int
        Number of coefficients that may differ from zero.
    epsilon : float
        Privacy parameter of everything that a silo reports, about each of its records.
    delta : float
        Privacy parameter likewise, in (0, 1).
    target_scale : float, optional
        Root mean square of the targets, a public guess; the squared loss needs it.
        Residuals are clipped at 1.5 times that at first.
    noise_scale : float, optional
        Standard deviation of the targets given the features, a public guess; by default
        half of ``target_scale``. The clip shrinks to half of that.
    feature_bound : float (default: 1.0)
        Features are clipped to ``[-feature_bound, feature_bound]``.
    feature_variance : float (default: 1.0)
        Mean square of a feature: 1 for signs, 1/3 for uniform features. Steps are its
        inverse, four times that for the logistic loss.
    num_steps : int (default: 5)
        Number of steps; every silo answers each.
    link : {"identity", "logistic"} (default: "identity")
        Squared loss, or logistic loss for targets 0 and 1.
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients.
    min_reports : int (default: 1)
        Fewest silos with which a step goes on.

    Notes
    -----
    Not in Wang & Xu (2019): the private hard thresholding of Cai, Wang & Zhang, "The cost
    of privacy" (2021), with Gumbel noise, tighter accounting and a shrinking clip. The
    paper's dense noise (:class:`DpIht`) drowns everything at a thousand features and a
    few thousand records.

    ``std_error`` is the noise of the last step's values; it leaves out what the
    earlier ones left to do, and the choice.

    Guarantee
    ---------
    1. Protected: every record of every silo, against any other record in its place, at
       (``epsilon``, ``delta``) for the whole run, against everybody but its own silo.
       A person with several records, or records in several silos, is protected less.
    2. The steps are one plan of the silo's ledger, paid as a whole with the first: see
       :class:`ldp_flower.randomizers.RecordPeeling` for the composition.
    3. How many records a silo has is public, declared by its operator. No guarantee rests
       on that number.
    4. No matter what the strategy sends, the clients' mechanisms and ledgers enforce this
       on their side.
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

    target_scale: float | None = None
    noise_scale: float | None = None
    feature_bound: float = 1.0
    feature_variance: float = 1.0
    num_steps: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_steps", self.num_steps, 1)
        check_positive("feature_bound", self.feature_bound)
        check_positive("feature_variance", self.feature_variance)
        wanted = None if self.target_scale is None else _PRIOR * self.target_scale
        first = self._score_bound(wanted if self.link == "identity" else None, "target_scale")
        usual = first / _PRIOR / 2
        self._noise_scale = usual if self.noise_scale is None else self.noise_scale
        check_positive("noise_scale", self._noise_scale)
        self.randomizer(first)  # refuses a bad epsilon now
        self._first_bound = first

    def randomizer(self, residual_bound: float) -> RecordPeeling:
        """Return the mechanism of a step with this bound on residuals."""
        bound = residual_bound * self.feature_bound
        return RecordPeeling(
            self.epsilon, self.dim, bound, self.delta, self.num_steps, self.sparsity
        )

    def residual_bounds(self) -> list[float]:
        """Return the bound on residuals of every step."""
        if self.link == "logistic":
            return [self._first_bound] * self.num_steps
        floor = min(_FLOOR * self._noise_scale, self._first_bound)
        shrunk = (self._first_bound * _SHRINKAGE**t for t in range(self.num_steps))
        return [max(bound, floor) for bound in shrunk]

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield both losses."""
        return super().audit_runs(dim, epsilon, target_scale=1.0)

    def protocol(self) -> Protocol:
        """Let everybody peel the moved estimate; ``num_steps`` times."""
        theta, noise = yield from self.descend(self.everyone())
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
            moved = yield Ask(cohort, question, self.randomizer(bound))
            theta = project_on_ball(
                keep_largest(-step_size * moved.mean, self.sparsity), self.radius
            )
            noise = step_size * float(moved.std_error[0])
        return theta, noise
