"""Models of real tables: what runs on them lose, beside the same model without privacy.

The tables are those of :mod:`.tables` and of ``simulations.studies.grouped_data``. On one half of
them, every other one, it was chosen what plans assume; the other half judges.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import Schema, Users
from ldp_flower.planning import Setting
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import LdpStrategy, PrivateClassification, PrivateRegression

from ..grouped_data import data
from ..grouped_data.schemas import DECLARED
from . import tables
from .cell import Judged

Floats = NDArray[np.float64]

#: Of ``grouped_data``; of those a package ships.
_NUMBERS = ("wages", "murders", "chemistry", "baseball", "cps")
_CLASSES = ("union", "churn")
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
_SEEDS = 6
_HELD_OUT, _MOST_USERS = 0.2, 6000  # share of the users, and how many are fitted on


@dataclass(frozen=True)
class Cell(Judged):
    """A protocol and a table."""

    protocol: str
    table: str
    epsilon: float

    @property
    def setting(self) -> Setting:
        """What is publicly known of it, and what a model reaches without privacy."""
        rows = _rows(self.table)
        fitted = min(rows.num_users - int(_HELD_OUT * rows.num_users), _MOST_USERS)
        return Setting(
            num_users=fitted,
            rows_per_user=len(rows.user) / rows.num_users,
            quality=float(np.mean([_best(self.table, seed) for seed in range(_SEEDS)])),
        )

    @property
    def strategy(self) -> LdpStrategy[Any]:
        """The protocol for the table, of which bounds are declared and nothing else."""
        schema = _rows(self.table).schema
        if self.protocol == "PrivateClassification":
            return PrivateClassification(schema, epsilon=self.epsilon)
        return PrivateRegression(schema, epsilon=self.epsilon)

    @property
    def seeds(self) -> int:
        """How many splits of a table's users are made."""
        return _SEEDS


def cells() -> Iterator[Cell]:
    """Yield the tables that judge at every epsilon: every other one of each protocol's."""
    numbers = [name for name, told in tables.TABLES.items() if told.bounds]
    classes = [name for name, told in tables.TABLES.items() if not told.bounds]
    for protocol, names in (
        (PrivateRegression, [*numbers, *_NUMBERS]),
        (PrivateClassification, [*classes, *_CLASSES]),
    ):
        for name in names[1::2]:
            yield from (Cell(protocol.__name__, name, each) for each in _EPSILONS)


def errors(cell: Cell, seed: int) -> float:
    """Return what a run on a split loses: of R2, or of the AUC."""
    rows, held_out = _split(cell.table, seed)
    fitted = np.isin(rows.user, _fitted(cell.table, seed))
    user = np.unique(rows.user[fitted], return_inverse=True)[1]
    users = Users.from_rows(rows.features[fitted], rows.targets[fitted], user)
    found = run_in_memory(cell.strategy, users, seed).result
    scores = rows.features[held_out] @ found.coef  # type: ignore[attr-defined]
    return _best(cell.table, seed) - _score(rows, held_out, scores)


@dataclass(frozen=True)
class _Rows:
    schema: Schema
    features: Floats
    targets: Floats
    user: NDArray[np.int64]

    @property
    def num_users(self) -> int:
        return int(self.user.max()) + 1


@lru_cache(maxsize=2)
def _rows(name: str) -> _Rows:
    if name in tables.TABLES:
        schema, frame = tables.read(name)
        return _Rows(
            schema, schema.features(frame), schema.targets(frame), frame["user"].to_numpy()
        )
    whole = data.table(name, Path())
    return _Rows(DECLARED[name].schema, whole.features.astype(float), whole.targets, whole.user)


def _order(name: str, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([2027, seed]).permutation(_rows(name).num_users)


def _fitted(name: str, seed: int) -> NDArray[np.int64]:
    users = _rows(name).num_users
    return _order(name, seed)[int(_HELD_OUT * users) :][:_MOST_USERS]


def _split(name: str, seed: int) -> tuple[_Rows, NDArray[np.bool_]]:
    """Return a table, and which of its rows are held out."""
    rows = _rows(name)
    judges = _order(name, seed)[: int(_HELD_OUT * rows.num_users)]
    return rows, np.isin(rows.user, judges)


def _score(rows: _Rows, held_out: NDArray[np.bool_], scores: Floats) -> float:
    if rows.schema.classes:
        return float(roc_auc_score(rows.targets[held_out], scores))
    return float(r2_score(rows.targets[held_out], np.clip(scores, -2, 2)))


@lru_cache(maxsize=64)
def _best(name: str, seed: int) -> float:
    """Return what the same model reaches without privacy."""
    rows, held_out = _split(name, seed)
    x, own = rows.features[:, 1:], ~held_out
    if not rows.schema.classes:
        model = Ridge(1.0).fit(x[own], rows.targets[own])
        return _score(rows, held_out, model.predict(x[held_out]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = LogisticRegression(C=100.0, max_iter=300).fit(x[own], rows.targets[own])
    return _score(rows, held_out, classes.decision_function(x[held_out]))
