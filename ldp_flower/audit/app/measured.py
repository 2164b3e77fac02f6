"""What noise is worth at least: two data sets told apart by noisy replies, message by message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np

from ..distinguish import Event, Sample, likeliest_events
from .cuts import Cut, best_cut
from .data.variants import Variant
from .node import Node
from .replies import Floats, Seen

WHOLE_RUN = -1
_CONFIRMED = 3  # events for each message and the run
_DENSE = 300  # numbers of a whole run up to which their covariance is estimated
_LARGE = 1e100  # squares of scores stay finite
_SCALARS = 20  # numbers of a reply that are also looked at one by one


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


@dataclass
class _Moments:
    """Mean and variance of the numbers of each message's replies, as they come."""

    count: int = 0
    means: dict[int, Floats] = field(default_factory=dict)
    squares: dict[int, Floats] = field(default_factory=dict)

    def add(self, run: Sequence[Seen]) -> None:
        self.count += 1
        for number, reply in enumerate(run):
            values = vector(reply)
            if number not in self.means:
                self.means[number], self.squares[number] = values.copy(), np.zeros_like(values)
            elif self.means[number].shape == values.shape:
                # Welford's, since a model's noise may be tiny beside its numbers.
                before = values - self.means[number]
                self.means[number] += before / self.count
                self.squares[number] += before * (values - self.means[number])

    def variance(self, number: int) -> Floats:
        return self.squares[number] / max(self.count - 1, 1)


def vector(reply: Seen) -> Floats:
    """Return all numbers of a reply but readings of clocks, in one dimension."""
    parts = [values for path, values in reply.numbers.items() if path not in reply.clocks]
    return np.concatenate(parts) if parts else np.zeros(0)


def moments(runs: Sequence[list[Seen]]) -> _Moments:
    """Return mean and variance of the numbers of runs."""
    found = _Moments()
    for run in runs:
        found.add(run)
    return found


def furthest(found: Mapping[Variant, _Moments]) -> tuple[Variant, Variant] | None:
    """Return the two data sets whose noisy replies differ most, in standard deviations.

    None if no reply has noise, or no two have numbers of the same form.
    """
    best, pair = 0.0, None
    for one, two in combinations(found, 2):
        total = sum(
            _distance(found[one], found[two], number)
            for number in found[one].means.keys() & found[two].means.keys()
        )
        if (pair is None and _noisy(found[one])) or total > best:
            best, pair = max(total, best), (one, two)
    return pair


def _noisy(found: _Moments) -> bool:
    return any((square > 0).any() for square in found.squares.values())


def _distance(one: _Moments, two: _Moments, number: int) -> float:
    if one.means[number].shape != two.means[number].shape:
        return 0.0
    first, second = one.variance(number), two.variance(number)
    noisy = (first > 0) & (second > 0)
    if not noisy.any():
        return 0.0
    first, second = first[noisy], second[noisy]
    apart = (one.means[number] - two.means[number])[noisy] ** 2 / ((first + second) / 2)
    # Noise may be as long as data are; over all numbers chance evens out.
    longer = len(first) * float(np.mean(np.log(first / second))) ** 2 / 2
    return float(apart.sum()) + longer - 2 * len(first) / max(one.count, 1)


