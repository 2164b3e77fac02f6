"""Difference: a strategy that compares the means of a number in two arms, for A/B tests."""

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.guarantee.arms import assigned_arms, end_of_first, salt_of
from ldp_flower.guarantee.messages import NUMBERS
from ldp_flower.presentation.words import number
from ldp_flower.questions import TableCell
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats, check_fraction, check_truth, check_unused

from ..forecasts.columns import HUMP_SHAPE, OWN_ENTRY, SPREAD, Columns, ColumnUsers, column_users
from ..forecasts.populations import audited_users
from ..numerics.denoising import project_on_simplex
from ..runtime import Ask, Card, Cohort, Protocol, Run, guarantees
from ..runtime.at_node import AtNode
from ..runtime.run import Arguments
from ..runtime.run_store import RunStore
from ..sums.budget import Budget
from .base import ColumnStrategy, categories_of, too_noisy
from .cells import ShareEstimator, cell_question
from .difference_result import DifferenceResult
from .difference_window import (
    HUMP,
    LEVELS,
    SKEWED,
    Window,
    best_window,
    pilot_oracles,
    stated_errors,
)
from .levels import Levels
from .means import GROUP_Z, Means

_PILOT = 0.08  # share of the users whose rounded numbers determine the window
_ERROR = "standard error of a difference, in widths of the bounds"
_SKEWED = (
    "In a skewed column (exponential, with a mean of a fifth of the bounds' distance) the error is "
    "about {}."
)
_USEFUL = 0.25  # largest standard error, for numbers in [-1, 1], at which a run still starts
_WHOLE = 0.02  # part of the bounds' distance that a window may leave out without a note


