"""What users would answer who are asked for the bin of a size."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bin_shares(question: Any, mean: float, spread: float) -> Floats:
    """Return the share of the users in each bin of sizes.

    Parameters
    ----------
    question : TargetScaleBin or DistanceBin
        Asks for the bin.
    mean, spread : float
        Of the logarithms of users' sizes, taken for normal.
    """
    from scipy.special import ndtr

    step = math.log(2) / question.per_octave
    inner = math.log(question.smallest) + step * np.arange(1, question.num_bins)
    below = ndtr((inner - mean) / spread)
    return np.diff(below, prepend=0.0, append=1.0)
