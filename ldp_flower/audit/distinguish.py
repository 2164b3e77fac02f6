"""Lower bounds on the privacy loss, from samples of two users' reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from ..randomness import Words
from ..validation import Floats

_BINS = 20  # number of intervals of a score
_STANDS_OUT = 4.0  # smallest difference, in standard errors, that stands out of the noise


@dataclass(frozen=True, eq=False)
class Sample:
    """Sample of independent reports about one user."""

    codes: Words  # shape (reports,): a number for every output (with its public coin, if any)
    values: Floats  # shape (reports, size): debiased and finite; size 0 if debiasing is impossible
    complete: bool = True  # True if there is a report for every user


@dataclass(frozen=True, eq=False)
class Event:
    """Event: a set of reports, ``cells``, that is likelier for the first user of a pair.

    Its probabilities for the two users bound epsilon from below. With ``direction`` and ``edges``,
    each cell is an interval, between two edges, of the inner product of a report's values with the
    direction. Without them, each cell is the code of a report.
    """

    pair: tuple[str, str]
    direction: Floats | None
    edges: Floats | None
    cells: Words

    def bound(self, samples: Mapping[str, Sample], delta: float, alpha: float) -> float:
        """Return a lower bound on epsilon from the event's frequency in two samples.

        The bound is too large with probability ``alpha`` at most.
        """
        first, second = (
            np.isin(_cells(samples[name], self.direction, self.edges), self.cells)
            for name in self.pair
        )
        counts = (float(first.sum()), len(first), float(second.sum()), len(second))
        return float(log_ratio(*counts, delta, alpha))


def likeliest_events(
    samples: Mapping[str, Sample], how_many: int, delta: float, alpha: float
) -> list[Event]:
    """Return the ``how_many`` events, each for a different pair, with the largest bounds.

    For every ordered pair, outputs are sorted by the ratio of their frequencies for the two users,
    and the first k outputs form an event, with the k that gives the largest bound. Since there may
    be too many outputs to see any of them twice, the same is done for intervals of linear scores.
    Scores are taken in the direction between the mean reports, and in the part of this direction
    along the coordinates that stand out. If a report is a set of items, the second kind of score
    gives events such as "one user's item is in it and the other's is not".
    """
    found = []
    for pair in permutations(samples, 2):
        first, second = samples[pair[0]], samples[pair[1]]
        ways: list[tuple[Floats | None, Floats | None]] = [(None, None)]
        for direction in _directions(*(s.values[: len(s.values) // 2] for s in (first, second))):
            scores = np.concatenate([first.values @ direction, second.values @ direction])
            edges = np.unique(np.quantile(scores, np.arange(1, _BINS) / _BINS))
            ways.append((direction, edges))
        options = []
        for way in ways:
            bound, cells = _best_set(_cells(first, *way), _cells(second, *way), delta, alpha)
            options.append((bound, Event(pair, *way, cells)))
        found.append(max(options, key=lambda option: option[0]))
    found.sort(key=lambda option: -option[0])
    return [event for _, event in found[:how_many]]


def confirmed(
    events: Sequence[Event], samples: Mapping[str, Sample], delta: float, alpha: float
) -> tuple[float, tuple[str, str]]:
    """Return the largest lower bound on epsilon of these events, and the pair of users it is for.

    The ``samples`` must be others than those that suggested the events. The bound of each event is
    too large with probability ``alpha`` at most. A bound is at least 0.
    """
    bounds = [event.bound(samples, delta, alpha) for event in events]
    best = int(np.argmax(bounds))
    return max(bounds[best], 0.0), events[best].pair


def bound_from_sums(
    sums: Mapping[str, Floats], how_many: int, delta: float, alpha: float
) -> tuple[float, tuple[str, str]]:
    """Return a lower bound on epsilon from noisy sums, and the pair of users that it is for.

    ``sums`` are by user, of shape (replies, dim). One half suggests ``how_many`` events, and the
    other half gives the bound, which is too large with probability ``alpha`` at most.
    """
    halves: list[dict[str, Sample]] = [{}, {}]
    for name, values in sums.items():
        for half, some in zip(halves, np.array_split(values, 2), strict=True):
            half[name] = Sample(np.zeros(len(some), np.uint64), some)
    events = likeliest_events(halves[0], how_many, delta, alpha / how_many)
    return confirmed(events, halves[1], delta, alpha / how_many)


def _directions(first: Floats, second: Floats) -> list[Floats]:
    """Return the scaled difference between two samples' means, and its significant part.

    In the second vector, the coordinates that are not significant are 0. The samples must not
    contain the reports on which sets of cells are tested. In many dimensions, a direction separates
    the very reports from which it was computed, even if they are pure noise.
    """
    if not first.shape[1]:
        return []
    direction = first.mean(axis=0) - second.mean(axis=0)
    direction /= max(float(np.abs(direction).max()), 1e-300)
    spread = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    surprise = np.abs(first.mean(axis=0) - second.mean(axis=0)) / np.maximum(spread, 1e-300)
    stands_out = surprise >= min(_STANDS_OUT, float(surprise.max()))
    return [direction, np.where(stands_out, direction, 0.0)]


def _cells(sample: Sample, direction: Floats | None, edges: Floats | None) -> Words:
    """Return each report's cell, see :class:`Event`: its code, or the interval of its score."""
    if direction is None or edges is None:
        return sample.codes
    # With "right", a score equal to an edge lies above it, so that atoms can be distinguished.
    scores = sample.values @ direction
    return np.searchsorted(edges, scores, side="right").astype(np.uint64)


def _best_set(first: Words, second: Words, delta: float, alpha: float) -> tuple[float, Words]:
    """Return the largest bound that a set of cells gives on epsilon, and the set.

    One half of the reports sorts the cells, and the other half judges the sets. If the same
    reports did both, many rare cells would look better than they are.
    """
    cells = np.unique(np.concatenate([first, second]))

    def halves(sample: Words) -> tuple[Floats, Floats]:
        where, half = np.searchsorted(cells, sample), len(sample) // 2
        counts = (np.bincount(part, minlength=len(cells)) for part in np.split(where, [half]))
        one, two = (count.astype(np.float64) for count in counts)
        return one, two

    (ours, hits), (theirs, other_hits) = halves(first), halves(second)
    order = np.argsort(-(ours + 0.5) / (theirs + 0.5), kind="stable")
    sums = np.cumsum(hits[order]), hits.sum(), np.cumsum(other_hits[order]), other_hits.sum()
    bounds = log_ratio(*sums, delta, alpha)
    best = int(np.argmax(bounds))
    return float(bounds[best]), cells[order[: best + 1]]


def log_ratio(
    hits: ArrayLike, n: float, other_hits: ArrayLike, m: float, delta: float, alpha: float
) -> Floats:
    """Return a lower bound of log((p - delta) / q), by bounds of Clopper & Pearson (1934).

    p and q are the probabilities of an event. It was observed ``hits`` times in ``n`` trials for p,
    and ``other_hits`` times in ``m`` trials for q. The bound fails with probability ``alpha``.
    """
    k, j = np.asarray(hits, float), np.asarray(other_hits, float)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, alpha / 2), 0.0)
    upper = np.where(j < m, betaincinv(j + 1, np.maximum(m - j, 1), 1 - alpha / 2), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(lower - delta, 0.0) / upper))
