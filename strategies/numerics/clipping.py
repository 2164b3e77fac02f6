"""What clipping does to normal numbers of mean 0, in units of their standard deviation."""

import math

from scipy.special import ndtr


def kept(bound: float) -> float:
    """Return how much of their slope in anything numbers keep that are clipped at ``bound``."""
    return float(2 * ndtr(bound) - 1)


def clipped_square(bound: float) -> float:
    """Return the mean square of numbers clipped at ``bound``, over its square."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    within = kept(bound) - 2 * bound * density
    return float(within / bound**2 + 2 * ndtr(-bound))
