"""Lower bound of epsilon, by classifiers that distinguish replies on two neighbouring data sets.

The classifiers are trained on some runs, and the thresholds of their scores are chosen on others.
The bound, by Clopper & Pearson (1934), is computed from fresh runs.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...validation import Floats
from ..distinguish import log_ratio
from .loading import quiet
from .looks import LARGEST, Look, Place, Transcript
from .node import AuditedNode
from .variants import Variant

Pair = tuple[Look, Look]
_Piece = tuple[object, object]  # place, and form or exact value
_Chosen = dict[Place, NDArray[np.intp]]  # indices of the compared numbers

_COLUMNS = 240  # compared numbers of a run, about as many as a classifier can use with its runs
_MAX_TRAINING = 200  # largest number of runs that count values, that train, and that choose a cut
_BLOCK = 25  # consecutive runs on one data set: a trend over runs must not distinguish the two
_THRESHOLDS = 401  # number of quantiles of a score that are tried as thresholds
#: Number of data sets that are examined again, with three times the runs. With 22 data sets and 40
#: runs, 5 of 20 choices were a pair less than two thirds as far apart as the farthest pair. With
#: 120 new runs of 6 data sets it was 1 of 40; with 160 new runs of 4, 6 and 8 data sets it was 5, 1
#: and 1.
_CLOSE = 6
_SLACK = 0.1  # tolerance of a bound from the runs that choose the threshold


def furthest(looks: Sequence[Look], anew: Callable[[Variant], Look]) -> Pair | None:
    """Return the two neighbouring data sets whose replies differ most, or None if nothing varies.

    The largest of many distances may be large by chance. The data sets with the largest distances
    are therefore examined again by ``anew``.
    """
    tried = _neighbours(looks)
    if not tried or not any(look.varies for look in looks):
        return None
    tried.sort(key=_distance, reverse=True)
    close = dict.fromkeys(look.variant for pair in tried for look in pair)
    return max(_neighbours([anew(variant) for variant in [*close][:_CLOSE]]), key=_distance)


def _neighbours(looks: Sequence[Look]) -> list[Pair]:
    return [(a, b) for a, b in combinations(looks, 2) if a.variant.neighbours(b.variant)]


def _distance(pair: Pair) -> float:
    return pair[0].distance(pair[1])


def _chosen(first: Look, second: Look) -> _Chosen:
    """Return the indices of the numbers to compare, by array: those that differ most."""
    apart = first.apart(second)
    each = max(_COLUMNS // max(len(apart), 1), 4)
    largest: dict[str, Floats] = {}
    for (_, path), distances in apart.items():
        known = largest.get(path, distances)
        fits = known.shape == distances.shape
        largest[path] = np.maximum(known, distances) if fits else known
    # Use the same numbers of all messages, so that noise that they have in common cancels.
    return {place: np.argsort(-largest[place[1]])[:each] for place in sorted(apart)}


def _numbers(run: Transcript, chosen: _Chosen) -> Floats:
    """Return one vector for a run: the ``chosen`` numbers, and the sum of each whole array.

    Numbers that the run lacks are 0.
    """
    parts = [np.zeros(0)]
    for place, which in chosen.items():
        values = run.numbers.get(place, np.zeros(0))
        if len(values) <= which.max(initial=-1):
            values = np.zeros(int(which.max()) + 1)
        parts += [values[which], values.sum(keepdims=True)]
    return np.clip(np.concatenate(parts), -LARGEST, LARGEST)


def lower_bound(
    node: AuditedNode, pair: Pair, how_many: int, delta: float, alpha: float
) -> tuple[float, str]:
    """Return a lower bound of epsilon between two data sets, and the name of the classifier.

    There are ``how_many`` runs on each data set. Up to a sixth of them counts values, another sixth
    trains the classifier, and another sixth chooses the threshold. The remaining runs give the
    bound, which fails with probability ``alpha``.
    """
    chosen = _chosen(*pair)
    numbers: list[list[Floats]] = [[], []]
    forms: list[list[list[_Piece]]] = [[], []]
    while len(numbers[0]) < how_many:
        for side in random.sample((0, 1), 2):
            for run in node.runs(pair[side].variant, min(_BLOCK, how_many)):
                numbers[side].append(_numbers(run, chosen))
                forms[side].append(list(run.form.items()))
    each = min(how_many // 6, _MAX_TRAINING)
    first, second, third = each, 2 * each, 3 * each
    samples = _with_familiar_values([np.stack(of) for of in numbers], forms, first)
    train = np.concatenate([of[first:second] for of in samples])
    labels = np.repeat([0, 1], second - first)
    best: tuple[float, str, int, float] = (-math.inf, "", 0, 0.0)
    scores = {}
    for name, model in _models().items():
        with quiet():  # columns may be constant
            model.fit(train, labels)
            scores[name] = [model.predict_proba(of[second:])[:, 1] for of in samples]
        choosing = [of[: third - second] for of in scores[name]]
        cuts = np.unique(np.quantile(np.concatenate(choosing), np.linspace(0, 1, _THRESHOLDS)))
        for side in (0, 1):
            bounds = _bounds(choosing, side, cuts, delta, alpha)
            near = np.flatnonzero(bounds >= bounds.max() - _SLACK)
            # The most extreme cut is best: the fresh runs are more, so some of them lie beyond it.
            at = int(near[-1] if side else near[0])
            best = max(best, (float(bounds[at]), name, side, float(cuts[at])))
    _, name, side, cut = best
    fresh = [of[third - second :] for of in scores[name]]
    bound = _bounds(fresh, side, np.array([cut]), delta, alpha)
    return max(float(bound[0]), 0.0), name


def _bounds(
    scores: Sequence[Floats], side: int, cuts: Floats, delta: float, alpha: float
) -> Floats:
    """Return lower bounds from the frequencies of scores beyond each cut.

    ``side`` is the data set that has such scores more often.
    """
    sign = 2 * side - 1
    hits = [len(of) - np.searchsorted(np.sort(sign * of), sign * cuts) for of in scores]
    return log_ratio(hits[side], len(scores[0]), hits[1 - side], len(scores[0]), delta, alpha)


def _models() -> dict[str, Any]:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Whitening gives combinations of numbers in which noise cancels the same weight as others.
    linear = make_pipeline(StandardScaler(), PCA(whiten=True), LogisticRegression(max_iter=300))
    return {
        "a linear classifier": linear,
        "boosted trees": HistGradientBoostingClassifier(max_iter=50, early_stopping=False),
    }


def _with_familiar_values(
    numbers: Sequence[Floats], forms: Sequence[Sequence[Sequence[_Piece]]], until: int
) -> list[Floats]:
    """Return the numbers with one more column: the log-odds of the data sets, by exact values.

    The frequencies of exact values are counted in the first ``until`` runs. Noise in discrete
    steps, answers and forms have values that repeat exactly.
    """
    both = np.concatenate([of[:until] for of in numbers])
    steps = [j for j in range(both.shape[1]) if len(np.unique(both[:, j])) < len(both)]
    pieces: list[list[list[_Piece]]] = [[], []]
    for side in (0, 1):
        for form, row in zip(forms[side], numbers[side][:, steps].tolist(), strict=True):
            pieces[side].append([*form, *enumerate(row)])
    seen = [Counter(piece for run in of[:until] for piece in run) for of in pieces]
    odds = {p: math.log((seen[0][p] + 0.5) / (seen[1][p] + 0.5)) for p in seen[0] | seen[1]}
    familiar = [[sum(odds.get(piece, 0.0) for piece in run) for run in of] for of in pieces]
    return [np.column_stack(columns) for columns in zip(numbers, familiar, strict=True)]
