"""Plan of a comparison: settings, list of runs, and execution of each run."""

import hashlib
import json
import logging
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp

from ..accounting import gaussian_noise_multiplier
from ..clients.train_messages import log_failure
from ..guarantee.training import flattened, parameters_of, with_parameters
from ..simulation.grid import silenced
from ..strategies import LdpFedAvg
from ..validation import (
    Count,
    PlainFields,
    Positive,
    check_choice,
    check_integer,
    check_positive,
)
from .flower import flower_epsilon
from .methods import (
    Guarantee,
    JointTraining,
    Outcome,
    train_dp_fedavg,
    train_fedavg,
    train_ldp_fedavg,
    train_local_dp,
)
from .nodes import App, AppNodes, CannotCompareError
from .report import Comparison
from .sweep import Sweep

#: Function from epsilon, delta and the number of a node's training rounds to the app with DP-SGD.
MakeDpSgd = Callable[[float, float, int], ClientApp]

#: The methods by name; the value is True if the method has an epsilon.
METHODS = {
    "untrained": False,
    "FedAvg": False,
    "DP-FedAvg": True,
    "LocalDpMod, nominal": True,
    "LocalDpMod, calibrated": True,
    "DP-SGD": True,
    "LdpFedAvg": True,
}
_ROUNDS = 20
_MEASURED = 50  # number of nodes from whose updates the clip is computed
_KEY = ("settings", "method", "epsilon", "seed")


@dataclass(frozen=True)
class MethodRun:
    """Run of a comparison: one method at one epsilon and seed, a cell of its table.

    ``settings`` is a digest of all other settings, so that one file can have results of several.
    """

    settings: str
    method: str
    epsilon: float
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """Values that identify the cell's row in the file."""
        return self.settings, self.method, f"{self.epsilon:g}", str(self.seed)

    @property
    def label(self) -> str:
        """Text that names the run while it is shown in progress."""
        epsilon = f", epsilon {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        return f"{self.method}{epsilon}, seed {self.seed}"


