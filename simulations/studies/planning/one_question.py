"""Populations for what asks everybody one question, and for updates of models."""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, simulate
from ldp_flower.randomizers import ball_codebook
from ldp_flower.strategies import ConstrainedMean, ConstrainedRegression

from .cell import MadeUp

Floats = NDArray[np.float64]

_FEATURES = {
    "ConstrainedMean": (8, 16, 50, 128, 300),
    "ConstrainedRegression": (3, 4, 6, 9, 14),
    "LdpFedAvg": (10, 30, 100, 300),
}
_CELLS = 30


def cells() -> Iterator[MadeUp]:
    """Yield 30 cells of each protocol: by lot, of those that are not refused."""
    for number, protocol in enumerate(_FEATURES):
        users = (700, 2500, 6000, 15_000, 40_000)
        every = itertools.product(users, _FEATURES[protocol], (1,), (0.7, 1.4, 3.0, 6.0))
        possible = [c for c in (MadeUp(protocol, *some) for some in every) if not c.is_refused]
        lots = np.random.default_rng(number).choice(len(possible), _CELLS, replace=False)
        yield from (possible[lot] for lot in lots)


def errors(cell: MadeUp, seed: int) -> float:
    """Return the error of a run."""
    rng = np.random.default_rng([17, seed, cell.users, cell.features])
    return _ERRORS[cell.protocol](cell, seed, rng)


def _of_mean(cell: MadeUp, seed: int, rng: np.random.Generator) -> float:
    mean = np.zeros(cell.features)
    some = rng.choice(cell.features, min(cell.features, 8), replace=False)
    mean[some] = rng.choice([-1, 1], len(some)) * 0.5 / np.sqrt(len(some))
    noise = rng.standard_normal((cell.users, cell.features)) * 0.3 / np.sqrt(cell.features)
    rows = mean + noise
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    found = simulate(
        ConstrainedMean(cell.features, epsilon=cell.epsilon),
        Users.from_rows(rows, np.zeros(cell.users)),
        seed=seed,
    )
    return float(np.linalg.norm(found.coef - rows.mean(axis=0)))


def _of_regression(cell: MadeUp, seed: int, rng: np.random.Generator) -> float:
    truth = np.zeros(cell.features)
    some = rng.choice(cell.features, min(cell.features, 4), replace=False)
    truth[some] = rng.choice([-1, 1], len(some)) * 0.8 / len(some)
    rows = rng.standard_normal((cell.users, cell.features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = rows @ truth + 0.1 * rng.standard_normal(cell.users)
    strategy = ConstrainedRegression(cell.features, epsilon=cell.epsilon)
    found = simulate(strategy, Users.from_rows(rows, targets), seed=seed)
    return float(np.linalg.norm(found.coef - truth) / np.linalg.norm(truth))


def _of_updates(cell: MadeUp, seed: int, rng: np.random.Generator) -> float:
    """Return how far the mean of all reports is from that of the updates, of length 1 each."""
    updates = rng.standard_normal((cell.users, cell.features)) + rng.standard_normal(cell.features)
    updates /= np.linalg.norm(updates, axis=1, keepdims=True)
    mechanism = ball_codebook(cell.epsilon, cell.features, 1.0).for_cohort(cell.users, seed)
    coins = rng.integers(0, 2**64, cell.users, np.uint64)
    reports = mechanism.randomize(updates, rng, coins)
    found = mechanism.summarize(reports, coins).sum / cell.users
    return float(np.linalg.norm(found - updates.mean(axis=0)))


_ERRORS = {
    "ConstrainedMean": _of_mean,
    "ConstrainedRegression": _of_regression,
    "LdpFedAvg": _of_updates,
}
