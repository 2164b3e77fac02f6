"""SmoothGlm: a strategy for smooth generalised linear models from one collection."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.data.users import Users
from ldp_flower.questions import OfClasses, Question, RecordCopies, TensorMoments
from ldp_flower.questions.moments import MAX_DEGREE, num_moments, tensor_powers
from ldp_flower.questions.sparse import project_on_ball
from ldp_flower.validation import Floats, Positive, check_integer

from ..numerics.first_order import sigm
from ..runtime import Answers, Ask, Card, Cohort, LinearResult, Protocol, Run
from ..subprotocols.beyond_bounds import DeclaredBound
from .base import MAX_REPORT, Once, ProjectedCollection, check_report
from .moment_losses import PolynomialLoss, interpolated, is_odd, truncated, value


@dataclass(repr=False, kw_only=True)
class GlmResult(LinearResult):
    """A fitted generalised linear model.

    Attributes
    ----------
    coef, std_error : ndarray of float64, shape (dim,)
        The coefficients and their standard errors. The errors do not cover the bias of the
        constraint and of the polynomial that replaces the mean function. They are NaN with
        ``method="paper"``.
    mean_function : ndarray of float64, shape (terms,)
        Chebyshev coefficients of the expected target given ``<x, coef> / reach``.
    reach : float
        Bound on ``|<x, coef>|``. Larger values are clipped.
    """

    mean_function: Floats
    reach: float

    def decision_function(self, features: ArrayLike) -> Floats:
        """Return ``<x, coef>`` for rows of features, shape (rows, dim)."""
        return super().predict(features)

    def predict(self, features: ArrayLike) -> Floats:
        """Return the expected targets for ``features``, as in :meth:`LinearResult.predict`.

        With labels -1 and 1, the sign of an expected target is the likelier label.
        """
        return value(self.mean_function, self.reach, self.decision_function(features))


_STEPS = 1000  # number of steps of the stochastic method, at most one for each user


@dataclass(kw_only=True, eq=False, repr=False)
class SmoothGlm(ProjectedCollection[GlmResult]):
    """Strategy for a generalised linear model with a smooth mean function, from one collection.

    The expected target is a function of ``<x, coef>``; in the logistic model with labels -1 and 1
    it is ``tanh(<x, coef> / 2)``. A polynomial replaces this function. Then the gradient is a
    polynomial of ``coef``, and it depends on the data through moments of the features only, which
    are collected once.

    Other parameters are those of :class:`~.base.ProjectedCollection`.

    Parameters
    ----------
    radius : float (default: 4.0)
        Public bound on the Euclidean norm of the coefficients.
    link : str or sequence of float (default: "logistic")
        ``"logistic"`` for classes: targets are 0 and 1, or -1 and 1, and are treated as -1 and 1.
        Otherwise the Chebyshev coefficients a_k of the expected target, ``sum_k a_k T_k(<x, coef> /
        (feature_bound radius))``.
    target_bound : float (default: 1.0)
        Public bound on targets; larger ones are clipped. Noise grows with it.
    degree : int (default: 1)
        Degree of the polynomial, 1 to 7. It must be odd if the mean function is odd.
    projected_dim : int, optional
        Number of dimensions to which a public random matrix projects features first. It is required
        for more than 98 features with degree 1, and for more than 16 with degree 3. ``radius`` is
        then the bound for the coefficients of the projected features.

    Notes
    -----
    With ``"auto"`` users report y x and the tensor powers of x as one vector in a ball. The
    polynomial is the least-squares fit to the mean function, for a normal argument ``<x, coef>``
    with the spread that the second moments imply. Polynomial and coefficients are updated in turn.
    So degree 1 has hardly any bias for logistic models (excess risk .004 of the zero classifier's
    at ``|<x, coef>|`` up to 4, while that of the Chebyshev line is .44). Higher degrees are for
    skewed features or mean functions, millions of users, and few features. A user with several rows
    reports the mean of its rows' moments (``"paper"``: the first row only).

    Source: Zheng, Mou & Wang, "Collect at Once, Use Effectively" (ICML 2017), Algorithms 5 and 6.
    ``"paper"`` is these algorithms with their calibration corrected: all copies of a record share
    one Gaussian report, whose noise is scaled to its domain's diameter; ``degree + 1`` copies serve
    all powers; a label times its row is one vector; the constant term of the Chebyshev expansion is
    a_0 / 2; coefficients are those of h'(r x), without another power of r; 1,000 batches of users
    take the steps of SIGM. The server multiplies noisy copies, which multiplies their noise.
    Therefore it is useful from epsilon 8 on with degree 1, and from epsilon 32 on with degree 3.
    """

    card = Card(
        question="logistic regression with few features",
        guarantee="pure epsilon; paper: (epsilon, delta)",
        rounds="3, non-interactive; paper: 1",
        report="1",
        use_when="everybody is asked at once",
        fails_when="with many features: of 123, projected to 32 numbers, it has the accuracy of a "
        "constant at epsilon 2",
        page="collect-once",
    )
    no_plan = (
        "Its loss is a polynomial in products of several features, whose noise depends on how "
        "features vary together: simulate it on synthetic records of the same size."
    )

    radius: Positive = 4.0
    link: str | Sequence[float] = "logistic"
    target_bound: Positive = 1.0
    degree: int = 1

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users of two classes for each ``method``, which an audit runs."""
        for strategy, users in super().audit_runs(dim, epsilon):
            yield strategy, replace(users, targets=np.sign(users.targets))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("degree", self.degree, 1, MAX_DEGREE)
        if not isinstance(self.link, str):
            try:
                self.link = [*map(float, self.link)]
            except TypeError:
                text = f"Expected link 'logistic' or finite coefficients, got {self.link!r}."
                raise ValueError(text) from None
        odd = is_odd(self._mean_function(1.0))  # raises an error now if the link is invalid
        if odd and self.degree % 2 == 0:
            raise ValueError(f"Expected an odd degree for an odd mean function, got {self.degree}.")
        self._stride = 2 if odd else 1
        if self.method == "auto":
            check_report(self.dim, self.projected_dim, self._powers)
        elif self.projected_dim is not None:
            check_integer("projected_dim", self.projected_dim, 1, self.dim)
        copies = self.degree + 2
        if self.method == "paper" and copies * (self.projected_dim or self.dim) > MAX_REPORT:
            raise ValueError(
                f"Expected at most {MAX_REPORT} numbers in a report, got {copies} copies of "
                f"{self.dim} features: project them with projected_dim <= {MAX_REPORT // copies}."
            )

    def _mean_function(self, reach: float) -> Floats:
        """Return the Chebyshev coefficients, on [-reach, reach], of the link's expected target."""
        if self.link == "logistic":
            return interpolated(lambda t: np.tanh(t / 2), reach)
        found = np.array([] if isinstance(self.link, str) else self.link)
        if not len(found) or not np.isfinite(found).all() or not found.any():
            raise ValueError(f"Expected link 'logistic' or finite coefficients, got {self.link!r}.")
        return found

    @property
    def _powers(self) -> list[int]:
        """Exponents of the tensor powers of x whose means the gradient needs."""
        return list(tensor_powers(self.degree, self._stride))

    @property
    def _bounds(self) -> dict[str, DeclaredBound]:
        bounds = super()._bounds
        if self.link == "logistic":
            del bounds["target_bound"]  # classes are never clipped
        return bounds

    def _by_moments(self, run: Run, everyone: Cohort) -> Once[GlmResult]:
        size = self.projected_dim or self.dim
        mechanism = self.randomizer(num_moments(size, self._powers))
        moments = TensorMoments(self._length(size), self.target_bound, self.degree, self._stride)
        answer = yield Ask(everyone, self._viewed(run, moments, size), mechanism)
        loss = PolynomialLoss.from_moments(answer, size, self._powers)
        reach = self._length(size) * self.radius
        link = self._mean_function(reach)
        scaled = link / self.target_bound
        coef = loss.minimised(scaled, reach, self.degree)
        errors = loss.std_error(scaled, reach, self.degree, coef)
        return self._of_features(run, coef, errors, link, size).with_significance_note()

    def _as_printed(self, run: Run, everyone: Cohort) -> Protocol:
        size = self.projected_dim or self.dim
        blocks = self.degree + 2
        mechanism = self.mechanism(blocks * size, math.sqrt(blocks))
        copies = RecordCopies(self._length(size), self.target_bound, self.degree + 1)
        answers = yield Ask(everyone, self._viewed(run, copies, size), mechanism)
        reach = self._length(size) * self.radius
        link = self._mean_function(reach)
        polynomial = truncated(link / self.target_bound, reach, self.degree)
        num_steps = min(_STEPS, answers.count)
        powers = np.arange(blocks - 1) * reach ** np.arange(-1.0, blocks - 2)
        noise = _oracle_noise(polynomial, reach, size, mechanism.sigma)
        coef = sigm(
            _gradients(answers, polynomial, size, num_steps),
            lambda w: project_on_ball(w, reach),
            np.zeros(size),
            smoothness=float(np.abs(polynomial) @ powers),
            noise=noise / math.sqrt(answers.count / num_steps),
            radius=reach,
        )
        return self._of_features(run, coef, np.full(size, np.nan), link, size)

    def _viewed(self, run: Run, question: Question, size: int) -> Question:
        """Return the question about ``size`` features; for the logistic model, about classes."""
        return self._mapped(run, OfClasses(question) if self.link == "logistic" else question, size)

    def _of_features(
        self, run: Run, coef: Floats, std_error: Floats, link: Floats, size: int
    ) -> GlmResult:
        """Return the result for the original features, from coefficients of projected ones.

        The result is in the clients' units.
        """
        matrix = self._matrix(run, size) / self._length(size)
        spread = np.sqrt(matrix**2 @ std_error**2)
        return GlmResult(
            coef=matrix @ coef,
            std_error=spread,
            mean_function=link,
            reach=self._length(size) * self.radius,
        )


def _oracle_noise(polynomial: Floats, reach: float, size: int, sigma: float) -> float:
    """Return a bound on the root mean square of the noise of one record's gradient."""
    copy = sigma**2 * size + 1
    factors = (reach**2 * (sigma**2 + 1)) ** np.arange(len(polynomial))
    return math.sqrt(copy + float(polynomial**2 @ factors) * copy)


def _gradients(
    answers: Answers, polynomial: Floats, size: int, num_steps: int
) -> Iterator[Callable[[Floats], Floats]]:
    """Yield a function for each of ``num_steps`` batches of users.

    It returns the batch's noisy mean gradient at given coefficients.
    """
    for batch in np.array_split(answers.reports, num_steps):
        # A report has x y and copies of x. Their noise is independent, so the expected product of
        # noisy copies is the product of their expectations.
        copies = batch.astype(np.float64).reshape(len(batch), -1, size).transpose(1, 0, 2)

        def gradient(coef: Floats, copies: Floats = copies) -> Floats:
            arguments = np.cumprod([np.ones(copies.shape[1]), *(copies[2:] @ coef)], axis=0)
            totals = (polynomial @ arguments) @ copies[1] - copies[0].sum(axis=0)
            return np.asarray(totals / copies.shape[1])

        yield gradient