@dataclass(eq=False)
class ComparisonPlan(PlainFields):
    """Plan of a comparison: an app, the methods and their settings, and how each cell is run.

    ``load`` returns the app at a seed. The other fields are arguments of :func:`compare`. ``names``
    lists the methods to run, in order.
    """

    load: Callable[[int], App]
    num_nodes: Count
    rounds: Count | None = None
    delta: float = 1e-5
    clip: Positive | None = None
    strategy: Callable[..., LdpFedAvg] = LdpFedAvg
    dp_sgd: MakeDpSgd | None = None
    metric: str | None = None
    methods: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1 / self.num_nodes:
            raise ValueError(
                f"Expected 0 < delta < 1 / num_nodes = {1 / self.num_nodes:g}, got {self.delta}."
            )
        for name in self.methods or ():
            check_choice("methods", name, METHODS)
        if self.dp_sgd is None and "DP-SGD" in (self.methods or ()):
            raise ValueError("Expected dp_sgd, the app with DP-SGD, for method 'DP-SGD', got None.")
        possible = [name for name in METHODS if name != "DP-SGD" or self.dp_sgd is not None]
        self.names = [n for n in possible if self.methods is None or n in self.methods]
        #: Number of rounds of Flower's methods. LdpFedAvg has a rule for it; these have none.
        self.rounds_of_flower = min(self.rounds or _ROUNDS, self.num_nodes)
        self._clip = lru_cache(maxsize=1)(self._measured_clip)

    def cells(self, fingerprint: str, epsilons: Sequence[float], seeds: int) -> list[MethodRun]:
        """Return all runs: of each method, at each epsilon, with each of ``seeds`` seeds.

        ``fingerprint`` is a text that identifies the app. A file of results identifies a run by a
        digest of this text and of the settings.
        """
        check_integer("seeds", seeds, 1)
        if not len(epsilons):
            raise ValueError("Expected epsilons with at least one number, got none.")
        for epsilon in epsilons:
            check_positive("epsilon", epsilon)
            self.strategy(epsilon=epsilon)  # raises an error for an invalid epsilon before any run
        return [
            MethodRun(self._digest(fingerprint, method, epsilon), method, epsilon, seed)
            for seed in range(seeds)
            for method in self.names
            for epsilon in (sorted({*epsilons}) if METHODS[method] else [math.inf])
        ]

    def _digest(self, fingerprint: str, method: str, epsilon: float) -> str:
        """Return a digest of all settings on which a method's result depends."""
        known: dict[str, Any] = {
            "app": fingerprint,
            "nodes": self.num_nodes,
            "metric": self.metric,
            "versions": [version("ldp-flower"), version("flwr")],
        }
        if method == "LdpFedAvg":
            strategy = self.strategy(epsilon=epsilon)
            own = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
            known["rounds"] = self.rounds
            # Use a function's name, since its repr has an address that differs between processes.
            known |= {k: str(getattr(v, "__qualname__", None) or repr(v)) for k, v in own.items()}
        else:
            known |= {"rounds": self.rounds_of_flower, "clip": self.clip, "delta": self.delta}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]

    def check(self) -> None:
        """Train some nodes, and evaluate the initial model, before the long runs.

        Raise CannotCompareError if that fails.
        """
        app = self.load(0)
        if not len(flattened(parameters_of(app.initial_arrays))):
            raise CannotCompareError(
                "Expected initial_arrays with at least one array of floats, got none."
            )
        AppNodes(app, self.num_nodes).check()
        self._clip(0)
        AppNodes(app, self.num_nodes).metric(app.initial_arrays, 0, self.metric)

    def run(self, cell: MethodRun) -> dict[str, Any]:
        """Return the row of results of one run, by column, for the file."""
        app = self.load(cell.seed)
        if cell.method == "DP-SGD":
            assert self.dp_sgd is not None
            private = self.dp_sgd(cell.epsilon, self.delta, self.rounds_of_flower)
            app = replace(app, client_app=private)
        nodes = AppNodes(app, self.num_nodes)
        started = time.perf_counter()
        outcome = self._outcome(cell, app, nodes)
        seconds = time.perf_counter() - started
        metric, score = self.metric or "", math.nan
        if outcome.model is not None:
            arrays = with_parameters(app.initial_arrays, outcome.model)
            judges = AppNodes(app, self.num_nodes)
            metric, score = judges.metric(arrays, outcome.rounds, self.metric)
        promised = outcome.guarantee
        return {
            **dict(zip(_KEY, cell.key, strict=True)),
            "metric": metric,
            "score": score,
            "true_epsilon": promised.epsilon,
            "delta": promised.delta,
            "unit": promised.unit,
            "trusted": promised.trusted,
            "rounds": outcome.rounds,
            "bytes_per_node": outcome.bytes_per_node,
            "failures": nodes.failures,
            "seconds": round(seconds, 3),
            "notes": " ".join(f"{outcome.notes} {nodes.reason}".split()),
        }

    def compared(self, name: str, cells: list[MethodRun], path: str | Path | None) -> Comparison:
        """Run the cells that are not in the file, and return the comparison of all cells."""
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(path) if path is not None else Path(scratch) / "cells.csv"
            sweep = Sweep(_KEY, None, self.run)
            if sweep.missing(cells, file):
                self.check()
            # Flower logs every node in every round. Failures are counted, so they need no log.
            with (
                silenced("flwr", below=logging.ERROR),
                silenced(log_failure.__module__, below=logging.CRITICAL),
            ):
                return Comparison(name, self.num_nodes, sweep(cells, file, 1))

    def _outcome(self, cell: MethodRun, app: App, nodes: AppNodes) -> Outcome:
        """Train the app on ``nodes`` by a run's method; return the model, guarantee and costs."""
        epsilon = cell.epsilon
        parameters = parameters_of(app.initial_arrays)
        initial = flattened(parameters)
        if cell.method == "untrained":
            return Outcome(initial, Guarantee(trusted="nobody", epsilon=0.0), 0, 0)
        if cell.method == "LdpFedAvg":
            strategy = self.strategy(epsilon=epsilon)
            return train_ldp_fedavg(
                replace(strategy, arrayrecord_key=app.arrays_key, configrecord_key=app.config_key),
                nodes.counted(),
                app.initial_arrays,
                self.num_nodes,
                num_rounds=self.rounds or 0,
                train_config=app.train_config,
                run_config=app.run_config,
                seed=cell.seed,
            )
        local, notes = cell.method.startswith("LocalDpMod"), ""
        training = JointTraining(
            nodes,
            initial,
            self.rounds_of_flower,
            lambda noise: self._clip(cell.seed),
            self.delta,
            everybody=not local,
            seed=cell.seed,
        )
        if local:
            model, guarantee = train_local_dp(training, epsilon, cell.method.endswith("nominal"))
        elif cell.method == "DP-FedAvg":
            model, guarantee = train_dp_fedavg(training, epsilon)
            notes = _as_flower_counts(training, epsilon)
        else:
            model, guarantee = train_fedavg(training)
            if cell.method == "DP-SGD":
                guarantee = Guarantee("record", "nobody", epsilon, self.delta)
        # A node sends the whole model in each of its answers.
        size = sum(array.nbytes for array in parameters.values())
        return Outcome(model, guarantee, training.rounds, size * training.answers, notes)

    def _measured_clip(self, seed: int) -> float:
        """Return the given clip, or the median length of updates of the initial model.

        The median costs no privacy here, which favours the methods that need a clip.
        """
        if self.clip is not None:
            return self.clip
        app = self.load(seed)
        nodes = np.arange(min(_MEASURED, self.num_nodes))
        initial = flattened(parameters_of(app.initial_arrays))
        updates = AppNodes(app, self.num_nodes).updates(initial, nodes, 1)
        clip = float(np.median([np.linalg.norm(some, axis=1) for some in updates]))
        if not clip > 0:
            raise CannotCompareError(
                "Expected training that changes the model, got updates of length 0 from half of "
                "the nodes: nothing to clip by. Set clip, or look at the train function."
            )
        return clip


def _as_flower_counts(training: JointTraining, epsilon: float) -> str:
    """Return a note for readers with the epsilon of Flower's accountant for the same noise.

    The note is empty if dp-accounting is not installed.
    """
    if find_spec("dp_accounting") is None:
        return ""
    noise = gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    stated = flower_epsilon(noise, training.delta, training.answers, training.nodes.num_nodes)
    return (
        f"Flower's RdpAccountant states epsilon {stated:.3g} for the same noise, where a node is "
        "added or removed and not replaced."
    )
