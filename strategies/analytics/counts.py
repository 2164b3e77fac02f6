"""Counts: a strategy that estimates the shares of a column's categories."""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.presentation import charts
from ldp_flower.randomizers import HadamardBit
from ldp_flower.validation import Floats

from ..forecasts.populations import audited_users, features_of
from ..numerics.denoising import project_on_simplex
from ..runtime import Ask, Card, Estimates, Protocol, Result, Run, guarantees
from ..runtime.result import first_of, frame, interval
from ..subprotocols.permanent import PermanentForm
from ..sums.budget import Budget
from .base import USEFUL_SHARE, CellStrategy, categories_of
from .cells import ShareEstimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHOWN = 12  # largest number of categories in a result's text
_NUMBER = re.compile(r"\s*[<>]?\s*(-?\d+(?:\.\d+)?)")  # number at a level's start, as in 18-24
_ALL_Z = 2.0  # a share of users within this many standard errors of 1 counts as all users


@dataclass(repr=False, kw_only=True)
class CountsResult(Result):
    """The estimated shares of a column's categories, among users with a category in that column.

    A user with several such rows counts with one of them, which is drawn at random.

    It prints the categories by size. Levels that are increasing numbers, or begin with such (as
    ``"18-24", "25-34"``), keep their order, as all categories do in :meth:`table`.

    Attributes
    ----------
    column : str
        Name of the column.
    categories : list of str
        Its categories.
    shares : ndarray of float64, shape (categories,)
        Unbiased estimates, which add up to 1; the shares of rare categories may be below 0.
    std_error : ndarray of float64, shape (categories,)
        Standard errors of the shares in the population that the users are drawn from. They
        include the random choice of each user's row.
    users_std_error : ndarray of float64, shape (categories,)
        Standard errors of the shares among these users, given the row that each user drew. They
        are smaller than ``std_error``.
    answering, answering_std_error : float
        Estimated share of users who have a row with a category, and its standard error.
    """

    column: str
    categories: list[str]
    shares: Floats
    std_error: Floats
    users_std_error: Floats
    answering: float
    answering_std_error: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.shares])

    @property
    def consistent(self) -> Floats:
        """The nearest non-negative shares that add up to 1, shape (categories,).

        Rare categories are set to 0, and the other shares become slightly smaller. The bias of a
        share may be as large as its standard error.
        """
        return project_on_simplex(self.shares)

    def table(self) -> "DataFrame":
        """Return the categories in their order.

        Returns
        -------
        DataFrame
            The category, in a column named after the table's; its ``share`` among the users with
            a category; the ``standard error`` of the share in the population; the smaller
            standard error ``of these users``, given the rows that they drew; a 95 % interval for
            the population; the ``consistent share``.
        """
        return frame(
            {
                self.column: self.categories,
                "share": self.shares,
                "standard error": self.std_error,
                "of these users": self.users_std_error,
                **interval(self.shares, self.std_error),
                "consistent share": self.consistent,
            }
        )

    def estimates(self) -> Estimates:
        """Return the shares and their standard errors, which a series of collections follows."""
        return Estimates(self.categories, self.shares, self.std_error, self.users_std_error)

    @property
    def _ordered(self) -> bool:
        """True if the categories are increasing numbers, followed by ``other`` at most."""
        kind = None if self.schema is None else self.schema.kind(self.column)
        other = kind.other if isinstance(kind, Categories) else None
        found = [_NUMBER.match(each) for each in self.categories if each != other]
        numbers = [float(each[1]) for each in found if each is not None]
        return len(numbers) == len(found) and numbers == sorted(set(numbers))

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.categories))

    def _draw(self, axes: "Axes") -> None:
        charts.intervals(axes, self.categories, self.shares.tolist(), self.std_error.tolist())
        axes.set_xlabel(f"share of users by {charts.label(self.column)}, with 95 % intervals")

    def _findings(self) -> list[str]:
        order = np.arange(len(self.shares))
        if not self._ordered:
            order = np.argsort(-self.shares, kind="stable")
        lines = [
            f"  {self.categories[i]}: {self.shares[i]:.1%} ± {self.std_error[i]:.1%}" for i in order
        ]
        some = self.answering + _ALL_Z * self.answering_std_error < 1
        of = f"of the {self.answering:.0%} of users who have one" if some else "of all users"
        header = f"{self.column}, {of}:"
        return [header, *first_of(lines, _SHOWN)]


