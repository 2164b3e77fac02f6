"""Whether the nodes of a table have the schema that a strategy is about, before anybody pays."""

from collections.abc import Mapping
from typing import Final

from flwr.app import MetricRecord, RecordDict

from ldp_flower.guarantee.user_source import SCHEMA

#: How the reason begins for which a node with another schema is left out of a census.
OTHER_SCHEMA: Final = "another schema: "
_SHOWN, _LONGEST = 3, 60  # names, and characters of one, which a node may have chosen


def objection(content: RecordDict, expected: Mapping[str, int] | None) -> str | None:
    """Return what differs in the schema that a node declares in its census, or None.

    A node that declares none is believed to have the right one.

    Parameters
    ----------
    content : RecordDict
        The node's answer.
    expected : mapping of str to int, or None
        The strategy's :meth:`~ldp_flower.Schema.digests`; None: it has no schema.
    """
    record = content.get(SCHEMA)
    if expected is None or not isinstance(record, MetricRecord):
        return None
    declared = dict(record)
    if not any(part.startswith("target ") for part in expected):  # then any target will do
        declared = {part: own for part, own in declared.items() if not part.startswith("target ")}
    if declared == expected:
        return None
    own, found = set(expected), set(declared)
    differences = {
        "it lacks": own - found,
        "it has besides": found - own,
        "it declares otherwise": {part for part in own & found if expected[part] != declared[part]},
    }
    told = (f"{words} {_listed(parts)}" for words, parts in differences.items() if parts)
    return OTHER_SCHEMA + ", ".join(told)


def _listed(parts: set[str]) -> str:
    shown = [ascii(part)[1:-1][:_LONGEST] for part in sorted(parts)]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{', '.join(shown[:_SHOWN])}{more}"
