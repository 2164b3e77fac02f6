"""Train messages of an app with an added query, and a model's parameters as one vector.

The query is an additional ConfigRecord beside the app's records. The app's train function sees only
the app's records. The reply is a :class:`~ldp_flower.guarantee.messages.Report`. If the client
declares metrics public, the reply also has a MetricRecord.

Parameters are the arrays of floats in an ArrayRecord, in the order of their names. They may have
any shape, including no dimensions. Other arrays of the record (counters, masks) do not count as
parameters.
A question may be about some of the parameters only.

Nodes that train a network sent as data receive a round instead: the network's text and the plan.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..randomizers.real_valued.dp_sgd import DpSgdPlan
from ..validation import (
    Floats,
    PlainFields,
    Positive,
    check_choice,
    check_integer,
    check_positive,
    check_range,
)
from .messages import CENSUS, HASH_END, MessageError, Query
from .packing import FORMAT_VERSION, checked_fields, pack, unpack

#: Name of the record with the query in an app's message.
RIDER = "ldp-flower"

#: Name of the record of a reply that holds metrics declared public, if there are any.
PUBLIC = "public-metrics"


def with_query(content: RecordDict, query: Query) -> RecordDict:
    """Return an app's records together with a query, as the content of one message."""
    rider = ConfigRecord({"version": FORMAT_VERSION, **query.to_config()})
    _, arrays, _ = query.question.to_wire()
    if arrays:
        rider["layout"], rider["payload"] = pack(arrays)
    return RecordDict({**content, RIDER: rider})


def census(own: RecordDict | None = None) -> RecordDict:
    """Return the content of the message that asks a node for its number of users.

    It includes the app's records ``own``.
    """
    rider = ConfigRecord({"version": FORMAT_VERSION, "ask": CENSUS})
    return RecordDict({**(own or {}), RIDER: rider})


def split_query(content: RecordDict) -> tuple[Query | None, RecordDict]:
    """Return the query in a message of :func:`with_query`, and the app's records.

    For a message of :func:`census`, return None instead of the query. Raise MessageError for any
    other message.
    """
    own = RecordDict({name: record for name, record in content.items() if name != RIDER})
    rider = content.get(RIDER)
    if not isinstance(rider, ConfigRecord):
        raise MessageError("This client answers ldp-flower's strategies only.")
    config = checked_fields(rider, "layout", "payload")
    if config.pop("version", None) != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    if config == {"ask": CENSUS}:
        return None, own
    layout, payload = config.pop("layout", ""), config.pop("payload", b"")
    if not isinstance(layout, str) or not isinstance(payload, bytes):
        raise MessageError("Expected a layout of arrays that fits its payload.")
    return Query.from_config(config, unpack(layout, payload) if layout else {}), own


def digest(content: RecordDict) -> str:
    """Return a hash of an app's records, which with the query identify the training."""
    whole = hashlib.sha256()
    for name, record in sorted(content.items()):
        described: list[object] = [name, type(record).__name__]
        if isinstance(record, ArrayRecord):
            for key, array in sorted(record.items()):
                data = hashlib.sha256(array.data).hexdigest()
                described.append([key, array.dtype, list(array.shape), array.stype, data])
        else:
            described += [[key, repr(value)] for key, value in sorted(record.items())]
        whole.update(json.dumps(described).encode() + b"\n")
    return whole.hexdigest()


Parameters = dict[str, NDArray[np.floating]]


def parameters_of(record: ArrayRecord) -> Parameters:
    """Return the arrays of floats in a record by name, in the order of their names."""
    arrays = {name: record[name].numpy() for name in sorted(record)}
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def flattened(parameters: Parameters) -> Floats:
    """Return all parameters, one after the other, as one vector of float64."""
    flat = [array.astype(np.float64).ravel() for array in parameters.values()]
    return np.concatenate([np.empty(0), *flat])


