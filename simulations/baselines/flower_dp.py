"""Flower's own methods, as its users run them: FedAvg, its wrappers for central DP, its mod.

All clients weigh the same (each claims one example), which the wrappers' noise
assumes. Flower draws its noise from NumPy's global generator: seed that for a
repeatable run. What was found wrong with each is said where it is used.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord
from flwr.app import RecordDict as Records
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)
from numpy.typing import NDArray

from ldp_flower import InProcessGrid

from .calibration import DELTA, Guarantee, clip, noise_multiplier, true_epsilon

Arrays = list[NDArray[Any]]
Train = Callable[[int, Arrays], Arrays]  # number of the user, model -> model


_NOTHING = 1e-6  # what a zero update is replaced by, in each parameter of the first array


def _never_zero(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Move a model that training left as it was.

    Flower divides by the update's length: a client that has nothing to say (one
    flight, on time) would end a run of its wrapper with an exception.
    """
    reply = call_next(message, context)
    sent, trained = (
        part.content.array_records["arrays"].to_numpy_ndarrays() for part in (message, reply)
    )
    if all(map(np.array_equal, trained, sent)):
        reply.content["arrays"] = ArrayRecord([trained[0] + _NOTHING, *trained[1:]])
    return reply


@dataclass(frozen=True)
class Federation:
    """Users who train one model.

    Attributes
    ----------
    train : callable
        What a user does with a model: its number and the model give the trained one.
    initial : list of ndarray
        The model that all start from.
    num_users, rounds : int
        How many, and how often the model is sent out.
    everybody : bool
        Whether each round asks all users, or a cohort that is never asked again.
    path : float, optional
        Length of the path from the initial model, if something is known of it.
    seed : int
        Of cohorts and noise.
    """

    train: Train
    initial: Arrays
    num_users: int
    rounds: int
    everybody: bool = True
    path: float | None = None
    seed: int = 0

    @property
    def reports(self) -> int:
        """Smallest number of updates in a round."""
        return self.num_users if self.everybody else self.num_users // self.rounds

    @property
    def answers(self) -> int:
        """Number of updates of one user."""
        return self.rounds if self.everybody else 1

    def app(self, mods: Sequence[Any] = ()) -> ClientApp:
        """Return the users' app: theirs but for the mods."""
        app = ClientApp()

        @app.train(mods=[*mods])
        def train(message: Message, context: Context) -> Message:
            user = int(context.node_config["partition-id"])
            sent = message.content.array_records["arrays"]
            trained = self.train(user, sent.to_numpy_ndarrays())
            content = Records()
            content["arrays"] = ArrayRecord(trained)
            content["metrics"] = MetricRecord({"num-examples": 1})
            return Message(content, reply_to=message)

        return app

    def averaging(self) -> FedAvg:
        """Return Flower's FedAvg over all users, or over one cohort after the other."""
        if not self.everybody:
            return _CohortFedAvg(self.rounds, self.seed)
        every = self.num_users
        with _quiet():  # it warns that nothing is evaluated
            return FedAvg(fraction_evaluate=0.0, min_train_nodes=every, min_available_nodes=every)

    def start(self, strategy: Any, mods: Sequence[Any] = (), **arguments: Any) -> Any:
        """Return what a strategy's ``start`` returns, in process."""
        np.random.seed(self.seed)  # noqa: NPY002 - Flower's noise has no other seed
        grid = InProcessGrid(self.app(mods), self.num_users)
        with _quiet():  # a line or two for every client in every round
            return strategy.start(grid, ArrayRecord(self.initial), **arguments)

    def run(
        self,
        strategy: Strategy,
        mods: Sequence[Any] = (),
        after_round: Callable[[int], None] | None = None,
    ) -> Arrays:
        """Return the model that one of Flower's strategies ends with."""

        def evaluate(number: int, arrays: ArrayRecord) -> None:
            if after_round is not None:
                after_round(number)

        mods = [*mods, _never_zero]
        result = self.start(strategy, mods, num_rounds=self.rounds, evaluate_fn=evaluate)
        arrays: Arrays = result.arrays.to_numpy_ndarrays()
        return arrays


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _CohortFedAvg(FedAvg):
    """FedAvg that asks every node once, in disjoint cohorts."""

    def __init__(self, rounds: int, seed: int) -> None:
        with _quiet():
            super().__init__(fraction_evaluate=0.0)
        self._rounds, self._seed = rounds, seed

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        order = np.random.default_rng(self._seed).permutation(sorted(grid.get_node_ids()))
        cohort = np.array_split(order, self._rounds)[server_round - 1]
        records = Records({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(records, int(node), MessageType.TRAIN) for node in cohort]


Trained = tuple[Arrays, Guarantee]


def fedavg(federation: Federation) -> Trained:
    """Train without privacy."""
    return federation.run(federation.averaging()), Guarantee()


def dp_fedavg(federation: Federation, epsilon: float, clients_clip: bool = False) -> Trained:
    """Train by DP-FedAvg with a fixed clip, by the server or by the clients' mod.

    The server sees every update and adds the noise: it is trusted with all of them.
    Flower's wrapper neither clips nor noises parameters without dimensions, and a
    zero update ends the run or the client's round; the models here have neither.
    """
    noise = noise_multiplier(epsilon, federation.answers)
    length = clip(noise, federation.rounds, federation.reports, federation.path)
    wrapper = (
        DifferentialPrivacyClientSideFixedClipping
        if clients_clip
        else DifferentialPrivacyServerSideFixedClipping
    )
    strategy = wrapper(federation.averaging(), noise, length, federation.reports)
    model = federation.run(strategy, [fixedclipping_mod] if clients_clip else [])
    spent = true_epsilon([noise] * federation.answers)
    return model, Guarantee("user", "server", spent, DELTA)


def dp_fedavg_adaptive(federation: Federation, epsilon: float) -> Trained:
    """Train by DP-FedAvg with Flower's adaptive clip; the epsilon is what it really cost.

    For information. Flower moves the clip away from the wanted quantile: it counts
    clipped updates where Andrew et al. count unclipped ones, so the clip grows or shrinks
    without end. And the noise is for the clip after that move, the updates for the one
    before: a shrinking clip costs more than it was calibrated for.
    """
    noise = noise_multiplier(epsilon, federation.answers)
    first = clip(noise, federation.rounds, federation.reports, federation.path)
    strategy = DifferentialPrivacyServerSideAdaptiveClipping(
        federation.averaging(), noise, federation.reports, initial_clipping_norm=first
    )
    clips: list[float] = []
    model = federation.run(
        strategy, after_round=lambda number: clips.append(strategy.clipping_norm)
    )
    # Each round also releases how many were clipped, which one user moves by 1.
    count = 2 * strategy.clipped_count_stddev
    rounds = [
        [count, strategy.noise_multiplier * after / before]
        for before, after in itertools.pairwise(clips)
    ]
    if federation.everybody:
        rounds = [[noise for releases in rounds for noise in releases]]
    spent = max(true_epsilon(releases) for releases in rounds)
    return model, Guarantee("user", "server", spent, DELTA)


def local_dp(federation: Federation, epsilon: float, nominal: bool = False) -> Trained:
    """Train with Flower's LocalDpMod, every user answering once.

    With ``nominal`` the mod is given ``epsilon`` and the clip as sensitivity, as its
    documentation suggests; two clipped updates differ by twice the clip, so that what it
    costs is more, and that is what is returned. Otherwise its arguments are
    chosen so that it costs ``epsilon``. The mod keeps no account: in every further
    round the same user would pay again.
    """
    classical = math.sqrt(2 * math.log(1.25 / DELTA))  # the mod's formula, times sensitivity
    noise = classical / epsilon if nominal else noise_multiplier(epsilon, 1)
    length = clip(
        noise * math.sqrt(federation.reports),
        federation.rounds,
        federation.reports,
        federation.path,
    )
    # noise = sensitivity / clip * classical / epsilon
    sensitivity = noise * length * epsilon / classical
    mod = LocalDpMod(length, sensitivity, epsilon, DELTA)
    model = federation.run(federation.averaging(), [mod])
    return model, Guarantee("user", "nobody", true_epsilon([noise]), DELTA)
