"""Sizes whose order of magnitude is in question: their bins and their logarithms."""

import numpy as np

from ldp_flower.guarantee.questions import (
    ColumnLogSizes,
    ColumnMeanNorm,
    DistanceBin,
    GradientNorm,
    RootCurvature,
    TargetScaleBin,
)
from ldp_flower.randomizers.elementwise import log, log2
from ldp_flower.validation import Floats


def scale_bins(sizes: Floats, bins: TargetScaleBin | DistanceBin) -> Floats:
    """Return the bin of every size, shape (users, 1): see :class:`TargetScaleBin`."""
    octaves = log2(sizes / bins.smallest)
    found = np.clip(np.floor(bins.per_octave * octaves), 0, bins.num_bins - 1)
    return np.where(sizes > 0, found, -1.0)[:, None]


def log_ratio(
    sizes: Floats, question: GradientNorm | RootCurvature | ColumnMeanNorm | ColumnLogSizes
) -> Floats:
    """Return log(size / ``prior``) / ``log_range``."""
    tiny = np.finfo(np.float64).tiny
    return np.asarray(log(np.maximum(sizes, tiny) / question.prior) / question.log_range)
