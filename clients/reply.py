"""The frame of all handlers: the received message, its answer or refusal, and the time to reply.

A message and its node's settings are copied before any code of the app runs. A loader or a train
function gets Flower's objects and may write into them. So the client reads nothing that matters
from these objects afterwards.
"""

import logging
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from flwr.app import Context, Error, Message, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy, in_simulation
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import ErrorCode, MessageError
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.models.graph import NetworkError


class Refusal(Exception):
    """Error of a query that is not answered; code and text depend on public facts only.

    ``detail`` appears in the operator's log only.
    """

    MALFORMED = ErrorCode.MALFORMED
    FORBIDDEN = ErrorCode.FORBIDDEN
    EXHAUSTED = ErrorCode.EXHAUSTED
    MISCONFIGURED = ErrorCode.MISCONFIGURED
    FAILED = ErrorCode.FAILED
    GONE = ErrorCode.GONE

    def __init__(self, code: ErrorCode, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.detail = detail

    @classmethod
    def of_policy(cls, detail: str) -> Self:
        """Return the refusal of all queries because the operator's policy is invalid."""
        return cls(cls.MISCONFIGURED, "The operator's policy is not valid.", detail)


@dataclass(frozen=True)
class Received:
    """The data of a request that a reply depends on, copied before the app's code runs.

    The app's code gets Flower's message and context, not this object. It shares only the message's
    content with this object. Metadata and settings are copies.

    Attributes
    ----------
    state : RecordDict
        In a simulation, the records of the ledgers, removed from the context's state until
        :meth:`restore`. Otherwise empty.
    """

    message: Message
    config: Mapping[str, object]
    node_id: int
    run_id: int
    simulated: bool
    state: RecordDict

    @classmethod
    def of(cls, message: Message, context: Context) -> Self:
        """Return copies of the relevant parts of a message and its context."""
        config = dict(context.node_config)
        # With an operator's settings, the node is a deployment, even in a simulation's process.
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
        """Put the ledgers' records, which the app has not seen, back into a simulation's state.

        Changes that the app has made to them are overwritten.
        """
        for name, record in self.state.items():
            context.state[name] = record


def with_own_metadata(message: Message) -> Message:
    """Return a message with the same content and a copy of the metadata.

    The app's code, which may write into metadata, gets another message than the client.
    """
    own = copy(message)
    own.__dict__["_metadata"] = copy(message.metadata)
    return own


def reply_with(
    message: Message,
    context: Context,
    own: PrivacyPolicy | None,
    answer: Callable[[Received], RecordDict],
) -> Message:
    """Return the reply of a handler: its answer, or an error whose text says nothing about data.

    No reply leaves before the time that the operator, or the app's ``own`` policy, has set. The
    reply message is made after the wait, from metadata that no code of the app has seen. So its
    date and its time to live show the time of sending, and its other metadata follow from the
    query.
    """
    started = time.monotonic()
    received = Received.of(message, context)
    reply_after = _reply_after(received, own)
    try:
        content = _answered(received, answer)
    finally:
        received.restore(context)
    _wait(reply_after, started)
    if isinstance(content, Error):  # two calls for the type checker: Flower takes one of two types
        return Message(content, reply_to=received.message)
    return Message(content, reply_to=received.message)


def _reply_after(received: Received, own: PrivacyPolicy | None) -> float:
    """Return the number of seconds after a message's arrival before which no reply leaves."""
    if received.simulated:
        return 0.0
    try:
        operators = PrivacyPolicy.from_node_config(received.config)
    except (ValueError, OverflowError):
        return 0.0  # the query will be refused for this, before any data are read
    return max((each.reply_after for each in (operators, own) if each is not None), default=0.0)


def _wait(reply_after: float, started: float) -> None:
    left = reply_after - (time.monotonic() - started)
    if left > 0:
        time.sleep(left)
    elif reply_after:
        logging.getLogger(__name__).warning(
            "A reply took %.3f s longer than reply-after, which its receiver can see.", -left
        )


def _answered(received: Received, answer: Callable[[Received], RecordDict]) -> RecordDict | Error:
    logger = logging.getLogger(__name__)
    try:
        return answer(received)
    except Refusal as refusal:
        logger.warning("Refused a query: %s", f"{refusal} {refusal.detail}".rstrip())
        return Error(refusal.code, str(refusal))
    except (MessageError, NetworkError) as error:  # their texts are about the message only
        logger.warning("Refused a query: %s", error)
        return Error(Refusal.MALFORMED, str(error))
    except LedgerError as failure:  # the ledger is missing, read-only or on a full disk
        logger.error("%s", failure)
        return Error(Refusal.MISCONFIGURED, "The ledger cannot be used.")
    except KeyboardInterrupt:  # comes from the operator
        raise
    except BaseException:  # a loader may also call sys.exit, which would end the process
        logger.exception("A query could not be answered.")
        return Error(Refusal.FAILED, "The client failed; its log says why.")
