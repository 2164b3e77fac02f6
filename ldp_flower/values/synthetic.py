"""Public synthetic features, which a server and its clients draw alike."""

import numpy as np
from numpy.typing import NDArray

from ..randomness import KeyedRandom, derive

_LABEL = 0x53594E5448  # keeps these draws apart from others of the same seed


def synthetic_features(seed: int, rows: int, dim: int) -> NDArray[np.float64]:
    """Return rows of independent uniform features whose columns have length 1 on average.

    Answers ``X theta`` on them are about as long as ``theta``: the mean of ``X'X`` is the
    identity.

    Parameters
    ----------
    seed : int
        Public seed.
    rows : int
        Number of rows.
    dim : int
        Number of features.

    Returns
    -------
    ndarray of float64, shape (rows, dim)
        In ``[-sqrt(3 / rows), sqrt(3 / rows)]``.
    """
    draws = KeyedRandom(derive(_LABEL, seed, np.arange(rows))).uniforms((rows, dim))
    return np.asarray((2 * draws - 1) * np.sqrt(3 / rows))
