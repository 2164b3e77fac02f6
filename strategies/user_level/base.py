"""Base class of the regressions of Ma, Jia & Yang: a vote for variables, then an estimation."""

import math
from abc import abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldp_flower.data.users import Users
from ldp_flower.expectation import LowerBound, Setting
from ldp_flower.questions import SELECTORS, ResidualOctave
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import Estimate, SubsetSelection, ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, Positive, check_choice, check_integer, check_unused

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    LinearUsers,
    features_of,
    linear_users,
    normal_users,
    rows_for,
)
from ..numerics.denoising import keep_above
from ..runtime import Ask, Cohort, LinearResult, Protocol, Run, SparseStrategy, TooFewReports
from ..runtime.coefficients import METHODS, Method, support_notes
from ..subprotocols.holdout_r2 import R2HoldOut
from ..subprotocols.octaves import Size, ask_size, size_askers
from ..subprotocols.vote import ask_vote, best_vote, typical_score

Integers = NDArray[np.int64]


_VOTERS = 0.5  # share of the users who vote
_CANDIDATES = 1.5  # largest number of variables kept for the estimation, over the sparsity
_FALSE_CANDIDATES = 4  # number of variables that noise is expected to lift above the threshold
_SIZES = 0.1  # largest share of the users who report on the targets' size
# size_askers(epsilon) users estimate a size to some 15 %, and a quarter of them estimate it to a
# factor of about 1.5.
_ROUGHLY = 4
_MIN_USERS_PER_COHORT = 8  # smallest number of users, over the smallest cohort
_COEFFICIENT_Z = 2.0  # significance threshold for coefficients, in standard errors
_PLANNED_SPARSITY = 8  # sparsity in a plan for which no strategy was constructed
_UNSURE = (
    "The targets' scale, {:.3g}, is known to a factor of {:.2g} only, and coefficients are as "
    "wrong as the scale. Declare target_scale, or ask more users."
)
_MOST_UNSURE = 0.3  # largest error of the scale's logarithm without a note
_VOTE_Z = 3.0  # significance threshold for a variable's votes, in standard deviations


