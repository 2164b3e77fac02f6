"""What noise is worth at least: two data sets told apart by noisy replies, message by message."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from ....validation import Floats
from ..data.variants import Variant
from ..node import Node
from ..replies import Seen
from .events import CONFIRMED, Bound, best_event
from .moments import Moments, vector
from .scores import BY, DENSE, LINEAR, WHOLE_RUN, Look, Score, Scorer
from .shapes import drawn, laplace_epsilon, normal_epsilon, passes
from .steady import Effect

#: Where a claim names no delta, none of which normal noise has an epsilon for at 0.
USUAL_DELTA = 1e-5


def furthest(found: Mapping[Variant, Moments]) -> tuple[Variant, Variant] | None:
    """Return the two data sets whose noisy replies differ most, in standard deviations.

    None if no reply has noise, or no two have numbers of the same form.
    """
    best, pair = 0.0, None
    for one, two in combinations(found, 2):
        total = sum(
            _distance(found[one], found[two], number)
            for number in found[one].means.keys() & found[two].means.keys()
        )
        if (pair is None and found[one].noisy) or total > best:
            best, pair = max(total, best), (one, two)
    return pair


def _distance(one: Moments, two: Moments, number: int) -> float:
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
    effect: Effect,
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
    effect : dict of int to ndarray
        How they move each message's numbers, if that is known.
    how_many : int
        Runs on either that confirm what others of them suggest: a third as many choose
        directions, as many choose events.
    delta : float
        Taken off the larger probability.
    confidence : float
        Probability with which all bounds hold.
    """
    one, two = (_first_look(node, variant, max(how_many // 3, 8)) for variant in pair)
    scorer = Scorer(one, two, effect)
    names = (pair[0].name, pair[1].name)
    scored = [
        node.run(variant, lambda a: [scorer.scores(a()) for _ in range(2 * how_many)])
        for variant in pair
    ]
    targets = [WHOLE_RUN, *scorer.numbers]
    alpha = (1 - confidence) / (2 * len(targets))
    shapes = drawn(node)
    found = {}
    for target in targets:
        runs = [[run[target] for run in of] for of in scored]
        by_events = best_event(names, runs, delta, alpha / CONFIRMED, target == WHOLE_RUN)
        by_shape = _of_shape(shapes, names, runs, scorer.signs[target], delta, alpha)
        found[target] = max(by_events, by_shape, key=lambda bound: bound.epsilon)
    return found


def _of_shape(
    shapes: set[str],
    names: tuple[str, str],
    runs: Sequence[Sequence[Score]],
    signs: Floats,
    delta: float,
    alpha: float,
) -> Bound:
    """Return what noise of a known shape is worth by its size; nothing if it has none."""
    nothing = Bound(0.0, names, "")
    kept = [_stacked([score.kept for score in of]) for of in runs]
    passed = [s for s in shapes if all(rows.size and passes(s, rows) for rows in kept)]
    if not passed:
        return nothing
    if "laplace" in passed:
        found = laplace_epsilon(kept[0], kept[1], signs, delta, alpha)
        return Bound(found, names, "Laplace noise of this size")
    best = nothing
    rows = [_stacked([np.asarray(score.scores) for score in of]) for of in runs]
    linear = [*LINEAR, *range(len(BY), rows[0].shape[1])]
    for which in linear:
        one, two = rows[0][:, which], rows[1][:, which]
        if not (np.isfinite(one).all() and np.isfinite(two).all()):
            continue
        at = delta or USUAL_DELTA
        epsilon, mu = normal_epsilon(one, two, at, alpha / len(linear))
        if epsilon > best.epsilon:
            told = f"normal noise: means are {mu:.3g} or more of its standard deviations apart"
            if not delta:
                told += f", at delta {at:g} since none is claimed"
            best = Bound(epsilon, names, told)
    return best


def _stacked(rows: Sequence[Floats]) -> Floats:
    return np.stack(rows) if len({row.shape for row in rows}) == 1 else np.zeros((0, 0))


def _first_look(node: Node, variant: Variant, how_many: int) -> Look:
    def look(answers: Callable[[], list[Seen]]) -> Look:
        found, rows = Moments(), []
        for _ in range(how_many):
            run = answers()
            found.add(run)
            whole = np.concatenate([vector(reply) for reply in run])
            if len(whole) <= min(DENSE, how_many // 2):
                rows.append(whole)
        same = rows and len({len(row) for row in rows}) == 1 and len(rows) == how_many
        return Look(found, np.stack(rows) if same else np.zeros((0, 0)))

    found: Look = node.run(variant, look)
    return found


__all__ = ["USUAL_DELTA", "WHOLE_RUN", "Bound", "bounds", "furthest"]
