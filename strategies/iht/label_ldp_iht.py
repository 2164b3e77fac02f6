"""Label-LDP-IHT: sparse regression where only the targets are private."""

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
from ldp_flower.validation import (
    check_choice,
    check_fraction,
    check_positive,
    check_unused,
)

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    MAX_PLANNED,
    USUAL_R2,
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
)
from ..runtime import Card, LinearResult, Protocol, Run, SparseStrategy, guarantees
from ..runtime.coefficients import Method
from .label_rounds import LabelRounds, has_known_noise

_MECHANISMS = ("hybrid", "bit", "gaussian")
_PLANNED_SPARSITY = 8  # of a plan that is made without the protocol


@dataclass(kw_only=True, eq=False, repr=False)
class LabelLdpIht(SparseStrategy):
    """Sparse regression from one randomised label per user, the features being public.

    Every user reports its label through a mechanism for numbers, and its features as they are. The
    server solves for sparse coefficients: all of that is post-processing. Users of later rounds
    report the difference between their label and its prediction by the estimate so far. That
    difference is smaller than a label, and so is the noise that hides it. Clients answer only if
    their operator has declared the features public (``features-public``); and by default, since the
    hybrid mechanism is not exact, only if inexact mechanisms are allowed.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    delta : float (default: 0.0)
        Privacy parameter, for the Gaussian mechanism only.
    method : {"auto", "paper"} (default: "auto")
        ``auto`` asks in up to eight rounds, ``paper`` in one.
    mechanism : {"hybrid", "bit", "gaussian"}, optional
        ``hybrid`` reports 4 bytes a label, ``bit`` one bit (as a byte; exact), both at pure
        epsilon. By default hybrid, or Gaussian if ``delta`` is not 0.
    solver : {"iht", "lasso"} (default: "iht")
        Hard thresholding to convergence, or scikit-learn's Lasso and least squares on the
        largest of what it selects.
    label_bound : float, optional
        Bound on labels, if one is public; larger ones are clipped. By default some users first
        tell the octave of their label.
    scale_share : float, optional
        Share of the users that do, instead of reporting their label. By default a tenth, or as
        many as epsilon takes if that is fewer; with a ``label_bound`` a twentieth, or nobody if
        these are too few.
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients, if there is one.

    Notes
    -----
    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy
    Model", ICML 2019, Algorithm 2 and the Lasso that follows it. Changes: the noise is for
    the labels' range, not for that of their noise term, with which nominal epsilon 1 is truly
    up to 130; the step goes down the gradient (line 5 goes up), has the best length, and is
    repeated until nothing changes; there is no projection on the unit ball, in which the
    paper's own coefficients do not lie; pure mechanisms are more precise than the Gaussian.

    Rounds and the intercept are not the paper's. Octaves of labels tell their law. Labels 0 and 1
    (or -1 and 1) are reported whole, in one round. Otherwise round 1 asks 30 % of the users, and
    up to seven others share the rest. Before them some users tell the octaves of what round 1
    leaves. Are these residuals like normal ones, a report ``r`` of ``y - <x, theta>``, clipped at
    ``R``, estimates the label by ``<x, theta> + r / P(|z| < R / e)``, z normal and ``e`` the
    residuals' root mean square, measured by octaves and then by the reports, whose noise is known;
    R is .75 e. Others (of counts, of money, of noise with heavy tails) are clipped so far out that
    what is taken away costs as much as the noise. That share is in ``std_error``, and nothing is
    undone. Where clipped reports contradict wider ones, they are left out, and wide ones follow.
    After each round all reports so far are fitted by least squares, weighted by the inverse of
    their variance. Bits do not show ``e``: ``mechanism="bit"``, and ``"hybrid"`` up to epsilon .61,
    where it is the same, take one round.

    Coefficients below sqrt(2 log(dim)) standard errors are left out: as large a one is
    expected of noise alone. They are compared in units of their features' typical sizes.

    Rows, as nodes send them, are weighted so that none counts for more than the largest of
    nine in ten, nor than twice the median row: see :func:`.label_fit.row_weights`. Features of one
    size, such as signs, all count in full. The result notes rows that hardly count.

    ``std_error`` is that of least squares on the support, from the residuals' spread, and what
    clipping may take away.
    """

    guarantee = (
        "Protected: the labels of a user against any other labels, at ``epsilon`` (and ``delta``). "
        "Features, how many rows a user has and in which order are not protected at all, nor is "
        "what they reveal about the label.",
        guarantees.ASKED_ONCE,
        f"{guarantees.ENFORCED} They refuse unless the operator has declared the features public.",
    )
    card = Card(
        question="sparse linear regression",
        guarantee="pure epsilon or (epsilon, delta), labels only",
        rounds="up to 10; paper: 1",
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
    scale_share: float | None = None
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
        if self.scale_share is not None:
            check_fraction("scale_share", self.scale_share)
        if self.label_bound is not None:
            check_unused(self, "with a label_bound", "scale_share")
        if self.mechanism == "bit":
            check_unused(self, "with mechanism='bit', which takes one round", "method")
        for name, value in (("label_bound", self.label_bound), ("radius", self.radius)):
            if value not in (None, math.inf):
                check_positive(name, value)
        self.randomizer(1.0)  # refuses a bad epsilon now

    def randomizer(self, bound: float) -> Randomizer:
        """Return the mechanism for a label within ``bound``."""
        if self.mechanism == "gaussian":
            return GaussianMechanism(self.epsilon, 1, bound, self.delta)
        kind = HybridMechanism if self.mechanism == "hybrid" else RandomizedResponse
        return kind(self.epsilon, bound)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield all mechanisms, and bounds that are declared and estimated."""
        variants: tuple[dict[str, Any], ...] = (
            {"label_bound": 1.0},
            {"label_bound": 1.0, "mechanism": "bit"},
            {"delta": 1e-3},
        )
        for options in variants:
            yield cls(dim, sparsity=1, epsilon=epsilon, **options), normal_users(dim, 2)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the default mechanism and solver for eight coefficients."""
        dim = features_of(setting, cls)
        return cls(dim, epsilon=epsilon, sparsity=min(_PLANNED_SPARSITY, dim))

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return users with normal labels of variance 1 that obey one linear model."""
        return linear_users(
            self.dim,
            self.sparsity,
            setting.quality or USUAL_R2,
            max_users=max(MAX_PLANNED // self.dim, 1),
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved of sparse regressions whose labels are protected."""
        rounds = self.method == "auto" and has_known_noise(self.randomizer(1.0))
        return lower_bounds.labels(self.epsilon, self.delta, rounds=rounds)

    def protocol(self, run: Run) -> Protocol:
        """Ask for the labels' law unless there is a bound; then for labels less predictions."""
        return (yield from LabelRounds(run, self).protocol())

    def finished(self, run: Run, found: LinearResult) -> LinearResult:
        """Say that labels only are protected."""
        assert found.privacy is not None
        found.privacy = replace(found.privacy, part=guarantees.LABELS)
        return found
