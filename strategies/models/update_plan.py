"""What a run of LdpFedAvg costs in noise, and how it divides users and path, before it starts."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ldp_flower.guarantee.questions import ClippedUpdate, NormalisedUpdate, UpdateQuestion
from ldp_flower.randomizers import Codebook, Estimate, PrivUnit, Randomizer, SubsetHypercube
from ldp_flower.randomness import derive
from ldp_flower.values.rotation import padded, rotate_twice_back

Floats = NDArray[np.float64]

#: Mechanisms for an update, by name.
MECHANISMS = ("codebook", "privunit", "hypercube")
#: Above the first, results are poor; above the second, useless.
WARN_ABOVE, REFUSE_ABOVE = 0.6, 2.0

_FEWEST_PER_COHORT = 30
LONGEST_STEP = 4.0
LONGEST_PATH = 100.0
_NET_PATH = 30.0
# Half the box of a rotated coordinate, in standard deviations of what is expected there. A
# short one clips, which all updates of one length suffer alike; others do not.
_BOX: dict[type[UpdateQuestion], float] = {NormalisedUpdate: 1.0, ClippedUpdate: 2.0}


@dataclass(frozen=True)
class Reporting:
    """How one update becomes a report, and how the reports' mean is read.

    Attributes
    ----------
    dim : int
        Number of parameters.
    question : UpdateQuestion
        What of its update a client reports.
    radius : float
        Largest length of what is reported.
    randomizer : Randomizer
        The mechanism.
    """

    dim: int
    question: UpdateQuestion
    radius: float
    randomizer: Randomizer

    @classmethod
    def by(
        cls, mechanism: str, epsilon: float, dim: int, clip: float | None, num_codewords: int | None
    ) -> "Reporting":
        """Return the mechanism of this name for updates of unit length, or of at most ``clip``."""
        rotated, radius = mechanism == "hypercube", clip or 1.0
        question: UpdateQuestion = NormalisedUpdate(rotated)
        if clip is not None:
            question = ClippedUpdate(radius=clip, rotated=rotated)
        randomizer: Randomizer
        if rotated:
            size = padded(dim)
            bound = radius * _BOX[type(question)] / math.sqrt(size)
            randomizer = SubsetHypercube(epsilon, size, bound)
        elif mechanism == "privunit":
            randomizer = PrivUnit(epsilon, dim, radius)
        else:
            words = num_codewords or (256 if epsilon <= 4 else 1024)
            randomizer = Codebook(epsilon, dim, radius, words)
        return cls(dim, question, radius, randomizer)

    @property
    def _box(self) -> SubsetHypercube | None:
        """The mechanism, if it is one for the coordinates of a rotated update."""
        return self.randomizer if isinstance(self.randomizer, SubsetHypercube) else None

    @property
    def _shrinkage(self) -> float:
        """Factor by which clipping to the box shortens a normal coordinate's mean."""
        return 1.0 if self._box is None else float(erf(_BOX[type(self.question)] / math.sqrt(2)))

    @property
    def noise(self) -> float:
        """The constant c: the mean of n updates of length 1 has noise ``sqrt(c / n)`` each.

        The noise of a parameter of the mean, as a standard deviation; sqrt(dim c / n)
        is that of the whole.
        """
        return self.randomizer.variance / (self._shrinkage * self.radius) ** 2

    def read(self, answer: Estimate, salt: int, step: int) -> Floats:
        """Return the mean update from the estimate of the mean of what was reported."""
        if self._box is None:
            return answer.mean
        # The estimate of a coordinate is that over the users assigned to it, 0 if there
        # are none; weighted by how many there are, it is unbiased for few users as well.
        users = (self._box.bound / answer.std_error) ** 2
        share = users * self._box.dim / (self._box.subset * answer.count)
        whole = rotate_twice_back(answer.mean * share, derive(salt, step), self.dim)
        return whole / self._shrinkage


@dataclass(frozen=True)
class Plan:
    """Cohorts and step lengths.

    Attributes
    ----------
    noise_to_signal : float
        The rule of thumb q = sqrt(dim c / n), n being the number of reports.
    sizes : list of int
        Sizes of the cohorts; a step asks one, and goes on with the first after the last.
    steps : list of float
        What the mean update is multiplied by in every step.
    """

    noise_to_signal: float
    sizes: list[int]
    steps: list[float]

    @classmethod
    def of(
        cls,
        reporting: Reporting,
        num_users: int,
        answers_per_user: int,
        net: bool,
        num_rounds: int,
        path_length: float | None,
        learning_rate: float | None,
        decay: bool,
    ) -> "Plan":
        """Return the plan; ``num_rounds`` of 0 and None stand for the rules of thumb."""
        reports = num_users * answers_per_user
        rounds = num_rounds or default_rounds(num_users, answers_per_user, net)
        if path_length is None:
            linear = min(LONGEST_PATH, math.sqrt(reports / reporting.noise))
            path_length = _NET_PATH if net else linear
        shape = 1 - np.arange(rounds) / rounds if decay else np.ones(rounds)
        if learning_rate is None:
            lengths = np.minimum(path_length * shape / shape.sum(), LONGEST_STEP)
            steps = lengths / reporting.radius
        else:
            steps = learning_rate * shape
        groups = -(-rounds // answers_per_user)
        sizes = [num_users // groups + (i < num_users % groups) for i in range(groups)]
        ratio = math.sqrt(reporting.dim * reporting.noise / reports)
        return cls(ratio, sizes, steps.tolist())


def default_rounds(num_users: int, answers_per_user: int, net: bool) -> int:
    """Return 20 to 100 rounds, fewer where cohorts would be small."""
    rounds = 20 if num_users < 5_000 else 100 if net and num_users >= 10_000 else 30
    return max(1, min(rounds, answers_per_user * (num_users // _FEWEST_PER_COHORT)))
