"""What a run of LdpFedAvg costs in noise, and how it divides users and path, before it starts."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.expectation import Expectation
from ldp_flower.questions import ClippedUpdate, NormalisedUpdate, UpdateQuestion
from ldp_flower.randomizers import Randomizer, ball_codebook

#: Above the first, results are poor; above the second, useless.
WARN_ABOVE, REFUSE_ABOVE = 0.6, 2.0

_FEWEST_PER_COHORT = 30  # users: a mean of as many reports is all but normal
# Of rows of about length 1. The path of a linear model is sqrt(n / c), with which the noise of a
# logit is about 1. What these paths reach beside the best of 26: docs/model-updates.md.
LONGEST_STEP, LONGEST_PATH, _NET_PATH = 4.0, 100.0, 30.0


@dataclass(frozen=True)
class Reporting:
    """How one update becomes a report."""

    dim: int
    question: UpdateQuestion  # what of its update a client reports
    radius: float  # largest length of what is reported
    randomizer: Randomizer

    @classmethod
    def of(cls, epsilon: float, dim: int, clip: float | None) -> "Reporting":
        """Return how to report updates of unit length, or of at most ``clip``."""
        question = NormalisedUpdate() if clip is None else ClippedUpdate(radius=clip)
        radius = clip or 1.0
        return cls(dim, question, radius, ball_codebook(epsilon, dim, radius))

    @property
    def noise(self) -> float:
        """The constant c: a mean of n updates of length 1 has noise ``sqrt(c / n)`` each."""
        return self.randomizer.variance / self.radius**2


@dataclass(frozen=True)
class Schedule:
    """Cohorts and step lengths."""

    noise_to_signal: float  # the rule of thumb q = sqrt(dim c / n), n being the number of reports
    sizes: list[int]  # of the cohorts, of which each step asks one
    steps: list[float]  # what the mean update is multiplied by in every step

    @classmethod
    def of(
        cls,
        reporting: Reporting,
        num_users: int,
        net: bool,
        num_rounds: int,
        path_length: float | None,
        learning_rate: float | None,
    ) -> "Schedule":
        """Return the schedule; ``num_rounds`` of 0 and None stand for the rules of thumb."""
        rounds = num_rounds or default_rounds(num_users, net)
        if path_length is None:
            linear = min(LONGEST_PATH, math.sqrt(num_users / reporting.noise))
            path_length = _NET_PATH if net else linear
        shape = 1 - np.arange(rounds) / rounds if net else np.ones(rounds)
        if learning_rate is None:
            lengths = np.minimum(path_length * shape / shape.sum(), LONGEST_STEP)
            steps = lengths / reporting.radius
        else:
            steps = learning_rate * shape
        sizes = [num_users // rounds + (i < num_users % rounds) for i in range(rounds)]
        ratio = math.sqrt(reporting.dim * reporting.noise / num_users)
        return cls(ratio, sizes, steps.tolist())

    def told(self, reporting: Reporting) -> str:
        """Return the rule of thumb in words."""
        return (
            f"Noise to signal q = sqrt(d c / n) = {self.noise_to_signal:.2g} for d = "
            f"{reporting.dim} parameters, c = {reporting.noise:.3g} and {sum(self.sizes)} users"
        )


def default_rounds(num_users: int, net: bool) -> int:
    """Return 20 to 100 rounds, fewer where cohorts would be small."""
    rounds = 20 if num_users < 5_000 else 100 if net and num_users >= 10_000 else 30
    return max(1, min(rounds, num_users // _FEWEST_PER_COHORT))


_RANGE = 1.2816  # standard normal, of 8 runs in 10


def expected(schedule: Schedule, reporting: Reporting) -> Expectation:
    """Return q = sqrt(d c / n), the length of the noise if every mean update had length 1."""
    ratio = schedule.noise_to_signal
    spread = _RANGE * math.sqrt(0.5 / reporting.dim)  # of the root of d squared normals, relative
    judged = (
        f"Above {WARN_ABOVE} expect a poor model. Below it q promises nothing: at q = .06 rows "
        "with small gradients and nodes of one class had accuracies of .50 and .29 for .90."
    )
    return Expectation(
        error="model's noise q, in lengths of an update",
        value=ratio,
        low=ratio * max(1 - spread, 0.0),
        high=ratio * (1 + spread),
        rounds=len(schedule.steps),
        randomizers=(reporting.randomizer,),
        assumes=(f"The model has {reporting.dim:,} parameters, of which all are trained.",),
        notes=(judged, "How well the model would do without privacy is not known to a plan."),
    )
