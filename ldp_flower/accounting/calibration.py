"""The noise that an epsilon needs, and the epsilon that a noise costs, of clipped sums.

Neighbours differ in the data of one unit (a user, or a record), replaced by any other; how
many units there are is public. A contribution that is clipped to C then moves a sum by up
to 2 C, twice as far as under "add or remove one", so the noise multipliers of Flower and
Opacus (noise over C) count half here. Units that nobody chose at random are not charged as
if they had been: no amplification by sampling.
"""

import math
from collections.abc import Iterable

from ..validation import check_integer
from .composition import GaussianEvent, gaussian_epsilon, gaussian_mu, total_mu


def gaussian_noise_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Return the noise over the clip of each of several sums that one unit is in.

    The composition of Gaussian releases is one Gaussian release, exactly, so there is
    nothing lost by any accountant's bound.

    Parameters
    ----------
    epsilon, delta : float
        What all releases cost together.
    releases : int (default: 1)
        Number of sums that one unit takes part in.

    Returns
    -------
    float
        Standard deviation of each sum's noise, in every coordinate, over the clip.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_integer("releases", releases, 1)
    return 2 * math.sqrt(releases) / gaussian_mu(epsilon, delta)


def noise_multiplier_epsilon(noise_multipliers: Iterable[float], delta: float) -> float:
    """Return the epsilon, at ``delta``, of sums with these noises over their clips."""
    return gaussian_epsilon(total_mu([GaussianEvent(2 / z) for z in noise_multipliers]), delta)
