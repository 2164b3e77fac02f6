"""What rides on an app's own train messages: one more ConfigRecord beside the app's records.

The app's train function sees its own records only, as if there were no other. The reply
is a :class:`~ldp_flower.guarantee.messages.Report`, with a MetricRecord of its own beside it if
the client declares metrics public.
"""

import hashlib
import json

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

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
    """Return the question how many users a node holds, together with an app's own records.

    Nobody's answer depends on those: mods before ldp-flower's may look for them.
    """
    rider = ConfigRecord({"version": FORMAT_VERSION, "ask": CENSUS})
    return RecordDict({**(own or {}), RIDER: rider})


def taken_apart(content: RecordDict) -> tuple[Query | None, RecordDict]:
    """Undo :func:`with_query`, or :func:`census`, which has no query.

    Raises
    ------
    MessageError
        If nothing rides along, or something that is no well-formed query.
    """
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
