"""DP-IHT: a strategy for sparse regression over silos that protects single records."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldp_flower.questions import Gradient
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.sparse import keep_largest, project_on_ball
from ldp_flower.randomizers import RecordGaussian
from ldp_flower.validation import Count, Positive, check_positive

from ..runtime import Ask, Card, LinearResult, Protocol, Run, ask_on
from .base import Link, SiloRegression, record_guarantee

# In the first steps, this multiple of the sparsity is kept, as in the theory.
_WIDER = 8
_AT_FIRST = 0.6  # share of the steps with that multiple
_RUNS_AWAY = 50.0  # largest linear predictor of a row without a note
_RUN_AWAY = (
    "The coefficients are far too large: the classes may be separable, or the noise too large. A "
    "radius would bound them."
)


@dataclass(kw_only=True, eq=False, repr=False)
class DpIht(SiloRegression):
    """Strategy for sparse empirical risk minimisation over silos with many records each.

    Every silo (for example a hospital) is one user of a node. In every step it clips the gradients
    of its records, and reports their sum with Gaussian noise. The server averages over all records,
    takes a step and keeps the largest coefficients. It needs some ten thousand records in all. For
    few silos and very many features, use :class:`PeelingDpIht`.

    Other parameters are those of :class:`~.base.SiloRegression`.

    Parameters
    ----------
    num_steps : int (default: 50)
        Number of steps. Every silo answers in each step. The noise grows with the square root of
        this number.
    link : {"identity", "logistic"} (default: "logistic")
        Squared loss, or logistic loss for targets 0 and 1 (or -1 and 1).
    ridge : float (default: 0.0)
        Weight of half the squared norm of the coefficients. It uses no data and costs no privacy.
    row_bound : float (default: 1.0)
        Euclidean norm at which rows are clipped. The loss is that of the clipped rows.
    residual_bound : float, optional
        Bound at which ``<x, theta> - y`` is clipped. The squared loss requires it. The default for
        the logistic loss is 1.
    largest_moment : float, optional
        Bound on the largest eigenvalue of the second moment of the (clipped) rows, if a better one
        than ``row_bound**2`` is public. The step size is inversely proportional to it.

    Notes
    -----
    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy
    Model", ICML 2019, Algorithm 3. Changes: the noise, which has an unspecified constant there, is
    calibrated by the exact composition of the steps; gradients are clipped record by record, since
    the squared loss has no other bound; the step size is public, not searched for on the data;
    steps have Nesterov's momentum, so that the safe step size converges in fifty steps; the first
    steps keep eight times as many coefficients, so that the right ones are among them if features
    are correlated (the theory keeps as many to the end); silos add the noise, so no trusted server
    is needed.

    ``std_error`` covers the noise only. It assumes isotropic rows of norm ``row_bound`` and classes
    that are hard to distinguish. Otherwise errors are larger.
    """

    guarantee = record_guarantee("RecordGaussian")
    card = Card(
        question="sparse linear or logistic regression over silos",
        guarantee="(epsilon, delta)",
        rounds="50, all silos",
        report="4 a feature",
        use_when="silos have some ten thousand records in all",
        fails_when="with few records: 200 with 54 features at epsilon 0.5 give noise",
        page="silos",
    )
    no_plan = (
        "The error after fifty steps depends on how features vary together, which no public "
        "number shows: simulate it on synthetic records of the same size."
    )
    _audited: ClassVar = {"residual_bound": 1.0}

    num_steps: Count = 50
    link: Link = "logistic"
    ridge: float = 0.0
    row_bound: Positive = 1.0
    residual_bound: float | None = None
    largest_moment: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge != 0:
            check_positive("ridge", self.ridge)
        self._residual_bound = self._score_bound(self.residual_bound, "residual_bound")
        self._largest_moment = self.largest_moment or self.row_bound**2
        self.randomizer()  # raises an error now if epsilon is invalid

    def randomizer(self) -> RecordGaussian:
        """Return the mechanism of every step."""
        bound = self._residual_bound * self.row_bound
        return RecordGaussian(self.epsilon, self.dim, bound, self.delta, self.num_steps)

    @property
    def step_size(self) -> float:
        """Step size: the inverse of the largest curvature."""
        return 1 / (LINKS[self.link].curvature * self._largest_moment + self.ridge)

    def protocol(self, run: Run) -> Protocol:
        """Query all silos for gradients in ``num_steps`` steps; return the coefficients."""
        theta = before = np.zeros(self.dim)
        covariance = np.zeros((2, 2))
        # Curvature of the loss along an axis, if rows are isotropic and have the norm row_bound.
        curvature = LINKS[self.link].curvature * self.row_bound**2 / self.dim + self.ridge
        everyone, step_size = self.everyone(run), self.step_size
        for number in range(self.num_steps):
            momentum = number / (number + 3)
            ahead = theta + momentum * (theta - before)
            question = Gradient(
                ahead, row_bound=self.row_bound, residual_bound=self._residual_bound, link=self.link
            )
            gradient = yield from ask_on(Ask(everyone, question, self.randomizer()), number > 0)
            if gradient is None:
                break
            moved = ahead - step_size * (gradient.mean + self.ridge * ahead)
            wide = self.sparsity * (_WIDER if number + 1 < _AT_FIRST * self.num_steps else 1)
            moved = project_on_ball(keep_largest(moved, wide), self.radius)
            before, theta = theta, moved
            # Covariance of a coefficient's noise in the last two iterates, for a quadratic loss.
            kept = 1 - step_size * curvature
            step = np.array([[kept * (1 + momentum), -kept * momentum], [1.0, 0.0]])
            covariance = step @ covariance @ step.T
            covariance[0, 0] += (step_size * float(gradient.std_error[0])) ** 2
        # At this size of a classifier's linear predictor, probabilities are about 1e-22.
        longest = float(np.linalg.norm(theta)) * self.row_bound
        notes = [_RUN_AWAY] if self.link == "logistic" and longest > _RUNS_AWAY else []
        errors = np.where(theta != 0, math.sqrt(covariance[0, 0]), 0.0)
        result = LinearResult(coef=theta, std_error=errors, notes=notes).with_significance_note()
        return result if result.notes else result.with_support_note(self.sparsity)
