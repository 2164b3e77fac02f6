"""Result of Quantiles: quantiles of a column, also by group, with their intervals."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import with_ends
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
        Levels of the quantiles: shares of the users below them.
    values : ndarray of float64, shape (k,)
        The quantiles. They are moved to round numbers if the noise is larger than the change.
    std_error : ndarray of float64, shape (k,)
        Distance to the further end of the interval, divided by 1.96. It is 0 if the interval is a
        single value that many users share.
    lower, upper : ndarray of float64, shape (k,)
        Ends of 95 % intervals, which need not be symmetric. They contain the values that tests of
        the reports at thresholds do not reject. They are valid for every distribution, also with
        ties, gaps and steps. An interval spans a gap in which no user has an entry.
    step : float or None
        Number of which nearly all entries are multiples, if one was found.
    users_std_error : ndarray of float64, shape (k,), or None
        The part of ``std_error`` that the noise of nodes causes; None with noise at the user.
    keys : dict of str to list of str
        With groups, the category that the group of each quantile has in a column, by the column's
        name. The quantiles of a group follow each other. They are NaN if the group may be empty.
    """

    column: str
    levels: Floats
    values: Floats
    std_error: Floats
    lower: Floats
    upper: Floats
    step: float | None = None
    users_std_error: Floats | None = None
    keys: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.levels, self.values])

    def _groups(self) -> list[str]:
        """Return, for each quantile, its group's name and a space, or "" without groups."""
        named = [f"{', '.join(group)} " for group in zip(*self.keys.values(), strict=True)]
        return named or [""] * len(self.levels)

    def table(self) -> "DataFrame":
        """Return the quantiles in the order of the strategy's levels.

        Returns
        -------
        DataFrame
            The categories of the group, if there are groups; ``quantile``, in percent of the users;
            its value, in a column named after the table's;
            ``standard error``; ``lower`` and ``upper``. The last four are in the column's units.
        """
        return frame(
            {
                **self.keys,
                "quantile": [f"{100 * level:.6g} %" for level in self.levels],
                self.column: self.values,
                "standard error": self.std_error,
                "lower": self.lower,
                "upper": self.upper,
            }
        )

    def estimates(self) -> Estimates:
        """Return the quantiles and their standard errors, which a series follows."""
        names = [
            f"{self.column} {group}{100 * level:.6g} %"
            for group, level in zip(self._groups(), self.levels, strict=True)
        ]
        return Estimates(names, self.values, self.std_error, self.users_std_error)

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.levels))

    def _draw(self, axes: "Axes") -> None:
        places = np.arange(len(self.levels))
        spans = [self.values - self.lower, self.upper - self.values]
        axes.errorbar(self.values, places, xerr=spans, fmt="o", ms=4, lw=1.5, color=charts.GREEN)
        names = zip(self._groups(), self.levels, strict=True)
        axes.set_yticks(places, [charts.label(f"{group}{level:.4g}") for group, level in names])
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.set_ylabel("share below")
        axes.set_xlabel(f"{charts.label(self.column)}, with 95 % intervals")

    def _findings(self) -> list[str]:
        names, texts = self._groups(), map(with_ends, self.values, self.lower, self.upper)
        return [
            f"{group}{'median' if level == 0.5 else f'quantile {level:.4g}'} of {self.column}: "
            f"{value} (95 % interval {low} to {high})"
            for group, level, (value, low, high) in zip(names, self.levels, texts, strict=True)
        ]
