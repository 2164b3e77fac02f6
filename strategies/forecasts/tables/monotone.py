"""Errors that fall with users, epsilon and rows, from rehearsals at some of them."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldp_flower.randomizers import ball_codebook

Floats = NDArray[np.float64]

_FEWEST, _MOST, _OCTAVES = 8, 32, 2  # logarithms to base 2 of users at epsilon 1, and their step
_ROWS = (1.0, 3.0, 10.0, 40.0)
_LEVELS = 0.1, 0.5, 0.9
_SMALLEST = 1e-6


def users_at_one(users: float, dim: int, epsilon: float) -> float:
    """Return how many users' directions are as noisy at epsilon 1 as these are.

    What directions of users differ by, of length 1, adds to the mechanism's noise.
    """
    noise = [1 + dim * ball_codebook(each, dim, 1.0).variance for each in (1.0, epsilon)]
    return users * noise[0] / noise[1]


class Falling:
    """The median of what rehearsals lose, and a range, made to fall with users and with rows.

    Who has more users or rows could leave them away: so at each place it is the least of all
    places with fewer, and between places a line, in logarithms.

    Parameters
    ----------
    losses : callable
        From rows and users to what all rehearsals lose.
    wider : float
        How much farther the ends of the range are from the median, of logarithms, than those of
        eight of ten rehearsals.
    """

    def __init__(self, losses: Callable[[float, float], Floats], wider: float) -> None:
        self._losses, self._wider = losses, wider
        self._least = lru_cache(maxsize=None)(self._least_of)

    def at(self, rows: float, users: float) -> Floats:
        """Return the lower end, the median and the upper end, for so many rows and users."""
        octaves = np.clip(math.log2(max(users, 1)), _FEWEST, _MOST - 1e-9) - _FEWEST
        along, beyond = divmod(float(octaves) / _OCTAVES, 1)
        places = np.log(_ROWS)
        down = float(np.interp(math.log(rows), places, np.arange(len(_ROWS))))
        across, rest = divmod(down, 1)
        total = np.zeros(3)
        for row, share in ((across, 1 - rest), (across + 1, rest)):
            for step, weight in ((along, 1 - beyond), (along + 1, beyond)):
                if share * weight > 0:
                    total += share * weight * np.log(self._least(int(row), int(step)))
        return np.asarray(np.exp(total))

    def _least_of(self, row: int, step: int) -> Floats:
        users = 2.0 ** (_FEWEST + _OCTAVES * step)
        found = np.quantile(np.maximum(self._losses(_ROWS[row], users), _SMALLEST), _LEVELS)
        least = found[1] * (found / found[1]) ** self._wider
        if row:
            least = np.minimum(least, self._least(row - 1, step))
        if step:
            least = np.minimum(least, self._least(row, step - 1))
        return np.asarray(least)
