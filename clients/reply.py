"""The frame of every handler: an answer or an error, and when it leaves."""

import logging
import time
from collections.abc import Callable

from flwr.app import Context, Error, Message, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger_file import LedgerError

from .received import Received
from .refusal import Refusal


def reply_with(
    message: Message,
    context: Context,
    own: PrivacyPolicy | None,
    answer: Callable[[Received], RecordDict],
) -> Message:
    """Return the answer, or an error whose text says nothing about data.

    Neither leaves before the operator, or the app's ``own`` policy, wants it to. The
    reply is made after the wait, and of metadata that no code of the app has seen: its
    date, and its time to live, say when it left, and the rest what was asked.
    """
    started = time.monotonic()
    received = Received.of(message, context)
    reply_after = _reply_after(received, own)
    try:
        content = _answered(received, answer)
    finally:
        received.restore(context)
    _wait(reply_after, started)
    if isinstance(content, Error):  # twice, for types: Flower takes the one or the other
        return Message(content, reply_to=received.message)
    return Message(content, reply_to=received.message)


def _reply_after(received: Received, own: PrivacyPolicy | None) -> float:
    """Return after how many seconds a reply may leave."""
    if received.simulated:
        return 0.0
    try:
        operators = PrivacyPolicy.from_node_config(received.config)
    except (ValueError, OverflowError):
        return 0.0  # a refusal, for this, before any data are looked at
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
    except LedgerError as failure:  # missing, read-only, on a full disk
        logger.error("%s", failure)
        return Error(Refusal.MISCONFIGURED, "The ledger cannot be used.")
    except KeyboardInterrupt:  # is the operator's
        raise
    except BaseException:  # a loader may also leave by sys.exit: its process would die of it
        logger.exception("A query could not be answered.")
        return Error(Refusal.FAILED, "The client failed; its log says why.")
