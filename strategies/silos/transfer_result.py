"""What PeelingTransfer returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.result import LinearResult

Floats = NDArray[np.float64]


@dataclass(repr=False, kw_only=True)
class TransferResult(LinearResult):
    """A student, whose coefficients are ``coef``, and its teachers.

    Attributes
    ----------
    teachers : ndarray of float64, shape (silos, dim)
        The silos' models, in the random order in which they were trained.
    """

    teachers: Floats

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {"teachers": self.teachers.tolist(), **super().to_dict()}
