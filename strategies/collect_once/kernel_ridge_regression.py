"""KernelRidgeRegression: a strategy for a smooth function of features from one collection."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.questions import Fourier, Question, Record, SecondMoments
from ldp_flower.questions.moments import num_moments
from ldp_flower.questions.public_maps import fourier_features, frequencies, seed_of
from ldp_flower.validation import Floats, Positive, check_integer

from ..runtime import Ask, Card, Cohort, LinearResult, Protocol, Run
from ..runtime.coefficients import as_rows
from .base import CollectOnce, Once, largest_dim
from .moment_losses import PRODUCT_WEIGHT, SQUARE_WEIGHT, LeastSquares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Chart: number of features, length scales on each side of 0, and number of points.
_DRAWN, _REACH, _POINTS = 4, 5.0, 201


@dataclass(repr=False, kw_only=True)
class KernelResult(LinearResult):
    """A fitted function of features, as coefficients of public random Fourier features.

    Attributes
    ----------
    coef, std_error : ndarray of float64, shape (num_features,)
        Coefficients of the Fourier features, cosines first, and their standard errors.
    frequencies : ndarray of float64, shape (dim, num_features / 2)
        Frequencies of the cosines and sines, for rows divided by ``length_scale``.
    length_scale : float
        Scale of the kernel.
    """

    frequencies: Floats
    length_scale: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef, self.frequencies])

    def predict(self, features: ArrayLike) -> Floats:
        """Return the predicted targets for ``features``, as :meth:`LinearResult.predict` does."""
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


# Largest number of Fourier features, an even number. With more, a report would be too large.
_MAX_FEATURES = largest_dim([2]) // 2 * 2
_LENGTH = 1.0  # norm of a row of Fourier features


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeRegression(CollectOnce[KernelResult]):
    """Strategy for regression with a Gaussian kernel, from one collection.

    A public seed draws random Fourier features, whose inner products approximate the kernel. With
    ``method="auto"`` users report the products of these features with each other and with the
    target as one vector in a ball. With ``method="paper"`` they report the features and the target
    with Gaussian noise.

    Other parameters are those of :class:`~.base.CollectOnce`.

    Parameters
    ----------
    dim : int
        Number of features, best 1 or 2. They need not be centred or bounded.
    num_features : int (default: 16)
        Number of Fourier features, an even number from 2 to 98. In two dimensions use 32.
    length_scale : float (default: 1.0)
        About the distance over which the function changes. The kernel of rows x and z is
        ``exp(-|x - z|**2 / (2 length_scale**2))``. The quality of the fit depends on it.
    target_bound : float (default: 1.0)
        Public bound on targets; larger ones are clipped. Noise grows with it.

    Notes
    -----
    A user with several rows reports the mean of its rows' products (``"paper"``: the first row
    only). The function has no intercept; centre targets by a public constant.

    Instead of one penalty on all coefficients, ``"auto"`` raises eigenvalues of the second moments
    that are below the size of the noise. So well-measured directions are not shrunken.

    Source: Zheng, Mou & Wang, "Collect at Once, Use Effectively" (ICML 2017), Algorithm 4.
    ``"paper"`` is this algorithm with three changes. Its calibration is corrected, as in
    :class:`ConstrainedRegression`. It has a ridge penalty of the size of the noise, which the
    paper's last step lacks. It uses cosines and sines of stratified frequencies, whose norm is
    exactly 1, instead of cosines with random phases, whose inner products are half of the kernel.
    The server multiplies noisy records, which squares the noise: it is useful from epsilon 4 and
    200,000 users on.
    """

    card = Card(
        question="a smooth function of one or two features",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="2, non-interactive; paper: 1",
        report="1",
        use_when="everybody is asked at once",
        fails_when="with a length scale that does not fit: a sine of two periods at epsilon 1 and "
        "20,000 users has an error of .66 of its variance with .4",
        page="collect-once",
    )
    no_plan = (
        "The error by noise depends on how rough the function is and on the chosen length scale, "
        "which no public number shows: simulate it with functions like yours."
    )

    _clipped = ("target_bound",)

    num_features: int = 16
    length_scale: Positive = 1.0
    target_bound: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_features", self.num_features, 2, _MAX_FEATURES)
        if self.num_features % 2:
            raise ValueError(f"Expected an even num_features, got {self.num_features}.")

    def _by_moments(self, run: Run, everyone: Cohort) -> Once[KernelResult]:
        weights = (PRODUCT_WEIGHT, SQUARE_WEIGHT)
        mechanism = self.randomizer(num_moments(self.num_features, [2]))
        moments = SecondMoments(_LENGTH, self.target_bound, *weights)
        answer = yield Ask(everyone, self._mapped(run, moments), mechanism)
        found = LeastSquares.from_moments(answer, self.num_features, weights)
        return self._solved(run, found, 0.0)

    def _as_printed(self, run: Run, everyone: Cohort) -> Protocol:
        mechanism = self.mechanism(self.num_features + 1, math.sqrt(2))
        record = Record(_LENGTH, self.target_bound)
        answers = yield Ask(everyone, self._mapped(run, record), mechanism)
        found = LeastSquares.from_records(answers, mechanism)
        return self._solved(run, found, math.sqrt(self.num_features * found.square_variance))

    def _mapped(self, run: Run, question: Question) -> Question:
        return Fourier(question, seed_of(run.salt), self.num_features, self.length_scale)

    def _solved(self, run: Run, found: LeastSquares, penalty: float) -> KernelResult:
        found = replace(found, squares=found.squares + penalty * np.eye(self.num_features))
        coef = np.asarray(np.linalg.solve(found.squares, found.products), np.float64)
        return KernelResult(
            coef=coef * self.target_bound,
            std_error=found.std_error(coef) * self.target_bound,
            frequencies=frequencies(seed_of(run.salt), self.dim, self.num_features),
            length_scale=self.length_scale,
        )
