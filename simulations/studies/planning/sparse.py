"""Populations for sparse models and means, and how far off a run on them is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, simulate
from ldp_flower.strategies import (
    LabelLdpIht,
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    SparseMean,
    SparseRegression,
    TwoRoundRegression,
    UserLevelMean,
)

from .cell import MadeUp

Floats = NDArray[np.float64]

_CELLS = 32, 62  # of each protocol, and where users vote, some of which are refused
_MOST_NUMBERS = 1.2e7, 3e6  # in a population
_MOST_USERS = 20_000, 2000  # and where users vote, each with a Lasso of its own
_ONE_ROW = (LabelLdpIht, NonInteractiveIht, SparseMean)
_VOTING = (SparseRegression, TwoRoundRegression, MultiRoundRegression)
# More where those of one cell differ by half or more.
_RUNS = {"LdpIht": 40, "LabelLdpIht": 40} | {cls.__name__: 20 for cls in _VOTING}
_SPARSITY = {"LdpIht": 4, "NonInteractiveIht": 4}  # others have 8

PROTOCOLS = {
    cls.__name__: cls
    for cls in (
        *(UserLevelMean, LdpIht, NonInteractiveIht, LabelLdpIht),
        *(SparseMean, SparseRegression, TwoRoundRegression, MultiRoundRegression),
    )
}


@dataclass(frozen=True)
class Cell(MadeUp):
    """A protocol and a population."""

    quality: float

    @property
    def seeds(self) -> int:
        """How many runs there are."""
        return _RUNS.get(self.protocol, 10)


def cells() -> Iterator[Cell]:
    """Yield cells that were drawn by lot; one in four of them with users of one row."""
    for number, (name, cls) in enumerate(PROTOCOLS.items()):
        voting = cls in _VOTING
        rng = np.random.default_rng([2026 + 3 * voting, number])
        found = 0
        while found < _CELLS[voting]:
            one = cls in _ONE_ROW or (cls in (LdpIht, UserLevelMean) and found % 4 == 0)
            rows = 1 if one else int(rng.choice([3, 10, 30, 100]))
            most = math.log(_MOST_USERS[voting])
            users = int(round(math.exp(rng.uniform(math.log(500), most)), -2))
            features = int(rng.choice([8, 16, 32, 64, 128]))
            cell = Cell(
                name,
                users,
                features,
                rows,
                float(rng.choice([0.5, 1.0, 2.0, 4.0, 8.0])),
                float(rng.choice([0.3, 0.5, 0.7, 0.9])),
            )
            if users * rows * features <= _MOST_NUMBERS[voting]:
                found += 1
                yield cell


def errors(cell: Cell, seed: int) -> float:
    """Return the error of a run, as the plan names it."""
    rng = np.random.default_rng([seed, cell.users, cell.features, cell.rows])
    if cell.protocol == "UserLevelMean":
        return _bounded_mean(cell, rng, seed)
    truth = np.zeros(cell.features)
    places = rng.choice(cell.features, min(_SPARSITY.get(cell.protocol, 8), cell.features), False)
    truth[places] = rng.choice([-1.0, 1.0], len(places)) / math.sqrt(len(places))
    if cell.protocol == "SparseMean":
        truth *= 2.0 * math.sqrt(len(places))
        users = Users.from_rows(truth + rng.standard_normal((cell.users, cell.features)))
    else:
        shape = (cell.users * cell.rows, cell.features)
        signs = cell.rows == 1 and cell.protocol in _SPARSITY
        x = rng.choice([-1.0, 1.0], shape) if signs else rng.standard_normal(shape)
        noise = math.sqrt(1 / cell.quality - 1)
        y = x @ truth + noise * rng.standard_normal(len(x))
        if PROTOCOLS[cell.protocol] in _VOTING:  # which learn the targets' scale in bins
            unit = 2 ** rng.uniform()
            y, truth = unit * y, unit * truth
        users = Users(x, y, cell.rows * np.arange(cell.users + 1))
    found = simulate(cell.strategy, users, seed=seed).coef
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def _bounded_mean(cell: Cell, rng: np.random.Generator, seed: int) -> float:
    """Rows are signs, all on the bound; the mean is .35 to .65 of it long."""
    truth = rng.standard_normal(cell.features)
    truth *= rng.uniform(0.35, 0.65) / np.linalg.norm(truth)
    size = 1 / math.sqrt(cell.features)
    truth = np.clip(truth, -size, size)
    ups = rng.binomial(cell.rows, (1 + truth / size) / 2, (cell.users, cell.features))
    users = Users.from_rows(size * (2 * ups / cell.rows - 1))
    return float(np.linalg.norm(simulate(cell.strategy, users, seed=seed).coef - truth))
