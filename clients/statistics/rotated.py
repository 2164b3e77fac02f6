"""Values after a public random rotation."""

import numpy as np

from ldp_flower.guarantee.questions import Rotated, RotatedBins
from ldp_flower.values.rotation import rotate

from ..arithmetic.rows import Floats


def rotated(values: Floats, question: Rotated) -> Floats:
    """Return what :class:`Rotated` makes of the inner question's values."""
    return rotate(values, question.signs) - question.midpoints


def rotated_bins(values: Floats, question: RotatedBins) -> Floats:
    """Return what :class:`RotatedBins` makes of the inner question's values."""
    values = rotate(values, question.signs)
    bins = np.floor((values / question.bound + 1) / 2 * question.num_bins)
    return np.clip(bins, 0, question.num_bins - 1)
