"""DistributionResult: a distribution function with standard errors and a confidence band."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.data.schema import Numeric
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import with_ends
from ldp_flower.validation import Floats, check_fraction, check_integer

from ..numerics.density import DistributionEstimates
from ..runtime.result import Result, frame
from .column import NumericColumn
from .column_cells import ATOM

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_LEVELS = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])  # quantiles in the table
_BINS = 1000  # largest number of bins of a histogram: a picture has about as many pixels


@dataclass(repr=False, kw_only=True)
class DistributionResult(Result):
    """The distribution of a column over users, in its units.

    Attributes
    ----------
    column : str
        Name of the column.
    edges : ndarray of float64, shape (cells + 1,)
        Ends of the cells. A cell between two edges holds about the same number of users as the
        others, or a single value that is likely to be frequent.
    below : ndarray of float64, shape (cells + 1,)
        Share of the users with an entry at or below each edge: the posterior mean under a smooth
        density, clipped to the band.
    covariance : ndarray of float64, shape (cells + 1, cells + 1)
        Covariance of these shares. It covers the randomisation and the sampling of users and rows
        from a population. Standard errors are half the band's width over the band's critical
        value. They are never smaller than the posterior's, which assumes a smooth density.
    linear : DistributionEstimates
        Unbiased estimates from which the bands are computed. They assume no shape.
    without_entry : float
        Share of the users whose value in the column is missing.
    step : float or None
        Number of which nearly all entries are multiples, if one was found.
    """

    column: str
    edges: Floats
    below: Floats
    covariance: Floats
    linear: DistributionEstimates
    without_entry: float
    step: float | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.edges, self.below])

    def cdf(self, values: ArrayLike) -> Floats:
        """Return, for each value, the share of users whose entry is at most this value."""
        return self._weights(values) @ self.below

    def cdf_error(self, values: ArrayLike) -> Floats:
        """Return the standard errors of :meth:`cdf`."""
        return self._errors(self._weights(values))

    def quantile(self, levels: ArrayLike) -> Floats:
        """Return the quantiles at the given levels, in the column's units.

        Raises
        ------
        ValueError
            If a level is not within (0, 1).
        """
        wanted = _valid_levels(levels)
        found = np.interp(wanted, self.below, self.edges)
        if self.step is None:
            return self._within(found)
        multiples = np.round((found - self.step / 2) / self.step) * self.step
        reached = self.cdf(multiples) >= wanted - 1e-12
        return self._within(np.where(reached, multiples, multiples + self.step))

    def quantile_error(self, levels: ArrayLike) -> Floats:
        """Return the standard errors of :meth:`quantile`, from the density at the quantiles.

        Without a step they are at least half of a cell.
        """
        wanted = _valid_levels(levels)
        error = np.interp(wanted, self.below, self._errors(np.eye(len(self.below))))
        ends = np.interp(
            [np.clip(wanted - error, 0, 1), np.clip(wanted + error, 0, 1)], self.below, self.edges
        )
        if self.step is not None:
            return np.asarray((ends[1] - ends[0]) / 2)
        # Where many users share a value, it may be anywhere in its cell.
        place = np.clip(np.searchsorted(self.below, wanted), 1, len(self.edges) - 1)
        width = self.edges[place] - self.edges[place - 1]
        return np.asarray(np.maximum(ends[1] - ends[0], width) / 2)

    def quantile_interval(self, levels: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return simultaneous confidence intervals of the quantiles, with probability ``level``.

        The intervals are inverted from the band. A quantile lies above a value at which the whole
        band is below the quantile's level, and does not lie above a value at which the whole band
        reaches it. The intervals are valid for distributions with ties, gaps and several modes.

        Raises
        ------
        ValueError
            If a level is not within (0, 1).
        """
        wanted = _valid_levels(levels)
        check_fraction("level", level)
        lower, upper = self.linear.band(level, len(self.edges))
        first = self.edges[np.maximum(np.searchsorted(upper, wanted, side="left") - 1, 0)]
        last = self.edges[np.searchsorted(lower, wanted, side="left")]
        if self.step is not None:  # the outermost multiples within the interval
            first = np.ceil(first / self.step) * self.step
            last = np.floor(last / self.step) * self.step
        return self._within(first), self._within(last)

    @property
    def _kind(self) -> Numeric:
        assert self.schema is not None
        return NumericColumn.of(self.schema, self.column).kind

    def _within(self, values: Floats) -> Floats:
        """Return the values, clipped to the column's bounds.

        The first edge is slightly below the lower bound.
        """
        return np.clip(values, self._kind.low, self._kind.high)

    def histogram(self, bins: int | ArrayLike = 20) -> "DataFrame":
        """Return the shares of users in bins.

        Parameters
        ----------
        bins : int or array_like (default: 20)
            Increasing edges of the bins, or the number of bins of equal width.

        Returns
        -------
        DataFrame
            ``from`` and ``to`` in the column's units, ``share`` and its ``standard error``. A bin
            includes its upper end and excludes its lower end, except for the first bin, which
            includes both.

        Raises
        ------
        ValueError
            If there are no bins, or their edges do not increase.
        """
        if isinstance(bins, int | np.integer):
            check_integer("bins", int(bins), 1, _BINS)
            edges = np.linspace(self._kind.low, self._kind.high, int(bins) + 1)
        else:
            edges = np.asarray(bins, np.float64)
            if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
                raise ValueError(f"Expected bins with edges that increase, got {bins!r}.")
        low = np.nextafter(edges[:1] - 2 * ATOM * np.ptp(self.edges), -np.inf)
        weights = np.diff(self._weights(np.concatenate([low, edges[1:]])), axis=0)
        return frame(
            {
                "from": edges[:-1],
                "to": edges[1:],
                "share": weights @ self.below,
                "standard error": self._errors(weights),
            }
        )

    def band(self, level: float = 0.95) -> "DataFrame":
        """Return a band that contains the whole distribution function with probability ``level``.

        Between two rows the function is above ``lower`` of the first row and below ``upper`` of
        the second row.

        Returns
        -------
        DataFrame
            The values, in a column named after the table's and in its units; ``share below``,
            ``lower`` and ``upper``.

        Raises
        ------
        ValueError
            If the level is not within (0, 1).
        """
        check_fraction("level", level)
        lower, upper = self.linear.band(level, len(self.edges))
        return frame(
            {
                self.column: self._within(self.edges),
                "share below": self.below,
                "lower": lower,
                "upper": upper,
            }
        )

    def table(self) -> "DataFrame":
        """Return nine quantiles from 1 % to 99 %.

        Returns
        -------
        DataFrame
            ``quantile``, in percent of the users; its value, in a column named after the table's;
            ``standard error``; ``lower`` and ``upper`` ends of simultaneous 95 % intervals. The
            last four are in the column's units.
        """
        lower, upper = self.quantile_interval(_LEVELS)
        return frame(
            {
                "quantile": [f"{100 * level:.6g} %" for level in _LEVELS],
                self.column: self.quantile(_LEVELS),
                "standard error": self.quantile_error(_LEVELS),
                "lower": lower,
                "upper": upper,
            }
        )

    def _weights(self, values: ArrayLike) -> Floats:
        """Return the weights that give the shares below ``values`` from those below the edges.

        The shape is that of ``values``, followed by (cells + 1,).
        """
        at = np.asarray(values, np.float64)
        if self.step is not None:  # all entries in a cell are at multiples
            at = (np.floor(at / self.step + 1e-9) + 0.5) * self.step
        place = np.interp(at, self.edges, np.arange(len(self.edges), dtype=np.float64))
        first = np.minimum(place.astype(np.int64), len(self.edges) - 2)
        rest = (place - first)[..., None]
        whole = np.eye(len(self.edges))
        return np.asarray((1 - rest) * whole[first] + rest * whole[first + 1])

    def _errors(self, weights: Floats) -> Floats:
        """Return the standard errors of weighted sums of the shares below the edges.

        ``weights`` has a row for each sum.
        """
        variances = np.einsum("...i,ij,...j->...", weights, self.covariance, weights)
        return np.asarray(np.sqrt(np.maximum(variances, 0)))

    def _draw(self, axes: "Axes") -> None:
        band = self.band()
        axes.fill_between(
            band[self.column], band["lower"], band["upper"], color=charts.BLUE, alpha=0.25, lw=0
        )
        axes.plot(self.edges, self.below, color=charts.BLUE)
        ends = self._within(np.interp([0.002, 0.998], self.below, self.edges))
        axes.set_xlim(*(ends if ends[0] < ends[1] else (self._kind.low, self._kind.high)))
        axes.set_ylim(0, 1)
        axes.set_xlabel(charts.label(self.column))
        axes.set_ylabel("share below, with a 95 % band")

    def _findings(self) -> list[str]:
        quarters = [0.25, 0.5, 0.75]
        columns = self.quantile(quarters), *self.quantile_interval(quarters)
        texts = map(with_ends, *columns)
        listed = ", ".join(f"{value} ({lower} to {upper})" for value, lower, upper in texts)
        return [f"quartiles of {self.column}, with intervals of 95 %: {listed}"]


def _valid_levels(levels: ArrayLike) -> Floats:
    wanted = np.asarray(levels, np.float64)
    if not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected levels within (0, 1), got {levels!r}.")
    return wanted
