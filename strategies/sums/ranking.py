"""AUC of a classifier over all users, from noisy sums over nodes."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from scipy.special import ndtr

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import RankingCurve, ScoreShares
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..numerics.roc_curve import area
from ..runtime import Ask
from .budget import Budget

#: Number of histograms of scores, and of questions about one AUC.
_LOOKS = 2
QUESTIONS = _LOOKS + 1
_LOOK = 0.1  # part of an AUC's budget for each histogram
_OCTAVES = 8  # cells on each side of a histogram's centre, each half as wide as the one beyond
# Standard deviation of scores over the length of their slopes, before anything is known. Columns
# lie in [-2, 2].
_USUAL = 0.7
_RISE = 1e-6  # added to each cell, so that the distribution function can be inverted
_LEAST = 1e-9  # size of scores, so that cells have a width even if all slopes are 0
# Error of the true less the false positive rate at one threshold with which there is one more
# threshold on each side. Constants were tuned on normal, lognormal, Pareto and mixed columns.
_GAP_ERROR, _MOST_PAIRS = 0.035, 3


def ask_auc(
    budget: Budget, schema: Schema, theta: Floats, place: int, classes: Floats, share: float
) -> Generator[Ask, Any, tuple[float, float]]:
    """Return the AUC of a class's model over all users' rows, and its standard error.

    ``theta`` is such that the mean score is about 0; ``classes`` are the shares of all classes.
    Histograms of scores say where thresholds divide the rows evenly: the mean lies far from most
    rows if columns have long tails. True and false positive rates are asked for at all thresholds
    at once, at more of them if there is less noise.
    """
    own = float(classes[place])
    spread, centre = max(_USUAL * float(np.linalg.norm(theta[1:])), _LEAST), 0.0
    cells = _reach(schema, theta) * 2.0 ** -np.arange(_OCTAVES)
    for _ in range(_LOOKS):
        edges = centre + np.concatenate([-cells, cells[::-1]])
        expected = np.diff(ndtr((edges - centre) / spread), prepend=0.0, append=1.0)
        mechanism = budget.cells(len(expected), _LOOK * share)
        found: Estimate = yield budget.ask(ScoreShares(theta, edges), mechanism)
        below = _distribution(found, expected)
        centre = float(np.interp(0.5, below, edges))

    def question(thresholds: Floats) -> RankingCurve:
        return RankingCurve(theta, float(place), own, thresholds, len(classes))

    left, unit = (1 - _LOOKS * _LOOK) * share, 2 * own * (1 - own)
    error = budget.error(budget.ball(2, question(np.zeros(1)).radius, left)) / unit
    number = 1 + 2 * int(min((_GAP_ERROR / error) ** 2, _MOST_PAIRS))
    asked = question(np.interp(np.arange(1, number + 1) / (number + 1), below, edges))
    found = yield budget.ask(asked, budget.ball(2 * number, asked.radius, left))
    noise, weight = float(found.std_error[0]), 2 * asked.weight
    gaps, signs = found.mean.reshape(2, number)
    auc, error = area(0.5 - signs / weight, noise / weight, gaps / unit, noise / unit, own)
    # Users are a sample. Scores that rank better than chance vary less.
    sampling = 1 / math.sqrt(6 * unit * max(found.count, 1))
    return auc, math.hypot(error, sampling)


def _distribution(found: Estimate, expected: Floats) -> Floats:
    """Return the share of scores below each edge, from a noisy histogram.

    The histogram is shrunk towards the expected one, as far as the noise explains their distance.
    """
    left = found.mean - expected
    noise = len(left) * float(found.std_error[0]) ** 2
    kept = max(0.0, 1 - noise / max(float(left @ left), noise))
    cells = np.maximum(expected + kept * left, 0.0)[1:-1] + _RISE
    return np.asarray(np.append(0.0, np.cumsum(cells)) / cells.sum())


def _reach(schema: Schema, theta: Floats) -> float:
    """Return the largest absolute score that rows within the columns' bounds can have."""
    low = high = float(theta[0])
    for name, kind in schema.columns.items():
        own = theta[list(schema.places(name))]
        if isinstance(kind, Numeric):
            own = own * np.array(kind.ends)
        low, high = low + float(own.min()), high + float(own.max())
    return max(-low, high, _LEAST)
