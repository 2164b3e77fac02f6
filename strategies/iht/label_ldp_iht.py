"""Label-LDP-IHT: sparse regression with public features and private targets (labels)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from ldp_flower.data.users import Users
from ldp_flower.expectation import LowerBound, Setting
from ldp_flower.randomizers import (
    GaussianMechanism,
    HybridMechanism,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.validation import Fraction, check_choice, check_positive, check_unused

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    MAX_PLANNED,
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
)
from ..runtime import Card, LinearResult, Protocol, Run, SparseStrategy, guarantees
from ..runtime.coefficients import Method
from .label_rounds import LabelRounds, has_known_noise

_MECHANISMS = ("hybrid", "bit", "gaussian")
_PLANNED_SPARSITY = 8  # sparsity in a plan for which no strategy was constructed


@dataclass(kw_only=True, eq=False, repr=False)
class LabelLdpIht(SparseStrategy):
    """Strategy for sparse regression from public features and one randomised label per user.

    Every user reports its label through a mechanism for numbers, and its features unchanged. The
    server solves for sparse coefficients, which is post-processing. In later rounds, users report
    the residual of their label under the current estimate. A residual is smaller than a label, so
    less noise is needed. Clients answer only if their operator has declared the features public
    (``features-public``). The default hybrid mechanism is not exact, so it also requires that the
    operator allows inexact mechanisms.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    delta : float (default: 0.0)
        Privacy parameter, for the Gaussian mechanism only.
    method : {"auto", "paper"} (default: "auto")
        ``auto`` takes up to eight rounds of labels, ``paper`` takes one.
    mechanism : {"hybrid", "bit", "gaussian"}, optional
        ``hybrid`` reports 4 bytes per label. ``bit`` reports one bit (as a byte) and is exact.
        Both are at pure epsilon. By default hybrid, or Gaussian if ``delta`` is not 0.
    solver : {"iht", "lasso"} (default: "iht")
        Hard thresholding to convergence; or scikit-learn's Lasso, followed by least squares on the
        largest of the selected coefficients.
    label_bound : float, optional
        Public bound on labels, if there is one. Larger labels are clipped. By default some users
        first report the octave (binary order of magnitude) of their label.
    scale_share : float, optional
        Share of the users who report that octave instead of their label. By default a tenth, or
        the number that epsilon requires if that is smaller. With a ``label_bound``, a twentieth,
        or none if these would be too few.
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients.

    Notes
    -----
    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy
    Model", ICML 2019, Algorithm 2 and the Lasso that follows it. Changes: the noise is scaled to
    the labels' range, not to that of their noise term (with the latter, the true epsilon is up to
    130 at a nominal epsilon of 1); the step goes down the gradient (line 5 goes up), has the
    optimal length, and is repeated until convergence; there is no projection on the unit ball,
    since the paper's own coefficients lie outside it; the pure mechanisms are more precise than
    the Gaussian.

    The rounds and the intercept are not from the paper. The octaves of labels estimate the labels'
    distribution. If labels seem to be 0 and 1, as many users again (at most a quarter of the
    others) report the octave of their label minus 1, since the sizes of labels do not tell -1 from
    1. (If labels seem to be -1 and 1, these users report the octave of their label.) If nobody,
    within three standard errors, has another class, labels are reported without clipping, in one
    round, and ``std_error`` covers the share of other classes that may be there all the same.
    Otherwise round 1 queries 30 % of the users, and up to seven further rounds share the rest.
    Before these, some users report the octaves of the residuals of round 1. If the residuals look
    normal, a report ``r`` of ``y - <x, theta>``, clipped at ``R``, estimates the label as ``<x,
    theta> + r / P(|z| < R / e)``. Here z is normal, ``R`` is .75 e, and ``e`` is the residuals'
    root mean square. It is estimated from octaves, and then from the reports, whose noise is known.
    Other residuals (of counts, of money, with heavy tails) are clipped at a larger bound, at which
    the bias of clipping costs as much as the noise. This bias is not corrected, and is covered by
    ``std_error``. If narrowly clipped reports contradict the others, they are dropped, and later
    rounds use the larger bound. After each round, least squares is fitted to all reports so far,
    weighted by their inverse variance. Bits do not reveal ``e``. Therefore ``mechanism="bit"``
    takes one round, and so does ``"hybrid"`` up to epsilon .61, where it is the same mechanism.

    Coefficients below sqrt(2 log(dim)) standard errors are set to zero, since noise alone would
    make the largest one about as large. They are compared in units of their features' typical
    sizes.

    Rows are weighted, so that none has more influence than the largest of nine in ten, or than
    twice the median row: see :func:`.label_fit.row_weights`. Features of equal size, such as signs,
    have full weight. The result notes rows with very small weights.

    ``std_error`` covers the error of least squares on the support, estimated from the residuals'
    spread, and the bias of clipping.
    """

    guarantee = (
        "Protected: a user's labels against any other labels, at ``epsilon`` (and ``delta``). Not "
        "protected: the features, the number and the order of a user's rows, and anything that "
        "they reveal about the labels.",
        guarantees.ASKED_ONCE,
        f"{guarantees.ENFORCED} They refuse unless the operator has declared the features public.",
    )
    card = Card(
        question="sparse linear regression",
        guarantee="pure epsilon or (epsilon, delta), labels only",
        rounds="up to 11; paper: 1",
        report="4 a label (a bit: 1), and the public features",
        use_when="features are public and labels are not",
        fails_when="at epsilon 0.5 with 8,000 users; at epsilon 1 with 4,000 where one label in "
        "ten is 1: nothing is found",
        page="ldp-iht",
    )

    plans_with = frozenset({"num_features", "quality"})

    delta: float = 0.0
    method: Method = "auto"
    mechanism: str | None = None
    solver: Literal["iht", "lasso"] = "iht"
    label_bound: float | None = None
    scale_share: Fraction | None = None
    radius: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism is None:
            self.mechanism = "gaussian" if self.delta else "hybrid"
        check_choice("mechanism", self.mechanism, _MECHANISMS)
        if (self.mechanism == "gaussian") != (self.delta != 0):
            raise ValueError(
                "Expected delta > 0 with the Gaussian mechanism, and only with it, "
                f"got {self.delta}."
            )
        if self.label_bound is not None:
            check_unused(self, "with a label_bound", "scale_share")
        if self.mechanism == "bit":
            check_unused(self, "with mechanism='bit', which takes one round", "method")
        for name, value in (("label_bound", self.label_bound), ("radius", self.radius)):
            if value not in (None, math.inf):
                check_positive(name, value)
        self.randomizer(1.0)  # raises an error now if epsilon is invalid

    def randomizer(self, bound: float) -> Randomizer:
        """Return the mechanism that randomises a label in [-bound, bound]."""
        if self.mechanism == "gaussian":
            return GaussianMechanism(self.epsilon, 1, bound, self.delta)
        kind = HybridMechanism if self.mechanism == "hybrid" else RandomizedResponse
        return kind(self.epsilon, bound)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: one for each mechanism and kind of bound."""
        variants: tuple[dict[str, Any], ...] = (
            {"label_bound": 1.0},
            {"label_bound": 1.0, "mechanism": "bit"},
            {"delta": 1e-3},
        )
        for options in variants:
            yield cls(dim, sparsity=1, epsilon=epsilon, **options), normal_users(dim, 2)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for at most eight non-zero coefficients."""
        dim = features_of(setting, cls)
        return cls(dim, epsilon=epsilon, sparsity=min(_PLANNED_SPARSITY, dim))

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return a population for plans: users whose normal labels follow one linear model."""
        most = max(MAX_PLANNED // self.dim, 1)
        return linear_users(setting, self.dim, self.sparsity, max_users=most)

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the known lower bounds on the error of sparse regression with private labels."""
        rounds = self.method == "auto" and has_known_noise(self.randomizer(1.0))
        return lower_bounds.labels(self.epsilon, self.delta, rounds=rounds)

    def protocol(self, run: Run) -> Protocol:
        """Query for the labels' distribution if needed, then for labels; return the model."""
        return (yield from LabelRounds(run, self).protocol())

    def finished(self, run: Run, found: LinearResult) -> LinearResult:
        """Return the result with the statement that labels only are protected."""
        assert found.privacy is not None
        found.privacy = replace(found.privacy, part=guarantees.LABELS)
        return found
