"""Flower's own private methods, configured with the correct noise for an epsilon."""

import logging
import math
from collections.abc import Iterable

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import (
    GaussianPrivacyEvent,
    Grid,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from ..accounting import gaussian_noise_multiplier, noise_multiplier_epsilon
from ..validation import Count, Fraction, Positive, plain_arguments

logger = logging.getLogger("flwr")


@plain_arguments
def dp_fedavg(
    epsilon: float,
    delta: float,
    rounds: Count,
    clip: Positive,
    num_nodes: Count,
    *,
    clients_clip: bool = False,
    strategy: FedAvg | None = None,
    accountant: PrivacyAccountant | None = None,
) -> DifferentialPrivacyServerSideFixedClipping | DifferentialPrivacyClientSideFixedClipping:
    """Return Flower's wrapper for DP-FedAvg, with the noise for the whole run.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of a node for all rounds together.
    rounds : int
        Number of rounds in which every node takes part.
    clip : float
        Length to which updates are clipped.
    num_nodes : int
        Number of nodes in every round.
    clients_clip : bool (default: False)
        True if the clients clip; their app then needs Flower's ``fixedclipping_mod``.
    strategy : FedAvg, optional
        The wrapped strategy. The default sends training to all of ``num_nodes`` nodes in
        every round, and evaluates on no node.
    accountant : PrivacyAccountant, optional
        Flower's own accountant, without amplification by sampling. It is charged for every round.
        Its epsilon is logged beside the actual cost of a node, and is in the rounds' metrics.

    Returns
    -------
    Strategy
        The strategy to start with ``num_rounds=rounds``. Each round's metrics have
        ``epsilon-spent``, the cost so far of a node whose data may be replaced. With an
        accountant, they also have ``flower-epsilon``, the accountant's epsilon for a node that may
        be added or removed, about half as large.

    Raises
    ------
    ValueError
        If an argument is out of range, the strategy does not average as FedAvg does, or the
        accountant would not allow so many rounds.

    Notes
    -----
    Source: McMahan, Ramage, Talwar & Zhang (ICLR 2018), as Flower implements it. This function
    enforces conditions that Flower's wrapper assumes but does not check. All nodes have the same
    weight, whatever ``num-examples`` says. An update that is not finite counts as 0. A round with
    another number of replies leaves the model unchanged. Arrays of integers or without dimensions,
    which Flower would neither clip nor noise, are refused, and so are more rounds than the noise
    is for. An update of exactly 0 ends Flower's aggregation with ``ZeroDivisionError``.

    Guarantee
    ---------
    1. Protected: all data of a node, against any other data of that node, at (epsilon,
       delta) for all rounds, against everyone who sees the models that the server sends out.
    2. The server is trusted: it sees every update, and adds the noise. Flower draws the
       noise from NumPy's global generator, in floating-point numbers.
    3. Every node is charged for every round; participation is not secret. Metrics are
       outside the guarantee.
    """
    noise = gaussian_noise_multiplier(epsilon, delta, rounds)
    if strategy is None:
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=num_nodes, min_available_nodes=num_nodes
        )
    if type(strategy).aggregate_train is not FedAvg.aggregate_train:
        raise ValueError(
            "Expected FedAvg or a subclass that does not override aggregate_train, got "
            f"{type(strategy).__name__}: its sensitivity is not known."
        )
    wrapper = (
        DifferentialPrivacyClientSideFixedClipping
        if clients_clip
        else DifferentialPrivacyServerSideFixedClipping
    )
    presupposed = _EqualWeights(strategy, rounds, noise, delta, num_nodes, accountant)
    return wrapper(presupposed, noise, clip, num_nodes)


@plain_arguments
def flower_epsilon(
    noise_multiplier: Positive, delta: Fraction, releases: Count, num_nodes: Count
) -> float:
    """Return the epsilon that Flower's ``RdpAccountant`` states for fixed-clipping wrappers.

    The epsilon is for all ``releases`` rounds together, in each of which all ``num_nodes`` nodes
    take part. For the accountant, two sets of nodes are neighbours if one set has one more node
    (add or remove one). A clipped update then moves the sum by the clip. In this library,
    neighbours differ in one node's data (replace one), which may move the sum by twice the clip. So
    for the same noise multiplier, the accountant states about half of
    :func:`noise_multiplier_epsilon`. Raises ImportError without dp-accounting (the extra
    ``accounting``), which Flower uses.
    """
    config = PrivacyConfig(
        target_delta=delta,
        population_size=num_nodes,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=SamplingMethod.NO_AMPLIFICATION,
    )
    accountant = RdpAccountant(config)
    accountant.compose(GaussianPrivacyEvent(noise_multiplier, num_nodes, num_nodes), releases)
    return float(accountant.get_privacy_spent().epsilon)


