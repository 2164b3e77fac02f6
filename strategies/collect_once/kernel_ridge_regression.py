"""KernelRidgeRegression: a smooth function of features from one collection."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.guarantee.questions import Fourier, Question, Record, SecondMoments
from ldp_flower.validation import check_integer, check_positive
from ldp_flower.values.moments import num_moments
from ldp_flower.values.public_maps import frequencies

from ..runtime.base import Protocol
from ..runtime.card import Card
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from .base import CollectOnce, largest_dim
from .kernel_result import KernelResult
from .least_squares import PRODUCT_WEIGHT, SQUARE_WEIGHT, LeastSquares

_MOST_FEATURES = largest_dim([2]) // 2 * 2
_LENGTH = 1.0  # of Fourier features


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeRegression(CollectOnce[KernelResult]):
    """Regression with a Gaussian kernel; one message from every user.

    A public seed draws random Fourier features, whose inner products stand for the kernel. With
    ``method="auto"`` users report the products of these features with each other and with the
    target as one vector in a ball, with ``method="paper"`` the features and the target
    plus Gaussian noise.

    Other parameters are those of :class:`~.base.CollectOnce`.

    Parameters
    ----------
    dim : int
        Number of features, not centred or bounded; few, best 1 or 2.
    num_features : int (default: 16)
        Number of Fourier features, even, 2 to 98; in two dimensions take 32.
    length_scale : float (default: 1.0)
        The kernel of rows x and z is ``exp(-|x - z|**2 / (2 length_scale**2))``: about the
        distance over which the function changes. It decides how good the fit is.
    target_bound : float (default: 1.0)
        Public bound on targets; larger ones are clipped. Noise grows with it.

    Notes
    -----
    A user with several rows reports the mean of its rows' products (``"paper"``: its first row
    alone). The function has no intercept; centre targets by a public constant.

    In place of one penalty on all coefficients, ``"auto"`` raises to the noise's size what
    curvature is smaller: directions that are well measured are not shrunken.

    Source: Zheng, Mou & Wang, "Collect at Once, Use Effectively" (ICML 2017), Algorithm 4.
    ``"paper"`` is that algorithm with its calibration corrected, as in
    :class:`ConstrainedRegression`; with the ridge penalty, which its last step lacks, at
    the size of the noise; and with cosines and sines of stratified frequencies, whose
    length is exactly 1, in place of cosines with random phases, whose inner products are
    half of the kernel. Its noise is squared on the server: it has a use from epsilon 4 and
    200,000 users.

    Guarantee
    ---------
    1. Protected: a user's whole set of records, against any other set. ``"auto"``: pure
       ``epsilon``; ``"paper"``: (``epsilon``, ``delta``), in real arithmetic.
    2. Every user answers one question once, and the question depends on no data: the protocol is
       non-interactive.
    3. No matter what the strategy sends, the clients' randomizers and ledgers
       enforce this on their side.
    """

    card = Card(
        question="a smooth function of one or two features",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="1, non-interactive",
        report="1; paper: 4 per Fourier feature",
        use_when="everybody is asked at once",
        fails_when="with a length scale that does not fit: a sine of two periods at epsilon 1 and "
        "20,000 users has an error of .66 of its variance with .4, of .12 with .2",
        page="collect-once",
    )
    no_plan = (
        "What noise costs depends on how rough the function is and on the length scale that "
        "is taken, which no public number tells: simulate it with functions like yours."
    )

    num_features: int = 16
    length_scale: float = 1.0
    target_bound: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_features", self.num_features, 2, _MOST_FEATURES)
        if self.num_features % 2:
            raise ValueError(f"Expected an even num_features, got {self.num_features}.")
        check_positive("length_scale", self.length_scale)
        check_positive("target_bound", self.target_bound)

    def _by_moments(self, everyone: Cohort) -> Protocol:
        weights = (PRODUCT_WEIGHT, SQUARE_WEIGHT)
        mechanism = self.randomizer(num_moments(self.num_features, [2]))
        moments = SecondMoments(_LENGTH, self.target_bound, *weights)
        answer = yield Ask(everyone, self._mapped(moments), mechanism)
        found = LeastSquares.from_moments(answer, self.num_features, weights)
        return self._solved(found, 0.0)

    def _as_printed(self, everyone: Cohort) -> Protocol:
        mechanism = self.noise(self.num_features + 1, math.sqrt(2))
        record = Record(_LENGTH, self.target_bound)
        answers = yield Ask(everyone, self._mapped(record), mechanism)
        found = LeastSquares.from_records(answers, mechanism)
        return self._solved(found, math.sqrt(self.num_features * found.square_variance))

    def _mapped(self, question: Question) -> Question:
        return Fourier(question, self._seed, self.num_features, self.length_scale)

    def _solved(self, found: LeastSquares, penalty: float) -> KernelResult:
        found = found.with_ridge(penalty)
        coef = np.asarray(np.linalg.solve(found.squares, found.products), np.float64)
        return KernelResult(
            coef=coef * self.target_bound,
            std_error=found.std_error(coef) * self.target_bound,
            frequencies=frequencies(self._seed, self.dim, self.num_features),
            length_scale=self.length_scale,
        )
