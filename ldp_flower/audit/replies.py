"""Parts of a reply that a server sees, by name, for comparisons of neighbouring data."""

from flwr.app import Message

#: Parts by name, such as ``metadata: ttl``, ``metrics: keys`` or ``metrics/loss``.
Parts = dict[str, object]

_SAME_TIME = 1e-2  # seconds between two times that count as the same


def parts_of(reply: Message, deadline: float) -> tuple[Parts, Parts]:
    """Return the form of a reply and its values: all that a server sees, except the time.

    The form has metadata, an error, and names and types of records in their order. ``deadline`` is
    the time, in seconds, until which the message lives; in Flower, its reply lives as long.
    """
    about = reply.metadata
    as_asked = abs(about.created_at + about.ttl - deadline) < _SAME_TIME
    form: Parts = {
        "reply": "content",
        "metadata: ids": (about.run_id, about.message_id, about.reply_to_message_id),
        "metadata: nodes": (about.src_node_id, about.dst_node_id),
        "metadata: tasks": (about.src_task_id, about.dst_task_id, about.delivered_at),
        "metadata: message type": about.message_type,
        "metadata: group": about.group_id,
        "metadata: ttl": "as asked" if as_asked else round(about.ttl, 3),
    }
    if reply.has_error():
        return form | {"reply": f"error {reply.error.code}: {reply.error.reason}"}, {}
    content = reply.content
    form["records"] = tuple((name, type(record).__name__) for name, record in content.items())
    form |= {f"{name}: keys": tuple(record) for name, record in content.items()}
    values: Parts = {}
    for name, record in content.items():
        values |= {f"{name}/{key}": value for key, value in record.items()}
    return form, values
