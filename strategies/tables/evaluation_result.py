"""What PrivateEvaluation returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from ..runtime.result import Result


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

    def _findings(self) -> list[str]:
        return [
            f"R2 = {self.r2:.3f} (standard error {self.std_error:.2g}), "
            f"loss {self.loss:.3g} ({self.loss_std_error:.2g})"
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        names = ("r2", "std_error", "loss", "loss_std_error", "baseline")
        return {**{name: getattr(self, name) for name in names}, **super().to_dict()}
