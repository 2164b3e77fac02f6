"""Step lengths of gradient descent with noise, from the change of gradients between steps."""

import math

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

_CURVATURE_Z = 3.0  # number of standard errors from which a measured curvature is used
_SLOWEST = 0.9  # largest assumed ratio of successive steps


class Secant:
    """Curvature for gradient steps, measured between the last two points.

    A caller takes steps of one over ``curvature`` times the gradient, and appends each to
    ``steps``. ``is_known`` is False as long as the curvature is a guess or an
    upper bound.
    """

    def __init__(self, curvature: float, *, is_known: bool) -> None:
        self.curvature, self.is_known = curvature, is_known
        self.steps: list[Floats] = []
        self._before: tuple[Floats, Floats, NDArray[np.bool_]] | None = None

    def learn(
        self, theta: Floats, gradient: Floats, named: NDArray[np.bool_], noise: float
    ) -> None:
        """Update the curvature from the last two points, if it exceeds the noise.

        The method is that of Barzilai and Borwein (1988), on the coordinates that are ``named`` in
        both steps.
        """
        if self._before is not None:
            before, gradient_before, named_before = self._before
            both = named & named_before
            step, change = (theta - before)[both], (gradient - gradient_before)[both]
            length = float(np.linalg.norm(step))
            if length:
                error = math.sqrt(2) * noise / length
                # The step has also followed the noise, in the coordinates where it was largest.
                chosen = 2 * math.log(math.e * len(theta) / max(both.sum(), 1)) * both.sum()
                followed = chosen * noise**2 / self.curvature
                found = float(step @ change - followed) / length**2
                # If noise hides a small curvature, use an upper bound.
                if found > _CURVATURE_Z * error:
                    self.curvature, self.is_known = found, True
                elif not self.is_known:
                    self.curvature = min(self.curvature, max(found, 0.0) + 2 * error)
        self._before = theta, gradient, named

    def left(self, noise: float, sparsity: int) -> float:
        """Return the distance that a coefficient would still move in further steps.

        It is a part of the coefficient's standard error: the root mean square over ``sparsity``
        coefficients. Steps are assumed to shrink by the ratio of the last two. ``noise`` is the
        standard deviation of a step's noise in a coefficient, which is no movement.
        """
        if len(self.steps) < 2:
            return float(np.linalg.norm(self.steps[-1])) / math.sqrt(sparsity)
        before, last = (float(np.linalg.norm(step)) for step in self.steps[-2:])
        ratio = min(last / before if before else 0.0, _SLOWEST)
        beyond = math.sqrt(max(last**2 - 2 * sparsity * noise**2, 0.0))
        return beyond * max(ratio, 1 - ratio) / (1 - ratio) / math.sqrt(sparsity)
