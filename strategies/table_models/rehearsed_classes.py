"""PrivateClassification on made-up tables, all at once: what it loses, from numbers alone.

As :mod:`.rehearsed_regression`. Labels are -1 and 1, scores about normal, and with ``erf`` for the
expected label ``tanh`` its mean and slope over normal scores are known.
"""

import math

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.special import erf, ndtr, ndtri

from ldp_flower.randomizers import ball_codebook

from ..forecasts.tables.directions import Directions, Moments
from ..forecasts.tables.made_up_tables import Columns, MadeUpTables, made_up_classes
from .centres import FARTHEST as FARTHEST_SQUARE
from .centres import USUAL, num_wanted
from .class_judges import num_judges, score_error
from .class_walk import FARTHEST, FEW_ROWS, LONGEST

Floats = NDArray[np.float64]
Rng = np.random.Generator

_EPSILON = 1.0
_STEPS = 25  # half as many as there are, twice as long: nearly the same
_BEGIN, _SHORTER, _LONGER, _RECENT = 0.5, -2.0, 1.0, 8.0  # as of numerics.walk
_COUNTERS = 0.03  # share of the users that tell how many rows they have
_MOST_AUC = 0.9999
_LEAST_SQUARE = 0.02  # of residuals


def class_losses(columns: Columns, rows: float, auc: float, users: float) -> Floats:
    """Return what is lost of each table's AUC.

    Parameters are those of :func:`.rehearsed_regression.regression_losses`, but ``auc``: what the
    same model reaches without privacy.
    """
    tables = made_up_classes(columns)
    rng = default_rng(columns.features)
    auc = min(auc, _MOST_AUC)
    share = tables.centre
    own = share * (1 - share)
    distance = math.sqrt(2) * float(ndtri(auc))
    # In units of the spread of all scores, not of those of one class.
    between = distance / np.sqrt(1 + own * distance**2)
    judges = num_judges(users, _EPSILON, rows)
    undeclared = columns.numbers + columns.indicators
    askers = num_wanted(users, _EPSILON, undeclared)
    moments = _around_centres(tables, columns, undeclared, askers, rng)
    walkers = max(users * (1 - _COUNTERS) - askers - sum(judges), 1.0)
    slopes = tables.slopes * (2 * own * between)[:, None]
    ridge = (1 + USUAL * columns.numbers + columns.scaled + columns.even) / rows
    directions = Directions(moments, ridge, rows, tables.own)
    weighted = rows < FEW_ROWS
    model = _walked(directions, slopes, 2 * share - 1, walkers, weighted, rng)
    spectrum = moments.spectrum
    agreeing = np.einsum("ij,ij,ij->i", spectrum, model, tables.slopes)
    size = np.einsum("ij,ij,ij->i", spectrum, model, model)
    found = agreeing / np.sqrt(np.maximum(size, np.finfo(float).tiny)) * between
    reached = ndtr(found / np.sqrt(1 - own * found**2) / math.sqrt(2))
    error = score_error(max(judges[-1], 1), _EPSILON, rows)
    seen = (reached - 0.5) / error + rng.standard_normal(len(reached))
    return np.where(seen <= 0, auc - 0.5, np.maximum(auc - reached, 0.0))


def _around_centres(
    tables: MadeUpTables, columns: Columns, undeclared: int, askers: float, rng: Rng
) -> Moments:
    """Return the moments around centres as they are told, if they are."""
    moments = tables.moments
    if not askers:
        return moments
    square = FARTHEST_SQUARE * columns.numbers + columns.even
    variance = square * ball_codebook(_EPSILON, undeclared, 1.0).variance / askers
    mean = moments.mean.copy()
    told = mean[:, 1:] + math.sqrt(variance) * rng.standard_normal(mean[:, 1:].shape)
    lengths = np.maximum((told**2).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    mean[:, 1:] -= np.maximum(1 - undeclared * variance / lengths, 0.0) * told
    return Moments(moments.spectrum, mean)


def _walked(
    directions: Directions,
    slopes: Floats,
    label: Floats,
    users: float,
    weighted: bool,
    rng: Rng,
) -> Floats:
    """Return the walk's estimate, where a covariance with labels is that with ``slopes``."""
    spectrum, mean = directions.moments.spectrum, directions.moments.mean
    size = slopes.shape
    variance, count = ball_codebook(_EPSILON, size[1], 1.0).variance, users / _STEPS
    sigma, planned = math.sqrt(variance / count), math.sqrt(users / variance)
    planned = min(FARTHEST, planned) / _STEPS
    place, estimate, last = np.zeros(size), np.zeros(size), np.zeros(size)
    factor = np.full((size[0], 1), _BEGIN)
    for number in range(_STEPS):
        pull, square = _residual(spectrum, mean, slopes, label, place / math.sqrt(size[1]))
        wanted = np.minimum(np.sqrt(square), 1.0)[:, None] if weighted else np.ones((size[0], 1))
        told = wanted * directions.step(pull, square, weighted=weighted)
        differ = np.maximum(wanted**2 - (told**2).sum(axis=1, keepdims=True), 0.0) / count
        told += sigma * rng.standard_normal(size) + np.sqrt(differ) * directions.spread(rng)
        if number:
            along = (told * last).sum(axis=1, keepdims=True) / sigma
            factor *= np.exp(np.clip(along, _SHORTER, _LONGER) / math.sqrt(_STEPS))
        place = place + np.minimum(planned * factor, 2 * LONGEST) * told
        last = told / np.linalg.norm(told, axis=1, keepdims=True)
        estimate = estimate + (_RECENT + 1) / (_RECENT + number + 1) * (place - estimate)
    return np.asarray(estimate)


def _residual(
    spectrum: Floats, mean: Floats, slopes: Floats, label: Floats, model: Floats
) -> tuple[Floats, Floats]:
    """Return the pull of what a model leaves of labels, and the mean square of that."""
    at = (mean * model).sum(axis=1)
    wide = 1 + math.pi / 2 * np.einsum("ij,ij,ij->i", spectrum, model, model)
    expected = erf(math.sqrt(math.pi) / 2 * at / np.sqrt(wide))
    slope = np.exp(-math.pi / 4 * at**2 / wide) / np.sqrt(wide)
    pull = slopes - slope[:, None] * model
    pull[:, 0] = label - expected - (mean * pull)[:, 1:].sum(axis=1)
    agreeing = np.einsum("ij,ij,ij->i", spectrum, slopes, model)
    square = 2 - slope - 2 * (label * expected + slope * agreeing)
    return pull, np.maximum(square, _LEAST_SQUARE)
