"""Result of Difference: two means, their difference, and its significance."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from flwr.app import ArrayRecord
from scipy.special import ndtr, ndtri

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import p_value_text, to_error, with_error
from ldp_flower.validation import Floats

from ..runtime import Result
from ..runtime.result import HALF_WIDTH_95, frame, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_POWER = 0.8  # probability of detecting the smallest difference that a result states


@dataclass(repr=False, kw_only=True)
class DifferenceResult(Result):
    """The difference of a column's means in two arms.

    Attributes
    ----------
    column, by : str
        Names of the column of numbers and of the column of the arms.
    arms : list of str
        Names of the two arms.
    means, std_errors : ndarray of float64, shape (2,)
        The arms' means and their standard errors for the population that the users are drawn from.
        Numbers beyond ``window`` count as its ends.
    difference, std_error : float
        The second mean less the first, and its standard error; NaN and infinite if an arm may be
        empty. The standard error allows for a difference of the arms beyond ``window``.
    lower, upper : float
        Ends of the 95 % interval of the difference.
    p_value : float
        Probability of a difference that is at least as large if the arms do not differ.
    detectable : float
        Smallest difference that would have been significant at 5 % with a probability of 80 %.
    window : ndarray of float64, shape (2,)
        Ends to which numbers were clipped, in the column's units.
    """

    _derived: ClassVar[tuple[str, ...]] = ("lower", "upper", "p_value", "detectable")

    column: str
    by: str
    arms: list[str]
    means: Floats
    std_errors: Floats
    difference: float
    std_error: float
    window: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([np.array([self.difference])])

    @property
    def lower(self) -> float:
        """Lower end of the 95 % interval of the difference."""
        return self.difference - HALF_WIDTH_95 * self.std_error

    @property
    def upper(self) -> float:
        """Upper end of the 95 % interval of the difference."""
        return self.difference + HALF_WIDTH_95 * self.std_error

    @property
    def p_value(self) -> float:
        """Probability of a difference that is at least as large if the arms do not differ."""
        return float(2 * ndtr(-abs(self.difference) / self.std_error))

    @property
    def detectable(self) -> float:
        """Smallest difference that would have been significant with a probability of 80 %."""
        return float((HALF_WIDTH_95 + ndtri(_POWER)) * self.std_error)

    @property
    def _name(self) -> str:
        return f"{self.arms[1]} less {self.arms[0]}"

    def table(self) -> "DataFrame":
        """Return the difference and the means of the arms.

        Returns
        -------
        DataFrame
            ``estimate``, the name of the estimate; its ``value`` in the column's units and
            ``standard error`` for the population; a 95 % interval; the ``p-value`` of the
            difference; and ``detectable``, the smallest true difference that 80 % of such studies
            would detect at a significance level of 5 %.
        """
        values = np.array([self.difference, *self.means])
        errors = np.array([self.std_error, *self.std_errors])
        nothing = [math.nan, math.nan]
        return frame(
            {
                "estimate": [self._name, *(f"mean of {arm}" for arm in self.arms)],
                "value": values,
                "standard error": errors,
                **interval(values, errors),
                "p-value": [self.p_value, *nothing],
                "detectable": [self.detectable, *nothing],
            }
        )

    @property
    def _height(self) -> float:
        return charts.height_of(1)

    def _draw(self, axes: "Axes") -> None:
        known = math.isfinite(self.std_error)
        value, error = (self.difference, self.std_error) if known else (0.0, 0.0)
        charts.intervals(axes, [self._name] * known, [value] * known, [error] * known)
        if known:
            axes.axvspan(-self.detectable, self.detectable, color=charts.GREY, alpha=0.15, lw=0)
        axes.set_xlabel(
            f"difference in {charts.label(self.column)}, with its 95 % interval; grey: not detected"
        )

    def _findings(self) -> list[str]:
        if not math.isfinite(self.std_error):
            return [f"{self.column}, {self._name}: not estimated"]
        ends = (to_error(end, self.std_error) for end in (self.lower, self.upper))
        return [
            f"{self.column}, {self._name}: {with_error(self.difference, self.std_error)} "
            f"(95 % from {' to '.join(ends)}, {p_value_text(self.p_value)})",
            f"a difference of {to_error(self.detectable, self.std_error)} is detected by "
            f"{_POWER:.0%} of such studies",
        ]