@plain_arguments
def local_dp_multiplier(epsilon: Positive, delta: Fraction) -> float:
    """Return the noise multiplier of Flower's mod if its sensitivity equals its clip.

    It is the standard deviation of the noise, divided by the length to which updates are clipped.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


@plain_arguments
def local_dp_mod(epsilon: float, delta: float, clip: Positive, answers: Count = 1) -> LocalDpMod:
    """Return Flower's ``LocalDpMod`` with the correct noise for its answers.

    The mod's own formula is not valid above epsilon 1. It also uses the clip as the distance
    of two clipped updates, which can be twice as large. This function corrects both with the mod's
    argument ``sensitivity``. The mod keeps no account: more than ``answers`` replies cost more.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of a node for all its answers together.
    clip : float
        Length to which updates are clipped.
    answers : int (default: 1)
        Number of rounds in which a node answers.

    Returns
    -------
    LocalDpMod
        The mod, for ``@app.train(mods=[...])``.
    """
    noise = gaussian_noise_multiplier(epsilon, delta, answers)
    return LocalDpMod(clip, clip * noise / local_dp_multiplier(epsilon, delta), epsilon, delta)


class _EqualWeights(Strategy):
    """FedAvg with the conditions that the wrapper's noise needs (notes of :func:`dp_fedavg`)."""

    def __init__(
        self,
        strategy: FedAvg,
        rounds: int,
        noise_multiplier: float,
        delta: float,
        num_nodes: int,
        accountant: PrivacyAccountant | None,
    ) -> None:
        self._strategy, self._rounds, self._num_nodes = strategy, rounds, num_nodes
        self._noise_multiplier, self._delta, self._accountant = noise_multiplier, delta, accountant
        self._sent, self._done = ArrayRecord(), 0
        if accountant is None:
            return
        config = accountant.config
        self._event = GaussianPrivacyEvent(noise_multiplier, num_nodes, config.population_size)
        if config.sampling_method is not SamplingMethod.NO_AMPLIFICATION:
            raise ValueError(
                "Expected an accountant with sampling_method 'no-amplification', got "
                f"{config.sampling_method.value!r}: every node is charged for every round."
            )
        if config.max_epsilon is not None and accountant.would_exceed(self._event, count=rounds):
            raise ValueError(
                f"Expected an accountant whose max_epsilon allows {rounds} rounds, got max_epsilon="
                f"{config.max_epsilon:g} at a noise multiplier of {noise_multiplier:.3g}."
            )

    def _after_a_round(self) -> dict[str, float]:
        """Count a round, and return metrics with the epsilon that a node has spent so far."""
        self._done += 1
        spent = noise_multiplier_epsilon([self._noise_multiplier] * self._done, self._delta)
        stated = {"epsilon-spent": spent}
        text = f"A node whose data may be replaced has spent epsilon {spent:.3g}"
        if self._accountant is not None:
            self._accountant.compose(self._event)
            stated["flower-epsilon"] = float(self._accountant.get_epsilon(self._delta))
            text += f"; Flower's accountant states {stated['flower-epsilon']:.3g}"
        logger.info("%s (delta %g).", text, self._delta)
        return stated

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round > self._rounds:
            raise ValueError(
                f"Expected at most {self._rounds} rounds, which the noise is for, got round "
                f"{server_round}: start with num_rounds={self._rounds}."
            )
        for name, array in arrays.items():
            if not array.shape or np.dtype(array.dtype).kind != "f":
                raise ValueError(
                    f"Expected arrays of floats with dimensions, got {name!r} of type "
                    f"{array.dtype} and shape {tuple(array.shape)}: Flower would neither clip "
                    "nor noise it."
                )
        self._sent = arrays
        return self._strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrived = list(replies)
        if len(arrived) != self._num_nodes:
            logger.warning(
                "Round %d is left out: its noise is for %d nodes, and %d answered.",
                *(server_round, self._num_nodes, len(arrived)),
            )
            return None, None
        for reply in arrived:
            for record in reply.content.metric_records.values():
                record[self._strategy.weighted_by_key] = 1
            for name, arrays in reply.content.array_records.items():
                if not all(np.isfinite(array.numpy()).all() for array in arrays.values()):
                    reply.content[name] = self._sent
        model, metrics = self._strategy.aggregate_train(server_round, arrived)
        if model is not None:
            metrics = MetricRecord({**(metrics or {}), **self._after_a_round()})
        return model, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self._strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        return self._strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self._strategy.summary()
