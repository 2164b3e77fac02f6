"""What a model of four silos is worth on Adult (a9a), trained by DP-SGD in each, by AUC."""

import math
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray
from rich.progress import track
from sklearn.datasets import fetch_openml, load_svmlight_file
from sklearn.metrics import roc_auc_score
from torch.utils.data import TensorDataset

from ldp_flower import InProcessGrid
from ldp_flower.clients import RecordDpSgdMod, dp_sgd

from ..harness.command import Command, one_thread_each
from ..harness.tables import Table

SILOS, ROUNDS, DELTA = 4, 20, 1e-5
RATES = {"logistic": 5.0, "net": 2.0}
_FEATURES, _ROWS, _HIDDEN = 123, 32_561, 32


def read(file: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of length 1 (14 attributes at most and a constant) and labels 0 or 1."""
    if file is not None:
        x, y = load_svmlight_file(file, n_features=_FEATURES)
    else:
        x, y = fetch_openml("a9a", version=1, as_frame=False, return_X_y=True)
    dense = np.hstack([x.toarray() > 0, np.ones((x.shape[0], 1), bool)])[:_ROWS] / math.sqrt(15)
    labels = (np.asarray(y[:_ROWS], np.float64) > 0).astype(np.int64)
    return torch.from_numpy(dense.astype(np.float32)), torch.from_numpy(labels)


def fresh(model: str) -> torch.nn.Module:
    """Return the model that all silos start from."""
    torch.manual_seed(0)
    if model == "logistic":
        return torch.nn.Linear(_FEATURES + 1, 2)
    layers = torch.nn.Linear(_FEATURES + 1, _HIDDEN), torch.nn.Linear(_HIDDEN, 2)
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])


def loss(model: torch.nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a record."""
    rows, labels = batch
    return torch.nn.functional.cross_entropy(model(rows), labels)


def area(rows: torch.Tensor, labels: torch.Tensor, model: str, epsilon: float, seed: int) -> float:
    """Return the AUC on a fifth of the rows of what the silos have trained on the others."""
    order = np.random.default_rng(seed).permutation(len(rows))
    training = len(rows) * 4 // 5
    held_out = order[training:]
    silos: list[NDArray[np.int64]] = np.array_split(order[:training], SILOS)
    app = ClientApp(mods=[RecordDpSgdMod(epsilon, DELTA, num_rounds=ROUNDS, seed=seed)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        mine = silos[int(context.node_config["partition-id"])]
        own = fresh(model)
        optimizer = torch.optim.SGD(own.parameters(), lr=RATES[model])
        dp_sgd(own, optimizer, TensorDataset(rows[mine], labels[mine]), loss)
        return Message(RecordDict(), reply_to=message)

    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=SILOS)
    start = ArrayRecord(fresh(model).state_dict())
    result = strategy.start(InProcessGrid(app, SILOS), start, num_rounds=ROUNDS)
    found = fresh(model)
    found.load_state_dict(result.arrays.to_torch_state_dict())
    with torch.no_grad():
        scores = found(rows[held_out]).diff()[:, 0]
    return float(roc_auc_score(labels[held_out], scores))


def main(arguments: list[str] | None = None) -> None:
    """Print the AUC by model and epsilon."""
    command = Command("simulations.benchmarks.dp_sgd", __doc__)
    command.choose("--models", RATES)
    command.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    command.add_argument("--seeds", type=int, default=5, help="splits (default: 5)")
    command.add_argument("--data", type=Path, help="file of a9a in svmlight's format (or OpenML's)")
    options = command.parse_args(arguments)
    one_thread_each()
    rows, labels = read(options.data)
    lines = []
    for model in options.models:
        for epsilon in options.epsilons:
            seeds = track(range(options.seeds), f"{model}, epsilon {epsilon:g}", transient=True)
            areas = [area(rows, labels, model, epsilon, seed) for seed in seeds]
            spread = f"{np.std(areas, ddof=1):.4f}" if len(areas) > 1 else ""
            lines.append([model, f"{epsilon:g}", f"{np.mean(areas):.4f}", spread, f"{len(areas)}"])
    Table("DP-SGD", ["model", "epsilon", "AUC", "deviation", "seeds"], lines, ["model"]).show()


if __name__ == "__main__":
    main()
