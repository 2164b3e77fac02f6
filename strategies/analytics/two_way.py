"""TwoWay: a strategy that estimates a contingency table and tests independence."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import number, p_value_text
from ldp_flower.validation import Floats, check_integer

from ..forecasts.populations import audited_users, features_of
from ..runtime import Card, Estimates, Protocol, Result, Run, guarantees
from ..runtime.result import frame
from ..sums.budget import Budget
from .base import CellStrategy, categories_of
from .cells import MOST_CELLS, ShareEstimator, names_of_ranges
from .counts import counts_result
from .independence import independence, smoothed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Candidate numbers of cells of a column of numbers. A run takes the largest one with which the
# noise of a share is at most _NOISE times the mean share.
_CELLS, _NOISE = (4, 6, 8, 12, 16), 0.5
_SIGNIFICANCE = 0.05  # significance level of the test in a result's text


@dataclass(repr=False, kw_only=True)
class TwoWayResult(Result):
    """A contingency table of shares, and a test of independence.

    Attributes
    ----------
    row, column : str
        Names of the two columns.
    row_categories, column_categories : list of str
        Categories of the two columns; for a column of numbers the names of its cells, such as
        ``"18 to 27"``.
    shares : ndarray of float64, shape (rows, columns)
        Unbiased estimates of the cells' shares among users with a row that has both entries.
        They add up to 1; some may be below 0.
    std_error, users_std_error : ndarray of float64, shape (rows, columns)
        Standard errors of the shares in the population that the users are drawn from, including
        the random choice of each user's row; and the smaller standard errors among these users,
        given the rows that they drew.
    smoothed : ndarray of float64, shape (rows, columns)
        The shares, shrunk towards the shares of independent columns with the same margins. The
        noise determines how far. No share is below 0. As a whole the table is closer to the truth.
    chi_squared : float
        Test statistic of all deviations from independence.
    degrees_of_freedom : int
        Degrees of freedom of the statistic's distribution under independence, if all cells were
        large.
    p_value : float
        Probability of a statistic that is at least as large if the columns are independent, from
        simulated tables with this noise. So it is not that of a chi-squared distribution with these
        degrees of freedom.
    answering : float
        Share of the users who have a row with both entries.
    """

    row: str
    column: str
    row_categories: list[str]
    column_categories: list[str]
    shares: Floats
    std_error: Floats
    users_std_error: Floats
    smoothed: Floats
    chi_squared: float
    degrees_of_freedom: int
    p_value: float
    answering: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.shares])

    def table(self) -> "DataFrame":
        """Return the cells, row by row.

        Returns
        -------
        DataFrame
            The two categories; their ``share``; its ``standard error`` for the population; the
            smaller standard error ``of these users``; the ``smoothed`` share.
        """
        rows, columns = len(self.row_categories), len(self.column_categories)
        return frame(
            {
                self.row: np.repeat(self.row_categories, columns),
                self.column: np.tile(self.column_categories, rows),
                "share": self.shares.ravel(),
                "standard error": self.std_error.ravel(),
                "of these users": self.users_std_error.ravel(),
                "smoothed": self.smoothed.ravel(),
            }
        )

    def estimates(self) -> Estimates:
        """Return the shares and their standard errors, which a series of collections follows."""
        names = [
            f"{row}, {column}" for row in self.row_categories for column in self.column_categories
        ]
        errors = self.std_error.ravel(), self.users_std_error.ravel()
        return Estimates(names, self.shares.ravel(), *errors)

    def crosstab(self) -> "DataFrame":
        """Return the smoothed shares in the layout of pandas' ``crosstab``, rows by columns."""
        from pandas import DataFrame, Index

        rows = Index(self.row_categories, name=self.row)
        columns = Index(self.column_categories, name=self.column)
        return DataFrame(self.smoothed, index=rows, columns=columns)

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.row_categories)) + 0.6

    def _draw(self, axes: "Axes") -> None:
        image = axes.imshow(self.smoothed, cmap="Greens", vmin=0.0, aspect="auto")
        axes.set_xticks(*self._ticks(self.column, self.column_categories))
        axes.set_yticks(*self._ticks(self.row, self.row_categories))
        if len(axes.get_yticks()) > len(self.row_categories):
            axes.invert_yaxis()  # numbers increase upwards
        axes.tick_params(axis="x", rotation=90 if len(self.column_categories) > 8 else 0)
        axes.set_xlabel(charts.label(self.column))
        axes.set_ylabel(charts.label(self.row))
        axes.figure.colorbar(image, ax=axes, label="share of users")

    def _ticks(self, name: str, cells: list[str]) -> tuple[Floats, list[str]]:
        """Return the positions of an axis's ticks, and their labels.

        The labels are the categories, or the ends of the cells of a column of numbers.
        """
        kind = None if self.schema is None else self.schema.kind(name)
        if not isinstance(kind, Numeric):
            return np.arange(float(len(cells))), list(map(charts.label, cells))
        ends = np.linspace(kind.low, kind.high, len(cells) + 1)
        return np.arange(float(len(ends))) - 0.5, list(map(number, ends))

    def _findings(self) -> list[str]:
        verdict = "go together" if self.p_value < _SIGNIFICANCE else "may be independent"
        p_value = p_value_text(self.p_value)
        return [f"{self.row} and {self.column} {verdict}: {p_value} in a test of independence"]


