"""PrivateFrankWolfe: a strategy for regression in an l1 ball, with one noisy vertex per step."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import RecordVertices
from ldp_flower.validation import Count, Positive

from ..runtime import Ask, Card, LinearResult, Protocol, Run, ask_on
from .base import ClippedSilos, record_guarantee

_STEPS = 20  # smallest default for the number of steps


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateFrankWolfe(ClippedSilos):
    """Strategy for regression in an l1 ball over silos, by the Frank-Wolfe method.

    Every silo is one user of a node. In every step it reports a vertex of the l1 ball, that is, a
    coordinate with a sign. It selects, with noise, the vertex towards which the loss of its records
    grows most. The server moves away from the average of the reported vertices. The noise grows
    only with the logarithm of the number of features. The steps are cautious. With independent
    features the error is up to twice that of :class:`PeelingDpIht`. With correlated features it is
    smaller, since the steps of :class:`PeelingDpIht` are then too long.

    Other parameters are those of :class:`~.base.ClippedSilos`, except ``radius``.

    Parameters
    ----------
    l1_radius : float
        Bound on the sum of the coefficients' absolute values, a public guess.
    num_steps : int, optional
        Number of steps. Every silo answers in each step. By default 20, or twice the sparsity if
        that is larger. After T steps the loss is within about 2 / T of the best in the ball.

    Notes
    -----
    Source: Talwar, Thakurta & Zhang, "Nearly optimal private LASSO" (2015), Algorithm 2.
    Changes: residuals are clipped at ``target_scale``, since the squared loss has no other bound,
    or at 1/2 for classes; Gumbel noise and zero-concentrated accounting; several silos; all but the
    largest coefficients are set to zero at the end.

    ``std_error`` is NaN, since the noise affects the choice of vertices and is not added to
    coefficients.
    """

    guarantee = record_guarantee("RecordVertices")
    card = Card(
        question="sparse linear or logistic regression over silos",
        guarantee="(epsilon, delta)",
        rounds="20, or 2 a coefficient, all silos",
        report="8",
        use_when="features are correlated",
        fails_when="with few records: 800 leave a relative error of .43 at epsilon 2, and .88 for "
        "classes",
        page="silos",
    )
    _audited: ClassVar = {"l1_radius": 1.0, "target_scale": 1.0}

    l1_radius: Positive
    num_steps: Count | None = None
    radius: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._num_steps = self.num_steps or max(_STEPS, 2 * self.sparsity)
        self.randomizer()  # raises an error now if epsilon is invalid

    def randomizer(self) -> RecordVertices:
        """Return the mechanism of every step."""
        bound = self._first_bound * self.feature_bound
        return RecordVertices(self.epsilon, self.dim, bound, self.delta, self._num_steps)

    def protocol(self, run: Run) -> Protocol:
        """Ask all silos in each step for the signed coordinate along which their loss grows most.

        Move towards the opposite of the average report, scaled to the l1 ball, by 2 / (n + 3) of
        the way in step n, from 0. Stop early if a later step has no answer. Set all but the
        ``sparsity`` largest coefficients to zero and return them.
        """
        theta = np.zeros(self.dim)
        everyone, randomizer = self.everyone(run), self.randomizer()
        for number in range(self._num_steps):
            question = self._gradient(theta, self._first_bound)
            uphill = yield from ask_on(Ask(everyone, question, randomizer), number > 0)
            if uphill is None:
                break
            theta = theta + 2 / (number + 3) * (-self.l1_radius * uphill.mean - theta)
        theta = keep_largest(theta, self.sparsity)
        return LinearResult(coef=theta, std_error=np.where(theta != 0, np.nan, 0.0))
