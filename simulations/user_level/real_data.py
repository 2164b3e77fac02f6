"""Ma, Jia & Yang's six data sets, from files: errors on other users, beside a Lasso's.

As in their Table 2, a fifth of the users are held out, and the mean squared error on these is
divided by that of a Lasso without privacy on all records of the others. Columns and targets are
brought to mean 0 and variance 1 by the records themselves and clipped at 3: what is compared are
errors, not privacy from end to end. All methods are told that scale.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LassoCV

from ldp_flower import Users, simulate
from ldp_flower.strategies import (
    MultiRoundRegression,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
)

from ..baselines.item_level import ItemLevel
from ..harness.command import StudyCommand, carry_out
from ..harness.paper_data import USER_DATA
from ..harness.runs import Task, select, sweep_of
from ..harness.tables import Table
from .user_level.population import SPARSITY, Floats

EPSILONS = (1.0, 4.0)  # the paper's
_HELD_OUT, _MOST = 0.2, 3.0


@dataclass(frozen=True)
class Setting:
    """A data set, and each user's epsilon."""

    data: str
    epsilon: float


Method = Callable[[Users, float, int], Floats]


def _of_users(strategy: Callable[..., Any], *, sparse: bool = False) -> Method:
    """Return the method of a strategy, which is told how many coefficients there are or is not."""

    def run(users: Users, epsilon: float, seed: int) -> Floats:
        rows, dim = max(1, round(float(np.mean(users.num_rows)))), users.num_features
        told = {"epsilon": epsilon, "samples_per_user": rows, "target_scale": 1.0}
        asked = strategy(dim, **told, **({"sparsity": min(SPARSITY, dim)} if sparse else {}))
        return np.asarray(simulate(asked, users, seed=seed).coef)

    return run


def _each_record(users: Users, epsilon: float, seed: int) -> Floats:
    dim = users.num_features
    method = ItemLevel(dim=dim, sparsity=min(SPARSITY, dim), epsilon=epsilon, target_scale=1.0)
    records = [(users.features, users.targets)]
    return method.estimate(records, np.random.default_rng(seed))


def _zero(users: Users, epsilon: float, seed: int) -> Floats:
    return np.zeros(users.num_features)


METHODS: dict[str, Method] = {
    "SparseRegression": _of_users(SparseRegression),
    "two-round": _of_users(TwoRoundRegression, sparse=True),
    "multi-round": _of_users(MultiRoundRegression, sparse=True),
    "each record (record-level)": _each_record,
    "the mean": _zero,
}


def split(users: Users, seed: int) -> tuple[Users, Users]:
    """Return the users to learn from and those held out, in the scale of the former."""
    order = np.random.default_rng(seed).permutation(len(users))
    held_out = int(_HELD_OUT * len(users))
    test, train = (users.take(np.sort(some)) for some in np.split(order, [held_out]))

    def scaled(values: Floats, own: Floats) -> Floats:
        spread = np.maximum(own.std(axis=0), 1e-12)
        return np.asarray(np.clip((values - own.mean(axis=0)) / spread, -_MOST, _MOST))

    def of(some: Users) -> Users:
        features = scaled(some.features, train.features)
        return Users(features, scaled(some.targets, train.targets), some.offsets)

    return of(train), of(test)


def run(folder: Path, task: Task) -> dict[str, Any]:
    """Return what is measured of a run; the ratio is NaN where users are too few."""
    train, test = split(USER_DATA[task.setting.data].load(folder), task.seed)

    def error(coef: Floats) -> float:
        return float(np.mean((test.targets - test.features @ coef) ** 2))

    lasso = LassoCV(fit_intercept=False).fit(train.features, train.targets).coef_
    try:
        coef = METHODS[task.method](train, task.setting.epsilon, task.seed)
    except TooFewReports:
        ratio = math.nan
    else:
        ratio = error(coef) / error(lasso)
    return {"users": len(train), "rows": len(train.targets), "ratio": ratio}


def table(runs: pd.DataFrame) -> Table:
    """Return mean ratios by data set, epsilon and method."""
    lines = []
    for data in USER_DATA:
        for epsilon in EPSILONS:
            some = [select(runs, Setting(data, epsilon), method) for method in METHODS]
            if any(len(found) for found in some):
                users = max(found["users"].max() for found in some if len(found))
                lines.append([data, f"{users:.0f}", f"{epsilon:g}", *map(_cell, some)])
    head = ["data", "users", "epsilon", *METHODS]
    text = "Mean squared error on other users over a Lasso's on all records (standard error) [runs]"
    return Table("Real data", head, lines, names=["data"], explanation=text)


def _cell(found: pd.DataFrame) -> str:
    ratios = found["ratio"].dropna()
    if ratios.empty:
        return "too few users" if len(found) else ""
    spread = "" if len(ratios) == 1 else f" ({ratios.std(ddof=1) / math.sqrt(len(ratios)):.2f})"
    return f"{ratios.mean():.2f}{spread} [{len(ratios)}]"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.user_level.real_data", __doc__, seeds=30)
    command.choose("--sets", USER_DATA)
    command.choose("--methods", METHODS)
    command.add_argument("--data", type=Path, required=True, help="folder of the files")
    options = command.options(arguments)
    tasks = [
        Task(Setting(data, epsilon), method, seed)
        for seed in options.seeds
        for data in options.sets
        for epsilon in EPSILONS
        for method in options.methods
    ]
    sweep = sweep_of(Setting, ["users", "rows", "ratio"], partial(run, options.data))
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
