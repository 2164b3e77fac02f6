"""TwoWay: a strategy that estimates a contingency table and tests independence."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from flwr.app import ArrayRecord
from numpy.random import default_rng
from scipy.stats import chi2

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.presentation import charts
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.validation import Floats

from ..forecasts.populations import features_of
from ..numerics.denoising import project_on_simplex
from ..numerics.sample import sampling
from ..runtime import Card, Estimates, Protocol, Result, Run, guarantees
from ..runtime.result import frame
from .base import CellStrategy, categories_of
from .cells import MOST_CELLS, ShareEstimates
from .counts import counts_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_TABLES = 24  # number of simulated tables that estimate the noise in the deviations
_TABLES_OF_TEST = 400  # number of simulated tables that estimate the test's null distribution
_SIGNIFICANCE = 0.05  # significance level of the test in a result's text


@dataclass(repr=False, kw_only=True)
class TwoWayResult(Result):
    """A contingency table of shares, and a test of independence.

    Attributes
    ----------
    row, column : str
        Names of the two columns.
    row_categories, column_categories : list of str
        Their categories.
    shares : ndarray of float64, shape (rows, columns)
        Unbiased estimates of the cells' shares among users with a row that has both categories.
        They add up to 1; some may be below 0.
    std_error, users_std_error : ndarray of float64, shape (rows, columns)
        Standard errors of the shares in the population that the users are drawn from, including
        the random choice of each user's row; and the smaller standard errors among these users,
        given the rows that they drew.
    smoothed : ndarray of float64, shape (rows, columns)
        The shares, shrunk towards those of independent columns with the same margins. The noise
        determines how far. No share is below 0. As a whole they are closer to the truth.
    chi_squared : float
        Test statistic of all deviations from independence.
    degrees_of_freedom : int
        Degrees of freedom of the statistic's distribution under independence, if all cells were
        large.
    p_value : float
        Probability of a statistic that is at least as large if the columns are independent.
    answering : float
        Share of the users who have a row with both categories.
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
        """Return the shares and their standard errors, for a series of collections."""
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
        axes.set_xticks(
            range(len(self.column_categories)), list(map(charts.label, self.column_categories))
        )
        axes.set_yticks(
            range(len(self.row_categories)), list(map(charts.label, self.row_categories))
        )
        axes.tick_params(axis="x", rotation=90 if len(self.column_categories) > 8 else 0)
        axes.set_xlabel(charts.label(self.column))
        axes.set_ylabel(charts.label(self.row))
        axes.figure.colorbar(image, ax=axes, label="share of users")

    def _findings(self) -> list[str]:
        verdict = "go together" if self.p_value < _SIGNIFICANCE else "may be independent"
        return [
            f"{self.row} and {self.column} {verdict}: chi-squared {self.chi_squared:.1f} with "
            f"{self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.2g}"
        ]


