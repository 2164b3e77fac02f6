"""What every method of a comparison is charged: one definition for all of them.

Neighbours differ in the data of one unit (a user, or a record), replaced by any other;
how many units there are is public. This is the relation of the local model. A
contribution that is clipped to C then moves a sum by up to 2 C, twice as far as under
"add or remove one", so Flower's and Opacus's noise multipliers (noise over C) count
half here. Users that nobody chose at random are not charged as if they had been: no
amplification by sampling.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dp_accounting import get_sigma_gaussian

from ldp_flower.accounting import GaussianEvent, gaussian_epsilon, total_mu
from ldp_flower.strategies.models.update_plan import LONGEST_PATH, LONGEST_STEP

DELTA = 1e-5  # of all methods that are not pure: below one over the number of users


@dataclass(frozen=True)
class Guarantee:
    """What a method promises, and to whom.

    Attributes
    ----------
    unit : str
        Whose data are protected: ``"user"``, ``"record"`` or ``"nothing"``.
    trusted : str
        Who has to be honest for it to hold, beside the unit's own device.
    epsilon, delta : float
        Its parameters, by the definition above.
    """

    unit: str = "nothing"
    trusted: str = "server"
    epsilon: float = math.inf
    delta: float = 0.0


def noise_multiplier(epsilon: float, releases: int, delta: float = DELTA) -> float:
    """Return the noise over the clip of each of several Gaussian releases about a unit.

    The composition of Gaussian releases is one Gaussian release, exactly; its noise
    is from Google's dp-accounting.
    """
    return 2 * math.sqrt(releases) * float(get_sigma_gaussian(epsilon, delta))


def true_epsilon(noise_multipliers: Iterable[float], delta: float = DELTA) -> float:
    """Return the epsilon of Gaussian releases with these noises over their clips."""
    return gaussian_epsilon(total_mu([GaussianEvent(2 / z) for z in noise_multipliers]), delta)


def clip(noise: float, rounds: int, reports: int, path: float | None = None) -> float:
    """Return the clip, which is the longest step that FedAvg takes in a round.

    The rule of :class:`ldp_flower.strategies.LdpFedAvg`, at the method's own noise: the
    sum of the steps is the ``path``, or so long that the noise of a logit is about 1.

    Parameters
    ----------
    noise : float
        Noise over the clip, in every parameter of a round's sum of updates.
    rounds, reports : int
        Number of rounds, and of updates in each.
    path : float, optional
        The path, where something is known of it beforehand.
    """
    if path is None:
        # A path's noise is clip noise sqrt(rounds) / reports, its length clip rounds.
        path = min(LONGEST_PATH, reports * math.sqrt(rounds) / noise)
    return min(path / rounds, LONGEST_STEP)
