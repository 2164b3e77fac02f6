"""What KernelRidgeRegression returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.validation import Floats
from ldp_flower.values.public_maps import fourier_features

from ..runtime.result import LinearResult, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWN, _REACH, _POINTS = 4, 5.0, 201  # features, length scales to each side of 0, points


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

    @property
    def names(self) -> list[str]:
        """Names of the Fourier features."""
        half = self.frequencies.shape[1]
        return [f"{wave} {number}" for wave in ("cosine", "sine") for number in range(half)]

    @property
    def _height(self) -> float:
        return 3.6

    def _draw(self, axes: "Axes") -> None:
        dim = len(self.frequencies)
        along = np.linspace(-_REACH, _REACH, _POINTS) * self.length_scale
        for feature in range(min(dim, _DRAWN)):
            rows = np.zeros((_POINTS, dim))
            rows[:, feature] = along
            axes.plot(along, self.predict(rows), label=f"feature {feature}")
        axes.set_xlabel("a feature, all others being 0")
        axes.set_ylabel("prediction")
        if dim > 1:
            axes.legend()

    def _findings(self) -> list[str]:
        return [f"{len(self.coef)} Fourier features of length scale {self.length_scale:g}"]
