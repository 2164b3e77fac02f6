"""What a linear model of 5, 20 or 50 silos is worth by DP-SGD, and from which noise on nothing."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from ldp_flower import InProcessGrid
from ldp_flower.clients import NetworkClientApp
from ldp_flower.models import Network
from ldp_flower.strategies import RecordDpSgd

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from .report import EPSILONS, METHOD, NO_PRIVACY, ROUNDS, SILOS, STEPS, draw, table

_DELTA = 1e-5
_LOADERS = {"digits": load_digits, "breast cancer": load_breast_cancer}
_RATE = 2.0  # chosen with seeds 100 to 102: .5 to 8
_NO_NOISE = 1e4  # epsilon of the same steps whose noise cannot be seen

Data = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class Setting:
    """A table, the silos that its training rows are dealt to, and epsilon of each row."""

    data: str
    silos: int
    epsilon: float


@cache
def table_of(name: str) -> Data:
    """Return rows and classes. Columns of breast cancer lie in [-1, 1] by declared bounds.

    These are 0 and the maximum, rounded up to one digit, as somebody would who knows the unit.
    """
    rows, classes = _LOADERS[name](return_X_y=True)
    top = rows.max(axis=0)
    unit = 10.0 ** np.floor(np.log10(np.maximum(top, 1e-9)))
    scaled = rows / 16 if name == "digits" else 2 * rows / (np.ceil(top / unit) * unit) - 1
    return scaled.astype(np.float32), classes.astype(np.int64)


@cache
def network_of(name: str) -> Network:
    """Return a linear model, which begins at 0."""
    rows, classes = table_of(name)
    model = torch.nn.Linear(rows.shape[1], int(classes.max()) + 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    return Network.export(model, rows[0], "cross_entropy")


def run(task: Task) -> dict[str, Any]:
    """Return the accuracy on a fifth of the rows, and the noise to signal q."""
    setting: Setting = task.setting
    rows, classes = table_of(setting.data)
    order = np.random.default_rng(task.seed).permutation(len(rows))
    training, held_out = np.split(order, [len(order) * 4 // 5])
    parts = np.array_split(training, setting.silos)

    def load(context: Any) -> Data:
        own = parts[int(context.node_config["partition-id"])]
        return rows[own], classes[own]

    strategy = RecordDpSgd(
        network_of(setting.data),
        epsilon=min(setting.epsilon, _NO_NOISE),
        delta=_DELTA,
        num_rounds=ROUNDS,
        steps=STEPS,
        sampling_rate=1.0,
        learning_rate=_RATE,
        force=True,  # where noise drowns the network is measured, too
    )
    app = NetworkClientApp(load, seed=task.seed)
    result = strategy.start(InProcessGrid(app, setting.silos))
    right = result.network.run(rows[held_out]).argmax(1) == classes[held_out]
    return {"accuracy": round(float(right.mean()), 4), "q": round(result.noise_to_signal, 4)}


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.studies.silo_records", __doc__, seeds=5)
    command.choose("--data", _LOADERS)
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    options = command.options(arguments)
    tasks = []
    for seed in options.seeds:
        for name in options.data:
            tasks.append(Task(Setting(name, SILOS[0], math.inf), NO_PRIVACY, seed))
            tasks += [
                Task(Setting(name, silos, epsilon), METHOD, seed)
                for silos in SILOS
                for epsilon in options.epsilons
            ]
    carry_out(options, sweep_of(Setting, ["accuracy", "q"], run), tasks, table, draw)


if __name__ == "__main__":
    main()
