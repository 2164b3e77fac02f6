"""What KernelRidgeRegression returns."""

from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike, NDArray

from ldp_flower.values.public_maps import fourier_features

from ..runtime.result import LinearResult, as_rows

Floats = NDArray[np.float64]


@dataclass(repr=False, kw_only=True)
class KernelResult(LinearResult):
    """A function of features: coefficients of public random Fourier features.

    Attributes
    ----------
    coef, std_error : ndarray of float64, shape (num_features,)
        Of the Fourier features, cosines first.
    frequencies : ndarray of float64, shape (dim, num_features / 2)
        Those of the cosines and sines, for rows divided by ``length_scale``.
    length_scale : float
        Scale of the kernel.
    """

    frequencies: Floats
    length_scale: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef, self.frequencies])

    def predict(self, features: ArrayLike) -> Floats:
        """Return the function's values.

        Parameters
        ----------
        features : array_like, shape (rows, dim)
            Rows on the scale on which the clients computed.

        Raises
        ------
        ValueError
            If the rows are of another width.
        """
        rows = as_rows(features, len(self.frequencies))
        mapped = fourier_features(rows, self.frequencies, self.length_scale)
        return np.asarray(mapped @ self.coef)

    def _findings(self) -> list[str]:
        return [f"{len(self.coef)} Fourier features of length scale {self.length_scale:g}"]
