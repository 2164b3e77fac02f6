"""The length of steps against noisy gradients, by how much these have changed."""

import math

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

_CLEAR = 3.0  # standard errors from which a measured curvature is taken
_SLOWEST = 0.9  # ratio of successive steps, at most


class Secant:
    """Steps against the gradient, by the curvature that the last one showed."""

    def __init__(self, curvature: float, *, is_known: bool) -> None:
        self.curvature, self.is_known = curvature, is_known
        self.steps: list[Floats] = []
        self._before: tuple[Floats, Floats, NDArray[np.bool_]] | None = None

    def learn(
        self, theta: Floats, gradient: Floats, named: NDArray[np.bool_], noise: float
    ) -> None:
        """Learn the curvature between the last two points, where that is beyond the noise.

        After Barzilai and Borwein (1988), by the coordinates that both steps have named.
        """
        if self._before is not None:
            before, gradient_before, named_before = self._before
            both = named & named_before
            step, change = (theta - before)[both], (gradient - gradient_before)[both]
            length = float(np.linalg.norm(step))
            if length:
                error = math.sqrt(2) * noise / length
                # The step has followed noise, too, of the coordinates where that was largest.
                chosen = 2 * math.log(math.e * len(theta) / max(both.sum(), 1)) * both.sum()
                followed = chosen * noise**2 / self.curvature
                found = float(step @ change - followed) / length**2
                # If noise hides how small it is, it is at most so much.
                if found > _CLEAR * error:
                    self.curvature, self.is_known = found, True
                elif not self.is_known:
                    self.curvature = min(self.curvature, max(found, 0.0) + 2 * error)
        self._before = theta, gradient, named

    def left(self, noise: float, sparsity: int) -> float:
        """Return what further steps would add to a coefficient, if they shrink as the last did."""
        if len(self.steps) < 2:
            return float(np.linalg.norm(self.steps[-1])) / math.sqrt(sparsity)
        before, last = (float(np.linalg.norm(step)) for step in self.steps[-2:])
        ratio = min(last / before if before else 0.0, _SLOWEST)
        beyond = math.sqrt(max(last**2 - 2 * sparsity * noise**2, 0.0))
        return beyond * max(ratio, 1 - ratio) / (1 - ratio) / math.sqrt(sparsity)