@dataclass(kw_only=True, eq=False, repr=False)
class TwoWay(CellStrategy[TwoWayResult]):
    """Strategy that estimates the contingency table of two columns and tests independence.

    Every user draws one of its rows that has both categories at random and reports these, once.
    All users have the same weight. Users without such a row do not affect the table.

    Other parameters are those of :class:`~.base.CellStrategy`.

    Parameters
    ----------
    row, column : str
        Two columns of categories, with at most 2,047 cells together. One may be the target.

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
        use_when="two columns of some categories each may go together",
        fails_when="for tables of 40 cells with 10,000 users at epsilon 1, mostly noise",
        page="analytics",
    )

    row: str = field(kw_only=False)
    column: str = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows = categories_of(self.schema, "row", self.row)
        self._columns = categories_of(self.schema, "column", self.column)
        if self.row == self.column:
            raise ValueError(f"Expected two different columns, got row and column {self.row!r}.")
        cells = len(self._rows) * len(self._columns)
        if cells >= MOST_CELLS:
            raise ValueError(f"Expected at most {MOST_CELLS - 1} cells of both, got {cells}.")
        self._set_cells([self.row, self.column], cells)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a run on the table of a feature and the target."""
        size = max(2, dim - 1)
        kinds = Categories([str(i) for i in range(size)])
        schema = Schema({"sort": kinds}, "kind", Categories(["a", "b"]))
        rows = np.arange(8000)
        features = np.hstack([np.ones((8000, 1)), np.eye(size)[rows % size]])
        yield (
            cls(schema, "sort", "kind", epsilon=epsilon),
            Users.from_rows(features, rows // 3 % 2, groups=rows // 2),
        )

    def _asked(self, run: Run) -> Protocol:
        """Query the users for their cells; return the table and the test."""
        found = yield from self._found(run)
        shape = len(self._rows), len(self._columns)
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

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for two columns of ``num_features`` categories each."""
        kind = Categories([str(i) for i in range(features_of(setting, cls))])
        return cls(Schema({"row": kind, "column": kind}), "row", "column", epsilon=epsilon)


def _deviations(shares: Floats) -> tuple[Floats, Floats]:
    """Return the deviations from the product of the margins, and their Jacobian."""
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    same_row = np.kron(np.eye(len(rows)), np.ones((len(columns), len(columns))))
    same_column = np.kron(np.ones((len(rows), len(rows))), np.eye(len(columns)))
    jacobian = (
        np.eye(shares.size)
        - np.tile(columns, len(rows))[:, None] * same_row
        - np.repeat(rows, len(columns))[:, None] * same_column
    )
    return shares - np.outer(rows, columns), jacobian


def independence(found: ShareEstimates, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the test statistic of independence and its p-value.

    The deviations are weighted by the inverse of their covariance under independence. The null
    distribution is a multiple of a chi-squared distribution, with the mean and the variance that
    the statistic has in simulated tables with this noise.
    """
    shares, _ = found.among_answering()
    shown = project_on_simplex(shares).reshape(shape)
    null = np.outer(shown.sum(axis=1), shown.sum(axis=0)).ravel()
    noise = found.covariance - sampling(found.likely, found.users)
    independent = replace(
        found,
        cells=found.answering * null,
        covariance=noise + sampling(found.answering * null, found.users),
    )
    _, among = independent.among_answering()
    _, jacobian = _deviations(null.reshape(shape))
    # the deviations of these cells determine all others
    free = np.arange(shares.size).reshape(shape)[:-1, :-1].ravel()
    weights = np.linalg.pinv((jacobian @ among @ jacobian.T)[np.ix_(free, free)], hermitian=True)

    def statistic(shares: Floats) -> Floats:
        """Return the statistics of tables of shares, shape (tables, rows, columns)."""
        margins = shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :]
        off = (shares - margins).reshape(len(shares), -1)[:, free]
        return np.asarray(np.einsum("ti,ij,tj->t", off, weights, off))

    rng = default_rng(0)
    rest = max(1 - found.answering, 0.0)
    chances = np.append(found.answering * null, rest)
    drawn = rng.multinomial(found.users, chances / chances.sum(), _TABLES_OF_TEST)[:, :-1]
    values, vectors = np.linalg.eigh(noise)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    cells = drawn / found.users + rng.standard_normal((_TABLES_OF_TEST, len(root))) @ root.T
    cells /= np.maximum(cells.sum(axis=1), 1e-9)[:, None]
    usual = statistic(cells.reshape(-1, *shape))
    own = float(statistic(shares.reshape(1, *shape))[0])
    scale = float(usual.var() / (2 * usual.mean()))
    return own, float(chi2.sf(own / scale, usual.mean() / scale))


def smoothed(shares: Floats, covariance: Floats) -> Floats:
    """Return non-negative shares that are shrunk towards independence.

    Negative shares are removed first. The remaining deviations are compared with those that
    independent columns have in simulated tables with this noise.
    """
    shown = project_on_simplex(shares.ravel()).reshape(shares.shape)
    product = np.outer(shown.sum(axis=1), shown.sum(axis=0))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = KeyedRandom(derive(np.arange(_TABLES))).normals((_TABLES, shares.size)) @ root.T
    drawn = [project_on_simplex(product.ravel() + each).reshape(shares.shape) for each in noise]
    expected = float(np.mean([_squares(each) for each in drawn]))
    found = _squares(shown)
    kept: float = max(0.0, 1 - expected / found) if found else 0.0
    return product + kept * (shown - product)


def _squares(shares: Floats) -> float:
    """Return the sum of the squared deviations from the product of the margins."""
    return float(np.square(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())
