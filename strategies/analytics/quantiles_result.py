"""What is found of quantiles: values in the column's units."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts
from ldp_flower.validation import Floats

from ..runtime.result import Estimates, Result, frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class QuantilesResult(Result):
    """Quantiles of a column, in its units.

    Attributes
    ----------
    column : str
        Name of the column.
    levels : ndarray of float64, shape (k,)
        The shares of the users that the quantiles have below them.
    values : ndarray of float64, shape (k,)
        The quantiles. They are round numbers where that makes less of a difference than noise.
    std_error : ndarray of float64, shape (k,)
        What makes 1.96 of them reach the further end of the interval. 0 where many users share
        one value, and nothing else is in the interval.
    lower, upper : ndarray of float64, shape (k,)
        Ends of 95 % intervals, which need not lie alike on both sides: values that tests of the
        reports at thresholds do not reject. They hold whatever the distribution, with ties, gaps
        and steps: where nobody has an entry, they span the gap.
    step : float or None
        What nearly all entries are multiples of, where that was seen.
    """

    _predicts: ClassVar[bool] = False

    column: str
    levels: Floats
    values: Floats
    std_error: Floats
    lower: Floats
    upper: Floats
    step: float | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.levels, self.values])

    def table(self) -> "DataFrame":
        """Return the quantiles in the order asked for.

        Returns
        -------
        DataFrame
            ``quantile``, in percent of the users; the column's name, ``standard error``, ``lower``
            and ``upper``, in the column's units.
        """
        return frame(
            {
                "quantile": [f"{100 * level:.6g} %" for level in self.levels],
                self.column: self.values,
                "standard error": self.std_error,
                "lower": self.lower,
                "upper": self.upper,
            }
        )

    def estimates(self) -> Estimates:
        """Return the quantiles, for a series of collections."""
        names = [f"{self.column} {100 * level:.6g} %" for level in self.levels]
        return Estimates(names, self.values, self.std_error)

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.levels))

    def _draw(self, axes: "Axes") -> None:
        places = np.arange(len(self.levels))
        spans = [self.values - self.lower, self.upper - self.values]
        axes.errorbar(self.values, places, xerr=spans, fmt="o", ms=4, lw=1.5, color=charts.GREEN)
        axes.set_yticks(places, [f"{level:.4g}" for level in self.levels])
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.set_ylabel("share below")
        axes.set_xlabel(f"{charts.label(self.column)}, with 95 % intervals")

    def _findings(self) -> list[str]:
        rows = zip(self.levels, self.values, self.lower, self.upper, strict=True)
        return [
            f"{level:.4g} of {self.column} are below {value:.6g} ({lower:.6g} to {upper:.6g})"
            for level, value, lower, upper in rows
        ]