def with_parameters(
    record: ArrayRecord, vector: Floats, names: Sequence[str] | None = None
) -> ArrayRecord:
    """Return a copy of a record whose parameters are taken from a vector.

    ``names`` lists the parameters to replace, by default all. The other entries stay as they are.
    Parameters keep their shapes and types.
    """
    replaced: dict[str, Array] = dict(record.items())
    position = 0
    for name in parameters_of(record) if names is None else names:
        array = record[name].numpy()
        part = vector[position : position + array.size]
        replaced[name] = Array(part.reshape(array.shape).astype(array.dtype))
        position += array.size
    return ArrayRecord(replaced)


#: Names of the records of a message and of its reply.
ARRAYS, NETWORK, METRICS = "arrays", "network", "metrics"
OPTIMIZERS = ("sgd", "adam", "adamw")
_LEARNING_RATES = (1e-30, 1e30)  # beyond, numbers of four bytes vanish or overflow
_OF_PLAN = tuple(field.name for field in fields(DpSgdPlan))
_OPTIONAL = ("records_per_user", "stoppable")  # fields that not every plan has


@dataclass(frozen=True)
class NetworkRound(PlainFields):
    """One round of training: the network's text, the plan of all rounds, and the optimiser.

    Attributes
    ----------
    text : str
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    optimizer : {"sgd", "adam", "adamw"}
        The optimiser, which receives noisy means only.
    salt : int
        Number of the run, in ``[0, 2**63)``. A plan is paid once in each run.
    number : int
        Number of the round, from 1. With 0, a plan that is stoppable ends.
    """

    text: str
    plan: DpSgdPlan
    optimizer: str
    learning_rate: Positive
    salt: int
    number: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_range("learning_rate", self.learning_rate, *_LEARNING_RATES)
        check_integer("salt", self.salt, 0, HASH_END - 1)
        check_integer("number", self.number, 0 if self.plan.stoppable else 1, self.plan.num_rounds)

    def to_config(self) -> ConfigRecord:
        """Return the round as a record of a Flower message."""
        own = {key: getattr(self, key) for key in ("text", *_OWN)}
        plan = {k: v for k, v in asdict(self.plan).items() if v is not None and v is not False}
        return ConfigRecord({"version": FORMAT_VERSION, **own, **plan})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the round in untrusted fields; raise MessageError if it is not valid."""
        of_plan = [key for key in _OF_PLAN if key in config or key not in _OPTIONAL]
        _check_fields(config, {*_OWN, *of_plan}, "a round of training")
        try:
            plan = DpSgdPlan(**{key: config[key] for key in of_plan})
            return cls(config["text"], plan, *(config[key] for key in _OWN))
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused round: {error}") from error


_OWN = ("optimizer", "learning_rate", "salt", "number")
_MAX_STEPS = 10_000  # largest number of local steps that a message can request from one user


@dataclass(frozen=True)
class LocalTraining(PlainFields):
    """A user's training of a network on its rows: ``steps`` gradient steps on their mean loss.

    ``text`` is the network, as in :class:`NetworkRound`. A step is ``learning_rate`` times the
    gradient.
    """

    text: str
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("local_steps", self.steps, 1, _MAX_STEPS)
        check_positive("local_learning_rate", self.learning_rate)

    def to_config(self) -> ConfigRecord:
        """Return the local training as a record of a Flower message."""
        return ConfigRecord({"version": FORMAT_VERSION, **asdict(self)})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the local training in untrusted fields; raise MessageError if it is not valid."""
        _check_fields(config, {"steps", "learning_rate"}, "a local training")
        try:
            return cls(config["text"], config["steps"], config["learning_rate"])
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused local training: {error}") from error


def _check_fields(config: Mapping[str, Any], own: set[str], what: str) -> None:
    if set(checked_fields(config, "text")) != {"version", "text", *own}:
        raise MessageError(f"Unknown or missing fields in {what}.")
    if config["version"] != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    if not isinstance(config["text"], str):
        raise MessageError("Expected the text of a network.")
