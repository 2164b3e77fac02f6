"""Estimator of a contingency table's cell shares, corrected for missing answers."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.presentation.words import number
from ldp_flower.questions import CellShares, TableCell
from ldp_flower.randomizers import (
    Estimate,
    FrequencyOracle,
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    best_frequency_oracle,
)
from ldp_flower.validation import Floats

from ..numerics.sample import clipped
from ..runtime import Ask, Cohort, TooFewReports
from ..sums.budget import Budget
from .column import NumericColumn
from .item_mechanism import MAX_REPORT_BYTES

MOST_CELLS = 2048  # limit on the number of cells, since their covariance matrix is stored
_MAX_WORK = 1 << 31  # limit on reports times cells, some 5 s of one core
_FIRST_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)  # candidates: share of users in wave one
_JITTER = 1e-9  # added to the diagonal of a covariance, far below any variance of a share
_MIN_FIRST_WAVE = 50  # smallest number of users in a first wave
# Two waves are considered if a report's noise variance is at least this multiple of the variance
# of a cell's indicator.
_NOISY = 0.5
_TWO_WAVES_RATIO = 0.99  # largest variance of two waves, over that of one wave


def cell_question(
    schema: Schema,
    categories: Sequence[str],
    number: str | None = None,
    levels: int | None = None,
    edges: Mapping[str, Floats] | None = None,
) -> TableCell:
    """Return the question that asks for a user's cell in the table of these columns.

    A number has levels. The columns of ``edges`` are numbers that are cut there instead, and come
    after the categories.
    """
    cut = edges or {}
    columns = [*categories, *([] if number is None else [number]), *cut]
    places = np.array([place for name in columns for place in schema.places(name)], np.int64)
    kinds = [schema.kind(name) for name in categories]
    sizes = np.array([len(kind.values) for kind in kinds if isinstance(kind, Categories)], float)
    if number is None:
        return TableCell(places, sizes, edges=np.array([*cut.values()]) if cut else None)
    return TableCell(places, sizes, levels, *NumericColumn.of(schema, number).kind.ends)


def names_of_ranges(ends: Floats) -> list[str]:
    """Return names of the cells between increasing ends, such as ``18 to 27``, for results."""
    return [f"{number(low)} to {number(high)}" for low, high in pairwise(ends)]


def oracle_of(epsilon: float, num_items: int, num_users: int) -> FrequencyOracle:
    """Return the least noisy frequency oracle whose reports are short and quickly decoded."""
    if num_users * num_items > _MAX_WORK:
        quick: list[FrequencyOracle] = [
            HadamardResponse(epsilon, num_items),
            KRandomizedResponse(epsilon, num_items),
        ]
        return min(quick, key=lambda oracle: oracle.variance_at(1 / num_items))
    oracle = best_frequency_oracle(epsilon, num_items, num_users)
    if oracle.report_bytes > MAX_REPORT_BYTES:
        return OptimizedLocalHashing(epsilon, num_items)
    return oracle


@dataclass(frozen=True)
class ShareEstimates:
    """Estimated shares of the cells of a contingency table, with their covariance."""

    # (cells,): share of the queried users in each cell; the remaining users have no answer
    cells: Floats
    # (cells, cells): covariance of these estimates. It covers the randomisation, the draw of a
    # user's row and the sampling of the users from a population.
    covariance: Floats
    users: int  # number of users who reported

    @cached_property
    def likely(self) -> Floats:
        """The shares as a distribution: clipped at 0, and scaled to a sum of at most 1."""
        return clipped(self.cells)

    def error_of(self, weights: Floats) -> Floats:
        """Return the standard errors of weighted sums of the shares.

        ``weights`` has the shape (sums, cells).
        """
        variances = np.einsum("ij,jk,ik->i", weights, self.covariance, weights)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    @property
    def answering(self) -> float:
        """Share of the queried users who have an answer: the sum over the cells."""
        return max(float(self.cells.sum()), 1e-9)

    def among_answering(self) -> tuple[Floats, Floats]:
        """Return the cells' shares among users who have an answer, and their covariance."""
        shares = self.cells / self.answering
        jacobian = (np.eye(len(shares)) - shares[:, None]) / self.answering
        return shares, np.asarray(jacobian @ self.covariance @ jacobian.T)


def ask_nodes(
    budget: Budget, cell: TableCell, share: float
) -> Generator[Ask, Estimate, ShareEstimates]:
    """Ask all users for a noisy histogram of a table, by a share of the budget; return the shares.

    A user counts in each cell by the share of its rows there. The covariance is by noise alone.
    """
    question = CellShares(cell.coordinates, cell.sizes, cell.edges)
    found = yield budget.ask(question, budget.cells(question.num_cells, share))
    return ShareEstimates(found.mean, np.diag(found.std_error**2), found.count)


