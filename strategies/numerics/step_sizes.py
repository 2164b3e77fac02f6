"""Step sizes for noisy mean updates: as planned, or fitted to the updates."""

import math
from collections.abc import Sequence

import numpy as np

from ldp_flower.validation import Floats

# Chosen on nine apps and judged on eight others (docs/model-updates.md).
_FIRST_SHARE = 0.5  # share of the planned steps that fitted steps begin with
_SHORTER, _LONGER = -2.0, 1.0  # limits of a projection, in standard deviations
_RECENT = 8.0  # the average weighs the t-th model with about t ** 8


class NoisyDescent:
    """A model that follows noisy mean updates.

    With ``fitted`` it projects every mean update on the last step. If the update points back, the
    last step was too long, and further steps are shortened. If it points forward, further steps
    grow. The projection is a single number whose noise does not grow with the dimension, and it
    costs no privacy. The estimate is an average of all models with larger weights of late ones.
    Without ``fitted`` the steps are as planned, and the estimate is the last model.

    Parameters
    ----------
    start : ndarray, shape (d,)
        The initial model.
    planned : sequence of float
        Factor of the mean update in each step. Fitted steps begin with half of it.
    longest : float
        Largest factor of a mean update in a fitted step.
    fitted : bool
        True if steps are fitted.

    Attributes
    ----------
    position, estimate : ndarray, shape (d,)
        The model to train next, and the estimated final model.

    Notes
    -----
    Fitted step t is ``planned[t]`` times exp(the sum of all z so far / sqrt(T)) / 2. Here T is the
    number of rounds, and z is the projection on the last step over its standard deviation, clipped
    to [-2, 1]. The average moves 9 / (t + 8) of the way towards the position.
    """

    def __init__(
        self, start: Floats, planned: Sequence[float], longest: float, fitted: bool
    ) -> None:
        self._start = start
        self._planned = planned
        self._longest = longest
        # With this rate, noise alone changes the logarithm of a step by about 1 in a whole run.
        self._rate = 1 / math.sqrt(max(1, len(planned)))
        self._fitted = fitted
        self.reset()

    def reset(self) -> None:
        """Reset to the start, as if no step had been taken."""
        self.position = self.estimate = self._start
        self.steps: list[float] = []
        self._factor = _FIRST_SHARE
        self._last: Floats | None = None  # direction of the last step
        self._added = np.zeros(0)  # standard deviation of each step's noise
        self._kept = np.zeros(0)  # the part of each step's noise in the estimate

    def follow(self, update: Floats, deviation: float, direction: Floats) -> None:
        """Take a step along ``direction``, and update the estimate.

        The direction is the update, or a mixture of it with earlier ones. ``deviation`` is the
        standard deviation of the update's noise.
        """
        step = self._planned[len(self.steps)]
        if self._fitted:
            if self._last is not None:
                found = float(update @ self._last) / deviation
                self._factor *= math.exp(self._rate * min(max(found, _SHORTER), _LONGER))
            step = min(step * self._factor, self._longest)
            self._last = direction / np.linalg.norm(direction)
        self.steps.append(step)
        self.position = self.position + step * direction
        share = (_RECENT + 1) / (_RECENT + len(self.steps)) if self._fitted else 1.0
        self.estimate = self.estimate + share * (self.position - self.estimate)
        self._added = np.append(self._added, step * deviation)
        self._kept = (1 - share) * np.append(self._kept, 0.0) + share * self._added

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in each coordinate of the final estimate."""
        return float(np.linalg.norm(self._kept))
