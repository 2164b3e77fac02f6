"""What the protocols share whose features may be projected to fewer dimensions first."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ldp_flower.guarantee.questions import Projected, Question
from ldp_flower.validation import Floats, check_positive
from ldp_flower.values.public_maps import projection, reach

from ..runtime.result import Result
from .base import CollectOnce

R = TypeVar("R", bound=Result)


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectedCollection(CollectOnce[R]):
    """Base class: users report something of their features or of a public projection of them.

    Other parameters are those of :class:`CollectOnce`.

    Parameters
    ----------
    feature_bound : float (default: 1.0)
        Public bound on the Euclidean length of a row of features; longer ones are shortened.
    projected_dim : int, optional
        Number of dimensions to which a public random matrix projects features first.
    """

    feature_bound: float = 1.0
    projected_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("feature_bound", self.feature_bound)

    def _mapped(self, question: Question, size: int) -> Question:
        """Return a question about ``size`` features: of projected ones, if these are fewer."""
        return question if size == self.dim else Projected(question, self._seed, size)

    def _length(self, size: int) -> float:
        """Return the bound on the length of a row after its projection to ``size`` dimensions."""
        return self.feature_bound * (1.0 if size == self.dim else reach(size))

    def _matrix(self, size: int) -> Floats:
        """Return the projection to ``size`` dimensions, shape (dim, size)."""
        return np.eye(size) if size == self.dim else projection(self._seed, self.dim, size)
