"""What users answer who are asked for products of features that vary alike."""

import math

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import SecondMoments
from ldp_flower.randomizers import Estimate
from ldp_flower.values.moments import monomials

from ..runtime.exchange import Ask
from .answers import answered
from .linear_users import equal_coefficients

Floats = NDArray[np.float64]

_SUPPORT = 4


class IsotropicUsers:
    """Users of one record, with features of the largest length in any direction.

    Parameters
    ----------
    dim : int
        Number of features.
    l1_norm : float
        Sum of the coefficients, in clients' units: of rows in the unit ball.
    """

    def __init__(self, dim: int, l1_norm: float) -> None:
        self._support = min(_SUPPORT, dim)
        self._l1_norm = l1_norm
        self.truth: Floats = equal_coefficients(
            dim, self._support, l1_norm / math.sqrt(self._support)
        )

    @property
    def told(self) -> str:
        """Who they are, in a sentence."""
        return (
            f"{self._support} coefficients of one size that sum to {self._l1_norm:.2g} in clients' "
            "units; rows of features are as long as the bound, in any direction."
        )

    def answering(self, rng: np.random.Generator) -> "Answering":
        """Return the users with a source of noise."""
        return Answering(self.truth, rng)


class Answering:
    """Users who answer with the mechanism's noise, see :class:`IsotropicUsers`."""

    def __init__(self, truth: Floats, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng

    def __call__(self, ask: Ask) -> Estimate:
        """Return the means of x y and of the packed x x', each times its weight."""
        question, dim = ask.question, len(self._truth)
        assert isinstance(question, SecondMoments)
        coordinates, _ = monomials(dim, 2)
        squares = (coordinates[:, 0] == coordinates[:, 1]) / dim
        products = self._truth / dim
        mean = np.concatenate(
            [question.product_weight * products, question.square_weight * squares]
        )
        # Reports of squares have their weight's length; what is common to all does not vary.
        spread = max(question.square_weight**2 - float(mean @ mean), 0.0) / len(mean)
        return answered(ask, mean, spread, self._rng)
