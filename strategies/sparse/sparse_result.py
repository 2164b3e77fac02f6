"""What protocols return that say how likely each coefficient is to differ from zero."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

from ..runtime.result import LinearResult

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class SparseResult(LinearResult):
    """A result whose coefficients are posterior means.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        Posterior means: those of unlikely coefficients are close to zero, not zero.
    std_error : ndarray of float64, shape (dim,)
        How far coefficients are from these by the reports about each alone, without a belief about
        sparsity and sizes: wide where users were asked little after the vote.
    inclusion : ndarray of float64, shape (dim,)
        Posterior probability that a coefficient is not zero.
    """

    inclusion: Floats

    @property
    def support(self) -> NDArray[np.int64]:
        """Indices of the coefficients that are more likely than not to differ from zero."""
        return np.flatnonzero(self.inclusion > 0.5)

    def table(self) -> "DataFrame":
        """Return the coefficients by name, with the probability that each is not zero."""
        return super().table().assign(**{"probability of not zero": self.inclusion})
