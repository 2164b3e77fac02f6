"""One run of a protocol on data of one kind, with nothing declared but what has no default."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from ldp_flower import Users, simulate
from ldp_flower.planning import WouldRefuse
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import (
    DpIht,
    KnowledgeTransfer,
    LabelLdpIht,
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    PeelingDpIht,
    PrivateEvaluation,
    SparseRegression,
    TwoRoundRegression,
    UserLevelMean,
)

from ...harness.runs import Task, sweep_of
from .laws import COEFFICIENTS, FEATURES, NOISES, Floats, Rng, coefficients

_DIM = 64
_USERS, _FEWER = 60_000, 1_000  # of one record each; of many
_EVALUATORS = 20_000  # of a model, of a row each or ten
_NODES, _AT_NODES, _FEWER_AT_NODES = 10, 20_000, 4_000  # users of one record each; of many
_SILOS = 2  # of hospitals whose records are protected one by one
_DELTA = 1e-6
_MEAN_DIM, _MEAN_USERS = 16, 4_000  # of a mean of features
SIZES = (0.05, 0.5, 2.0)  # of the noise, over the signal's
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_ROWS = {
    "LdpIht": (1,),
    "NonInteractiveIht": (1,),
    "LabelLdpIht": (1,),
    "UserLevelMean": (1, 10, 100),
    "PrivateEvaluation": (1, 10),
    "DpIht": (10_000,),
    "PeelingDpIht": (10_000,),
    "LdpIht at the node": (1, 10),
    "SparseRegression at the node": (1, 10),
}
_MANY = (10, 100, 400)
_MEASURED = ("error", "z", "noted", "unstated", "wrong", "refused")


@dataclass(frozen=True)
class Cell:
    """Users, and the epsilon that they pay."""

    features: str
    kind: str
    noise: float
    law: str
    rows: int
    epsilon: float


#: Of the coefficients, the cell, and the targets' root mean square.
STRATEGIES: dict[str, Callable[[Floats, Cell, float], Any]] = {
    "LdpIht": lambda theta, cell, _: LdpIht(_DIM, sparsity=_matter(theta), epsilon=cell.epsilon),
    "NonInteractiveIht": lambda theta, cell, _: NonInteractiveIht(
        _DIM, sparsity=_matter(theta), epsilon=cell.epsilon
    ),
    "LabelLdpIht": lambda theta, cell, _: LabelLdpIht(
        _DIM, sparsity=_matter(theta), epsilon=cell.epsilon
    ),
    "SparseRegression": lambda _, cell, __: SparseRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows
    ),
    "TwoRoundRegression": lambda theta, cell, _: TwoRoundRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows, sparsity=_matter(theta)
    ),
    "MultiRoundRegression": lambda theta, cell, _: MultiRoundRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows, sparsity=_matter(theta)
    ),
    "DpIht": lambda theta, cell, size: DpIht(
        _DIM,
        sparsity=_matter(theta),
        epsilon=cell.epsilon,
        delta=_DELTA,
        link="identity",
        residual_bound=2 * size,
    ),
    "PeelingDpIht": lambda theta, cell, size: PeelingDpIht(
        _DIM,
        sparsity=_matter(theta),
        epsilon=cell.epsilon,
        delta=_DELTA,
        target_scale=size,
    ),
    "KnowledgeTransfer": lambda theta, cell, _: KnowledgeTransfer(
        _DIM,
        sparsity=_matter(theta),
        epsilon=cell.epsilon,
        radius=2 * float(np.linalg.norm(theta)),
    ),
    "LdpIht at the node": lambda theta, cell, _: LdpIht(
        _DIM,
        sparsity=_matter(theta),
        epsilon=cell.epsilon,
        samples_per_user=cell.rows,
        noise="node",
    ),
    "SparseRegression at the node": lambda _, cell, __: SparseRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows, noise="node"
    ),
}


UNTOLD = {"SparseRegression", "SparseRegression at the node"}  # they claim no support
TOLD_SPARSITY = set(STRATEGIES) - UNTOLD
SILOS = {"DpIht", "PeelingDpIht"}
AT_NODES = {"LdpIht at the node", "SparseRegression at the node"}
PROTOCOLS = (*STRATEGIES, "UserLevelMean", "PrivateEvaluation")


def _matter(theta: Floats) -> int:
    return int(np.count_nonzero(theta))


def cells(protocol: str) -> list[Cell]:
    """Return the whole grid of a protocol; a mean has no coefficients and no noise."""
    rows = _ROWS.get(protocol, _MANY)
    regression = protocol != "UserLevelMean"
    targets = (COEFFICIENTS, SIZES, NOISES) if regression else (("-",), (0.0,), ("-",))
    return [Cell(*key) for key in product(FEATURES, *targets, rows, _EPSILONS)]


def measure(protocol: str, cell: Cell, seed: int) -> dict[str, Any]:
    """Return a run's relative error, its error over the stated one, and what it says.

    Errors are of predictions; of means, in units of the distance of a record from them; of R2, as
    it is. Features of users with many records are centred and of unit scale, as their regressions
    expect; those of silos are not.
    """
    rng = np.random.default_rng([seed, crc32(repr((protocol, cell)).encode())])
    made = {"UserLevelMean": _mean, "PrivateEvaluation": _evaluation}.get(protocol, _regression)
    strategy, users, truth, sizes = made(protocol, cell, rng)
    try:
        if protocol in SILOS:  # a report stands for all records of a silo: not in memory
            result = simulate(strategy, users, seed=seed)
        else:
            result = run_in_memory(strategy, users, seed, num_nodes=_NODES).result
    except WouldRefuse:
        return dict.fromkeys(_MEASURED, np.nan) | {"refused": 1}
    r2 = protocol == "PrivateEvaluation"
    found = np.array([result.r2]) if r2 else result.coef
    off, told = found - truth, (truth != 0) | r2
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (off / result.std_error)[told]
    known = np.isfinite(scores)
    return {
        "error": np.linalg.norm(off * sizes),
        "z": float(np.sqrt(np.mean(scores[known] ** 2))) if known.any() else np.nan,
        "noted": int(bool(result.notes)),
        "unstated": int((~known).sum()),
        "wrong": 0 if r2 else int(set(result.support) != set(np.flatnonzero(truth))),
        "refused": 0,
    }


def _regression(protocol: str, cell: Cell, rng: Rng) -> tuple[Any, Users, Floats, Floats]:
    """Return a strategy, its users, the coefficients, and the unit of each one's error."""
    one, many = (_AT_NODES, _FEWER_AT_NODES) if protocol in AT_NODES else (_USERS, _FEWER)
    number = cell.rows * (_SILOS if protocol in SILOS else one if cell.rows == 1 else many)
    x = FEATURES[cell.features](rng, number, _DIM)
    centred = cell.rows > 1 and protocol not in SILOS | AT_NODES
    if centred:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    theta = coefficients(cell.kind, rng, _DIM)
    signal = x @ theta
    noise = cell.noise * np.std(signal) * NOISES[cell.law](rng, number)
    y = signal - (signal.mean() if centred else 0) + noise
    users = Users.from_rows(x, y, np.arange(number) // cell.rows)
    sizes = x.std(axis=0)
    strategy = STRATEGIES[protocol](theta, cell, float(np.sqrt(np.mean(y**2))))
    return strategy, users, theta, sizes / np.linalg.norm(theta * sizes)


def _evaluation(protocol: str, cell: Cell, rng: Rng) -> tuple[Any, Users, Floats, Floats]:
    """Return the same for R2, of a model that is .7 of the truth, and targets within [-2, 2]."""
    number = _EVALUATORS * cell.rows
    x = FEATURES[cell.features](rng, number, _DIM)
    x = x - x.mean(axis=0)
    theta = coefficients(cell.kind, rng, _DIM)
    signal = x @ theta
    y = signal + cell.noise * np.std(signal) * NOISES[cell.law](rng, number)
    unit = 2 * np.std(y)
    y, model = np.clip(y / unit, -2, 2), 0.7 * theta / unit
    users = Users.from_rows(x, y, np.arange(number) // cell.rows)
    truth = 1 - np.mean((y - x @ model) ** 2) / np.mean(y**2)
    strategy = PrivateEvaluation(model, epsilon=cell.epsilon)
    return strategy, users, np.array([truth]), np.ones(1)


def _mean(protocol: str, cell: Cell, rng: Rng) -> tuple[Any, Users, Floats, Floats]:
    """Return the same for a mean, with a bound of twice the records' root mean square length."""
    number = _MEAN_USERS * cell.rows
    x = FEATURES[cell.features](rng, max(number, 10**6), _MEAN_DIM)
    truth, distance = x.mean(axis=0), np.sqrt(x.var(axis=0).sum())
    users = Users.from_rows(x[:number], groups=np.arange(number) // cell.rows)
    bound = 2 * float(np.sqrt(np.mean(np.sum(x**2, axis=1))))
    strategy = UserLevelMean(_MEAN_DIM, epsilon=cell.epsilon, bound=bound)
    return strategy, users, truth, np.full(_MEAN_DIM, 1 / distance)


def _measured(task: Task) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    return measure(task.method, task.setting, task.seed)


sweep = sweep_of(Cell, _MEASURED, _measured)
