"""The methods: what each does with the nodes' updates, what it costs, whom one trusts.

FedAvg, DP-FedAvg and Flower's LocalDpMod are done here on all updates of a round at once.
Tests compare them with Flower's own strategy, wrappers and mod, number by number.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp
from numpy.random import default_rng

from ..accounting import gaussian_noise_multiplier, local_dp_multiplier, noise_multiplier_epsilon
from ..clients import LdpUpdateMod
from ..guarantee.training import flattened, parameters_of
from ..simulation.grid import InProcessGrid
from ..strategies import LdpFedAvg, TooFewReports
from ..validation import Floats
from .nodes import Indices, Nodes, RunConfig

Clip = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Guarantee:
    """What a method promises of a whole run; neighbours differ in one unit's data, replaced."""

    unit: str = "nothing"  # whose data are protected: "user" (the node), "record" or "nothing"
    trusted: str = "server"  # who has to be honest for it, beside the unit's own device
    epsilon: float = math.inf
    delta: float = 0.0


@dataclass(frozen=True)
class Training:
    """Nodes that train one model together, from ``initial``, shape (dim,).

    ``clip`` is the length that updates are shortened to, from the noise over the clip in every
    coordinate of a round's sum; ``delta`` is that of all methods that are not pure.
    """

    nodes: Nodes
    initial: Floats
    rounds: int
    clip: Callable[[float], float]
    delta: float
    everybody: bool = True  # else each round asks a cohort that is never asked again
    seed: int = 0  # of cohorts and noise

    @property
    def reports(self) -> int:
        """Smallest number of updates in a round."""
        return self.nodes.num_nodes // (1 if self.everybody else self.rounds)

    @property
    def answers(self) -> int:
        """Number of updates of one node."""
        return self.rounds if self.everybody else 1

    def cohorts(self) -> list[Indices]:
        """Return who is asked in each round."""
        everybody = np.arange(self.nodes.num_nodes)
        if self.everybody:
            return [everybody] * self.rounds
        return np.array_split(default_rng(self.seed).permutation(everybody), self.rounds)

    def means(self, model: Floats, change: Clip | None = None) -> Iterator[tuple[Floats, int]]:
        """Yield each round's mean update and its number of updates, and move the model by the mean.

        Updates may be changed before they are summed. The caller may add noise to the mean, in
        place, before it asks for the next one.
        """
        for number, cohort in enumerate(self.cohorts(), 1):
            mean = np.zeros_like(model)
            for updates in self.nodes.updates(model, cohort, number):
                mean += (updates if change is None else change(updates)).sum(axis=0)
            mean /= len(cohort)
            yield mean, len(cohort)
            model += mean


Trained = tuple[Floats, Guarantee]


def shortened(updates: Floats, length: float) -> Floats:
    """Return updates, shape (nodes, dim), none of them longer than ``length``."""
    norms = np.linalg.norm(updates, axis=1, keepdims=True)
    return np.asarray(updates * np.minimum(1, length / np.maximum(norms, 1e-300)))


def fedavg(training: Training) -> Trained:
    """Train without privacy."""
    model = training.initial.copy()
    for _ in training.means(model):
        pass
    return model, Guarantee()


def dp_fedavg(training: Training, epsilon: float) -> Trained:
    """Train by DP-FedAvg with a fixed clip (McMahan et al., ICLR 2018), as Flower's wrappers do.

    It is the same sum and the same noise whether server or clients clip.
    """
    noise = gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    length = training.clip(noise)
    rng = default_rng(training.seed)
    model = training.initial.copy()
    for mean, count in training.means(model, lambda updates: shortened(updates, length)):
        mean += rng.normal(0, noise * length / count, len(mean))
    spent = noise_multiplier_epsilon([noise] * training.answers, training.delta)
    return model, Guarantee("user", "server", spent, training.delta)


def local_dp(training: Training, epsilon: float, nominal: bool = False) -> Trained:
    """Train with Flower's LocalDpMod.

    With ``nominal`` the mod is given ``epsilon`` and the clip as its sensitivity, as its
    documentation suggests; two clipped updates differ by twice the clip, so that what it
    costs is more, and that is what is returned. Otherwise its arguments are chosen so
    that all answers of a node cost ``epsilon``.
    """
    noise = (
        local_dp_multiplier(epsilon, training.delta)
        if nominal
        else gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    )
    length = training.clip(noise * math.sqrt(training.reports))
    rng = default_rng(training.seed)

    def noisy(updates: Floats) -> Floats:
        short = shortened(updates, length)
        return short + rng.normal(0, noise * length, short.shape)

    model = training.initial.copy()
    for _ in training.means(model, noisy):
        pass
    spent = noise_multiplier_epsilon([noise] * training.answers, training.delta)
    return model, Guarantee("user", "nobody", spent, training.delta)


@dataclass(frozen=True)
class Outcome:
    """What a method made of a run."""

    model: Floats | None  # None if it refused, before anybody was asked
    guarantee: Guarantee
    rounds: int
    bytes_per_node: int  # in all, without Flower's envelopes
    notes: str = ""  # what a reader should know, or why it refused


def ldp_fedavg(
    strategy: LdpFedAvg,
    client_app: ClientApp,
    initial_arrays: ArrayRecord,
    num_nodes: int,
    *,
    num_rounds: int = 0,
    train_config: ConfigRecord | None = None,
    run_config: RunConfig | None = None,
    seed: int = 0,
) -> Outcome:
    """Train an app with LdpUpdateMod and LdpFedAvg, in process; 0 rounds: by its own rule."""
    private = ClientApp(mods=[LdpUpdateMod(seed=seed)])
    private.train()(client_app.__call__)
    try:
        result = strategy.start(
            InProcessGrid(private, num_nodes, run_config),
            initial_arrays,
            num_rounds,
            train_config=train_config,
            num_nodes=num_nodes,
            seed=seed,
        )
    except TooFewReports as error:
        promised = Guarantee("user", "nobody", strategy.epsilon)
        return Outcome(None, promised, 0, 0, f"refused: {error}")
    assert result.privacy is not None and result.privacy.epsilon <= strategy.epsilon
    reports = [step.report_bytes for step in result.steps if step.report_bytes]
    return Outcome(
        flattened(parameters_of(result.arrays)),
        Guarantee("user", "nobody", result.privacy.epsilon, result.privacy.delta),
        len(reports),
        max(reports),
        " ".join(result.notes),
    )
