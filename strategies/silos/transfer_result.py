"""What PeelingTransfer returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.result import Fit, LinearResult

Floats = NDArray[np.float64]


def _none() -> Floats:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class TransferFit(Fit):
    """A student and its teachers.

    Attributes
    ----------
    teachers : ndarray of float64, shape (silos, dim)
        The silos' models.
    """

    teachers: Floats = field(default_factory=_none)


@dataclass(repr=False)
class TransferResult(LinearResult):
    """A student, whose coefficients are ``coef``, and its teachers.

    Attributes
    ----------
    teachers : ndarray of float64, shape (silos, dim)
        The silos' models, in the random order in which they were trained.
    """

    teachers: Floats = field(default_factory=_none)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {"teachers": self.teachers.tolist(), **super().to_dict()}
