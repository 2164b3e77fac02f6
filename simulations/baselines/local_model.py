"""Every user trains alone, on its own rows, and nothing leaves: private and poor."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = list[NDArray[Any]]

STEPS = 100
JUDGED = 100  # users whose models are judged, at random


def median_score(
    train: Callable[[int, Arrays, int], Arrays],
    initial: Arrays,
    score: Callable[[Arrays], float],
    num_users: int,
    seed: int,
) -> float:
    """Return what the model of a user is worth who trains without others, at the median.

    Not on average: where a rate suits all users but one, that one's model may be worth any
    loss, however large.

    Parameters
    ----------
    train : callable
        Returns the model after so many local steps of a user.
    initial : list of ndarray
        The model that training starts from.
    score : callable
        What a model is worth.
    num_users, seed : int
        Number of users, and the seed by which some are chosen.
    """
    chosen = np.random.default_rng(seed).permutation(num_users)[:JUDGED]
    return float(np.median([score(train(int(user), initial, STEPS)) for user in chosen]))
