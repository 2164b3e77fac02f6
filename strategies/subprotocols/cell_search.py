"""Search for quantiles by k-ary randomised response over cells around all levels at once."""

import math
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from ldp_flower.questions import Question
from ldp_flower.randomizers import Estimate, KRandomizedResponse
from ldp_flower.validation import Floats

from ..numerics.cell_quantiles import CellReports, estimated, inverted
from ..numerics.value_scale import ValueScale
from ..runtime import Ask, Cohort, ask_on
from ..runtime.result import HALF_WIDTH_95

# Number of edges per level. Each edge adds a cell, and so noise: the noise variance is
# (e^eps + cells) / (e^eps - 1) times the users' own. An interval is 1.34 times as wide before the
# last round as after it, so m edges widen it by 1.34 / (m + 1) of its width. The best m balances
# the two. Fewer than 4 lose the quantile; more than 6 made estimates worse at epsilon 4 to 8.
_WIDENED, _MIN_EDGES, _MAX_EDGES_EACH = 1.34, 4, 6
_MAX_EDGES = 96  # largest number of edges of all levels together
_FIRST_CELLS = 32  # number of cells of the first cohort, spread over the bounds
_TINY = 1e-9  # width of a cell of one value, over the distance of the bounds
#: Half-width, in standard errors, of an interval that may shrink to a single value. Such an
#: interval shows no error, and is wrong once in 400 times.
ONE_VALUE = 3.0


def edges_of(levels: int, epsilon: float) -> int:
    """Return the number of edges that the cells around each of ``levels`` quantiles have."""
    balanced = round(math.sqrt(_WIDENED * math.exp(epsilon) / levels)) - 1
    return max(1, min(max(balanced, _MIN_EDGES), _MAX_EDGES_EACH, _MAX_EDGES // levels))


class FoundQuantile(NamedTuple):
    """An estimated quantile and the ends of its interval.

    ``shared`` is True if many users have this value.
    """

    value: float
    lower: float
    upper: float
    shared: bool = False


def search_by_cells(
    cohorts: Sequence[Cohort],
    levels: Sequence[float],
    scale: ValueScale,
    step: float | None,
    epsilon: float,
    question: Callable[[Floats], Question],
) -> Generator[Ask, Estimate, list[FoundQuantile]]:
    """Ask each cohort for cells whose edges lie within the intervals found by earlier cohorts.

    Return the quantiles at the ``levels``, with their intervals.

    scale: Scale on which the first cells have equal lengths.
    step: Distance between possible values, which are its multiples; edges then lie between them.
    question: Function that makes a question from edges of cells; a cell includes its upper edge.
    """
    low, high = scale.low, scale.high
    tiny = _TINY * (high - low)
    # Many values may lie at a bound or at 0, so each bound and 0 has a separate cell.
    atoms = np.unique([low, max(low, min(0.0, high)), high])

    def ends(wanted: Floats) -> Floats:
        if step is not None:
            wanted = (np.floor(wanted / step) + 0.5) * step
        else:
            near = np.abs(wanted[:, None] - atoms) <= 2 * tiny
            at = atoms[near.any(axis=0)]
            wanted = np.concatenate([wanted[~near.any(axis=1)], at - tiny, at])
        wanted = np.unique(wanted[(wanted >= low) & (wanted < high)])
        return wanted[np.diff(wanted, prepend=-np.inf) > tiny / 2]

    edges = ends(np.append(scale.values(np.linspace(0, 1, _FIRST_CELLS + 1)), atoms))
    found: list[CellReports] = []
    each = edges_of(len(levels), epsilon)
    for cohort in cohorts:
        oracle = KRandomizedResponse(epsilon, len(edges) + 2)
        answer = yield from ask_on(Ask(cohort, question(edges + tiny / 2), oracle), bool(found))
        if answer is None:
            break
        own, other = float(oracle.own), float(oracle.other)
        found.append(CellReports(edges, answer.mean, answer.count, own, other))
        estimates = [estimated(found, level, low, high, HALF_WIDTH_95) for level in levels]
        shares = np.linspace(0, 1, each + 2)[1:-1]
        wanted = [
            function.inverse(np.interp(shares, [0, 1], function.at(np.array(interval))))
            for function, interval in estimates
        ]
        if len(finer := ends(np.concatenate(wanted))):
            edges = finer
    shortest = 2 * tiny + 1.5 * (step or 0.0)
    spans = [
        span if np.ptp(span) > shortest else inverted(found, function, ONE_VALUE)
        for function, span in estimates
    ]
    values = np.array(
        [
            [function.inverse(function.level), *span]
            for (function, _), span in zip(estimates, spans, strict=True)
        ]
    )
    near = np.abs(values[..., None] - atoms) <= 2 * tiny
    values = np.where(near.any(axis=-1), atoms[np.argmax(near, axis=-1)], values)
    return [
        FoundQuantile(min(max(value, lower), upper), lower, upper)
        for value, lower, upper in values.tolist()
    ]
