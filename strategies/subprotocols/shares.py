"""What users tell, by a bit each, of the shares below thresholds."""

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import SharesBelow
from ldp_flower.randomizers import Estimate, RandomizedResponse, SampledCoordinate

from ..numerics.crossing import Crossing, believed, pooled
from ..numerics.value_scale import ValueScale
from ..runtime.exchange import Ask
from ..runtime.population import Cohort

Floats = NDArray[np.float64]


class Shares:
    """Shares of users below thresholds, of which bits tell in some rounds.

    Parameters
    ----------
    part : RandomizedResponse
        Through which every user told one.
    """

    def __init__(self, part: RandomizedResponse) -> None:
        self._part = part
        self._rounds: list[tuple[Floats, NDArray[np.int64], Floats, Floats]] = []

    def ask(
        self, cohort: Cohort, question: SharesBelow, at: Floats, which: NDArray[np.int64]
    ) -> Generator[Ask, Estimate, int]:
        """Ask about these thresholds, each for one of the levels; return how many answered."""
        answer = yield Ask(cohort, question, SampledCoordinate(self._part, len(at)))
        self._rounds.append((at, which, (answer.mean + 1) / 2, self._counts(answer)))
        return answer.count

    def about(self, level: float, scale: ValueScale) -> Crossing:
        """Return what they tell about the quantile of a level, on a scale."""
        at, _, shares, counts = map(np.concatenate, zip(*self._rounds, strict=True))
        noise = (self._part.variance - 1) / 4
        return believed(scale.places(at), shares, counts, noise, level)

    def pooled(self, number: int, belief: Crossing, scale: ValueScale) -> float:
        """Return where a quantile lies, of those asked about it."""
        at, which, shares, counts = map(np.concatenate, zip(*self._rounds, strict=True))
        own = which == number
        return pooled(belief, scale.places(at[own]), shares[own], counts[own])

    def _counts(self, answer: Estimate) -> Floats:
        """Return how many answered at each threshold, which the standard errors of bits tell.

        If all answers there were the same they tell nothing; then it is the number to expect.
        """
        errors, spread = answer.std_error, self._part.variance - answer.mean**2
        told = (errors > 0) & (errors < np.inf)
        counts = np.where(np.isinf(errors), answer.mean != 0, answer.count / len(errors))
        counts[told] = np.rint(1 + spread[told] / errors[told] ** 2)
        return counts
