"""Questions of one run about shares of cells, each with a part of its budget or of its users."""

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from ldp_flower.validation import Floats

from ..numerics.normal_scale import knots
from ..runtime import Ask, Run
from ..sums.budget import Budget
from .cells import ShareEstimates, ShareEstimator, ask_nodes, cell_question
from .column import NumericColumn

# Candidate numbers of bins of equal width. A histogram may have a number of bins if the noise of a
# share is at most _BIN_NOISE over this number.
_BINS, _BIN_NOISE = (16, 32, 64, 128, 256), 0.5


class CellAsker:
    """Asker of a run's questions about tables of columns.

    Each question is for all users and spends a part of the budget, with noise at the node. With
    noise at the user it is for a part of the users.
    """

    def __init__(self, strategy: Any, run: Run) -> None:
        self._strategy, self._run = strategy, run
        self.budget = Budget.of(run, strategy.delta) if strategy.noise != "user" else None

    def noise(self, cells: int, part: float) -> float:
        """Return the standard error of a share in a table of ``cells`` cells.

        A run chooses the number of cells by it. ``part`` is the part of the budget, or of the
        users, that is spent on the table.
        """
        if self.budget:
            return self.budget.error(self.budget.cells(cells, part))
        users = int(part * self._run.num_users)
        return math.sqrt(variance_of_report(self._strategy.epsilon, cells, users) / users)

    def shares(
        self, names: Sequence[str], edges: dict[str, Floats], part: float
    ) -> Generator[Ask, Any, ShareEstimates]:
        """Ask for the table of some columns, and return the shares of its cells.

        In the table, columns of categories come before columns of numbers, which ``edges`` cuts
        into cells. ``part`` is the part of the budget, or of the users.
        """
        categories = [name for name in names if name not in edges]
        cut = {name: edges[name] for name in names if name in edges}
        cell = cell_question(self._strategy.schema, categories, edges=cut)
        if self.budget:
            return (yield from ask_nodes(self.budget, cell, part))
        estimator = ShareEstimator(self._strategy.epsilon, cell.num_cells)
        least = self._run.min_reports
        cohorts = self._run.cohorts(estimator.sizes(int(part * self._run.num_users), least))
        return (yield from estimator.estimate(cohorts, cell))

    def scale(self, name: str, part: float) -> Generator[Ask, Any, Floats]:
        """Ask for the shares of equal bins of a number, and return the number's quantile function.

        The function is a table of knots. ``part`` is the part of the budget, or of the users.
        """
        sharp = (bins for bins in _BINS if self.noise(bins, part) * bins <= _BIN_NOISE)
        kind = NumericColumn.of(self._strategy.schema, name).kind
        even = np.linspace(*kind.ends, max(sharp, default=_BINS[0]) + 1)
        found = yield from self.shares([name], {name: even[1:-1]}, part)
        shares, covariance = found.among_answering()
        return knots(even, shares, np.sqrt(np.diag(covariance)))


def variance_of_report(epsilon: float, cells: int, users: int) -> float:
    """Return the variance of a report about one of ``cells`` cells that are equally frequent.

    It includes the noise and the sampling of users. Divided by the number of users it is the
    squared standard error of the cell's share.
    """
    return ShareEstimator(epsilon, cells).noise(users) + (1 - 1 / cells) / cells
