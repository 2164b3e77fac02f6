"""Cuts of a score: which side of a number replies fall on tells data apart."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..distinguish import Sample, log_ratio

_CUTS = 401  # of a score, by quantiles


@dataclass(frozen=True)
class Cut:
    """Scores on one side of a number, likelier for the first data set of a pair."""

    pair: tuple[str, ...]
    sign: float
    at: float

    def bound(self, samples: Mapping[str, Sample], delta: float, alpha: float) -> float:
        """Return a number that the privacy loss exceeds, but for a probability of ``alpha``."""
        one, two = (self.sign * samples[name].values[:, 0] > self.at for name in self.pair)
        counts = (float(one.sum()), len(one), float(two.sum()), len(two))
        return float(log_ratio(*counts, delta, alpha))


def best_cut(
    samples: Mapping[str, Sample], pair: tuple[str, ...], delta: float, alpha: float
) -> Cut:
    """Return the cut that promises the largest bound."""
    options = []
    for sign in (1.0, -1.0):
        one, two = (np.sort(sign * samples[name].values[:, 0]) for name in pair)
        cuts = np.unique(np.quantile(np.concatenate([one, two]), np.linspace(0, 1, _CUTS)))
        hits, others = (len(s) - np.searchsorted(s, cuts, side="right") for s in (one, two))
        promised = log_ratio(hits, len(one), others, len(two), delta, alpha)
        best = int(np.argmax(promised))
        options.append((float(promised[best]), Cut(pair, sign, float(cuts[best]))))
    return max(options, key=lambda option: option[0])[1]
