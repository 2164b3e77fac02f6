"""The result of LdpFedAvg: a trained model, and the noise in it."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord

from ldp_flower.presentation import charts

from ..runtime.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False, kw_only=True)
class FedAvgResult(Result):
    """A result whose estimate is a model.

    Attributes
    ----------
    model : ArrayRecord
        The trained model (also as ``arrays``): the initial arrays with other
        parameters; all that is not trained is as it was.
    noise_to_signal : float
        The rule of thumb q = sqrt(d c / n), for d parameters and n users: useful up
        to 0.6, hardly worse than without privacy up to 0.17.
    path_length : float
        Sum of the lengths of the steps, if every mean update had length 1; NaN where an
        optimizer chose them.
    noise : float
        Standard deviation of the noise that the steps added up to, per parameter: that
        of a logit, in a linear model with rows of length 1. Leaves out that a noisy
        step changes the later ones. NaN where an optimizer chose the steps.
    """

    model: ArrayRecord
    noise_to_signal: float
    path_length: float
    noise: float

    def __post_init__(self) -> None:
        self.arrays = self.model

    def _draw(self, axes: "Axes") -> None:
        super()._draw(axes)
        if math.isfinite(self.noise):
            label = "noise of a parameter"
            axes.axvline(self.noise, color=charts.RED, ls="--", lw=1, label=label)
            axes.legend()

    def _findings(self) -> list[str]:
        text = f"noise to signal q = {self.noise_to_signal:.2g} (of use up to 0.6)"
        if math.isfinite(self.noise):
            text += f", path length {self.path_length:.3g}, noise per parameter {self.noise:.2g}"
        return [text]
