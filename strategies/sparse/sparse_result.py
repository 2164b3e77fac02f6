"""What protocols return that say how likely each coefficient is to differ from zero."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.result import LinearResult

Floats = NDArray[np.float64]


@dataclass(repr=False, kw_only=True)
class SparseResult(LinearResult):
    """A result whose coefficients are posterior means.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        Posterior means: those of unlikely coefficients are close to zero, not zero.
    std_error : ndarray of float64, shape (dim,)
        Posterior standard deviations.
    inclusion : ndarray of float64, shape (dim,)
        Posterior probability that a coefficient is not zero.
    """

    inclusion: Floats

    @property
    def support(self) -> NDArray[np.int64]:
        """Indices of the coefficients that are more likely than not to differ from zero."""
        return np.flatnonzero(self.inclusion > 0.5)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {**super().to_dict(), "inclusion": self.inclusion.tolist()}
