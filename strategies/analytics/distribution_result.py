"""What is found of a distribution: shares of users below values, with errors and bands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.data.schema import Numeric
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import to_error
from ldp_flower.validation import Floats, check_fraction, check_integer

from ..numerics.density import LinearEstimates
from ..runtime.result import Result, frame
from .column import ATOM

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_LEVELS = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])  # of the table
_BINS = 1000  # of a histogram at most: a picture has about as many pixels


@dataclass(repr=False, kw_only=True)
class DistributionResult(Result):
    """The distribution of a column over users, in its units.

    Attributes
    ----------
    column : str
        Name of the column.
    edges : ndarray of float64, shape (cells + 1,)
        Where cells end; those between hold about equally many users, or one likely value.
    below : ndarray of float64, shape (cells + 1,)
        The share of the users up to each edge, of those who have an entry: the posterior mean of
        a smooth density, within the band.
    covariance : ndarray of float64, shape (cells + 1, cells + 1)
        Of these shares: randomisation, and that the users and their rows are a sample of a
        population. Standard errors are half the band's width, in the units in which all errors
        together are within it: larger than the posterior's, which takes the density for smooth.
    linear : LinearEstimates
        What bands are made of, whatever the shape.
    without_entry : float
        The share of the users who have no entry in the column.
    step : float or None
        What nearly all entries are multiples of, where that was seen.
    """

    column: str
    edges: Floats
    below: Floats
    covariance: Floats
    linear: LinearEstimates
    without_entry: float
    step: float | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.edges, self.below])

    def cdf(self, values: ArrayLike) -> Floats:
        """Return the shares of users whose entry is not above each value."""
        return self._weights(values) @ self.below

    def cdf_error(self, values: ArrayLike) -> Floats:
        """Return the standard errors of :meth:`cdf`."""
        return self._errors(self._weights(values))

    def quantile(self, levels: ArrayLike) -> Floats:
        """Return quantiles.

        Raises
        ------
        ValueError
            If a level is not within (0, 1).
        """
        wanted = _checked(levels)
        found = np.interp(wanted, self.below, self.edges)
        if self.step is None:
            return self._within(found)
        multiples = np.round((found - self.step / 2) / self.step) * self.step
        reached = self.cdf(multiples) >= wanted - 1e-12
        return self._within(np.where(reached, multiples, multiples + self.step))

    def quantile_error(self, levels: ArrayLike) -> Floats:
        """Return the standard errors of :meth:`quantile`, by the density there."""
        wanted = _checked(levels)
        error = np.interp(wanted, self.below, self._errors(np.eye(len(self.below))))
        ends = np.interp(
            [np.clip(wanted - error, 0, 1), np.clip(wanted + error, 0, 1)], self.below, self.edges
        )
        return np.asarray((ends[1] - ends[0]) / 2)

    def quantile_interval(self, levels: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return intervals that hold all these quantiles together with this probability.

        They are read off the band: a quantile is above a value where the function is surely below
        its level, and not above one where the function surely reaches it. So they hold with ties,
        gaps and humps.

        Raises
        ------
        ValueError
            If a level is not within (0, 1).
        """
        wanted = _checked(levels)
        check_fraction("level", level)
        lower, upper = self.linear.band(level, len(self.edges))
        first = self.edges[np.maximum(np.searchsorted(upper, wanted, side="left") - 1, 0)]
        last = self.edges[np.searchsorted(lower, wanted, side="left")]
        if self.step is not None:  # multiples between these
            first = np.ceil(first / self.step) * self.step
            last = np.floor(last / self.step) * self.step
        return self._within(first), self._within(last)

    @property
    def _kind(self) -> Numeric:
        assert self.schema is not None
        kind = self.schema.kind(self.column)
        assert isinstance(kind, Numeric)
        return kind

    def _within(self, values: Floats) -> Floats:
        """Return values within the bounds, which the first edge is a hair below."""
        return np.clip(values, self._kind.low, self._kind.high)

    def histogram(self, bins: int | ArrayLike = 20) -> "DataFrame":
        """Return the shares of users in bins.

        Parameters
        ----------
        bins : int or array_like (default: 20)
            Edges of the bins, increasing, or how many of one width there are.

        Returns
        -------
        DataFrame
            ``from``, ``to`` (in the column's units; a bin has its upper end, not its lower one,
            which only the first has), ``share`` and its ``standard error``.

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
        """Return a band that has the whole distribution function in it with this probability.

        Between two rows the function is above ``lower`` of the first and below ``upper`` of the
        second one.

        Returns
        -------
        DataFrame
            The column's name: values in its units; ``share below``, ``lower`` and ``upper``.

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
        """Return quantiles.

        Returns
        -------
        DataFrame
            ``quantile``, in percent of the users; the column's name, ``standard error``, and
            ``lower`` and ``upper`` ends of intervals that hold all together in 95 % of runs, in
            the column's units.
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
        """Return what shares below values are in terms of those below edges, one row a value."""
        at = np.asarray(values, np.float64)
        if self.step is not None:  # all of a cell's users are at multiples
            at = (np.floor(at / self.step + 1e-9) + 0.5) * self.step
        place = np.interp(at, self.edges, np.arange(len(self.edges), dtype=np.float64))
        first = np.minimum(place.astype(np.int64), len(self.edges) - 2)
        rest = (place - first)[..., None]
        whole = np.eye(len(self.edges))
        return np.asarray((1 - rest) * whole[first] + rest * whole[first + 1])

    def _errors(self, weights: Floats) -> Floats:
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
        listed = ", ".join(
            f"{to_error(value, (upper - lower) / 4)} "
            f"({to_error(lower, (upper - lower) / 4)} to {to_error(upper, (upper - lower) / 4)})"
            for value, lower, upper in zip(
                self.quantile(quarters), *self.quantile_interval(quarters), strict=True
            )
        )
        return [f"quartiles of {self.column}, with intervals of 95 %: {listed}"]


def _checked(levels: ArrayLike) -> Floats:
    wanted = np.asarray(levels, np.float64)
    if not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected levels within (0, 1), got {levels!r}.")
    return wanted
