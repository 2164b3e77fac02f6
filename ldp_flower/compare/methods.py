"""Training methods of a comparison, with their privacy cost and the parties they trust.

FedAvg, DP-FedAvg and Flower's LocalDpMod are reimplemented here for all updates of a round at
once. Tests compare them with Flower's own strategy, wrappers and mod, number by number.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp
from numpy.random import default_rng

from ..accounting import gaussian_noise_multiplier, noise_multiplier_epsilon
from ..clients import LdpUpdateMod
from ..guarantee.training import flattened, parameters_of
from ..simulation.grid import InProcessGrid
from ..strategies import LdpFedAvg, TooFewReports
from ..validation import Floats
from .flower import local_dp_multiplier
from .nodes import Indices, Nodes, RunConfig

Clip = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Guarantee:
    """Guarantee of a method for a whole run; neighbours differ in one unit's replaced data."""

    unit: str = "nothing"  # the protected unit: "user" (the node), "record" or "nothing"
    trusted: str = "server"  # the party that must be honest, apart from the unit's own device
    epsilon: float = math.inf
    delta: float = 0.0


@dataclass(frozen=True)
class JointTraining:
    """Joint training of one model by nodes, starting from ``initial``, shape (dim,).

    ``clip`` is a function from the noise multiplier of a round's sum (noise in every coordinate,
    divided by the clip) to the length to which updates are clipped. ``delta`` is the delta of all
    methods that are not pure.
    """

    nodes: Nodes
    initial: Floats
    rounds: int
    clip: Callable[[float], float]
    delta: float
    everybody: bool = True  # True: all nodes train in each round; False: disjoint cohorts
    seed: int = 0  # seed of cohorts and noise

    @property
    def reports(self) -> int:
        """Smallest number of nodes that send an update in a round."""
        return self.nodes.num_nodes // (1 if self.everybody else self.rounds)

    @property
    def answers(self) -> int:
        """Number of updates that each node sends in the whole run."""
        return self.rounds if self.everybody else 1

    def cohorts(self) -> list[Indices]:
        """Return, for each round, the indices of the nodes that train in it."""
        everybody = np.arange(self.nodes.num_nodes)
        if self.everybody:
            return [everybody] * self.rounds
        return np.array_split(default_rng(self.seed).permutation(everybody), self.rounds)

    def means(self, model: Floats, change: Clip | None = None) -> Iterator[tuple[Floats, int]]:
        """Yield each round's mean update and number of updates, and add the mean to the model.

        ``change`` is applied to updates before they are summed. The caller may add noise to the
        mean, in place, before it takes the next mean.
        """
        for number, cohort in enumerate(self.cohorts(), 1):
            mean = np.zeros_like(model)
            for updates in self.nodes.updates(model, cohort, number):
                mean += (updates if change is None else change(updates)).sum(axis=0)
            mean /= len(cohort)
            yield mean, len(cohort)
            model += mean

    def trained(self, change: Clip | None = None) -> Floats:
        """Return the model after all rounds; ``change`` is that of :meth:`means`."""
        model = self.initial.copy()
        for _ in self.means(model, change):
            pass
        return model


Trained = tuple[Floats, Guarantee]


def clip_updates(updates: Floats, length: float) -> Floats:
    """Return updates, shape (nodes, dim), each shortened to the Euclidean ``length`` if longer."""
    norms = np.linalg.norm(updates, axis=1, keepdims=True)
    return np.asarray(updates * np.minimum(1, length / np.maximum(norms, 1e-300)))


def train_fedavg(training: JointTraining) -> Trained:
    """Return the model that FedAvg trains without privacy, with its guarantee: none."""
    return training.trained(), Guarantee()


def train_dp_fedavg(training: JointTraining, epsilon: float) -> Trained:
    """Return the model trained by DP-FedAvg with a fixed clip, as Flower's wrappers train it.

    Source: McMahan et al. (ICLR 2018). Sum and noise are the same whether the server or the
    clients clip.
    """
    noise = gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    length = training.clip(noise)
    rng = default_rng(training.seed)
    model = training.initial.copy()
    for mean, count in training.means(model, lambda updates: clip_updates(updates, length)):
        mean += rng.normal(0, noise * length / count, len(mean))
    spent = noise_multiplier_epsilon([noise] * training.answers, training.delta)
    return model, Guarantee("user", "server", spent, training.delta)


def train_local_dp(training: JointTraining, epsilon: float, nominal: bool = False) -> Trained:
    """Return the model trained with Flower's LocalDpMod.

    With ``nominal``, the mod gets ``epsilon``, and the clip as its sensitivity, as its
    documentation suggests. Two clipped updates differ by up to twice the clip, so the actual
    cost is larger than ``epsilon``; the actual cost is returned. Without ``nominal``, the mod's
    arguments are chosen such that all answers of a node together cost ``epsilon``.
    """
    noise = (
        local_dp_multiplier(epsilon, training.delta)
        if nominal
        else gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    )
    length = training.clip(noise * math.sqrt(training.reports))
    rng = default_rng(training.seed)

    def noisy(updates: Floats) -> Floats:
        short = clip_updates(updates, length)
        return short + rng.normal(0, noise * length, short.shape)

    spent = noise_multiplier_epsilon([noise] * training.answers, training.delta)
    return training.trained(noisy), Guarantee("user", "nobody", spent, training.delta)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run with one method: the trained model, its guarantee and its costs."""

    model: Floats | None  # None if the method refused the run
    guarantee: Guarantee
    rounds: int
    bytes_per_node: int  # total of all rounds, without Flower's envelopes
    notes: str = ""  # notes for readers, or the reason for a refusal


def train_ldp_fedavg(
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
    """Return the outcome of training an app with LdpUpdateMod and LdpFedAvg in this process.

    If ``num_rounds`` is 0, LdpFedAvg chooses the number of rounds by its own rule.
    """
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
