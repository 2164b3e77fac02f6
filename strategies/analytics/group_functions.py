"""Distribution functions of a column in each of several groups.

A few users tell where the entries are, in cells of one width. Cells between adapted edges are then
counted in all groups at once: a user reports the pair of its group and its cell.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Schema
from ldp_flower.questions import BinShares, Cell, CellShares, TableCell
from ldp_flower.randomizers import best_frequency_oracle
from ldp_flower.validation import Floats

from ..numerics.denoising import project_on_simplex
from ..numerics.sample import sampling
from ..runtime import Ask, Cohort, Run
from ..sums.budget import Budget
from ..sums.tree import Function
from .cells import MOST_CELLS, ShareEstimator, cell_question
from .column import NumericColumn
from .groups import Groups

_TELL, _EVEN = 0.1, 32  # share of the users, or of the budget, that tells the edges; first cells
_CELLS = (4, 8, 16, 32)  # candidates for the number of cells of a group


@dataclass(frozen=True)
class GroupFunctions:
    """Estimator of a column's distribution function in each group."""

    schema: Schema
    column: NumericColumn
    groups: Groups
    epsilon: float

    def error(self, num_users: int) -> float:
        """Return the standard error by noise of the median's rank in a group of average size."""
        return self._error(num_users, self._cells(num_users))

    def _cells(self, num_users: int) -> int:
        """Return the number of cells of a group: intervals are two errors and a cell wide."""
        options = [cells for cells in _CELLS if len(self.groups.names) * cells < MOST_CELLS]
        return min(options, key=lambda cells: 2 * self._error(num_users, cells) + 1 / cells)

    def _error(self, num_users: int, cells: int) -> float:
        number = len(self.groups.names)
        noise = ShareEstimator(self.epsilon, number * cells).noise(num_users) / num_users
        return number * math.sqrt(cells / 2 * noise)

    def of_users(self, run: Run) -> Generator[Ask, Any, list[Function]]:
        """Return the functions from single reports: first of cells, then of pairs."""
        tellers = max(run.min_reports, int(_TELL * run.num_users))
        left = max(run.num_users - tellers, 1)
        cells = self._cells(left)
        estimator = ShareEstimator(self.epsilon, len(self.groups.names) * cells)
        first, *waves = run.cohorts([tellers, *estimator.sizes(left, run.min_reports)])
        even = self._even
        oracle = best_frequency_oracle(self.epsilon, _EVEN + 1, tellers)
        told = yield Ask(first, Cell(self.column.coordinates, even[1:-1]), oracle)
        edges = adapted(even, project_on_simplex(told.mean[:-1]), cells)
        question = TableCell(*self._table, edges=edges[1:-1])
        found = yield from estimator.estimate(waves, question)
        noise = found.covariance - sampling(found.likely, found.users)
        return self._functions(edges, found.cells, noise, found.users)

    def of_nodes(self, cohort: Cohort, budget: Budget) -> Generator[Ask, Any, list[Function]]:
        """Return the functions from two noisy sums over nodes."""
        even, number = self._even, len(self.groups.names)
        asked = Ask(
            cohort, BinShares(self.column.coordinates, even[1:-1]), budget.cells(_EVEN, _TELL)
        )
        told = yield asked
        edges = adapted(even, np.maximum(told.mean, 0.0), _CELLS[-1])
        mechanism = budget.cells(number * _CELLS[-1], 1 - _TELL)
        question = CellShares(*self._table, edges=edges[1:-1])
        found = yield Ask(cohort, question, mechanism)
        return self._functions(edges, found.mean, np.diag(found.std_error**2), found.count)

    @property
    def _even(self) -> Floats:
        return np.linspace(*self.column.kind.ends, _EVEN + 1)

    @property
    def _table(self) -> tuple[Any, Any]:
        """Coordinates and sizes of the table of groups, with the column as the last one."""
        question = cell_question(self.schema, self.groups.columns, self.column.name, 2)
        return question.coordinates, question.sizes

    def _functions(self, edges: Floats, cells: Floats, noise: Floats, users: int) -> list[Function]:
        size = len(edges) - 1
        parts = [slice(start, start + size) for start in range(0, len(cells), size)]
        return [Function(edges, cells[part], noise[part, part], users) for part in parts]


def adapted(even: Floats, mass: Floats, cells: int) -> Floats:
    """Return edges of cells that have equal parts of the mass and of the range together."""
    part = np.full(len(mass), 1 / len(mass))
    if mass.sum() > 0:
        part = (part + mass / mass.sum()) / 2
    up_to = np.concatenate([[0.0], np.cumsum(part)]) / part.sum()
    return np.asarray(np.interp(np.linspace(0, 1, cells + 1), up_to, even))