def bounds(
    node: Node,
    pair: tuple[Variant, Variant],
    how_many: int,
    delta: float,
    confidence: float,
) -> dict[int, Bound]:
    """Return, by message and for the whole run, how well two data sets are told apart.

    Parameters
    ----------
    node : Node
        Who answers.
    pair : tuple of Variant
        The data.
    how_many : int
        Runs on either that confirm what others of them suggest: a third as many choose
        directions, as many choose events.
    delta : float
        Taken off the larger probability.
    confidence : float
        Probability with which all bounds hold.
    """
    directed = [_first_look(node, variant, max(how_many // 3, 8)) for variant in pair]
    scorer = _Scorer(*directed)
    names = (pair[0].name, pair[1].name)
    scored = []
    for variant in pair:
        scored.append(
            node.run(variant, lambda a: [scorer.scores(a()) for _ in range(2 * how_many)])
        )
    targets = [WHOLE_RUN, *scorer.numbers]
    alpha = (1 - confidence) / (_CONFIRMED * len(targets))
    return {
        target: _best(names, [[run[target] for run in runs] for runs in scored], delta, alpha)
        for target in targets
    }


def _first_look(node: Node, variant: Variant, how_many: int) -> tuple[_Moments, Floats]:
    def look(answers: object) -> tuple[_Moments, Floats]:
        found, rows = _Moments(), []
        for _ in range(how_many):
            run: list[Seen] = answers()  # type: ignore[operator]
            found.add(run)
            whole = np.concatenate([vector(reply) for reply in run])
            if len(whole) <= min(_DENSE, how_many // 2):
                rows.append(whole)
        same = rows and len({len(row) for row in rows}) == 1 and len(rows) == how_many
        return found, np.stack(rows) if same else np.zeros((0, 0))

    found: tuple[_Moments, Floats] = node.run(variant, look)
    return found


class _Scorer:
    """Numbers that a run's replies are reduced to, before anything is decided."""

    def __init__(self, one: tuple[_Moments, Floats], two: tuple[_Moments, Floats]) -> None:
        first, second = one[0], two[0]
        self.numbers = sorted(first.means.keys() & second.means.keys())
        self._directions: dict[int, list[Floats]] = {}
        self._centres: dict[int, Floats] = {}
        for number in self.numbers:
            if first.means[number].shape != second.means[number].shape:
                self._directions[number] = []
                continue
            apart = first.means[number] - second.means[number]
            spread = (first.variance(number) + second.variance(number)) / 2
            floor = max(float(spread.max(initial=0.0)) * 1e-12, 1e-300)
            self._directions[number] = [
                apart / np.maximum(spread, floor),
                apart / max(float(np.abs(apart).max(initial=0.0)), 1e-300),
            ]
            self._centres[number] = (first.means[number] + second.means[number]) / 2
        self._whole = _whitened(one[1], two[1])

    def scores(self, run: Sequence[Seen]) -> dict[int, tuple[int, list[float]]]:
        """Return a code and scores of each message's reply, and of the whole run."""
        found: dict[int, tuple[int, list[float]]] = {}
        for number in self.numbers:
            reply, values = run[number], vector(run[number])
            directions = self._directions[number]
            if directions and len(values) == len(directions[0]):
                around = values - self._centres[number]
                scores = [float(around @ direction) for direction in directions]
                scores += [float(around @ around), *values[:_SCALARS].tolist()]
            else:
                scores = [np.nan] * 3
            found[number] = (int.from_bytes(reply.digest, "big"), scores)
        codes = tuple(code for code, _ in found.values())
        sums = [sum(found[n][1][k] for n in self.numbers) for k in range(3)]
        if self._whole is not None:
            whole = np.concatenate([vector(reply) for reply in run])
            fits = len(whole) == len(self._whole)
            sums.append(float(whole @ self._whole) if fits else np.nan)
        found[WHOLE_RUN] = (hash(codes) & (1 << 63) - 1, sums)
        return found


def _whitened(one: Floats, two: Floats) -> Floats | None:
    """Return the direction that tells two samples apart best, by their common covariance.

    It finds what noise has in common: between entries, between rounds.
    """
    if not one.size or one.shape[1:] != two.shape[1:]:
        return None
    within = np.concatenate([one - one.mean(axis=0), two - two.mean(axis=0)])
    covariance = within.T @ within / max(len(within) - 2, 1)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(scale, scale)
    correlation[np.diag_indices_from(correlation)] = 1 + 1e-9
    apart = (one.mean(axis=0) - two.mean(axis=0)) / scale
    found, *_ = np.linalg.lstsq(correlation, apart, rcond=1e-10)
    return np.asarray(found / scale)


def _best(
    names: tuple[str, str],
    scored: list[list[tuple[int, list[float]]]],
    delta: float,
    alpha: float,
) -> Bound:
    """Choose events on the first half of the runs, and judge them by the second."""
    half = len(scored[0]) // 2
    width = min(len(scores) for runs in scored for _, scores in runs)
    searched: list[tuple[float, int, Event | Cut]] = []
    for which in range(-1, width):
        samples = _samples(names, scored, slice(0, half), which)
        if which < 0:
            events: list[Event | Cut] = [*likeliest_events(samples, 2, delta, alpha)]
        else:
            events = [best_cut(samples, pair, delta, alpha) for pair in permutations(names)]
        searched += [(event.bound(samples, delta, alpha), which, event) for event in events]
    searched.sort(key=lambda option: -option[0])
    best = Bound(0.0, names, "")
    for _, which, event in searched[:_CONFIRMED]:
        samples = _samples(names, scored, slice(half, None), which)
        found = event.bound(samples, delta, alpha)
        if found > best.epsilon:
            best = Bound(found, (event.pair[0], event.pair[1]), _by(which))
    return best


def _samples(
    names: tuple[str, str],
    scored: list[list[tuple[int, list[float]]]],
    part: slice,
    which: int,
) -> dict[str, Sample]:
    found = {}
    for name, runs in zip(names, scored, strict=True):
        codes = np.array([code for code, _ in runs[part]], np.uint64)
        if which < 0:
            found[name] = Sample(codes, np.zeros((len(codes), 0)))
        else:
            values = np.array([[scores[which]] for _, scores in runs[part]])
            values = np.clip(np.nan_to_num(values), -_LARGE, _LARGE)
            found[name] = Sample(np.zeros(len(codes), np.uint64), values)
    return found


def _by(which: int) -> str:
    if which < 0:
        return "the very replies"
    if which == 2:
        return "how far the noise goes"
    return "the direction between the means" if which < 2 else "single numbers"
