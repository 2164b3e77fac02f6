"""Step sizes after noisy mean updates: as planned, or fitted to the updates."""

import math
from collections.abc import Sequence

import numpy as np

from ldp_flower.validation import Floats

# Chosen on nine apps and judged on eight others (docs/model-updates.md).
_FIRST = 0.5  # share of the planned steps that fitted steps begin with
_SHORTER, _LONGER = -2.0, 1.0  # standard deviations that count at most
_RECENT = 8.0  # the average weighs the t-th model with about t ** 8


class NoisyDescent:
    """A model that follows noisy mean updates.

    With ``fitted`` it compares every mean update with the last step that was taken. Where the
    update points back, the step was too long, and further ones are shortened; where it points on,
    they grow. The projection on the last step is one number, whose noise does not grow with the
    dimension, and looking at it costs no privacy. The estimate is the average of the models, late
    ones above all. Otherwise it takes the planned steps, and its estimate is the last model.

    Parameters
    ----------
    start : ndarray, shape (d,)
        The model to begin with.
    planned : sequence of float
        What the mean updates are to be multiplied by; at first half of it where steps are fitted.
    longest : float
        Largest multiple of a mean update that a fitted step takes.
    fitted : bool
        Whether steps are fitted.

    Attributes
    ----------
    position, estimate : ndarray, shape (d,)
        The model to train next, and the estimate of where the descent leads to.

    Notes
    -----
    Step t is ``planned[t]`` times exp(the sum of all z so far / sqrt(T)) / 2, where T is the number
    of rounds and z the projection on the last step over its standard deviation, cut to [-2, 1]. The
    average moves 9 / (t + 8) of the way towards the position.
    """

    def __init__(
        self, start: Floats, planned: Sequence[float], longest: float, fitted: bool
    ) -> None:
        self._start = start
        self._planned = planned
        self._longest = longest
        # So that noise alone changes the logarithm of a step by about 1 in a whole run.
        self._rate = 1 / math.sqrt(max(1, len(planned)))
        self._fitted = fitted
        self.go_back()

    def go_back(self) -> None:
        """Return to the start, as if no step had been taken."""
        self.position = self.estimate = self._start
        self.steps: list[float] = []
        self._factor = _FIRST
        self._last: Floats | None = None  # direction of the last step
        self._added = np.zeros(0)  # by every step: the standard deviation of its noise
        self._kept = np.zeros(0)  # as much of it as is in the estimate

    def follow(self, update: Floats, deviation: float, direction: Floats) -> None:
        """Step in a direction, that of an update with such noise or mixed with former ones."""
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
        """Standard deviation of the noise in a parameter of the estimate."""
        return float(np.linalg.norm(self._kept))
