"""An app's own train messages: what rides on them, and a model's parameters as one vector.

A query is one more ConfigRecord beside the app's records.

The app's train function sees its own records only, as if there were no other. The reply
is a :class:`~ldp_flower.guarantee.messages.Report`, with a MetricRecord of its own beside it if
the client declares metrics public.

Parameters are the arrays of floats in an ArrayRecord, whatever their shapes, those without
dimensions included, in the order of their names. Everything else in it (counters, masks) is no
parameter. A question may be about some of them only.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..validation import Floats
from .messages import CENSUS, FORMAT_VERSION, MessageError, Query, pack, unpack

#: Name of the record that rides along.
RIDER = "ldp-flower"

#: Name of the record of a reply that holds metrics declared public, if there are any.
PUBLIC = "public-metrics"


def with_query(content: RecordDict, query: Query) -> RecordDict:
    """Return an app's records together with a query."""
    rider = ConfigRecord({"version": FORMAT_VERSION, **query.to_config()})
    _, arrays, _ = query.question.to_wire()
    if arrays:
        rider["layout"], rider["payload"] = pack(arrays)
    return RecordDict({**content, RIDER: rider})


def census(own: RecordDict | None = None) -> RecordDict:
    """Return the question how many users a node holds, with an app's own records for other mods."""
    rider = ConfigRecord({"version": FORMAT_VERSION, "ask": CENSUS})
    return RecordDict({**(own or {}), RIDER: rider})


def taken_apart(content: RecordDict) -> tuple[Query | None, RecordDict]:
    """Undo :func:`with_query` or, without a query, :func:`census`; MessageError if it is none."""
    own = RecordDict({name: record for name, record in content.items() if name != RIDER})
    rider = content.get(RIDER)
    if not isinstance(rider, ConfigRecord):
        raise MessageError("This client answers ldp-flower's strategies only.")
    config = dict(rider)
    if config.pop("version", None) != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    if config == {"ask": CENSUS}:
        return None, own
    layout, payload = config.pop("layout", ""), config.pop("payload", b"")
    if not isinstance(layout, str) or not isinstance(payload, bytes):
        raise MessageError("Expected a layout of arrays that fits its payload.")
    return Query.from_config(config, unpack(layout, payload) if layout else {}), own


def digest(content: RecordDict) -> str:
    """Hash an app's records: together with the query they decide what is asked."""
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
    """Return parameters as one vector."""
    flat = [array.astype(np.float64).ravel() for array in parameters.values()]
    return np.concatenate([np.empty(0), *flat])


def with_parameters(
    record: ArrayRecord, vector: Floats, names: Sequence[str] | None = None
) -> ArrayRecord:
    """Return a copy of a record with the parameters of these names (all) taken from a vector.

    Everything else is the record's own, unchanged; parameters keep their types.
    """
    replaced: dict[str, Array] = dict(record.items())
    position = 0
    for name in parameters_of(record) if names is None else names:
        array = record[name].numpy()
        part = vector[position : position + array.size]
        replaced[name] = Array(part.reshape(array.shape).astype(array.dtype))
        position += array.size
    return ArrayRecord(replaced)
