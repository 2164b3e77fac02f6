"""Sizes whose order of magnitude is in question: their bins and their logarithms."""

import numpy as np

from ldp_flower.elementwise import log, log2

from .rows import Floats
from .statistic import Params

SCALE_PARAMS = frozenset({"smallest", "per_octave", "num_bins"})


def scale_bins(sizes: Floats, params: Params) -> Floats:
    """Return the bin of every size, shape (users, 1).

    Bin b begins at ``params["smallest"] * 2**(b / params["per_octave"])``; the first one
    of ``params["num_bins"]`` and the last one take what is beyond. A size that is 0 or not
    a number has -1, no bin.
    """
    octaves = log2(sizes / params["smallest"])
    bins = np.clip(np.floor(params["per_octave"] * octaves), 0, params["num_bins"] - 1)
    return np.where(sizes > 0, bins, -1.0)[:, None]


def log_ratio(sizes: Floats, params: Params) -> Floats:
    """Return log(size / ``params["centre"]``) / ``params["log_range"]``."""
    tiny = np.finfo(np.float64).tiny
    return np.asarray(log(np.maximum(sizes, tiny) / params["centre"]) / params["log_range"])