@dataclass(kw_only=True, eq=False, repr=False)
class Difference(AtNode, ColumnStrategy[DifferenceResult]):
    """Strategy that estimates by how much the means of a number differ between two arms.

    A twelfth of the users report their rounded numbers, from which the run chooses a window that
    holds nearly all numbers. The others report their number within this window. Noise is
    proportional to the width of the window instead of the bounds' distance.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    column : str
        Column of numbers. A user's number is the mean of its rows, within the bounds. If arms are
        not assigned, it is the mean of its rows in the arm of a row that is drawn at random.
    by : str
        Column of two categories, the arms. The first category is arm 0.
    assigned : bool (default: False)
        True if the arms are those of :func:`~ldp_flower.assigned_arms`, with the column's name as
        the name of the experiment. Users are then asked by arm, which is public, and report
        numbers only. The column itself is not read, so the difference is by assignment. If False,
        the arm is private, and users report it with their number.
    allocation : float (default: 0.5)
        Share of the users in the first arm, with ``assigned``.
    window : bool (default: True)
        If False, numbers are clipped at the bounds only, and all users report them. Use this if
        rare large numbers may make the difference, such as the ones among 0 and 1.

    Notes
    -----
    The window minimises the squared standard error of the difference. This error covers the noise,
    and three quarters of the mean distance of numbers from the window: clipping removes this
    distance, and the arms may differ in it. Numbers in the window are reported as in
    :class:`Means`. The standard error of private arms includes the covariance of the two means.
    With noise at the node all users report their moments in both arms, without a window.
    """

    plans_with = frozenset()
    guarantee = (
        *guarantees.PER_USER,
        "With ``assigned``, a user's arm is public. It is a hash of the user's number and of the "
        "experiment's name, which depends on no data. The number is public, too: it is a keyed "
        "hash of the user's name on its ledger.",
    )
    card = Card(
        question="difference of two arms' means, for A/B tests",
        guarantee="pure epsilon",
        rounds="2-5",
        report="1",
        use_when="a number has bounds and the arms are known, best by a public coin",
        fails_when="for private arms at epsilon 0.5 with fewer than 4,826 users",
        page="analytics",
    )

    column: str = field(kw_only=False)
    by: str
    assigned: bool = False
    allocation: float = 0.5
    window: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.schema.kind(self.column, "column")
        if not isinstance(kind, Numeric):
            raise ValueError(
                f"Expected column from the columns of numbers, got {self.column!r}, one of "
                "categories. For a rate, let the device send 0 or 1, declare Numeric(0, 1), and "
                "take window=False."
            )
        self._kind = kind
        self._means = Means(self.schema, self.column, by=self.by, **self._shared)
        self._arms = categories_of(self.schema, "by", self.by)
        if len(self._arms) != 2:
            raise ValueError(f"Expected two arms in {self.by!r}, got {self._arms}.")
        check_fraction("allocation", self.allocation)
        check_truth("assigned", self.assigned)
        check_truth("window", self.window)
        if not self.assigned:
            check_unused(self, "with arms that are not assigned", "allocation")
        if self.noise != "user":
            if not self.window:
                raise ValueError(
                    f"Expected no argument window with noise={self.noise!r}, got window=False. "
                    "With noise at the node, numbers are clipped at the column's bounds only, so "
                    "there is no window to switch off. Leave window out."
                )
            if self.assigned:
                raise ValueError(
                    f"Expected assigned=False with noise={self.noise!r}, got True: with noise at "
                    "the node, arms stay private, which hardly adds to the error."
                )
        self._levels = Levels(self.epsilon, 1 if self.assigned else 2)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: of assigned arms, and of private arms."""
        columns = {f"x{i}": Numeric(-1, 1) for i in range(1, max(2, dim))}
        schema = Schema(columns, "arm", Categories(["a", "b"]))
        users = audited_users(schema, 12_000)
        users.targets[:] = assigned_arms("arm", np.arange(len(users)))
        yield cls(schema, "x1", by="arm", assigned=True, epsilon=epsilon), users
        if dim > 1:
            yield cls(schema, "x1", by="arm", epsilon=epsilon), users

    def with_noise(self, noise: str) -> Self:
        """Return this strategy with noise at the node, or shared, where arms are private."""
        return replace(self, noise=noise, assigned=False, allocation=0.5, window=True)

    def _asked(self, run: Run) -> Protocol:
        """Query some users for the window, and the others for their numbers in it.

        Return the difference of the arms' means.
        """
        if self.noise != "user":
            return (yield from self._at_node(run))
        pilots, waves = self._sizes(self._sizes_of_arms(run))
        # By their hashes, the users of both arms who report for the window lie between the arms, so
        # that one question asks them all.
        sizes = [*waves[0], *([pilots] if pilots else []), *(s for own in waves[1:] for s in own)]
        cohorts = run.cohorts(sizes)
        window = Window()
        if pilots:
            noise = self._noise([sum(own) for own in waves])
            window = yield from self._window(cohorts.pop(len(waves[0])), noise)
        question = self._within(window)
        found, levels = [], self._levels
        for own in waves:
            mine, cohorts = cohorts[: len(own)], cohorts[len(own) :]
            found.append((yield from levels.shares.estimate(mine, question)))
        groups = [levels.means(each, None, run.num_users) for each in found]
        mean, error, share, share_error = (
            np.concatenate([getattr(each, name) for each in groups])
            for name in ("mean", "population_std_error", "share", "share_error")
        )
        noise = float(np.hypot(*error)) if self.assigned else levels.error_of_difference(found[0])
        return self._result(mean, error, noise, window, share > GROUP_Z * share_error)

    def _window(self, cohort: Cohort, noise: float) -> Generator[Ask, Estimate, Window]:
        """Query users for their rounded numbers, and return the window with the least error."""
        question = cell_question(self.schema, [], self.column, LEVELS)
        found = yield from ShareEstimator(self.epsilon, LEVELS).estimate([cohort], question)
        return best_window(project_on_simplex(found.among_answering()[0]), noise)

    def _within(self, window: Window) -> TableCell:
        """Return the question for a user's level within a window, with the arm if private."""
        by = [] if self.assigned else [self.by]
        question = cell_question(self.schema, by, self.column, self._levels.number)
        low, high = self._kind.ends
        ends = window.middle + np.array([-1, 1]) * window.half
        low, high = (low + high) / 2 + (high - low) / 2 * ends
        return replace(question, low=float(low), high=float(high))

    def _at_node(self, run: Run) -> Generator[Ask, Any, DifferenceResult]:
        """Query all users for the sums of their moments in both arms."""
        budget = Budget.of(run, self.delta)
        ((arms, _),) = yield from self._means.moments(budget, 1.0)
        errors, clear = arms.population_std_error, arms.share > GROUP_Z * arms.share_error
        return self._result(arms.mean, errors, float(np.hypot(*errors)), Window(), clear)

    def _result(
        self, mean: Floats, error: Floats, noise: float, window: Window, clear: NDArray[np.bool_]
    ) -> DifferenceResult:
        """Return the result in the column's units.

        ``mean`` has the arms' means in [-1, 1] within the window, and ``clear`` is True for arms
        that have users.
        """
        low, high = self._kind.low, self._kind.high
        half, middle = (high - low) / 2, (high + low) / 2
        ends = middle + half * (window.middle + np.array([-1, 1]) * window.half)
        means = middle + half * (window.middle + window.half * mean)
        stated = half * window.error(noise)
        return DifferenceResult(
            column=self.column,
            by=self.by,
            arms=self._arms,
            means=np.where(clear, means, np.nan),
            std_errors=np.where(clear, half * window.half * error, np.inf),
            difference=float(means[1] - means[0]) if clear.all() else math.nan,
            std_error=stated if clear.all() else math.inf,
            window=ends,
            notes=self._notes(ends, clear),
        )

    def _notes(self, ends: Floats, clear: NDArray[np.bool_]) -> list[str]:
        notes = []
        if not clear.all():
            hidden = ", ".join(self._arms[i] for i in np.flatnonzero(~clear))
            notes.append(
                f"The share of users in {hidden} of {self.by!r} with a number in {self.column!r} "
                "is not clearly above 0, so the difference is not estimated. Texts, such as '1,5', "
                "are no numbers."
            )
        kind, near = self._kind, _WHOLE * (self._kind.high - self._kind.low)
        low, high = ends.tolist()
        sides = [f"below {number(low)}"] * (low > kind.low + near)
        sides += [f"above {number(high)}"] * (high < kind.high - near)
        if sides:
            notes.append(
                f"The effect on numbers of {self.column!r} {' and '.join(sides)} is not counted in "
                f"full. If {self._arms[1]!r} changes these most, the true difference is larger: "
                "use window=False."
            )
        return notes

    def _sizes_of_arms(self, run: Run) -> list[int]:
        """Return the number of users in each cohort.

        If arms are assigned, each arm is one cohort. If arms are private, all users are one cohort.
        """
        if not self.assigned:
            return [run.num_users]
        first = run.population.between(0, end_of_first(self.allocation)).size
        return [first, run.num_users - first]

    def _planned_arms(self, num_users: int) -> list[int]:
        """Return the number of users in each cohort of arms that a plan assumes.

        If arms are assigned, each arm is one cohort, in proportion to ``allocation``. If arms are
        private, all users are one cohort.
        """
        first = int(self.allocation * num_users)
        return [first, num_users - first] if self.assigned else [num_users]

    def _sizes(self, arms: list[int]) -> tuple[int, list[list[int]]]:
        """Return two things: the number of users who report for the window, and waves' sizes.

        The sizes are a list for each arm in ``arms``, the arms' numbers of users.
        """
        pilots = [self.window * max(self.min_reports, int(_PILOT * users)) for users in arms]
        left = [max(users - own, 1) for users, own in zip(arms, pilots, strict=True)]
        return sum(pilots), [self._levels.shares.sizes(own, self.min_reports) for own in left]

    def _noise(self, sizes: list[int]) -> float:
        """Return the variance that noise adds to the difference, for numbers in [-1, 1].

        ``sizes`` has the number of users who report a number: of each arm if arms are assigned,
        and otherwise of all.
        """
        each = sizes if self.assigned else 2 * sizes
        return sum(self._levels.variance / users for users in each)

    def _refusal(self, num_users: int) -> TooFew | None:
        if self.noise != "user" or (not self.assigned and num_users >= self.min_reports):
            if refusal := self._means._refusal(num_users):
                return refusal
            if self.noise != "user":
                return None
        _, waves = self._sizes(self._planned_arms(num_users))
        if min(size for own in waves for size in own) < self.min_reports:
            return self.too_small(num_users)
        variance = num_users * self._noise([sum(own) for own in waves])
        return too_noisy(self, num_users, variance, _USEFUL, "the difference")

    @contextmanager
    def _opened_store(self, *arguments: Any) -> Iterator[RunStore]:
        """Open the run's store.

        With assigned arms, write the experiment's salt to it as the run's salt, so that the cohorts
        are the arms.
        """
        with super()._opened_store(*arguments) as kept:
            if self.assigned:
                kept.put("salt", salt_of(self.by))
            yield kept

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return what the census also asks of nodes: with assigned arms, each user's public number.

        A hash of this number gives the user's arm. Without assigned arms, nothing more is asked.
        """
        return RecordDict({NUMBERS: ConfigRecord()} if self.assigned else {})

    def check_users(self, users: Users) -> None:
        """Raise ValueError if the arms in users' rows are not the assigned ones."""
        if not self.assigned:
            return
        places = list(self.schema.places(self.by))
        of_target = places == [users.num_features]
        own = users.targets if of_target else users.features[:, places].argmax(axis=1)
        known = np.isfinite(own)
        if not of_target and users.missing is not None:
            known &= ~users.missing[:, places[0]]
        user = np.repeat(np.arange(len(users)), users.num_rows)
        arms = assigned_arms(self.by, (users.first or 0) + user, self.allocation)
        if others := len(np.unique(user[known & (own != arms)])):
            raise ValueError(
                f"Expected the arms of assigned_arms({self.by!r}, range(num_users)) in "
                f"{self.by!r}, got others for {others:,} of {len(users):,} users. If you made "
                "them by assigned_arms, keep the order of the rows, and list the category of arm 0 "
                "first. Arms that something else has assigned are private: leave out assigned."
            )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for a column of numbers and assigned arms of one size."""
        schema = Schema({"x": Numeric(0, 1), "arm": Categories(["a", "b"])})
        return cls(schema, "x", by="arm", assigned=True, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> ColumnUsers | None:
        """Return users on whom a plan simulates the protocol; None with noise at the user.

        The planned error is the standard error that a result states. With noise at the user each
        simulated run would choose another window, and a few runs would not show the typical error.
        Plans then use :meth:`expect`.
        """
        if self.noise == "user":
            return None
        names = [self.column, self.by]
        return column_users(self.schema, names, setting, _ERROR, _stated, useless=SPREAD)

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected standard error of a run with noise at the user.

        It is the median over simulated windows.
        """
        if refusal := self.refusal(setting.num_users):
            raise WouldRefuse(refusal)
        pilots, waves = self._sizes(self._planned_arms(setting.num_users))
        noise = self._noise([sum(own) for own in waves])
        hump, skewed = (
            stated_errors(law, noise, self._levels, pilots) / 2 for law in (HUMP, SKEWED)
        )
        low, value, high = np.quantile(hump, (0.1, 0.5, 0.9)).tolist()
        oracles = [self._levels.shares.oracles(own) for own in waves]
        arms = "Arms are private (assigned=False), and of one size."
        if self.assigned:
            arms = f"Arms are assigned, with {self.allocation:.0%} of the users in the first."
        return Expectation(
            error=_ERROR,
            value=value,
            low=low,
            high=high,
            rounds=sum(map(len, waves)) + bool(pilots),
            randomizers=tuple(dict.fromkeys(chain(pilot_oracles(self.epsilon, pilots), *oracles))),
            assumes=(arms, HUMP_SHAPE, OWN_ENTRY),
            notes=(_SKEWED.format(number(np.median(skewed))),),
        )


def _stated(result: Any, columns: Columns) -> float:
    """Return the standard error that a result states, in units of the bounds' distance."""
    kind = result.schema.kind(result.column)
    return float(result.std_error / (kind.high - kind.low))
