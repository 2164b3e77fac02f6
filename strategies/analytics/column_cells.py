"""Cells of a column of numbers, in which its distribution function is estimated."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

from ..numerics.density import Counted
from .column import NumericColumn

#: Width of a cell that holds a single value, as part of the distance of the bounds.
ATOM = 1e-9
# Weight of earlier reports in the sizes of later cells; the rest of the weight is uniform.
_EARLIER = 0.9
_MIN_PRIOR_SHARE = 1e-5  # smallest prior share of a cell
_MAX_COORDINATE = 6.0  # limit at which coordinates are clipped, in interquartile ranges


@dataclass(frozen=True)
class ColumnCells:
    """Adjacent intervals of a column's values, of which users report the one of their entry."""

    edges: Floats  # (cells + 1,): increasing
    values: Floats  # values with a separate narrow cell, which ends at the value

    @property
    def atoms(self) -> NDArray[np.bool_]:
        """Mask of the cells that hold only one possible value, shape (cells,)."""
        return np.isin(self.edges[1:], self.values)

    @property
    def uniform(self) -> Floats:
        """Shares of the cells under a uniform density, each at least 1e-5."""
        return np.maximum(np.diff(self.edges) / np.ptp(self.edges), _MIN_PRIOR_SHARE)

    def divided(self, below: Floats, places: Floats) -> Floats:
        """Return values at the given positions, fractions from 0 to 1 of the cells' total weight.

        Equally distant positions yield cells of about equal shares. ``below`` are the shares below
        the edges. The mass of a cell with a single value is moved to the cells beside it.
        """
        masses = np.diff(below)
        # While cells are coarse, a narrow peak around an atom looks the same as the atom.
        beside = np.where(self.atoms, masses / 2, 0.0)
        masses = masses + np.append(beside[1:], 0.0) + np.append(0.0, beside[:-1])
        shares = np.where(self.atoms, 0.0, _EARLIER * masses + (1 - _EARLIER) * self.uniform)
        up_to = np.concatenate([[0.0], np.cumsum(shares)])
        return np.asarray(np.interp(places * up_to[-1], up_to, self.edges))

    def given_cells(self, counted: Counted, cells: "ColumnCells") -> Counted:
        """Return the counts with the probabilities of the reports given the other ``cells``.

        ``counted`` has those given these cells. A density is taken as uniform within each of the
        other cells. The last column, of missing values, is kept.
        """
        law = counted.law[:, :-1] @ self._overlap(cells, axis=0)
        return Counted(np.column_stack([law, counted.law[:, -1]]), counted.counts)

    def likely(self, before: "ColumnCells", shares: Floats) -> Floats:
        """Return the shares of these cells, computed from the ``shares`` of the cells ``before``.

        The density is taken as uniform within each earlier cell. The last share, of missing
        values, is kept. No share is below 1e-5.
        """
        found = before._overlap(self, axis=1) @ shares[:-1]
        return np.asarray(np.maximum(np.append(found, shares[-1]), _MIN_PRIOR_SHARE))

    def _overlap(self, cells: "ColumnCells", axis: int) -> Floats:
        """Return the parts of the other ``cells`` that lie in each of these cells (axis 0).

        With axis 1, return the parts of these cells that lie in each of the other ``cells``.
        """
        upper = np.minimum.outer(self.edges[1:], cells.edges[1:])
        overlap = np.clip(upper - np.maximum.outer(self.edges[:-1], cells.edges[:-1]), 0, None)
        parts = overlap / np.maximum(overlap.sum(axis=axis, keepdims=True), 1e-300)
        return np.asarray(parts if axis == 0 else parts.T)

    def coordinates(self, edges: Floats, below: Floats) -> tuple[Floats, Floats]:
        """Return the cells' midpoints, on a linear and on a logarithmic scale.

        Both are centred at the median, divided by the interquartile range, and clipped. ``below``
        are the shares below ``edges``.
        """
        middles = (self.edges[1:] + self.edges[:-1]) / 2
        quarters = np.interp([0.25, 0.5, 0.75], below, edges)
        low, width = self.edges[0], max(float(np.ptp(quarters)), ATOM * np.ptp(self.edges))

        def logs(values: Floats) -> Floats:
            if low < 0 < self.edges[-1]:
                return np.asarray(np.arcsinh(values / width))
            return np.asarray(np.log(np.maximum(values - low, ATOM * np.ptp(self.edges))))

        found = []
        for each in (np.asarray, logs):
            near, middle, far = each(quarters)
            x = (each(middles) - middle) / max(far - near, 1e-9 * abs(far), 1e-300)
            found.append(np.clip(x, -_MAX_COORDINATE, _MAX_COORDINATE))
        return found[0], found[1]


def cells_of(column: NumericColumn, edges: Floats, step: float | None) -> ColumnCells:
    """Return cells that end at the given edges, adapted to the column.

    With a step, edges are moved to the middle between two of its multiples. Without a step, the
    bounds and 0 (or the bound nearest to 0) each get a cell that holds this value only.
    """
    kind = column.kind
    tiny = ATOM * (kind.high - kind.low)
    if step is not None:
        low = (math.ceil(kind.low / step - 1e-9) - 0.5) * step
        high = (math.floor(kind.high / step + 1e-9) + 0.5) * step
        inner = (np.floor(edges / step) + 0.5) * step
        edges = np.unique(np.clip(inner, low, high))
        return ColumnCells(np.union1d(edges, [low, high]), np.zeros(0))
    atoms = np.unique([kind.low, max(kind.low, min(0.0, kind.high)), kind.high])
    near = np.abs(edges[:, None] - atoms).min(axis=1) <= 2 * tiny
    return ColumnCells(np.unique(np.concatenate([edges[~near], atoms - tiny, atoms])), atoms)
