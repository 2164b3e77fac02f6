"""Train messages to an app: the node that answers, the server's model, and the app's reply.

All mods and apps for training use these functions. The app's code may fail or return anything:
then its failure is logged, and the update is 0.
"""

import logging
import sys
from collections.abc import Callable

import numpy as np
from flwr.app import Context, Message, MessageType, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger import texts
from ldp_flower.guarantee.messages import MessageError, NodeKeys
from ldp_flower.guarantee.state_ledger import NODE, StateLedger
from ldp_flower.guarantee.training import Parameters, flattened, parameters_of
from ldp_flower.validation import Floats

from .effective_policy import EffectivePolicy, Seed
from .failures import contained
from .node import Node, operators_ledger
from .reply import Received, Refusal

#: The next mod or the app's train function, as Flower hands it to a mod.
CallNext = Callable[[Message, Context], Message]
#: Function that gets a text about a failure of training.
Failed = Callable[[str], None]


def training_kind(received: Received) -> str:
    """Return the type of a train message; raise Refusal for any other message."""
    kind = received.message.metadata.message_type
    if kind.partition(".")[0] != MessageType.TRAIN:
        raise Refusal(Refusal.FORBIDDEN, "This client answers training messages only.")
    return kind


def whole_node(
    received: Received, context: Context, policy: PrivacyPolicy | None, seed: Seed
) -> Node:
    """Return a node that counts as one user, given the policy and the seed of the app.

    In a deployment, its name on the ledger is the operator's ``user-id``. Raise Refusal if the
    operator has set none, or like :meth:`EffectivePolicy.resolve`.
    """
    terms = EffectivePolicy.resolve(received, context, policy, seed)
    if terms.simulated:
        # This ledger has another name than the ledger of LdpClientApp, which has many users and may
        # be in the same state.
        ledger = StateLedger(received.state, 1, NODE)
        partition = received.config["partition-id"]
        assert isinstance(partition, int)
        keys = NodeKeys(0, partition, 1)
        return Node(terms, keys, ledger, np.zeros(1, np.int64), received.run_id)
    user = received.config.get("user-id")
    if not isinstance(user, str) or not user:
        raise Refusal(Refusal.MISCONFIGURED, "The operator has named no user (user-id).")
    keys = NodeKeys(received.node_id & (1 << 64) - 1, 0, 1)
    file = operators_ledger(received, terms.policy)
    accounts = np.array([user])
    texts(accounts)
    return Node(terms, keys, file, accounts, received.run_id)


def model_in(content: RecordDict) -> tuple[str, Parameters]:
    """Return the name of the record that holds the server's model, and its parameters."""
    if len(content.array_records) != 1:
        raise MessageError("Expected one ArrayRecord, the model.")
    ((name, record),) = content.array_records.items()
    try:
        return name, parameters_of(record)
    except Exception as error:  # NumPy's reader fails in many ways on forged headers
        raise MessageError("Expected a model of NumPy arrays.") from error


def log_failure(text: str) -> None:
    """Log a failure of training for the operator, with the current exception if there is one."""
    raised = sys.exc_info()[0] is not None
    logging.getLogger(__name__).error(text, exc_info=raised)


def reply_of(
    message: Message, context: Context, call_next: CallNext, failed: Failed = log_failure
) -> RecordDict | None:
    """Run the app's train function; return the content of its reply, or None if it fails.

    Errors are logged, and not raised.
    """
    with contained(lambda: failed("Training failed; the user reports an update of 0.")):
        content = call_next(message, context).content
        if not isinstance(content, RecordDict):
            raise TypeError(f"The reply holds {type(content).__name__}.")
        return content
    return None


def metrics_in(reply: RecordDict | None, public: frozenset[str]) -> dict[str, int | float]:
    """Return the public metrics of a reply that are numbers and fit into Flower's messages."""
    try:
        return {
            name: value
            for record in ([] if reply is None else reply.metric_records.values())
            for name, value in record.items()
            if name in public
            and (isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63))
        }
    except Exception:
        logging.getLogger(__name__).exception("Training returned metrics that cannot be read.")
        return {}


def update_of(
    reply: RecordDict | None, name: str, sent: Parameters, failed: Failed = log_failure
) -> Floats:
    """Return the update: the model in a train function's reply minus the model ``sent``.

    Return zeros if the reply has no model with these names and shapes, or if the update is not
    finite.
    """
    before = flattened(sent)
    if reply is None:
        return np.zeros_like(before)
    try:
        records = reply.array_records
        record = records[name] if name in records else next(iter(records.values()))
        returned = {key: record[key].numpy() for key in sent}
        for key, array in returned.items():
            if array.shape != sent[key].shape or array.dtype.kind not in "fiub":
                raise ValueError(f"{key} is {array.dtype} of shape {array.shape}.")
        with np.errstate(all="ignore"):
            update = flattened(returned) - before
    except Exception:
        failed("Training returned no update of this model; the user reports an update of 0.")
        return np.zeros_like(before)
    if not np.isfinite(update).all():
        failed("The update is not finite; the user reports an update of 0.")
    return update