@dataclass(kw_only=True, eq=False, repr=False)
class TwoWay(CellStrategy[TwoWayResult]):
    """Strategy that estimates the contingency table of two columns and tests independence.

    Every user draws one of its rows that has both entries at random and reports its cell, once.
    All users have the same weight. Users without such a row do not affect the table.

    Other parameters are those of :class:`~.base.CellStrategy`.

    Parameters
    ----------
    row, column : str
        Two columns, with at most 2,047 cells together. One may be the target.
    cells : int, optional
        Number of cells of a column of numbers, which divide its bounds evenly. The default is from
        4 to 16, such that the noise of a share is at most half of the mean share.

    Notes
    -----
    The cells' shares are estimated as in :class:`Counts`. The test statistic is a quadratic form of
    the cells' deviations from the product of the margins. Its weights are the inverse of the
    deviations' covariance under independence, which includes the known noise of the randomizers.
    Pearson's statistic of noisy counts would nearly always reject independence. The null
    distribution of the statistic is estimated from simulated tables with this noise. ``smoothed``
    starts from the nearest table without negative shares. Its deviations are multiplied by the
    part of their sum of squares that noise does not explain (James & Stein 1961). Its margins do
    not change.
    """

    _share_of = "a cell"
    guarantee = guarantees.PER_USER
    card = Card(
        question="contingency table of two columns, with a test of independence",
        guarantee="pure epsilon",
        rounds="1 or 2",
        report="1-2, up to 64 with many cells",
        use_when="two columns of some categories each, or of numbers, may go together",
        fails_when="for tables of 40 cells with 10,000 users at epsilon 1, mostly noise",
        page="analytics",
    )

    row: str = field(kw_only=False)
    column: str = field(kw_only=False)
    cells: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {"row": self.row, "column": self.column}
        kinds = {name: self.schema.kind(name, argument) for argument, name in given.items()}
        if self.row == self.column:
            raise ValueError(f"Expected two different columns, got row and column {self.row!r}.")
        numbers = {name: kind for name, kind in kinds.items() if isinstance(kind, Numeric)}
        if self.cells is not None:
            check_integer("cells", self.cells, 2, MOST_CELLS - 1)
            if not numbers:
                raise ValueError(
                    f"Expected cells with numbers as row or column, got cells={self.cells} with "
                    f"the categories of {self.row!r} and {self.column!r}."
                )
        #: True if a run chooses the number of cells.
        self.chooses_cells = bool(numbers) and self.cells is None
        cells = self.cells or _CELLS[0]
        names = {
            name: names_of_ranges(np.linspace(kind.low, kind.high, cells + 1))
            for name, kind in numbers.items()
        }
        self._rows, self._columns = (
            names.get(name) or categories_of(self.schema, argument, name)
            for argument, name in given.items()
        )
        if (most := len(self._rows) * len(self._columns)) >= MOST_CELLS:
            raise ValueError(f"Expected at most {MOST_CELLS - 1} cells of both, got {most}.")
        edges = {n: np.linspace(*kind.ends, cells + 1)[1:-1] for n, kind in numbers.items()}
        self._set_cells([self.row, self.column], edges)
        # Shares come with categories before numbers.
        self._turned = self.row in numbers and self.column not in numbers

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: on the table of a feature and the target."""
        sorts = Categories([str(i) for i in range(max(2, dim - 1))])
        schema = Schema({"sort": sorts}, "kind", Categories(["a", "b"]))
        yield cls(schema, "sort", "kind", epsilon=epsilon), audited_users(schema, 8000, 2)

    def _asked(self, run: Run) -> Protocol:
        """Query the users for their cells; return the table and the test of independence."""
        if self.chooses_cells:
            return (yield from replace(self, cells=self._cells_for(run))._asked(run))
        found = yield from self._found(run)
        shape = len(self._rows), len(self._columns)
        if self._turned:
            order = np.arange(len(found.cells)).reshape(shape[::-1]).T.ravel()
            covariance = found.covariance[np.ix_(order, order)]
            found = replace(found, cells=found.cells[order], covariance=covariance)
        shown = counts_result(f"{self.row} and {self.column}", [], found)
        chi_squared, p_value = independence(found, shape)
        return TwoWayResult(
            row=self.row,
            column=self.column,
            row_categories=self._rows,
            column_categories=self._columns,
            shares=shown.shares.reshape(shape),
            std_error=shown.std_error.reshape(shape),
            users_std_error=shown.users_std_error.reshape(shape),
            smoothed=smoothed(shown.shares.reshape(shape), found.among_answering()[1]),
            chi_squared=chi_squared,
            degrees_of_freedom=(shape[0] - 1) * (shape[1] - 1),
            p_value=p_value,
            answering=shown.answering,
            notes=shown.notes,
        )

    def _cells_for(self, run: Run) -> int:
        """Return into how many cells a column of numbers is cut, given the noise of shares."""
        budget = Budget.of(run, self.delta) if self.noise != "user" else None
        found = _CELLS[0]
        for cells in _CELLS[1:]:
            size = math.prod(
                cells if isinstance(self.schema.kind(name), Numeric) else len(own)
                for name, own in ((self.row, self._rows), (self.column, self._columns))
            )
            if size >= MOST_CELLS:
                break
            if budget:
                noise = budget.error(budget.cells(size, 1.0))
            else:
                each = ShareEstimator(self.epsilon, size).noise(run.num_users)
                noise = math.sqrt(each / run.num_users)
            if noise * size <= _NOISE:
                found = cells
        return found

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for columns of ``num_features`` categories each."""
        kind = Categories([str(i) for i in range(features_of(setting, cls))])
        return cls(Schema({"row": kind, "column": kind}), "row", "column", epsilon=epsilon)
