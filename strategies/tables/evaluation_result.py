"""What PrivateEvaluation returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts

from ..runtime.result import Estimates, Result, frame, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class EvaluationResult(Result):
    """A result that says how well a model predicts the targets of users who were asked.

    Attributes
    ----------
    r2 : float
        One minus ``loss`` over ``baseline``: 0 for a model no better than the centre, 1 for a
        perfect one, below 0 for a worse one.
    std_error : float
        Standard deviation of ``r2`` from privacy noise and from the choice of users.
    loss : float
        Mean over users of each user's mean squared residual.
    loss_std_error : float
        Standard deviation of ``loss``.
    baseline : float
        Mean over users of each user's mean squared deviation from the centre.
    """

    r2: float
    std_error: float
    loss: float
    loss_std_error: float
    baseline: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([np.array([self.r2, self.loss])])

    def table(self) -> "DataFrame":
        """Return R2 and both squared errors, in squared units of the standardised target.

        Returns
        -------
        DataFrame
            ``name``, ``value``, ``standard error`` and an interval of 95 %.
        """
        values = np.array([self.r2, self.loss, self.baseline])
        errors = np.array([self.std_error, self.loss_std_error, np.nan])
        return frame(
            {
                "name": ["R2", "mean squared error", "mean squared error of the centre"],
                "value": values,
                "standard error": errors,
                **interval(values, errors),
            }
        )

    def estimates(self) -> Estimates:
        """Return R2, for a series of collections."""
        return Estimates(["R2"], np.array([self.r2]), np.array([self.std_error]))

    @property
    def _height(self) -> float:
        return charts.height_of(1)

    def _draw(self, axes: "Axes") -> None:
        error = self.std_error if np.isfinite(self.std_error) else np.nan
        charts.intervals(axes, ["R2"], [self.r2], [error])
        axes.axvline(1, color=charts.GREY, lw=0.8, ls=":")
        axes.set_xlabel("0: no better than the centre; 1: perfect; with a 95 % interval")

    def _findings(self) -> list[str]:
        return [
            f"R2 = {self.r2:.3f} (standard error {self.std_error:.2g}), "
            f"loss {self.loss:.3g} ({self.loss_std_error:.2g})"
        ]