@dataclass(kw_only=True, eq=False, repr=False)
class Counts(CellStrategy[CountsResult]):
    """Strategy that estimates the shares of a column's categories.

    Every user draws one of its rows at random and reports that row's category, once. All users
    have the same weight, however many rows they have. Users without a category also send a report,
    but do not affect the shares (see
    :class:`~ldp_flower.strategies.analytics.cells.ShareEstimator`).

    Other parameters are those of :class:`~.base.CellStrategy`.

    Parameters
    ----------
    column : str
        A column of at most 2,047 categories. It may be the target. Values that are not listed are
        treated as ``Categories(other=...)`` says.

    Notes
    -----
    Sources: Wang, Blocki, Li & Jha (2017) and Ye & Barg (2018) for the frequency oracles, of which
    the least noisy is used. If the standard error of a share would exceed 0.1, the run sends no
    queries.
    """

    _share_of = "a category"
    guarantee = guarantees.PER_USER
    card = Card(
        question="shares of a column's categories, with standard errors",
        guarantee="pure epsilon",
        rounds="1 or 2",
        report="1-2, up to 64 with many categories",
        use_when="the categories are known",
        fails_when="for shares below some .04 with 1,000 users at epsilon 1",
        page="analytics",
    )

    column: str = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._categories = categories_of(self.schema, "column", self.column)
        self._set_cells([self.column])

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: on a target and, if dim > 2, a feature."""
        numbers = {f"x{i}": Numeric(-1, 1) for i in range(1, max(2, dim))}
        schemas = [Schema(numbers, "sort", Categories(["a", "b", "c"]))]
        if dim > 2:
            schemas.append(Schema({"sort": Categories([str(i) for i in range(dim - 1)])}))
        for schema in schemas:
            yield cls(schema, "sort", epsilon=epsilon), audited_users(schema, 4000, 2)

    def _asked(self, run: Run) -> Protocol:
        """Query the users for their categories and return the shares."""
        return counts_result(self.column, self._categories, (yield from self._found(run)))

    def of_nodes(self, budget: Budget, share: float) -> Generator[Ask, Any, CountsResult]:
        """Ask all users for noisy sums over nodes by a share of the budget; return the shares."""
        found = yield from self.shares_of_nodes(budget, share)
        return counts_result(self.column, self._categories, found)

    def permanent(self) -> PermanentForm:
        """Return the form of the question for a series in which users keep their answers.

        A user reports the sign that its category's row of a Hadamard matrix has in the user's
        column. Missing values are one additional category.
        """
        number = len(self._categories)
        oracle = HadamardBit(self.epsilon, number + 1)

        def read(found: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
            cells = found[0][:number]
            answering = max(float(cells.sum()), 1e-9)
            shares = cells / answering
            slope = (np.eye(number, number + 1) - shares[:, None]) / answering
            slope[:, number] = 0.0
            return shares, [slope]

        one_user = oracle.variance**0.5
        return PermanentForm(
            self._categories, [(self._question, oracle)], read, one_user, USEFUL_SHARE
        )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for a column of ``num_features`` categories."""
        kind = Categories([str(i) for i in range(features_of(setting, cls))])
        return cls(Schema({"column": kind}), "column", epsilon=epsilon)


def counts_result(column: str, categories: list[str], found: ShareEstimates) -> CountsResult:
    """Return the result for a column, from the shares of all users in each category."""
    answering = found.answering
    shares, covariance = found.among_answering()
    likely = found.likely / max(found.likely.sum(), 1e-9)
    spread = likely * (1 - likely) / (min(answering, 1.0) * found.users)
    population = np.maximum(np.diag(covariance), 0.0)
    error = float(found.error_of(np.ones((1, len(shares))))[0])
    notes = []
    if answering < 3 * error:
        notes.append(
            f"The share of users with a value of {column!r}, {answering:.1%} ± {error:.1%}, is not "
            "clearly above 0. The categories' shares are relative to it, so their standard errors "
            "are unreliable. Ask more users or use a larger epsilon."
        )
    return CountsResult(
        column=column,
        categories=categories,
        shares=shares,
        std_error=np.sqrt(population),
        users_std_error=np.sqrt(np.maximum(population - spread, 0.0)),
        answering=min(answering, 1.0),
        answering_std_error=error,
        notes=notes,
    )
