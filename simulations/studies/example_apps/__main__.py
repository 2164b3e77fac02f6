"""What networks of Flower's example apps are worth by DP-SGD as data, and a step beside Opacus."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ldp_flower import InProcessGrid
from ldp_flower.clients import NetworkClientApp
from ldp_flower.models import Network
from ldp_flower.strategies import RecordDpSgd

from ...baselines.opacus_steps import seconds, steps_of
from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from .apps import APPS
from .report import (
    BATCH,
    EPSILONS,
    METHOD,
    NO_PRIVACY,
    ROUNDS,
    SILOS,
    STEP_TIME,
    STEPS,
    draw,
    table,
)

_DELTA, _SAMPLING = 1e-5, 0.05
_RATE = (
    1e-2  # of 1e-3, 3e-3, 1e-2: chosen on quickstart-pytorch and fl-tabular, seed 100, epsilon 4
)
_NO_NOISE = 1e4  # epsilon of the same steps whose noise cannot be seen
_TURNS = 3  # of which the fastest counts


@dataclass(frozen=True)
class Setting:
    """An app, and epsilon of each record."""

    app: str
    epsilon: float


def run(folder: Path | None, task: Task) -> dict[str, Any]:
    """Return the score on unseen records and the noise to signal q, or what steps take."""
    setting: Setting = task.setting
    app = APPS[setting.app]
    records = app.records(folder, task.seed)
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    if task.method == STEP_TIME:
        made = app.made(), app.theirs()
        batch = (torch.from_numpy(each[:BATCH]) for each in (records.held, records.goals))
        ours, theirs = seconds(steps_of(*made, *batch, app.loss), _TURNS)
        return {"ours": round(1000 * ours, 2), "opacus": round(1000 * theirs, 2)}
    network = Network.export(app.made(), records.held[0], app.loss)
    parts = np.array_split(np.arange(len(records.held)), SILOS)

    def load(context: Any) -> tuple[np.ndarray, np.ndarray]:
        own = parts[int(context.node_config["partition-id"])]
        return records.held[own], records.goals[own]

    strategy = RecordDpSgd(
        network,
        epsilon=min(setting.epsilon, _NO_NOISE),
        delta=_DELTA,
        num_rounds=ROUNDS,
        steps=STEPS,
        sampling_rate=_SAMPLING,
        optimizer="adam",
        learning_rate=_RATE,
        force=True,  # where noise drowns the network is measured, too
    )
    result = strategy.start(InProcessGrid(NetworkClientApp(load, seed=task.seed), SILOS))
    score = app.score(result.network.run(records.unseen), records.answers)
    return {"score": round(score, 4), "q": round(result.noise_to_signal, 4)}


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.studies.example_apps", __doc__, seeds=3)
    command.choose("--apps", APPS)
    command.choose("--methods", [METHOD, NO_PRIVACY, STEP_TIME])
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    command.add_argument("--adult", type=Path, help="folder of Adult's file (default: OpenML)")
    options = command.options(arguments)
    tasks = [Task(Setting(name, math.inf), STEP_TIME, 0) for name in options.apps]
    for seed in options.seeds:
        for name in options.apps:
            tasks += [Task(Setting(name, each), METHOD, seed) for each in options.epsilons]
            tasks.append(Task(Setting(name, math.inf), NO_PRIVACY, seed))
    measure = partial(run, options.adult)
    sweep = sweep_of(Setting, ["score", "q", "ours", "opacus"], measure)
    tasks = [each for each in tasks if each.method in options.methods]
    carry_out(options, sweep, tasks, table, draw)


if __name__ == "__main__":
    main()
