"""Synthesize: a strategy that collects tables of pairs of columns, from which rows are drawn."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as declared
from itertools import combinations
from typing import Self

import numpy as np

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.populations import audited_users
from ..numerics.normal_scale import quantiles
from ..numerics.product_mixture import PairTable, distances, fitted
from ..runtime import Card, Protocol, Run, guarantees
from ..runtime.at_node import AtNode
from ..sums.budget import Budget
from .base import ColumnStrategy, categories_of, columns_of, hidden_by_noise
from .cell_asker import CellAsker, variance_of_report
from .cells import MOST_CELLS, ShareEstimates
from .synthesize_result import SynthesizeResult

_FIRST = 0.2  # share of the budget, or of the users, for histograms of the columns of numbers
# Small and large number of cells of a column of numbers. The large one is taken if the noise of a
# share is at most _MANY_NOISE over the number of cells of a pair. The small one gave better models
# at 4,000 and 20,000 users of four tables.
_FEW, _MANY, _MANY_NOISE = 4, 8, 0.1
# Largest noise of a share, over the mean share of a pair's cells, at which a run starts.
_USEFUL = 0.4
# Standard errors by which the share of users with both entries is below 1 if entries are missing.
_MISSING_Z = 3.0


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesize(AtNode, ColumnStrategy[SynthesizeResult]):
    """Strategy that learns a distribution of rows, from which a synthetic table is drawn.

    A first step asks for a histogram of each column of numbers, and cuts the column into cells with
    about equally many entries. Then users report on the tables of all pairs of columns. A
    distribution is fitted to these tables, and ``result.rows(number)`` draws rows from it. Users
    pay for the collection once. The rows answer later questions that pairs of columns answer, such
    as linear models, and no others. They are as private as ``epsilon`` says, but not anonymous
    data.

    With noise at the user, every user reports its cell of one column or of one pair. With noise at
    the node, all users count in all tables.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    columns : sequence of str, optional
        The columns to draw, at least two. By default all columns, including the target. Fewer
        columns have fewer pairs and are sharper.

    Notes
    -----
    The distribution is a mixture of products over the columns' cells, fitted by least squares to
    all pairs (:func:`~..numerics.product_mixture.fitted`). Within cells, numbers are drawn
    such that they go together as their cells do (:func:`~..numerics.within_cells.positions`).
    The stated total variation comes from simulated collections with the known noise
    (:func:`~..numerics.product_mixture.distances`), so that no user is held out. Rows with a
    missing entry do not count in the pairs of its column, and no row that is drawn misses an entry.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="a distribution of rows, to draw a synthetic table",
        guarantee="pure epsilon",
        rounds="1 or 2 a column of numbers and a pair",
        report="1-2, up to 64 with many cells",
        use_when="questions come later, and linear models or tables of pairs answer them",
        fails_when="below some 185,000 users for 8 columns of numbers at epsilon 1; with noise at "
        "the node below 4,800 on ten nodes",
        page="analytics",
    )
    no_plan = (
        "The error of synthetic rows depends on how a table's columns go together. A run refuses "
        "too few users before they pay, and its result states the total variation of its tables."
    )

    columns: Sequence[str] | None = declared(default=None, kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.schema.columns_read if self.columns is None else self.columns
        self._columns = columns_of(self.schema, "columns", chosen, 2)
        self._numbers = [n for n in self._columns if isinstance(self.schema.kind(n), Numeric)]
        self._pairs = list(combinations(range(len(self._columns)), 2))
        if (most := max(math.prod(sizes) for sizes in self._shapes(_FEW))) >= MOST_CELLS:
            raise ValueError(
                f"Expected pairs of columns with at most {MOST_CELLS - 1} cells, got {most}: leave "
                "out the columns with the most categories, or join these by Categories(other=...)."
            )

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: on a number, a category and the target."""
        sorts = max(2, dim - 2)
        numbers = {"x": Numeric(-2, 2)} if dim > sorts + 1 else {}
        kinds = Categories([str(i) for i in range(sorts)])
        schema = Schema({**numbers, "sort": kinds}, "y", Numeric(-2, 2))
        yield cls(schema, epsilon=epsilon), audited_users(schema, 4000)

    def _sizes(self, cells: int) -> list[int]:
        """Return the number of cells of each column; a column of numbers has ``cells`` cells."""
        return [
            cells if name in self._numbers else len(categories_of(self.schema, "columns", name))
            for name in self._columns
        ]

    def _shapes(self, cells: int) -> list[tuple[int, int]]:
        sizes = self._sizes(cells)
        return [(sizes[one], sizes[other]) for one, other in self._pairs]

    @property
    def _first(self) -> float:
        return _FIRST if self._numbers else 0.0

    def _asked(self, run: Run) -> Protocol:
        """Ask for histograms of numbers, then for the tables of all pairs; return a fit to them."""
        asker = CellAsker(self, run)
        scales = dict[str, Floats]()
        for name in self._numbers:
            scales[name] = yield from asker.scale(name, _FIRST / len(self._numbers))
        part = (1 - self._first) / len(self._pairs)
        sharp = asker.noise(_MANY**2, part) * _MANY**2 <= _MANY_NOISE
        cells = _MANY if sharp else _FEW
        inner = np.linspace(0, 1, cells + 1)[1:-1]
        edges = {name: quantiles(scale, inner) for name, scale in scales.items()}
        counted = list[ShareEstimates]()
        for one, other in self._pairs:
            names = [self._columns[one], self._columns[other]]
            counted.append((yield from asker.shares(names, edges, part)))
        sizes = self._sizes(cells)
        tables = self._tables(counted, sizes)
        mixture = fitted(tables, sizes)
        apart = distances(tables, sizes, mixture, run.num_users)
        measured, errors = _one_way(tables, len(sizes))
        return SynthesizeResult(
            columns=self._columns,
            mixture=mixture,
            scales=[self._in_units(name, scales) for name in self._columns],
            measured=measured,
            std_error=errors,
            one_way=apart.one_way[0],
            one_way_interval=np.array(apart.one_way[1:]),
            two_way=apart.two_way[0],
            two_way_interval=np.array(apart.two_way[1:]),
            pairs=apart.pairs,
        )

    def _in_units(self, name: str, scales: dict[str, Floats]) -> Floats:
        kind = self.schema.kind(name)
        if not isinstance(kind, Numeric):
            return np.empty((2, 0))
        values, below = scales[name]
        return np.stack([kind.restore(values), below])

    def _tables(self, counted: Sequence[ShareEstimates], sizes: Sequence[int]) -> list[PairTable]:
        """Return a table for each pair of columns: shares among users who have both entries.

        ``counted`` are the estimated shares, and ``sizes`` the numbers of cells of the columns.
        """
        errors = [each.error_of(np.ones((1, len(each.cells))))[0] for each in counted]
        present = np.mean([each.answering for each in counted])
        error = np.sqrt(np.sum(np.square(errors))) / len(counted)
        tables = []
        for each, (one, other) in zip(counted, self._pairs, strict=True):
            shares, covariance = each.cells, each.covariance
            if present < 1 - _MISSING_Z * error or self.noise == "user":
                shares, covariance = each.among_answering()
            std_error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            shape, columns = (sizes[one], sizes[other]), (one, other)
            if self._columns[one] in self._numbers and self._columns[other] not in self._numbers:
                shares, std_error = (x.reshape(shape[::-1]).T for x in (shares, std_error))
            tables.append(PairTable(columns, shares.reshape(shape), std_error.reshape(shape)))
        return tables

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return a TooFew if noise would hide the tables of pairs, or None."""
        cells = [math.prod(shape) for shape in self._shapes(_FEW)]
        share = (1 - self._first) / len(cells)
        if self.noise != "user":
            noise = Budget(self.epsilon, self.delta, 1, 1).cells(2, share).variance
            return self._few_at_node(
                num_users, math.ceil(math.sqrt(noise) * float(np.mean(cells)) / _USEFUL)
            )
        errors = [math.sqrt(variance_of_report(self.epsilon, each, 10_000)) for each in cells]
        fewest = max((float(np.mean(np.multiply(errors, cells))) / _USEFUL) ** 2, self.min_reports)
        first = self.min_reports * len(self._numbers) / _FIRST
        # Cohorts are rounded down.
        needed = math.ceil(max(fewest / share, first)) + len(cells) + len(self._numbers)
        if num_users >= needed:
            return None
        lost = f"each of {len(cells)} pairs of columns has too few users"
        return hidden_by_noise(num_users, self.epsilon, lost, needed)


def _one_way(tables: Sequence[PairTable], columns: int) -> tuple[list[Floats], list[Floats]]:
    """Return each column's shares of cells, averaged over its pairs, and their standard errors."""
    shares, errors = [], []
    for column in range(columns):
        own = [each for each in tables if column in each.columns]
        axes = [1 - each.columns.index(column) for each in own]
        pairs = list(zip(own, axes, strict=True))
        shares.append(np.mean([each.shares.sum(axis=axis) for each, axis in pairs], axis=0))
        squares = [np.square(each.std_error).sum(axis=axis) for each, axis in pairs]
        errors.append(np.sqrt(np.sum(squares, axis=0)) / len(own))
    return shares, errors
