"""What is found of a distribution: shares of users below values, with errors and bands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.presentation import charts
from ldp_flower.validation import check_fraction, check_integer

from ..numerics.cdf_band import LinearEstimates
from ..runtime.result import Floats, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_LEVELS = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
_BINS = 1000


@dataclass(repr=False, kw_only=True)
class DistributionResult(Result):
    """The distribution of a column over users, in its units.

    Attributes
    ----------
    column : str
        Name of the column.
    edges : ndarray of float64, shape (cells + 1,)
        Where cells end that hold about equally many users.
    below : ndarray of float64, shape (cells + 1,)
        The share of the users below each edge, of those who have an entry: the posterior mean.
    covariance : ndarray of float64, shape (cells + 1, cells + 1)
        Of these shares, if the density is as smooth as it was taken for: randomisation, and that
        the users are a sample of a population.
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
        """Return the values that these shares of the users are not above.

        Raises
        ------
        ValueError
            If a level is not within (0, 1).
        """
        wanted = _checked(levels)
        found = np.interp(wanted, self.below, self.edges)
        if self.step is None:
            return found
        multiples = np.round((found - self.step / 2) / self.step) * self.step
        return np.where(self.cdf(multiples) >= wanted - 1e-12, multiples, multiples + self.step)

    def quantile_error(self, levels: ArrayLike) -> Floats:
        """Return the standard errors of :meth:`quantile`, by the density there."""
        wanted = _checked(levels)
        error = np.interp(wanted, self.below, self._errors(np.eye(len(self.below))))
        ends = np.interp(
            [np.clip(wanted - error, 0, 1), np.clip(wanted + error, 0, 1)], self.below, self.edges
        )
        return np.asarray((ends[1] - ends[0]) / 2)

    def histogram(self, bins: int | ArrayLike = 20) -> "DataFrame":
        """Return the shares of users in bins.

        Parameters
        ----------
        bins : int or array_like (default: 20)
            Edges of the bins, increasing, or how many of one width there are.

        Returns
        -------
        DataFrame
            ``from``, ``to`` (in the column's units; a bin has its upper end, not its lower one),
            ``share`` and its ``standard error``.

        Raises
        ------
        ValueError
            If there are no bins, or their edges do not increase.
        """
        from pandas import DataFrame

        if isinstance(bins, int | np.integer):
            check_integer("bins", int(bins), 1, _BINS)
            edges = np.linspace(self.edges[0], self.edges[-1], int(bins) + 1)
        else:
            edges = np.asarray(bins, np.float64)
            if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
                raise ValueError(f"Expected bins with edges that increase, got {bins!r}.")
        weights = np.diff(self._weights(edges), axis=0)
        return DataFrame(
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
        from pandas import DataFrame

        check_fraction("level", level)
        lower, upper = self.linear.band(level, len(self.edges))
        return DataFrame(
            {self.column: self.edges, "share below": self.below, "lower": lower, "upper": upper}
        )

    def table(self) -> "DataFrame":
        """Return quantiles.

        Returns
        -------
        DataFrame
            ``quantile``, in percent of the users; the column's name and ``standard error``, in
            the column's units.
        """
        from pandas import DataFrame

        return DataFrame(
            {
                "quantile": [f"{100 * level:.6g} %" for level in _LEVELS],
                self.column: self.quantile(_LEVELS),
                "standard error": self.quantile_error(_LEVELS),
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
        low, high = np.interp([0.002, 0.998], self.below, self.edges)
        axes.set_xlim(low, high)
        axes.set_ylim(0, 1)
        axes.set_xlabel(charts.label(self.column))
        axes.set_ylabel("share below, with a 95 % band")

    def _findings(self) -> list[str]:
        quarters = self.quantile([0.25, 0.5, 0.75])
        errors = self.quantile_error([0.25, 0.5, 0.75])
        told = ", ".join(f"{v:.4g} ± {e:.2g}" for v, e in zip(quarters, errors, strict=True))
        return [f"quartiles of {self.column}: {told}"]


def _checked(levels: ArrayLike) -> Floats:
    wanted = np.asarray(levels, np.float64)
    if not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected levels within (0, 1), got {levels!r}.")
    return wanted
