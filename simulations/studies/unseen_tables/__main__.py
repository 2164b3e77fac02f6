"""Count how often a model of a table that no rule was chosen on is worse than a constant."""

import logging
import zlib
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import PrivateClassification, PrivateRegression
from ldp_flower.validation import Floats

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .tables import PeopleTable, names, read

_METHODS = {"regression": PrivateRegression, "classification": PrivateClassification}
_AT_NODES = {f"{name} at nodes": kind for name, kind in _METHODS.items()}
_NUM_NODES = 10  # that hold the users, and add the noise
_MEASURED = ("people", "worth", "constant", "stated", "stated_error", "notes", "spread")
_WORSE = 0.05  # than the constant: of R2, whose constant has 0, and of AUC, of which it has .5
_EPSILONS, _TIMES = (0.5, 1.0, 2.0, 4.0, 8.0), (1.25, 3.0)
_NARROW = 0.05  # a target's standard deviation in half of its bounds' half-width: left out
_NORMAL = 1.95996


@dataclass(frozen=True)
class Cell:
    """A table, and how many people there are, over the fewest that are allowed."""

    table: str
    epsilon: float
    times: float


def fewest(strategy: PrivateRegression | PrivateClassification, num_nodes: int) -> int:
    """Return the fewest users with whom a strategy starts."""
    few = strategy.refusal(1, num_nodes=num_nodes)
    assert few is not None
    assert few.needed is not None
    return few.needed


def auc(scores: Floats, targets: Floats) -> float:
    """Return the AUC of classes' scores, weighted by the classes' shares; of two, of the second."""
    found = []
    for place, own in enumerate(scores, 1 if len(scores) == 1 else 0):
        of_class = targets == place
        count, ranks = of_class.sum(), rankdata(own)
        if 0 < count < len(targets):
            area = (ranks[of_class].sum() - count * (count + 1) / 2) / count
            found.append((count, area / (len(targets) - count)))
    shares, areas = np.array(found).T
    return float(shares @ areas / shares.sum())


def measure(method: str, people: PeopleTable, cell: Cell, seed: int) -> dict[str, object]:
    """Return what a model is worth on the whole table, and what its result states."""
    noise, nodes = ("node", _NUM_NODES) if method in _AT_NODES else ("user", 1)
    strategy = (_METHODS | _AT_NODES)[method](people.schema, epsilon=cell.epsilon, noise=noise)
    number = int(cell.times * fewest(strategy, nodes))
    own = zlib.crc32(cell.table.encode())  # or runs on all tables would share their noise
    users = people.drawn(number, np.random.default_rng([seed, number, own]))
    found = run_in_memory(strategy, users, seed + own, num_nodes=nodes).result
    x, y = people.features, people.targets
    if method.startswith("regression"):
        worth = 1 - np.mean((y - np.clip(x @ found.coef, -2, 2)) ** 2) / np.var(y)
        constant, spread = found.method == "constant", float(np.std(y))
    else:
        worth = auc(np.atleast_2d(found.coef) @ x.T, y)
        constant, spread = found.method == "shares", 1.0
    return {
        "people": number,
        "worth": round(float(worth), 4),
        "constant": int(constant),
        "stated": round(found.score, 4),
        "stated_error": round(found.score_std_error, 4),
        "notes": len(found.notes),
        "spread": round(spread, 4),
    }


def _measured(task: Task) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    people = read(task.setting.table, task.method.startswith("classification"))
    assert people is not None
    return measure(task.method, people, task.setting, task.seed)


sweep = sweep_of(Cell, _MEASURED, _measured)


def table(runs: pd.DataFrame) -> Table:
    """Return, by method and epsilon, how often models are worse than a constant, and silently."""
    lines = []
    runs = runs[runs["spread"] >= _NARROW]
    for (method, epsilon), own in runs.groupby(["method", "epsilon"], sort=True):
        chance = 0.0 if str(method).startswith("regression") else 0.5
        worse = own["worth"] < chance - _WORSE
        many = own["times"] == max(_TIMES)
        models = own[(own["constant"] == 0) & own["stated"].notna()]
        off = (models["worth"] - models["stated"]).abs() > _NORMAL * models["stated_error"]
        lines.append(
            [
                str(method),
                f"{epsilon:g}",
                str(len(own)),
                f"{100 * worse.mean():.1f} ± {_error(worse):.1f}",
                f"{100 * worse[many].mean():.1f}" if many.any() else "-",
                str(int((worse & (own["notes"] == 0)).sum())),
                f"{own['worth'].min():.2f}",
                f"{100 * own['constant'].mean():.0f}",
                f"{own['worth'].median():.2f}",
                f"{100 * off.mean():.1f}" if len(off) else "-",
            ]
        )
    return Table(
        "Models of tables that no rule was chosen on",
        [
            *("method", "epsilon", "runs", "worse %", "of 3 times the fewest %", "silently"),
            *("worst", "the constant %", "median", "stated intervals missed %"),
        ],
        lines,
        {"method"},
        "Worse than the constant by more than .05: R2 below -.05, AUC below .45, on the whole "
        "table; ± one binomial standard error. Silently: so many of them without a note. People "
        "are drawn with replacement, 1.25 and 3 times the fewest that are allowed.",
    )


def _error(worse: "pd.Series[bool]") -> float:
    share = worse.mean()
    return float(100 * np.sqrt(share * (1 - share) / len(worse)))


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.unseen_tables", __doc__, seeds=1)
    command.choose("--methods", _METHODS | _AT_NODES)
    command.add_argument(
        "--every", type=int, default=1, help="3: every third table only (default: 1)"
    )
    options = command.options(arguments)
    chosen = [] if options.only_report else names()[:: options.every]
    tasks = [
        Task(Cell(name, epsilon, times), method, seed)
        for method, name in product(options.methods, chosen)
        if read(name, method.startswith("classification")) is not None
        for epsilon, times, seed in product(_EPSILONS, _TIMES, options.seeds)
    ]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
