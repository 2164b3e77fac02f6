"""Distribution functions of a column in each of several groups.

A few users report the step of their entries, and a few others the cell of their entry, in cells of
equal width. Cells between adapted edges are then counted in all groups at once: a user reports the
pair of its group and its cell.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.questions import BinShares, Cell, TableCell
from ldp_flower.randomizers import best_frequency_oracle
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.denoising import project_on_simplex
from ..numerics.sample import sampling
from ..runtime import Ask, Run
from ..sums.budget import Budget
from ..sums.tree import Function, adapted
from .base import hidden_by_noise
from .cells import MOST_CELLS, ShareEstimator, ask_nodes, cell_question
from .column import STEP_SHARE, NumericColumn, learn_step, learn_step_at_node
from .column_cells import cells_of
from .groups import Groups

# Share of the users, or of the budget, for the cells of equal width; and the number of these cells.
_PILOT, _EVEN = 0.1, 32
_CELLS = (4, 8, 16, 32)  # candidates for the number of cells of a group
_MOST_ERROR = 0.1  # largest error in rank of a median at which a run still starts

Found = tuple[list[Function], float | None]  # the functions of groups, and the step of entries


@dataclass(frozen=True)
class GroupFunctions:
    """Estimator of a column's distribution function in each group, for strategies with ``by``."""

    schema: Schema
    column: NumericColumn
    groups: Groups
    epsilon: float

    def refusal(self, num_users: int) -> TooFew | None:
        """Return a TooFew if noise would hide a group of average size, or None."""
        error = self._error(num_users, self._cells(num_users))
        if error <= _MOST_ERROR:
            return None
        lost = (
            f"a group of {self.groups.by!r} that holds 1 / {len(self.groups.names)} of them has a "
            f"median whose error in rank is {error:.2g}"
        )
        return hidden_by_noise(num_users, self.epsilon, lost)

    def _cells(self, num_users: int) -> int:
        """Return the number of cells per group for which intervals are shortest.

        An interval is as wide as two standard errors and a cell.
        """
        options = [cells for cells in _CELLS if len(self.groups.names) * cells < MOST_CELLS]
        return min(options, key=lambda cells: 2 * self._error(num_users, cells) + 1 / cells)

    def _error(self, num_users: int, cells: int) -> float:
        """Return the error by noise of a median's rank, in a group of average size."""
        number = len(self.groups.names)
        noise = ShareEstimator(self.epsilon, number * cells).noise(num_users) / num_users
        return number * math.sqrt(cells / 2 * noise)

    def ask(self, run: Run, delta: float) -> Generator[Ask, Any, Found]:
        """Ask all users; return each group's distribution function, and the entries' step.

        The step is the round number of which entries are multiples, or None.
        """
        if run.settings.noise == "user":
            return (yield from self._of_users(run))
        return (yield from self._of_nodes(Budget.of(run, delta)))

    def notes(self, functions: Sequence[Function]) -> list[str]:
        """Return a note that names the groups that may be empty, in a list, or an empty list."""
        pairs = zip(self.groups.names, functions, strict=True)
        if not (empty := [name for name, function in pairs if function.is_hidden]):
            return []
        return [
            f"Groups of {self.groups.by!r} that may be empty, so that nothing is known of them: "
            f"{', '.join(empty)}. Ask more users, or for fewer groups."
        ]

    def _of_users(self, run: Run) -> Generator[Ask, Any, Found]:
        """Ask for single reports; return the groups' functions and the entries' step.

        The users are asked for the step, then for cells, then for pairs of group and cell.
        """
        step = (yield from learn_step(run, self.column)).step
        pilots = max(run.min_reports, int(_PILOT * run.num_users))
        left = max(run.num_unasked - pilots, 1)
        even = self._even
        oracle = best_frequency_oracle(self.epsilon, _EVEN + 1, pilots)
        (first,) = run.cohorts([pilots])
        answer = yield Ask(first, Cell(self.column.coordinates, even[1:-1]), oracle)
        edges = self._edges(even, project_on_simplex(answer.mean[:-1]), self._cells(left), step)
        estimator = ShareEstimator(self.epsilon, len(self.groups.names) * (len(edges) - 1))
        waves = run.cohorts(estimator.sizes(left, run.min_reports))
        found = yield from estimator.estimate(waves, self._question(edges))
        noise = found.covariance - sampling(found.likely, found.users)
        return self._functions(edges, found.cells, noise, found.users), step

    def _of_nodes(self, budget: Budget) -> Generator[Ask, Any, Found]:
        """Ask for three noisy sums over nodes; return the groups' functions and the step."""
        step = yield from learn_step_at_node(budget, self.column, STEP_SHARE)
        even = self._even
        bins = BinShares(self.column.coordinates, even[1:-1])
        answer = yield budget.ask(bins, budget.cells(_EVEN, _PILOT))
        edges = self._edges(even, np.maximum(answer.mean, 0.0), _CELLS[-1], step)
        found = yield from ask_nodes(budget, self._question(edges), 1 - STEP_SHARE - _PILOT)
        return self._functions(edges, found.cells, found.covariance, found.users), step

    def _edges(self, even: Floats, mass: Floats, cells: int, step: float | None) -> Floats:
        """Return the edges of ``cells`` cells, adapted to the ``mass`` in even ones.

        With a step, edges lie in the middle between two of its multiples.
        """
        edges = adapted(even, mass, cells)
        if step is None:
            return edges
        between = cells_of(self.column, self.column.kind.restore(edges), step).edges[1:-1]
        # A column with a single multiple within its bounds has no middle between two.
        inner = self.column.standardised(between) if len(between) else edges[1:-1]
        return np.array([even[0], *inner, even[-1]])

    @property
    def _even(self) -> Floats:
        return np.linspace(*self.column.kind.ends, _EVEN + 1)

    def _question(self, edges: Floats) -> TableCell:
        """Return the question for the pair of a user's group and of its cell between edges."""
        edges_of = {self.column.name: edges[1:-1]}
        return cell_question(self.schema, self.groups.columns, edges=edges_of)

    def _functions(self, edges: Floats, cells: Floats, noise: Floats, users: int) -> list[Function]:
        size = len(edges) - 1
        parts = [slice(start, start + size) for start in range(0, len(cells), size)]
        return [Function(edges, cells[part], noise[part, part], users) for part in parts]


def audited_groups(epsilon: float) -> tuple[Schema, Users]:
    """Return a schema and users for an audit: numbers ``x`` in groups by ``sort``.

    The users are enough at this epsilon.
    """
    schema = Schema({"x": Numeric(-2, 2), "sort": Categories(["a", "b"])})
    rows = np.arange(math.ceil(6000 * max(1.0, 2 / epsilon) ** 2))
    table = {"x": rows % 41 / 10 - 2, "sort": np.array(["a", "b"])[rows % 2]}
    return schema, schema.users(table)
