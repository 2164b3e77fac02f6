"""What strategies share whose estimate has a number for each feature."""

from dataclasses import dataclass, field
from typing import TypeVar

from ldp_flower.schema import Schema
from ldp_flower.validation import check_integer

from .base import LdpStrategy
from .result import LinearResult, Result

R = TypeVar("R", bound=Result)


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureStrategy(LdpStrategy[R]):
    """Base class: users hold rows of so many features.

    Other parameters are those of :class:`~.base.LdpStrategy`.

    Parameters
    ----------
    dim : int
        Number of features.
    """

    dim: int = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.dim, Schema):
            raise ValueError(
                "Expected an integer dim >= 1, got a Schema. Models of a table are "
                "PrivateRegression(schema, ...) and PrivateClassification(schema, ...), its means "
                "Means(schema, ...)."
            )
        check_integer("dim", self.dim, 1)

    @property
    def _num_features(self) -> int:
        return self.dim


@dataclass(kw_only=True, eq=False, repr=False)
class SparseStrategy(FeatureStrategy[LinearResult]):
    """Base class: few of the features matter, and it is known how many at most.

    Other parameters are those of :class:`FeatureStrategy`.

    Parameters
    ----------
    sparsity : int
        Number of coefficients that may differ from zero.
    """

    sparsity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("sparsity", self.sparsity, 1, self.dim)
