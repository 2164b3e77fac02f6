"""Correlation: a strategy that estimates correlations of columns of numbers, with intervals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Self

import numpy as np
from flwr.app import ArrayRecord
from scipy.stats import norm

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.presentation import charts
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.populations import audited_users
from ..numerics.normal_scale import quantiles
from ..runtime import Card, Protocol, Result, Run, guarantees
from ..runtime.at_node import AtNode
from ..runtime.prints import LATER
from ..runtime.result import frame
from ..sums.budget import Budget
from ..sums.correlations import ask_correlations, noise_of_product
from .base import ColumnStrategy, columns_of
from .cell_asker import CellAsker
from .column import NumericColumn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Shares of the budget for the histograms of numbers, for the sums of their products, and for the
# sums that show how these products vary between users.
_LIMITS, _PRODUCTS, _SPREAD = 0.2, 0.7, 0.1
# Smallest and largest normal score of the limits of a column. Between the two, the score is chosen
# such that the noise of a correlation is about _NOISE.
_REACH, _NOISE = (2.5, 4.0), 0.03
_TAIL = 0.2  # share beyond the last knot of a histogram, above which the limit is the bound
_USEFUL = 0.15  # largest noise of a correlation of columns as wide as their limits say


@dataclass(repr=False, kw_only=True)
class CorrelationResult(Result):
    """Correlations of columns of numbers, among users with rows that have entries in all of them.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    correlation : ndarray of float64, shape (columns, columns)
        The correlations of users' rows, in which all users have the same weight. NaN if noise hides
        a correlation.
    std_error : ndarray of float64, shape (columns, columns)
        Standard errors of the correlations, by noise and by sampling of the users from a
        population.
    lower, upper : ndarray of float64, shape (columns, columns)
        Ends of the 95 % intervals of the correlations.
    limits : ndarray of float64, shape (columns, 2)
        Numbers beyond these limits, within the declared bounds, count as the limit. They come from
        a noisy histogram, and nearly all numbers are within them.
    """

    columns: list[str]
    correlation: Floats
    std_error: Floats
    lower: Floats
    upper: Floats
    limits: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.correlation])

    def table(self) -> "DataFrame":
        """Return the pairs of columns.

        Returns
        -------
        DataFrame
            The two columns, ``first`` and ``second``; their ``correlation``; its ``standard
            error``; the ends of its 95 % interval, ``lower`` and ``upper``.
        """
        first, second = np.triu_indices(len(self.columns), 1)
        names = np.array(self.columns, dtype=object)
        pairs = first, second
        return frame(
            {
                "first": names[first],
                "second": names[second],
                "correlation": self.correlation[pairs],
                "standard error": self.std_error[pairs],
                "lower": self.lower[pairs],
                "upper": self.upper[pairs],
            }
        )

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.columns)) + 2.0

    def _draw(self, axes: "Axes") -> None:
        """Draw the correlations as a heat map."""
        colours = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}
        image = charts.heat_map(axes, self.columns, self.correlation, 2, **colours)
        axes.set_xlabel("columns")
        axes.figure.colorbar(image, ax=axes, label="correlation")

    def _headline(self) -> list[str]:
        """Return the limits, since the page has a table of the pairs."""
        return self._findings()[-1:]

    def _findings(self) -> list[str]:
        pairs = [
            f"{self.columns[i]} and {self.columns[j]}: {self.correlation[i, j]:z.2f} "
            f"({self.lower[i, j]:z.2f} to {self.upper[i, j]:z.2f})"
            for i, j in combinations(range(len(self.columns)), 2)
            if not math.isnan(self.correlation[i, j])
        ]
        limits = zip(self.columns, *self.limits.T.tolist(), strict=True)
        clipped = ", ".join(f"{name} to {low:z.4g} and {high:z.4g}" for name, low, high in limits)
        found = f"These are correlations of numbers that are clipped at limits ({clipped})."
        return [*pairs, found] if pairs else []


@dataclass(kw_only=True, eq=False, repr=False)
class Correlation(AtNode, ColumnStrategy[CorrelationResult]):
    """Strategy that estimates the correlation matrix of columns of numbers, with 95 % intervals.

    Noise is added at the node or shared by nodes: with noise at the user it would be too large.
    Rows without an entry in one of the columns do not count.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    columns : sequence of str, optional
        The columns, at least two. By default all columns of numbers, including the target. Fewer
        columns have less noise.
    noise : {"node", "shared"} (default: "node")
        Place where noise is added.

    Notes
    -----
    A fifth of the budget is spent on a histogram of each column. The column's limits are quantiles
    of it, at normal scores of 2.5 (if noise is large) to 4 on either side, so that wide bounds cost
    little.
    A second sum has the numbers and their products, from -1 to 1 between the limits. A third one
    has the squares of users' influences on the correlations, so that errors hold for columns that
    are not normal. Intervals are computed by Fisher's z, whose standard error is that of the
    correlation r over ``1 - r**2``, together with r and 1.96 standard errors on either side, since
    noise is normal about r.
    """

    guarantee = guarantees.AT_NODE_ONLY
    card = Card(
        question="correlation matrix of columns of numbers, with 95 % intervals",
        guarantee="epsilon, delta",
        rounds="2 and 1 a column",
        report="a sum a node",
        use_when="columns of numbers may go together in a line",
        fails_when="below some 2,400 users on ten nodes for two columns at epsilon 1",
        page="analytics",
    )
    no_plan = (
        "The error of a correlation depends on how wide columns are within their bounds, which a "
        "plan does not know: the result states standard errors. Too few users are refused before "
        "they pay. At epsilon 1 on ten nodes a run needs some 2,200 users for two columns, and "
        "5,400 for five; at epsilon 2 some half of them."
    )
    noises = ("node", "shared")

    columns: Sequence[str] | None = field(default=None, kw_only=False)
    noise: str = field(default="node", metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "user":
            raise ValueError(
                "Expected noise='node' or noise='shared' for correlations, got noise='user'."
            )
        read = self.schema.columns_read
        numbers = [name for name in read if isinstance(self.schema.kind(name), Numeric)]
        chosen = numbers if self.columns is None else self.columns
        self._columns = columns_of(self.schema, "columns", chosen, 2)
        self._numbers = [NumericColumn.of(self.schema, name, "columns") for name in self._columns]

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: on a feature and the target."""
        numbers = {f"x{i}": Numeric(-2, 2) for i in range(1, max(2, dim))}
        schema = Schema(numbers, "y", Numeric(-2, 2))
        yield cls(schema, ["x1", "y"], epsilon=epsilon), audited_users(schema, 8000, 2)

    def _asked(self, run: Run) -> Protocol:
        """Ask for histograms of the columns, for products, and for the products' variation.

        Return the correlations.
        """
        asker = CellAsker(self, run)
        assert asker.budget
        noise = noise_of_product(asker.budget, len(self._columns), _PRODUCTS)
        reach = np.clip(math.sqrt(_NOISE / noise), *_REACH)
        limits = []
        for name in self._columns:
            scale = yield from asker.scale(name, _LIMITS / len(self._columns))
            limits.append(_limits(scale, reach))
        ends = np.array(limits)
        places = np.array([column.place for column in self._numbers])
        found = yield from ask_correlations(
            asker.budget, (places, *ends.T.copy()), (_PRODUCTS, _SPREAD)
        )
        pairs = zip(self._numbers, ends, strict=True)
        hidden = int(np.isnan(found.correlation).sum())
        return CorrelationResult(
            columns=self._columns,
            correlation=self._matrix(found.correlation, 1.0),
            std_error=self._matrix(found.std_error, 0.0),
            lower=self._matrix(found.lower, 1.0),
            upper=self._matrix(found.upper, 1.0),
            limits=np.array([column.kind.restore(own) for column, own in pairs]),
            notes=[
                f"Noise hides {hidden} of {len(found.correlation)} correlations: ask for fewer "
                "columns, declare narrower bounds, or ask more users."
            ]
            * bool(hidden),
        )

    def _matrix(self, pairs: Floats, diagonal: float) -> Floats:
        size = len(self._columns)
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size, 1)] = pairs
        matrix += matrix.T
        np.fill_diagonal(matrix, diagonal)
        return matrix

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return a TooFew if noise would hide the correlations, or None.

        The columns are assumed to fill their limits.
        """
        of_one = Budget(self.epsilon, self.delta, 1, 1)
        noise = noise_of_product(of_one, len(self._columns), _PRODUCTS)
        return self._few_at_node(num_users, math.ceil(noise * _REACH[0] ** 2 / _USEFUL))


def _limits(scale: Floats, reach: float) -> Floats:
    """Return the two limits within which products clip a column, from its quantile function."""
    values, below = scale
    low, high = quantiles(scale, norm.cdf([-reach, reach]))
    # Many numbers beyond the last knot, such as ones among 0 and 1, are not the tail of a normal
    # distribution.
    low = values[0] if below[1] > _TAIL else low
    high = values[-1] if below[-2] < 1 - _TAIL else high
    return np.array([low, high])
