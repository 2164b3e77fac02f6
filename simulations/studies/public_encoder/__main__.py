"""What a head is worth that users or silos train privately, on a public encoder."""

import math
from dataclasses import dataclass
from typing import Any

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from .data import split_of
from .methods import METHODS, NO_PRIVACY, OF_USERS
from .report import EPSILONS, draw, table

_USERS, _SILOS = (2000,), (5, 20, 50)
_WHOLE = 20  # silos that train the whole network


@dataclass(frozen=True)
class Setting:
    """How many users or silos there are, and the privacy parameter of each user or record."""

    holders: int
    epsilon: float


def run(task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    setting: Setting = task.setting
    split = split_of(task.seed)
    score, outcome = METHODS[task.method](split, setting.holders, setting.epsilon, task.seed)
    return {"accuracy": round(score, 4), "outcome": outcome}


def tasks_of(seed: int, methods: list[str], epsilons: list[float]) -> list[Task]:
    """Return the runs of one seed."""
    found = []
    for method in methods:
        if method == NO_PRIVACY:
            found.append(Task(Setting(1, math.inf), method, seed))
            continue
        several = _USERS if method in OF_USERS else (_WHOLE,) if "whole" in method else _SILOS
        found += [Task(Setting(n, e), method, seed) for n in several for e in epsilons]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.studies.public_encoder", __doc__, seeds=5)
    command.choose("--methods", METHODS)
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    options = command.options(arguments)
    # Seed by seed, for a process keeps the encoder.
    tasks = [
        each for seed in options.seeds for each in tasks_of(seed, options.methods, options.epsilons)
    ]
    carry_out(options, sweep_of(Setting, ["accuracy", "outcome"], run), tasks, table, draw)


if __name__ == "__main__":
    main()
