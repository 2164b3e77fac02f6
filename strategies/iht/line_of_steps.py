"""LineOfSteps: a joint linear fit of all gradient steps of a sparse regression."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions.sparse import keep_largest
from ldp_flower.validation import Floats

from ..numerics.zero_of_line import LEFT, Zero, zero_of_line

Integers = NDArray[np.intp]


@dataclass
class LineOfSteps:
    """The mean gradients of the steps so far, and the coefficients at which users were asked.

    A linear model of all gradients is fitted to them, and its zero is the estimate; see
    :func:`~..numerics.zero_of_line.zero_of_line`.

    All coordinates are in units of predictions: a coefficient times its feature's scale. The last
    coordinate is the prediction at the features' centre. It is never set to zero.
    """

    sparsity: int
    left: Sequence[float] = LEFT  # candidate rates, as in zero_of_line
    positions: list[Floats] = field(default_factory=list)
    directions: list[Floats] = field(default_factory=list)
    variances: list[Floats] = field(default_factory=list)

    def add(self, position: Floats, asked: Integers, direction: Floats, variance: Floats) -> None:
        """Add a step: the ``direction`` that users reported at ``position``, with its variance.

        ``asked`` are the indices of the features that users reported. For other features nothing
        is known about the direction, and its variance is infinite.
        """
        places = np.append(asked, len(position) - 1)
        whole, variances = np.zeros(len(position)), np.full(len(position), np.inf)
        whole[places], variances[places] = direction, variance
        self.positions.append(position)
        self.directions.append(whole)
        self.variances.append(variances)

    def zero(self, uncertain: Floats) -> Zero:
        """Return the position at which the fitted direction is zero.

        ``uncertain`` is the relative error of the curvature in each coordinate.
        """
        positions = np.array(self.positions)
        asked = np.flatnonzero(self.variances[-1][:-1] < np.inf)

        def distances(zero: Zero) -> Floats:
            apart = positions - self.kept(zero, asked)
            return np.asarray(np.sum(apart**2, axis=1) / self.sparsity)

        steps = positions, np.array(self.directions), np.array(self.variances)
        return zero_of_line(*steps, uncertain, distances, self.left)

    def kept(self, zero: Zero, asked: Integers, least: float = 0.0) -> Floats:
        """Return the zero with the most significant of the ``asked`` coefficients only.

        At most ``sparsity`` coefficients are kept, and none that is at most ``least`` standard
        errors from zero. Otherwise steps would move along noise, to which slopes would be fitted.
        """
        clear = np.zeros(len(zero.place) - 1)
        clear[asked] = z_scores(zero)[asked]
        return np.where(
            np.append(keep_largest(clear, self.sparsity) > least, True), zero.place, 0.0
        )


def z_scores(zero: Zero) -> Floats:
    """Return each coefficient's distance from 0, in standard errors from the noise of reports."""
    return np.abs(zero.place[:-1]) / zero.noise[:-1]
