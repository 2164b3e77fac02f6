"""The projections of iterative hard thresholding, on either side of the trust boundary."""

import numpy as np

from ..validation import Floats


def keep_largest(vector: Floats, sparsity: int) -> Floats:
    """Set all but the ``sparsity`` largest entries (by magnitude) to zero."""
    kept = np.zeros_like(vector)
    largest = np.argsort(-np.abs(vector), kind="stable")[:sparsity]
    kept[largest] = vector[largest]
    return kept


def project_on_ball(vector: Floats, radius: float) -> Floats:
    """Shorten ``vector`` to length ``radius`` if it is longer."""
    length = float(np.linalg.norm(vector))
    return vector if length <= radius else vector * (radius / length)
