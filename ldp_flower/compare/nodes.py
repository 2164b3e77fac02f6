"""Nodes of a comparison: they take a model and return updates from training it."""

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

#: Flower's type of an evaluation function: from the round's number and the model to metrics.
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
RunConfig = dict[str, bool | float | int | str]

_JUDGES = 500  # largest number of nodes that evaluate a model, if the server does not


@dataclass(frozen=True, eq=False)
class App:
    """App with the arguments of its strategy's ``start``, and the name of this strategy."""

    client_app: ClientApp  # without mods for privacy
    initial_arrays: ArrayRecord
    evaluate_fn: Evaluate | None  # None: use the app's own evaluate function, on the nodes
    train_config: ConfigRecord = field(default_factory=ConfigRecord)
    arrays_key: str = "arrays"
    config_key: str = "config"
    run_config: RunConfig = field(default_factory=dict)
    strategy: str = "FedAvg"


Indices = NDArray[np.int64]


class CannotCompareError(ValueError):
    """Error for an app that cannot be compared; the message says what to change."""


class Nodes(Protocol):
    """Protocol of nodes that train: those of an app, or those of a study with faster code."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""

    def updates(self, model: Floats, nodes: Indices, number: int) -> Iterator[Floats]:
        """Yield the updates of some nodes, the changes that their training makes to the model.

        Nodes are numbered from 0, and the round ``number`` from 1. The model has shape (dim,).
        Updates are arrays of shape (some of the nodes, dim), in any order.
        """


class AppNodes:
    """Nodes of an app in this process, each of which is queried by a separate message.

    All arrays of floats form one vector, as for :class:`~..clients.LdpUpdateMod`. Arrays without
    dimensions are parameters like the others, and counters of integers remain those of the server.
    A training that fails, or whose result is not finite, counts as the update 0. ``failures`` is
    the number of such trainings, and ``reason`` is the reason of the first failure. Nodes keep
    their contexts from round to round.
    """

    def __init__(self, app: App, num_nodes: int) -> None:
        self._app = app
        self.num_nodes = num_nodes
        self.grid = InProcessGrid(app.client_app, num_nodes, app.run_config)
        self.failures, self.reason = 0, ""
        wanted = parameters_of(app.initial_arrays)
        self._shapes = {name: array.shape for name, array in wanted.items()}

    def updates(self, model: Floats, nodes: Indices, number: int) -> Iterator[Floats]:
        """Train the model on each of these nodes, and yield the update of each, shape (1, dim)."""
        sent = with_parameters(self._app.initial_arrays, model)
        # Parameters in the precision in which nodes receive them: if a node returns them unchanged,
        # its update is exactly 0.
        before = flattened(parameters_of(sent))
        for node in nodes:
            reply = self.ask(sent, int(node), number, MessageType.TRAIN)
            yield self._update(reply, before)[None]

    def ask(self, model: ArrayRecord, node: int, number: int, kind: str) -> Message | None:
        """Send the model to a node as Flower's FedAvg does; return the reply, None if lost."""
        app = self._app
        config = ConfigRecord({**app.train_config, "server-round": number})
        content = RecordDict({app.arrays_key: model, app.config_key: config})
        replies = self.grid.send_and_receive([Message(content, node + 1, kind)])
        return next(iter(replies), None)

    def counted(self) -> ClientApp:
        """Return the app for use on the grid of LdpFedAvg: failed trainings are counted here."""
        app = ClientApp()
        nowhere = np.zeros_like(flattened(parameters_of(self._app.initial_arrays)))

        @app.train()
        def train(message: Message, context: Context) -> Message:
            try:
                reply: Message = self._app.client_app(message, context)
            except Exception as error:
                self._failed(f"Training failed on a node: {type(error).__name__}: {error}")
                raise
            self._update(reply, nowhere)  # counts a failure if the reply has no valid update
            return reply

        return app

    def _update(self, reply: Message | None, before: Floats) -> Floats:
        try:
            return checked_update(reply, self._shapes, before)
        except CannotCompareError as error:
            self._failed(str(error))
            return np.zeros_like(before)

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.reason = self.reason or why

    def check(self) -> None:
        """Train one node, and raise CannotCompareError if its reply has no valid update."""
        before = flattened(parameters_of(self._app.initial_arrays))
        reply = self.ask(self._app.initial_arrays, 0, 1, MessageType.TRAIN)
        checked_update(reply, self._shapes, before)

    def metric(self, model: ArrayRecord, number: int, name: str | None) -> tuple[str, float]:
        """Return the name and the value of the model's metric ``name``, after round ``number``.

        By default, it is the first metric that is not a loss, or else the first one. Raise
        CannotCompareError if there is no such metric, or if the app's ``evaluate_fn`` fails.
        """
        if self._app.evaluate_fn is None:
            found: MetricRecord | None = self._evaluated(model, number)
        else:
            try:
                found = self._app.evaluate_fn(number, model)
            except Exception as error:
                raise CannotCompareError(
                    f"evaluate_fn failed: {type(error).__name__}: {error}"
                ) from error
        numbers = {k: v for k, v in (found or {}).items() if isinstance(v, int | float)}
        if not numbers:
            raise CannotCompareError(
                "Expected at least one number as a metric of the model, got none. Metrics come "
                "from evaluate_fn or, without one, from the app's function for messages of type "
                "evaluate. Pass evaluate_fn=, or --evaluate MODULE:FUNCTION: a function with the "
                "arguments of Flower's evaluate_fn that returns metrics."
            )
        usual = next((key for key in numbers if "loss" not in key.lower()), next(iter(numbers)))
        name = name or usual
        if name not in numbers:
            raise CannotCompareError(f"Expected metric in {sorted(numbers)}, got {name!r}.")
        return name, float(numbers[name])

    def _evaluated(self, model: ArrayRecord, number: int) -> MetricRecord:
        """Return the mean metrics of the app's own evaluate function, on up to 500 nodes.

        Nodes are weighted by ``num-examples`` if they send it.
        """
        total, weights = dict[str, float](), 0.0
        for node in range(min(_JUDGES, self.num_nodes)):
            reply = self.ask(model, node, number, MessageType.EVALUATE)
            if reply is None or reply.has_error():
                continue
            # Like Flower's strategies, use only one such record of a reply.
            for record in list(reply.content.metric_records.values())[:1]:
                weight = record.get("num-examples", 1)
                assert isinstance(weight, int | float)
                weights += weight
                for name, value in record.items():
                    if name != "num-examples" and isinstance(value, int | float):
                        total[name] = total.get(name, 0.0) + weight * value
        # Without any example the record is empty, and the caller raises an error.
        return MetricRecord({name: value / weights for name, value in total.items() if weights > 0})


def checked_update(
    reply: Message | None, shapes: dict[str, tuple[int, ...]], before: Floats
) -> Floats:
    """Return the update in a reply; raise CannotCompareError if it has no valid update."""
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