@dataclass(kw_only=True, eq=False, repr=False)
class SelectedRegression(SparseStrategy):
    """Base class of regressions that select variables by a vote, then estimate coefficients.

    Features should be roughly centred and of unit scale.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    samples_per_user : int
        Typical number of records of a user. It is a public guess; a user may hold any number of
        records.
    method : str (default: "auto")
        ``"auto"`` or ``"paper"``, see the subclasses.
    target_scale : float, optional
        Root mean square of the (centred) targets, if it is public. By default a small cohort
        estimates it. With ``"auto"`` it determines the first reports only, and need not be exact.
    selector : str (default: "lasso")
        Method by which users rank features: a key of :data:`~ldp_flower.questions.SELECTORS`. With
        ``"auto"`` there is no vote if there are at most a third as many features as
        ``samples_per_user``.
    min_reports : int (default: 10)
        Smallest number of reports with which a step goes on.

    Raises
    ------
    TooFewReports
        If users are too few for a cohort.
    """

    plans_with = frozenset({"num_features", "rows_per_user", "quality", "variance_between"})

    methods: ClassVar[tuple[Method, ...]] = METHODS  #: Valid values of ``method``.

    samples_per_user: Count
    method: Method = "auto"
    target_scale: Positive | None = None
    selector: str = "lasso"
    min_reports: Count = 10

    def __post_init__(self) -> None:
        check_integer("dim", self.dim, 2)  # first, since the sparsity is compared with it
        super().__post_init__()
        check_choice("method", self.method, self.methods)
        check_choice("selector", self.selector, SELECTORS)
        # Users with many more rows than features can estimate all coefficients.
        self._voting = self.method == "paper" or 3 * self.dim > self.samples_per_user
        if not self._voting:
            check_unused(self, "with samples_per_user >= 3 * dim", "selector")
        ball_codebook(self.epsilon, 1, 1.0)  # raises an error now if epsilon is invalid

    @abstractmethod
    def _regress(
        self, run: Run, selected: Integers, scale: Size, notes: list[str]
    ) -> Generator[Ask, Any, LinearResult]:
        """Query users and return the coefficients of the selected variables, and an intercept.

        ``scale`` is the size of the targets. Notes for the result are appended to ``notes``.
        """

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float, **settings: Any) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: one for each method."""
        settings |= {"selector": "marginal", "target_scale": 1.0, "samples_per_user": 5}
        for method in cls.methods:
            strategy = cls(dim, epsilon=epsilon, sparsity=2, method=method, **settings)
            yield strategy, normal_users(dim, 5)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for at most eight non-zero coefficients."""
        dim, rows = features_of(setting, cls), round(setting.rows_per_user)
        sparsity = min(_PLANNED_SPARSITY, dim)
        return cls(dim, epsilon=epsilon, samples_per_user=rows, sparsity=sparsity)

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return a population for plans: users whose targets follow one linear model."""
        rows, scale = self.samples_per_user, self.target_scale
        return linear_users(setting, self.dim, self.sparsity, samples_per_user=rows, scale=scale)

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the known lower bounds on the error of sparse regression with private users."""
        rows = rows_for(setting, self.samples_per_user)
        return lower_bounds.many_rows(
            self.epsilon, setting.num_users, self.dim, self.sparsity, rows
        )

    def protocol(self, run: Run) -> Protocol:
        """Estimate the scale, let users vote, then others report; return the evaluated model."""
        fewest = _MIN_USERS_PER_COHORT * self.min_reports
        if self.target_scale is None:
            fewest = max(fewest, math.ceil(size_askers(self.epsilon) / _ROUGHLY / _SIZES))
        if run.num_users < fewest:
            why = f"{run.num_users:,} users are too few for a hold-out, a scale, a vote and waves."
            advice = "Declare target_scale if it is public."
            raise TooFewReports(TooFew(why, "cohorts", fewest, advice=advice))
        notes: list[str] = []
        held_out = R2HoldOut(run, rows_per_user=self.samples_per_user)
        scale = yield from self._scale(run)
        selected = np.arange(self.dim)
        if self._voting:
            (cohort,) = run.cohorts([int(_VOTERS * run.num_unasked)])
            selected = yield from self._vote(cohort, notes)
        fit = yield from self._regress(run, selected, scale, notes)
        coef, std_error = np.zeros(self.dim), np.full(self.dim, np.nan)
        coef[selected], std_error[selected] = fit.coef, fit.std_error
        if self.method == "auto":
            clear = np.divide(coef, std_error, out=np.zeros(self.dim), where=std_error > 0)
            notes += support_notes(clear, self.sparsity)
            kept = keep_above(coef, _COEFFICIENT_Z * np.nan_to_num(std_error))
            kept = keep_largest(kept, self.sparsity)
            # The error of an omitted coefficient includes its estimated size.
            std_error = np.where(kept != 0, std_error, np.hypot(std_error, coef))
            coef = kept
        elif self.target_scale is None:
            std_error = np.hypot(std_error, coef * scale.error)
            if scale.error > _MOST_UNSURE:
                notes.append(_UNSURE.format(scale.value, math.exp(scale.error)))
        if not coef.any():
            notes.append("No coefficient exceeds the noise: all coefficients are returned as 0.")
        result = LinearResult(coef=coef, std_error=std_error, intercept=fit.intercept, notes=notes)
        return (yield from held_out.with_r2(result, fit.intercept, scale.value))

    def _scale(self, run: Run) -> Generator[Ask, Estimate, Size]:
        """Return the targets' root mean square, with the error of its logarithm.

        It is the declared value, with error 0, or an estimate from a cohort.
        """
        if self.target_scale is not None:
            return Size(math.log(self.target_scale), 0.0)
        askers = min(size_askers(self.epsilon), math.ceil(_SIZES * run.num_users))
        (cohort,) = run.cohorts([max(askers, run.min_reports)])
        question = ResidualOctave(np.zeros(self.dim), 0.0)
        return (yield from ask_size(cohort, question, self.epsilon, self.samples_per_user))

    def _vote(self, cohort: Cohort, notes: list[str]) -> Generator[Ask, Estimate, Integers]:
        """Query a cohort for votes and return the selected variables in increasing order.

        With ``method="paper"``, users name one variable each, and ``sparsity`` variables are kept.
        Otherwise users name a set, and up to 1.5 times as many variables are kept, if their votes
        are significant.
        """
        paper = self.method == "paper"
        oracle = SubsetSelection(self.epsilon, self.dim)
        if not paper:
            oracle = best_vote(self.epsilon, self.dim, typical_score(self.samples_per_user))
        question = SELECTORS[self.selector]
        vote = yield from ask_vote(cohort, oracle, question, self.samples_per_user)
        order = np.argsort(-vote.counts, kind="stable")
        votes = vote.surplus_z()[order]
        if votes[self.sparsity - 1] < _VOTE_Z:
            clear = int((votes[: self.sparsity] >= _VOTE_Z).sum())
            notes.append(
                f"Of the {self.sparsity} variables with the most votes only {clear} have clearly "
                f"more than chance gives ({_VOTE_Z:g} standard deviations); the others are "
                "guesses."
            )
        if paper:
            return np.sort(order[: self.sparsity])
        most = min(self.dim, math.ceil(_CANDIDATES * self.sparsity))
        counted = int((votes[:most] > ndtri(1 - min(_FALSE_CANDIDATES / self.dim, 0.5))).sum())
        return np.sort(order[: max(counted, 1)])
