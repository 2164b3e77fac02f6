"""What SmoothGlm returns."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from ldp_flower.validation import Floats

from ..numerics.chebyshev import value
from ..runtime.result import LinearResult


@dataclass(repr=False, kw_only=True)
class GlmResult(LinearResult):
    """A generalised linear model.

    Attributes
    ----------
    coef, std_error : ndarray of float64, shape (dim,)
        The coefficients, and their standard deviations without the bias of the constraint
        and of the polynomial in place of the mean function; not a number where they
        are not known (``method="paper"``).
    mean_function : ndarray of float64, shape (terms,)
        Chebyshev coefficients of the expected target given ``<x, coef> / reach``.
    reach : float
        Largest absolute value of ``<x, coef>`` that is told apart.
    """

    mean_function: Floats
    reach: float

    def decision_function(self, features: ArrayLike) -> Floats:
        """Return ``<x, coef>`` for rows of features, shape (rows, dim)."""
        return super().predict(features)

    def predict(self, features: ArrayLike) -> Floats:
        """Return the expected targets; for labels -1 and 1 the sign is the likelier one.

        Parameters
        ----------
        features : array_like, shape (rows, dim)
            Rows on the scale on which the clients computed.
        """
        return value(self.mean_function, self.reach, self.decision_function(features))
