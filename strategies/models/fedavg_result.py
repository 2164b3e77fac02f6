"""FedAvgResult: a model trained by LdpFedAvg, with its noise."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord

from ldp_flower.models import Network
from ldp_flower.presentation import charts

from ..runtime import Result
from ..sums import networks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False, kw_only=True)
class FedAvgResult(Result):
    """A trained model.

    Attributes
    ----------
    model : ArrayRecord
        The trained model (also as ``arrays``): the initial arrays with the trained parameters.
        Arrays that are not trained are unchanged.
    noise_to_signal : float
        The rule of thumb q = sqrt(d c / n), for d parameters and n users. Above 0.6 the noise is
        too large. Below 0.6 the quality of a model also depends on its data.
    path_length : float
        Sum of the lengths of the steps if every mean update had norm 1; NaN if an optimizer
        determined the steps.
    noise : float
        Standard deviation of the accumulated noise of all steps, per parameter. In a linear model
        with rows of norm 1, this is also the noise of a logit. The effect of a noisy step on later
        steps is not included. NaN if an optimizer determined the steps.
    text : str
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it; empty without a network.
    """

    model: ArrayRecord
    noise_to_signal: float
    path_length: float
    noise: float
    text: str = ""

    def __post_init__(self) -> None:
        self.arrays = self.model

    @property
    def network(self) -> Network | None:
        """The trained network; None if an app's own model was trained."""
        return networks.network_of(self.text, self.model) if self.text else None

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
