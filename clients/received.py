"""A message as it came and its node as the operator set it, before any code of the app runs.

The app's code (a loader of users, a train function) gets Flower's own objects and may
write into them. Nothing that counts is read from those afterwards.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from flwr.app import Context, Message, RecordDict

from ldp_flower.guarantee.environment import in_simulation
from ldp_flower.guarantee.ledger import StateLedger


@dataclass(frozen=True)
class Received:
    """What a reply is made of, in copies that the app's code never sees.

    Attributes
    ----------
    message : Message
        The message that is replied to, with metadata of its own.
    config : mapping of str to object
        What the node's operator has set.
    node_id, run_id : int
        Flower's numbers of the node and of the run.
    simulated : bool
        Whether this is a simulation.
    state : RecordDict
        In a simulation the records of its ledgers, taken out of the context's state
        until :meth:`restore`. Otherwise empty.
    """

    message: Message
    config: Mapping[str, object]
    node_id: int
    run_id: int
    simulated: bool
    state: RecordDict

    @classmethod
    def of(cls, message: Message, context: Context) -> Self:
        """Copy what counts of a message and its context."""
        config = dict(context.node_config)
        # An operator's settings mean a deployment, wherever its process runs.
        simulated = in_simulation() and not {"max-epsilon", "ledger-path"} & set(config)
        kept = StateLedger.RECORDS & set(context.state) if simulated else set()
        return cls(
            with_own_metadata(message),
            MappingProxyType(config),
            context.node_id,
            context.run_id,
            simulated,
            RecordDict({name: context.state.pop(name) for name in sorted(kept)}),
        )

    def restore(self, context: Context) -> None:
        """Put the records of a simulation's ledgers back, whatever the app did to the state."""
        for name, record in self.state.items():
            context.state[name] = record


def with_own_metadata(message: Message) -> Message:
    """Return a message of the same content whose metadata are nobody else's."""
    own = copy(message)
    own.__dict__["_metadata"] = copy(message.metadata)
    return own
