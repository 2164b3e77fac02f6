"""Events that tell data apart: the very replies, and which side of a number a score falls on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from ...distinguish import Event, Sample, likeliest_events, log_ratio
from .scores import BY, Score

_FORM = -2  # events of the form, beside those of all of it at -1 and of scores
_CUTS = 401  # of a score, by quantiles
_LARGE = 1e100  # squares of scores stay finite
CONFIRMED = 3  # events for each message and the run


@dataclass(frozen=True)
class Bound:
    """How well two data sets are told apart.

    Attributes
    ----------
    epsilon : float
        The privacy loss is at least this.
    pair : tuple of str
        The data sets.
    by : str
        What tells them apart.
    """

    epsilon: float
    pair: tuple[str, str]
    by: str


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


def best_event(
    names: tuple[str, str],
    scored: Sequence[Sequence[Score]],
    delta: float,
    alpha: float,
    of_run: bool,
) -> Bound:
    """Choose events on the first half of the runs, and judge them by the second."""
    half = len(scored[0]) // 2
    width = min(len(score.scores) for runs in scored for score in runs)
    searched: list[tuple[float, int, Event | Cut]] = []
    for which in range(_FORM, width):
        samples = _samples(names, scored, slice(0, half), which)
        if which < 0:
            events: list[Event | Cut] = [*likeliest_events(samples, 2, delta, alpha)]
        else:
            events = [best_cut(samples, pair, delta, alpha) for pair in permutations(names)]
        searched += [(event.bound(samples, delta, alpha), which, event) for event in events]
    searched.sort(key=lambda option: -option[0])
    best = Bound(0.0, names, "")
    for _, which, event in searched[:CONFIRMED]:
        samples = _samples(names, scored, slice(half, None), which)
        found = event.bound(samples, delta, alpha)
        if found > best.epsilon:
            best = Bound(found, (event.pair[0], event.pair[1]), _by(which, of_run))
    return best


def _samples(
    names: tuple[str, str],
    scored: Sequence[Sequence[Score]],
    part: slice,
    which: int,
) -> dict[str, Sample]:
    found = {}
    for name, runs in zip(names, scored, strict=True):
        codes = np.array(
            [score.form if which == _FORM else score.code for score in runs[part]], np.uint64
        )
        if which < 0:
            found[name] = Sample(codes, np.zeros((len(codes), 0)))
        else:
            values = np.array([[score.scores[which]] for score in runs[part]])
            values = np.clip(np.nan_to_num(values), -_LARGE, _LARGE)
            found[name] = Sample(np.zeros(len(codes), np.uint64), values)
    return found


def _by(which: int, of_run: bool) -> str:
    if which == _FORM:
        return "what there is in the replies beside numbers"
    if which < 0:
        return "the very replies"
    if which < len(BY):
        return BY[which]
    return BY[0] if of_run else "single numbers"
