"""Schedule of a run of LdpFedAvg: its reports, cohorts and step lengths, and its noise."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.expectation import Expectation
from ldp_flower.questions import ClippedUpdate, NormalisedUpdate, UpdateQuestion
from ldp_flower.randomizers import Randomizer, ball_codebook

from ..sums.networks import expectation_of

#: Values of q above which results are poor, and useless.
WARN_ABOVE, REFUSE_ABOVE = 0.6, 2.0

_FEWEST_PER_COHORT = 30  # users in a cohort: a mean of so many reports is nearly normal
# Path lengths for rows of about length 1. The path of a linear model is sqrt(n / c), with which the
# noise of a logit is about 1. A comparison with the best of 26 paths is in docs/model-updates.md.
LONGEST_STEP, LONGEST_PATH, _NET_PATH = 4.0, 100.0, 30.0


@dataclass(frozen=True)
class Reporting:
    """How clients report an update of a model's parameters: question and randomizer."""

    dim: int  # number of parameters
    question: UpdateQuestion  # maps a client's update to the vector that it reports
    radius: float  # bound on the norm of that vector
    randomizer: Randomizer

    @classmethod
    def of(cls, epsilon: float, dim: int, clip: float | None) -> "Reporting":
        """Return how users report updates: scaled to length 1 or, given ``clip``, clipped to it."""
        question = NormalisedUpdate() if clip is None else ClippedUpdate(radius=clip)
        radius = clip or 1.0
        return cls(dim, question, radius, ball_codebook(epsilon, dim, radius))

    @property
    def noise(self) -> float:
        """Noise constant c of the randomizer, of which the rule of thumb q is made.

        The mean of n reports has noise with standard deviation sqrt(c / n) in each parameter, in
        units of ``radius``.
        """
        return self.randomizer.variance / self.radius**2


@dataclass(frozen=True)
class Schedule:
    """Sizes of the cohorts and step lengths of a run."""

    noise_to_signal: float  # the rule of thumb q = sqrt(dim c / n), for n reports
    sizes: list[int]  # number of users in the cohort of each step
    steps: list[float]  # factor on the mean update in each step

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
        """Return the schedule of a run of :class:`~.ldp_fedavg.LdpFedAvg`, from its arguments.

        ``num_users`` are asked in all, and ``net`` is True for ``model="net"``. A ``num_rounds`` of
        0 selects the rule of thumb of :func:`default_rounds`.
        """
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

    def sentence(self, reporting: Reporting) -> str:
        """Return a sentence for logs and notes: the noise-to-signal ratio q, and how it is made."""
        return (
            f"Noise to signal q = sqrt(d c / n) = {self.noise_to_signal:.2g} for d = "
            f"{reporting.dim} parameters, c = {reporting.noise:.3g} and {sum(self.sizes)} users"
        )


def default_rounds(num_users: int, net: bool) -> int:
    """Return the default number of rounds: 20 to 100, or fewer if cohorts would be too small.

    ``net`` is True for a neural net, which needs more rounds than a linear model.
    """
    rounds = 20 if num_users < 5_000 else 100 if net and num_users >= 10_000 else 30
    return max(1, min(rounds, num_users // _FEWEST_PER_COHORT))


def expected(schedule: Schedule, reporting: Reporting) -> Expectation:
    """Return the error that a plan shows for a run of LdpFedAvg: its noise-to-signal ratio q.

    It is the length of the noise over that of the mean updates, if every update had length 1.
    """
    judged = (
        f"Above {WARN_ABOVE} expect a poor model. A smaller q does not promise a good one: at q = "
        ".06 rows with small gradients had an accuracy of .50, and nodes with rows of one class "
        ".29, instead of .90."
    )
    return expectation_of(
        schedule.noise_to_signal,
        reporting.dim,
        error="model's noise q, in lengths of an update",
        rounds=len(schedule.steps),
        randomizers=(reporting.randomizer,),
        assumes=(f"The model has {reporting.dim:,} parameters, of which all are trained.",),
        notes=(judged, "A plan does not know how well the model would do without privacy."),
    )
