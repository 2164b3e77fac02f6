"""Draws docs/audit-apps.png: what Flower's LocalDpMod claims, and what it costs.

Run ``python docs/figures/audit_apps.py``; with ``--measure`` the attacks are run first, for
minutes, and their bounds are written to ``audit-apps.csv``.
"""

import csv
import math
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from ldp_flower.accounting import noise_multiplier_epsilon
from ldp_flower.compare import local_dp_multiplier
from ldp_flower.presentation.charts import GREEN, GREY, RED, STYLE, finish

MEASURED = Path(__file__).with_name("audit-apps.csv")
DELTA, CLIP = 1e-5, 1.0
#: By name: sensitivity over the clip, epsilon, rounds.
SETTINGS = {
    "seen in the wild:\nsensitivity 0.0001, epsilon 10, 1 round": (1e-4, 10.0, 1),
    "sensitivity = clip, epsilon 1, 1 round": (1.0, 1.0, 1),
    "sensitivity = clip, epsilon 1, 20 rounds": (1.0, 1.0, 20),
    "sensitivity = 2 clips, epsilon 1, 1 round": (2.0, 1.0, 1),
    "sensitivity = 2 clips, epsilon 1, 20 rounds": (2.0, 1.0, 20),
    "compare.local_dp_mod, epsilon 1, 20 rounds": (math.nan, 1.0, 20),
}
APP = """
import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from ldp_flower.compare import local_dp_mod

server, client = ServerApp(), ClientApp()


def load_data(partition):
    rng = np.random.default_rng(partition)
    x = rng.normal(size=(50, 5))
    return x, (x.sum(axis=1) > 0).astype(int)


@server.main()
def main(grid, context):
    FedAvg(fraction_evaluate=0.0).start(
        grid=grid, initial_arrays=ArrayRecord([np.zeros(5)]), num_rounds={rounds}
    )


@client.train(mods=[{mod}])
def train(message, context):
    x, y = load_data(context.node_config["partition-id"])
    (w,) = message.content["arrays"].to_numpy_ndarrays()
    for _ in range(5):
        w = w + 5 * (y - 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))) @ x / len(x)
    content = {{"arrays": ArrayRecord([w]), "metrics": MetricRecord({{"num-examples": 1}})}}
    return Message(RecordDict(content), reply_to=message)
"""
PROJECT = """
[tool.flwr.app.components]
serverapp = "{name}:server"
clientapp = "{name}:client"
"""


def true_epsilon(sensitivity: float, epsilon: float, rounds: int) -> float:
    """Return what a setting costs, at its delta."""
    if math.isnan(sensitivity):
        return epsilon
    noise = sensitivity / CLIP * local_dp_multiplier(epsilon, DELTA)
    return noise_multiplier_epsilon([noise] * rounds, DELTA)


def measure() -> None:
    """Attack an app with each setting, and write the bounds."""
    from ldp_flower.audit.app import Options, audit_app

    rows = []
    for number, (name, (sensitivity, epsilon, rounds)) in enumerate(SETTINGS.items()):
        mod = f"LocalDpMod({CLIP}, {sensitivity}, {epsilon}, {DELTA})"
        if math.isnan(sensitivity):
            mod = f"local_dp_mod({epsilon}, {DELTA}, {CLIP}, answers={rounds})"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"audited{number}.py").write_text(APP.format(mod=mod, rounds=rounds))
            project = PROJECT.format(name=f"audited{number}")
            Path(folder, "pyproject.toml").write_text(project)
            found = audit_app(Path(folder), Options(seconds=4.0))
        rows.append((name.replace("\n", " "), found.exact, found.measured))
        print(*rows[-1], flush=True)
    with MEASURED.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("setting", "exact", "measured"), *rows])


def draw() -> Figure:
    """Return the figure: a line for each setting, from what is claimed to what is true."""
    plt.rcParams.update(STYLE)
    with MEASURED.open(newline="") as file:
        measured = [float(row["measured"]) for row in csv.DictReader(file)]
    figure, axes = plt.subplots(figsize=(8, 3.4))
    for place, (setting, bound) in enumerate(zip(SETTINGS.values(), measured, strict=True)):
        claimed, true = setting[1], true_epsilon(*setting)
        colour = RED if true > claimed * (1 + 1e-6) else GREEN
        axes.plot([claimed, true], [place, place], color=GREY, lw=1)
        named = place == 0
        axes.plot(claimed, place, "|", ms=14, mew=2, color=GREY, label="claimed" if named else "")
        axes.plot(true, place, "o", ms=6, color=colour)
        axes.annotate(f"{true:.3g}", (true, place), (6, -3), textcoords="offset points", fontsize=8)
        if bound > 0.05:
            shown = "shown by attack, at least" if named else ""
            axes.plot(bound, place, ">", ms=5, color=GREY, label=shown)
    axes.plot([], [], "o", color=RED, label="true, more than claimed")
    axes.plot([], [], "o", color=GREEN, label="true, as claimed")
    axes.set_yticks(range(len(SETTINGS)), list(SETTINGS))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.05, 1e11)
    axes.set_xlabel(f"epsilon of the whole run, at delta {DELTA:g}")
    axes.legend(loc="center right")
    finish(axes, "Flower's LocalDpMod")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure()
    draw().savefig(Path(__file__).parents[1] / "audit-apps.png", dpi=150)
