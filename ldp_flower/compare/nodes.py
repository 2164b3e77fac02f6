"""Nodes that train one model, as the methods of a comparison see them: model in, updates out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from ..guarantee.training import flattened, parameters_of, with_parameters
from ..simulation.grid import InProcessGrid
from ..validation import Floats

#: Flower's: number of the round and model to metrics.
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
RunConfig = dict[str, bool | float | int | str]


@dataclass(frozen=True, eq=False)
class App:
    """An app, as a strategy's ``start`` is given it, and the strategy that it uses itself."""

    client_app: ClientApp  # without any mod for privacy
    initial_arrays: ArrayRecord
    evaluate_fn: Evaluate | None  # None: the app's own evaluate function, on the nodes
    train_config: ConfigRecord = field(default_factory=ConfigRecord)
    arrays_key: str = "arrays"
    config_key: str = "config"
    run_config: RunConfig = field(default_factory=dict)
    strategy: str = "FedAvg"


Indices = NDArray[np.int64]


class CannotCompareError(ValueError):
    """An app that cannot be compared; the text says what to change."""


class Nodes(Protocol):
    """Whoever trains: the nodes of an app, or of a study that has a faster way."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""

    def updates(self, model: Floats, nodes: Indices, number: int) -> Iterator[Floats]:
        """Yield what the training of these nodes, numbers from 0, adds to a model, shape (dim,).

        Updates come in any order, shape (some nodes, dim); rounds are numbered from 1.
        """


class AppNodes:
    """The nodes of an app, each asked by a message of its own, in process.

    All arrays of floats are one vector here, as for :class:`~..clients.LdpUpdateMod`: those
    without dimensions are parameters like others, and counters stay the server's. A
    training that fails, or returns no numbers, counts as the update 0; ``reason`` is why the first
    of them did. Nodes keep their contexts from round to round.
    """

    def __init__(self, app: App, num_nodes: int) -> None:
        self._app = app
        self.num_nodes = num_nodes
        self.grid = InProcessGrid(app.client_app, num_nodes, app.run_config)
        self.failures, self.reason = 0, ""
        wanted = parameters_of(app.initial_arrays)
        self._shapes = {name: array.shape for name, array in wanted.items()}

    def updates(self, model: Floats, nodes: Indices, number: int) -> Iterator[Floats]:
        """Yield the nodes' updates, one at a time."""
        sent = with_parameters(self._app.initial_arrays, model)
        # As they arrive, in the arrays' own precision: who returns them has done nothing.
        before = flattened(parameters_of(sent))
        for node in nodes:
            reply = self.ask(sent, int(node), number, MessageType.TRAIN)
            yield self._update(reply, before)[None]

    def ask(self, model: ArrayRecord, node: int, number: int, kind: str) -> Message | None:
        """Send the model to a node as Flower's FedAvg would, and return its reply, if any."""
        app = self._app
        config = ConfigRecord({**app.train_config, "server-round": number})
        content = RecordDict({app.arrays_key: model, app.config_key: config})
        replies = self.grid.send_and_receive([Message(content, node + 1, kind)])
        return next(iter(replies), None)

    def counted(self) -> ClientApp:
        """Return the app, for another grid to ask; trainings that fail there count here, too."""
        app = ClientApp()
        nowhere = np.zeros_like(flattened(parameters_of(self._app.initial_arrays)))

        @app.train()
        def train(message: Message, context: Context) -> Message:
            try:
                reply: Message = self._app.client_app(message, context)
            except Exception as error:
                self._failed(f"Training failed on a node: {type(error).__name__}: {error}")
                raise
            self._update(reply, nowhere)  # counts what is none
            return reply

        return app

    def _update(self, reply: Message | None, before: Floats) -> Floats:
        try:
            return update_of(reply, self._shapes, before)
        except CannotCompareError as error:
            self._failed(str(error))
            return np.zeros_like(before)

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.reason = self.reason or why

    def check(self) -> None:
        """Train one node, and raise CannotCompareError if that gives no update."""
        before = flattened(parameters_of(self._app.initial_arrays))
        reply = self.ask(self._app.initial_arrays, 0, 1, MessageType.TRAIN)
        update_of(reply, self._shapes, before)

    def evaluated(self, model: ArrayRecord, number: int, most: int) -> MetricRecord:
        """Return the mean of what the app's own evaluate function measures on the first nodes.

        Nodes count by ``num-examples``, where they send it.
        """
        total, weights = dict[str, float](), 0.0
        for node in range(min(most, self.num_nodes)):
            reply = self.ask(model, node, number, MessageType.EVALUATE)
            if reply is None or reply.has_error():
                continue
            # Flower's strategies, too, take replies with one such record only.
            for record in list(reply.content.metric_records.values())[:1]:
                weight = record.get("num-examples", 1)
                assert isinstance(weight, int | float)
                weights += weight
                for name, value in record.items():
                    if name != "num-examples" and isinstance(value, int | float):
                        total[name] = total.get(name, 0.0) + weight * value
        # Without an example there is nothing, which the caller says.
        return MetricRecord({name: value / weights for name, value in total.items() if weights > 0})


def update_of(reply: Message | None, shapes: dict[str, tuple[int, ...]], before: Floats) -> Floats:
    """Return the update in a reply; raise CannotCompareError if there is none."""
    if reply is None:
        raise CannotCompareError("Expected a reply to a training message, got none.")
    if reply.has_error():
        raise CannotCompareError(
            f"Training failed on a node: {reply.error.reason} Expected a ClientApp with a "
            "function for messages of type train (@app.train()), and without LdpUpdateMod or "
            "other mods for privacy: the comparison adds them."
        )
    records = list(reply.content.array_records.values())
    try:
        (record,) = records
        returned = {name: record[name].numpy() for name in shapes}
    except (KeyError, ValueError):
        raise CannotCompareError(
            f"Expected a reply with one ArrayRecord that holds {list(shapes)}, got "
            f"{[list(record) for record in records]}."
        ) from None
    for name, array in returned.items():
        if array.shape != shapes[name]:
            raise CannotCompareError(f"Expected {name} of shape {shapes[name]}, got {array.shape}.")
    update = flattened(returned) - before
    if not np.isfinite(update).all():
        raise CannotCompareError("Expected an update of finite numbers.")
    return update
