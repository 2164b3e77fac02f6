"""Label-LDP-IHT: sparse regression where only the targets are private."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.optimize import brentq

from ldp_flower.expectation import LowerBound, Setting
from ldp_flower.guarantee.questions import Labels
from ldp_flower.guarantee.users import Users
from ldp_flower.iht import project_on_ball
from ldp_flower.randomizers import (
    Estimate,
    GaussianMechanism,
    HybridMechanism,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.validation import (
    Floats,
    check_choice,
    check_fraction,
    check_positive,
    check_unused,
)

from ..forecasts import lower_bounds
from ..forecasts.populations import USUAL_R2, LinearUsers, features_of, linear_users, normal_users
from ..numerics.denoising import clipped_square, kept
from ..runtime import (
    Answers,
    Ask,
    Card,
    Cohort,
    LinearResult,
    Protocol,
    Run,
    SparseStrategy,
    TooFewReports,
    guarantees,
)
from ..runtime.coefficients import Method
from ..runtime.run import LiveRun
from ..subprotocols.one_number import estimate_label_scale
from .label_fit import NoisyLabels

_MECHANISMS = ("hybrid", "bit", "gaussian")
_SCALE_SHARE = 0.1  # by default
_CERTAIN = 0.95  # probability below which an estimated scale is called a guess
_PRECISE = 0.1  # relative error of a scale that is better than an estimated one
_PLANNED_SPARSITY = 8  # of a plan that is made without the protocol
_MAX_PLANNED = 2_000_000  # features of all users that a plan simulates: seconds a run
# Of 2 to 12 rounds and clips of .5 to 2.2, best or within 10 % of it in 24 synthetic settings
# (epsilon .7 to 4; 500 to 8,000 users; 20 to 200 features; normal and heavy-tailed noise).
_ROUNDS, _FIRST = 8, 0.3  # number of rounds; share of the users that the first one asks
_CLIP = 0.75  # where residuals are clipped, over their root mean square
_FARTHEST = 4.0  # how many times too small or large an estimated one may be to be corrected


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
        Bound on labels, if one is public; larger ones are clipped. By default the scale of
        the labels is estimated, 1 to 2.5 times that is the first bound, and what clipping takes
        away is undone as for normal labels: for others (classes, say) declare a bound. Later
        bounds follow the residuals.
    scale_share : float, optional
        Share of the users that report the scale of their labels instead of their labels, by
        default 0.1; nobody does if there is a ``label_bound``.
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

    Rounds are not the paper's. Round 1 asks 30 % of the users, up to seven others share the rest.
    A report ``r`` of ``y - <x, theta>``, clipped at ``R``, estimates the label by ``<x, theta> +
    r / P(|z| < R / e)``, z normal and ``e`` the residuals' root mean square. After each round all
    reports so far are fitted by least squares, weighted by the inverse of their variance. ``e`` is
    measured by the reports, whose noise is known, with one standard error and the coefficients'
    own error added; R is .75 e. Bits do not show ``e``: ``mechanism="bit"``, and ``"hybrid"`` up to
    epsilon .61, where it is the same, take one round.

    Coefficients below sqrt(2 log(dim)) standard errors are left out: as large a one is
    expected of noise alone. They are compared in units of their features' typical sizes.

    Rows, as nodes send them, are weighted so that none counts for more than the largest of
    nine in ten, nor than twice the median row: see :func:`.label_fit.row_weights`. Features of one
    size, such as signs, all count in full. The result notes rows that hardly count.

    ``std_error`` is that of least squares on the support, from the residuals' spread.
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
        rounds="up to 9; paper: 1",
        report="4 a label (a bit: 1), and the public features",
        use_when="features are public and labels are not",
        fails_when="at epsilon 0.5 with 8,000 users; for labels far from normal without a declared "
        "bound: coefficients up to 15 % too long",
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
        self._scale_share = _SCALE_SHARE if self.scale_share is None else self.scale_share
        check_fraction("scale_share", self._scale_share)
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
            max_users=max(_MAX_PLANNED // self.dim, 1),
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved of sparse regressions whose labels are protected."""
        rounds = len(self._sizes(setting.num_users)) > 1
        return lower_bounds.labels(self.epsilon, self.delta, rounds=rounds)

    def protocol(self, run: Run) -> Protocol:
        """Estimate the scale unless there is a bound; then ask for labels less predictions."""
        notes: list[str] = []
        bound, scale, residual = self.label_bound, None, 0.0
        if bound is None:
            scale = yield from self._estimate_scale(run, notes)
            bound = self._bound_over_scale() * scale
        coef = np.zeros(self.dim)
        known: NoisyLabels | None = None
        for cohort in run.cohorts(self._sizes(run.num_unasked)):
            try:
                asked = yield from self._collect(cohort, bound, coef, residual, scale)
            except TooFewReports:
                if known is None:
                    raise
                break  # the rounds before it are enough for an estimate
            known = asked if known is None else known.plus(asked)
            fit = known.fit(self.sparsity, self.solver, residual)
            coef, residual, scale = fit.coef, fit.residual, None
            bound = min(bound, _CLIP * residual) if residual else bound
        if not coef.any():
            notes.append("No coefficient clears the noise: zero is returned.")
        coef = project_on_ball(coef, self.radius)
        return LinearResult(coef=coef, std_error=fit.std_error, notes=notes + fit.notes)

    def _collect(
        self, cohort: Cohort, bound: float, coef: Floats, residual: float, scale: float | None
    ) -> Generator[Ask, Answers, NoisyLabels]:
        """Ask a cohort for its labels less their predictions; return estimates of the labels."""
        randomizer = self.randomizer(bound)
        question = Labels(1, bound, coef if coef.any() else None)
        answers = yield Ask(cohort, question, randomizer, public=(1, self.dim))
        x = answers.public.reshape(-1, self.dim).astype(np.float64)
        y = randomizer.debias(answers.reports, answers.coins).ravel()
        rows = np.isfinite(x).all(axis=1) & x.any(axis=1)  # a user without a row has zeros
        x, y = x[rows], y[rows]
        if scale is not None:
            residual = self._scale_of(y, randomizer, bound, scale)
        slope = kept(bound / residual) if residual else 1.0  # within a public bound nothing is lost
        variance = np.full(len(y), randomizer.variance / slope**2)
        return NoisyLabels(x, x @ coef + y / slope, variance)

    def _sizes(self, num_users: int) -> list[int]:
        """Return how many users each round asks; one round where reports do not show residuals."""
        rounds = max(1, min(_ROUNDS, 1 + int((1 - _FIRST) * num_users / self.min_reports)))
        if self.method == "paper" or not _has_known_noise(self.randomizer(1.0)):
            rounds = 1
        shares = [_FIRST, *[(1 - _FIRST) / (rounds - 1)] * (rounds - 1)] if rounds > 1 else [1.0]
        ends = np.floor(np.cumsum(shares) * num_users + 0.5).astype(int)
        sizes: list[int] = np.diff(ends, prepend=0).tolist()
        return sizes if min(sizes) >= self.min_reports else [num_users]

    def _finished(self, run: LiveRun, found: LinearResult) -> LinearResult:
        result: LinearResult = super()._finished(run, found)
        assert result.privacy is not None
        result.privacy = replace(result.privacy, unit="user (labels only)")
        return result

    def _estimate_scale(self, run: Run, notes: list[str]) -> Generator[Ask, Estimate, float]:
        size = round(self._scale_share * run.num_users)
        if size < self.min_reports:
            raise TooFewReports(
                f"A share of {self._scale_share:g} of {run.num_users} users is fewer than "
                f"{self.min_reports}. Declare label_bound if it is public, or ask more users."
            )
        (cohort,) = run.cohorts([size])
        scale = yield from estimate_label_scale(cohort, self.epsilon, 1)
        if scale.certainty < _CERTAIN:
            notes.append(
                f"The scale of the labels, {scale.value:.2g}, is a guess from {size} reports: more "
                "users, a larger scale_share or a declared label_bound are needed."
            )
        return scale.value

    def _scale_of(self, y: Floats, randomizer: Randomizer, bound: float, estimated: float) -> float:
        """Return the labels' scale from the spread of their reports, where they give it.

        It is that of clipped normal labels plus the mechanism's, unless that makes up for it
        (bits).
        """
        if not _has_known_noise(randomizer) or not len(y):
            return estimated
        square = (float(np.mean(y**2)) - randomizer.variance) / bound**2
        error = float(np.std(y**2)) / math.sqrt(len(y)) / bound**2
        low, high = (clipped_square(f) for f in (_FARTHEST, 1 / _FARTHEST))
        if not low < square < high:
            return estimated
        ratio = brentq(lambda r: clipped_square(r) - square, 1 / _FARTHEST, _FARTHEST)
        return bound / ratio if error < _PRECISE * abs(_slope(ratio)) else estimated

    def _bound_over_scale(self) -> float:
        """Return where to clip, in scales: the less noise, the more labels are left as they are.

        For labels that are not normal clipping leaves a bias, worth its saving at small epsilon
        alone.
        """
        return min(2.5, max(1.0, 0.75 + self.epsilon / 4))


def _has_known_noise(randomizer: Randomizer) -> bool:
    """Whether its variance is the same for all labels."""
    if isinstance(randomizer, HybridMechanism):
        return math.isclose(randomizer.variance_at(0.0), randomizer.variance_at(1.0))
    return isinstance(randomizer, GaussianMechanism)


def _slope(bound: float) -> float:
    """Return how much the mean square of clipped labels changes with the logarithm of the bound."""
    return (clipped_square(1.01 * bound) - clipped_square(bound)) / 0.01