@dataclass(frozen=True)
class ShareEstimator:
    """Estimator of the shares of cells.

    Users with missing values must not bias the shares among the other users. A single wave has
    one more cell for missing values, which costs precision if there are few cells. With two
    waves, the first wave has this additional cell. In the second wave a user with a missing value
    draws an answer from the first wave's shares, so that the shares do not depend on the number
    of such users. The first wave's estimate of that number corrects for the remaining bias, which
    is the product of two small errors. If many values are missing, the second wave uses the
    additional cell, too. Generalised least squares fits the reports of all waves together.
    """

    epsilon: float  # privacy parameter of each user's one report
    num_cells: int  # number of cells, at least two

    def sizes(self, num_users: int, fewest: int = 1) -> list[int]:
        """Return the number of users in each wave, for one wave, or two if these are less noisy."""
        first, later = self._variances(num_users)
        best, sizes = first / num_users * _TWO_WAVES_RATIO, [num_users]
        if later < _NOISY * (1 - 1 / self.num_cells) / self.num_cells:
            return sizes  # the noise does not dominate the error
        for share in _FIRST_SHARES:
            size = int(share * num_users)
            if size < max(fewest, _MIN_FIRST_WAVE) or num_users - size < fewest:
                continue
            fitted = 1 / (size / first + (num_users - size) / later)
            left = (first / size) ** 2
            if fitted + left < best:
                best, sizes = fitted + left, [size, num_users - size]
        return sizes

    def is_large(self, num_users: int) -> bool:
        """Return True if so many users report that a faster but noisier oracle is used."""
        few, many = (self._variances(users)[0] for users in (_MIN_FIRST_WAVE, num_users))
        return many > few / _TWO_WAVES_RATIO

    def _variances(self, num_users: int) -> tuple[float, float]:
        """Return two variances of a report about one cell: with the additional cell, and without.

        The additional cell is for missing values.
        """
        numbers = (self.num_cells + 1, self.num_cells)
        oracles = (oracle_of(self.epsilon, number, num_users) for number in numbers)
        first, later = (oracle.variance_at(1 / self.num_cells) for oracle in oracles)
        return first, later

    def noise(self, num_users: int) -> float:
        """Return a report's variance about one cell if all cells are equally frequent."""
        return self._variances(num_users)[len(self.sizes(num_users)) - 1]

    def oracles(self, sizes: Sequence[int]) -> list[FrequencyOracle]:
        """Return the oracle of each wave; the first one has a further cell for missing values."""
        numbers = (self.num_cells + 1, self.num_cells)
        return [oracle_of(self.epsilon, *each) for each in zip(numbers, sizes, strict=False)]

    def estimate(
        self, cohorts: Sequence[Cohort], question: TableCell
    ) -> Generator[Ask, Estimate, ShareEstimates]:
        """Query the cohorts for their cells and return the estimated shares.

        The cohorts have the sizes that :meth:`sizes` returns.
        """
        oracle, *others = self.oracles([cohort.size for cohort in cohorts])
        answer = yield Ask(cohorts[0], question, oracle)
        fit, users = _NormalEquations.of(oracle, answer, None), answer.count
        if len(cohorts) > 1:
            found = clipped(fit.solved()[0])
            instead = (found + 1e-9) / (found + 1e-9).sum()
            drawn = found + (1 - found.sum()) * instead
            if _noise(others[0], drawn) < _noise(oracle, found):
                oracle, question = others[0], replace(question, instead=instead)
            try:
                answer = yield Ask(cohorts[1], question, oracle)
            except TooFewReports:  # use the first wave alone, which is less precise
                return ShareEstimates(*fit.solved(), users)
            more = _NormalEquations.of(oracle, answer, question.instead)
            fit, users = fit + more, users + answer.count
        return ShareEstimates(*fit.solved(), users)


@dataclass(frozen=True)
class _NormalEquations:
    """Normal equations of the least-squares fit of the cells' shares."""

    information: Floats  # (cells, cells)
    score: Floats  # (cells,)

    @classmethod
    def of(
        cls, oracle: FrequencyOracle, answer: Estimate, instead: Floats | None
    ) -> "_NormalEquations":
        """Return the normal equations of one wave.

        The wave's expected answer is ``design @ shares + offset``. Users without an answer are in
        an additional cell if ``instead`` is None; otherwise they drew a cell from these shares.
        """
        if instead is None:
            cells = len(answer.mean) - 1
            design, offset = np.vstack([np.eye(cells), -np.ones(cells)]), np.eye(cells + 1)[-1]
        else:
            design, offset = np.eye(len(instead)) - instead[:, None], instead
        covariance: Floats = oracle.covariance(clipped(answer.mean)) / answer.count
        covariance += _JITTER * np.eye(len(covariance))
        # If each report supports the same number of cells, the last count is redundant.
        rows = slice(None if oracle.support_size is None else -1)
        weighted = np.asarray(np.linalg.solve(covariance[rows, rows], design[rows]).T, np.float64)
        return cls(weighted @ design[rows], weighted @ (answer.mean - offset)[rows])

    def __add__(self, other: "_NormalEquations") -> "_NormalEquations":
        return _NormalEquations(self.information + other.information, self.score + other.score)

    def solved(self) -> tuple[Floats, Floats]:
        """Return the shares of the cells that solve the equations, and their covariance."""
        covariance = np.linalg.inv(self.information)
        return np.asarray(covariance @ self.score), np.asarray(covariance)


def _noise(oracle: FrequencyOracle, cells: Floats) -> float:
    """Return the sum over cells of a report's variance, for shares among users with an answer.

    ``cells`` are the cells' shares among all users.
    """
    rest = np.append(cells, max(1 - cells.sum(), 0.0))[: oracle.domain_size]
    covariance = oracle.covariance(rest)[: len(cells), : len(cells)]
    projection = np.eye(len(cells)) - (cells / max(cells.sum(), 1e-9))[:, None]
    return float(np.trace(projection @ covariance @ projection.T))
