"""LdpUpdateMod: a Flower mod that makes any app's training update a randomised report."""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Context, Message, MessageType, MetricRecord, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger import NODE, StateLedger, texts
from ldp_flower.guarantee.messages import MessageError, NodeKeys, Query, Report, Slots
from ldp_flower.guarantee.training import (
    PUBLIC,
    Parameters,
    digest,
    flattened,
    parameters_of,
    taken_apart,
)
from ldp_flower.questions import ClippedUpdate, UpdateQuestion
from ldp_flower.randomizers.elementwise import directions
from ldp_flower.validation import Floats

from .app_checks import objection
from .node import EffectivePolicy, Node, Seed, check_own, operators_ledger
from .reply import Received, Refusal, reply_with, with_own_metadata
from .respond import CHUNK, randomised

CallNext = Callable[[Message, Context], Message]
Failed = Callable[[str], None]

_ENTRIES = 1 << 23  # of users' updates, held in memory at a time


@dataclass(frozen=True)
class Training:
    """What an app is asked to train, in which setting.

    ``received`` is in copies that training does not see. ``content`` are the app's records,
    ``name`` says which of them is the model, ``sent`` are the model's parameters, and ``public``
    metrics that leave as they are.
    """

    received: Received
    context: Context
    call_next: CallNext
    content: RecordDict
    name: str
    sent: Parameters
    public: dict[str, int | float] = field(default_factory=dict)


def log_failure(text: str) -> None:
    """Log for the operator what went wrong with training, and by which exception, if by one."""
    raised = sys.exc_info()[0] is not None
    logging.getLogger(__name__).error(text, exc_info=raised)


class LdpUpdateMod:
    """A Flower mod: the update that training made leaves the node as one randomised report.

    The app stays as it is, but for one line; its train function may return whatever it
    returned before::

        app = ClientApp(mods=[LdpUpdateMod()])

    The server runs :class:`ldp_flower.strategies.LdpFedAvg`. The update is the
    difference between the parameters that the train function returns and those that the
    server sent: of the arrays of floats that the query names, by default of all. It is
    normalised or clipped, and randomised as the query says within the limits of the
    node's operator. Nothing else of the reply leaves: no metric that is not declared
    public (``num-examples`` is one), no counter, no other record.

    Parameters
    ----------
    policy : PrivacyPolicy, optional
        The app's own limits, as those of :class:`LdpClientApp`. ``max_rows`` has no
        effect: what a train function reads is its own affair.
    seed : int, "run" or callable, optional
        As that of :class:`LdpClientApp`.
    public_metrics : sequence of str (default: ())
        Names of metrics that may leave as the train function returned them: facts
        about the device, say, that no row of data has a part in. In a deployment the
        operator has to name them as well (``public-metrics`` in ``node_config``, names
        separated by spaces). They are outside the guarantee.

    Raises
    ------
    ValueError
        If ``public_metrics`` is not a sequence of names, or another argument of a wrong type.

    Notes
    -----
    The whole node is one user; for several behind a node see :class:`LdpUserUpdateMod`. In a
    deployment ``node_config`` (set by the node's operator) must hold ``max-epsilon``,
    ``ledger-path`` and ``user-id``, the name that the ledger knows this user by, and may
    hold ``max-delta`` and ``allow-inexact``.

    Given to the ClientApp, the mod refuses all messages but those that train:
    evaluation would send metrics that are not private. Given to a train function
    alone (``@app.train(mods=[LdpUpdateMod()])``) it protects that function's replies
    only. It should be the first of the mods: those before it see the census (with the app's
    config, whose ``server-round`` is 0) and a report where they expect a model. With Flower's
    own that clip or add noise behind it, in an app of the legacy form, or with a train
    function that does not take (message, context), it refuses everything, the census
    included: users would spend budget for an empty report.

    Guarantee
    ---------
    1. Protected: everything that the train function's update depends on, against any
       other data of the whole node, at the epsilon (delta) of the query's randomizer;
       against the server and everyone who sees the replies.
    2. The reply is a report of that randomizer, whatever the train function does: a
       reply without an update of the right form (an exception, None, an error, other
       shapes, no numbers) counts as the update 0. Its size depends on the query alone.
       Metrics that app and operator declare public leave beside it and are not
       protected at all, nor is whether the train function returned them.
    3. The sum over the user's life of the epsilons (deltas) of all different queries
       is at most ``max_epsilon`` (``max_delta``), as read off the mechanisms that the
       client builds from its closed registry. A query over the limit trains nothing.
    4. The spend is on the ledger before training begins, and the report before the reply
       is sent. The same query (randomizer, model and the app's other records; not the
       run's id) gets the same bytes again and trains nothing: training twice would be a
       second look. If there is no report yet, it trains at no further cost (once more, and then
       the update is 0), and the first report that is stored is the answer to all.
    5. The mod never raises, and error replies are fixed texts or about the query.
    6. What training writes into the message, its metadata or the context changes
       nothing of this: what counts of them is copied before it runs.
    7. This is per ``user-id`` per ledger. Not covered: how long training takes, where
       it is longer than the operator's ``reply-after``, a process that dies of it (of
       lack of memory, say), and other ways out that an app's own code may use (files,
       network).
    """

    def __init__(
        self,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        public_metrics: Sequence[str] = (),
    ) -> None:
        check_own(policy, seed)
        names = tuple(public_metrics)
        if isinstance(public_metrics, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"Expected public_metrics to be names, got {public_metrics!r}.")
        self._policy = policy
        self._seed = seed
        self._public_metrics = frozenset(names)

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Answer the census, or a query with a report of what ``call_next`` learns."""
        return reply_with(
            message,
            context,
            self._policy,
            lambda received: self._answer(received, context, call_next),
        )

    def _answer(self, received: Received, context: Context, call_next: CallNext) -> RecordDict:
        kind = training_kind(received)
        if (wrong := objection(call_next, LdpUpdateMod)) is not None:
            raise Refusal(Refusal.MISCONFIGURED, wrong)
        try:
            query, content = taken_apart(received.message.content)
            node = self._open(received, context)
            if query is None:
                return RecordDict({"census": MetricRecord({**node.census()})})
            name, model = _model(content)
            question, sent = _checked(query, model)
        except MessageError as error:
            raise Refusal.malformed(error) from error
        node.terms.require_allowed(query.randomizer)
        self._require_fit(node, content)
        training = Training(received, context, call_next, content, name, sent)

        def values(slots: Slots) -> Floats:
            updates = self._updates(node, query.step, slots, training)
            with np.errstate(all="ignore"):
                return np.stack([_value(update, question) for update in updates])

        def report(own: Node, slots: Slots) -> Report:
            at_once = max(1, min(CHUNK, _ENTRIES // query.randomizer.width))
            return randomised(own, query, slots, values, at_once)

        asked = node.asked(query, kind, digest(content))
        answer = node.answer_once(asked, report).to_record_dict()
        if training.public:
            answer[PUBLIC] = MetricRecord({**training.public})
        return answer

    def _require_fit(self, node: Node, content: RecordDict) -> None:
        """Refuse what a node's users cannot train, whatever their data are."""

    def _updates(self, node: Node, step: int, slots: Slots, training: Training) -> Floats:
        """Return the update of the one user, shape (1, parameters)."""
        # The app's own from here on; what its training wrote into it is not read again.
        inner = with_own_metadata(training.received.message)
        inner.content = training.content
        reply = reply_of(inner, training.context, training.call_next)
        if not node.terms.rehearsal:
            training.public.update(_metrics(reply, self._public(training.received)))
        return update_of(reply, training.name, training.sent)[None]

    def _public(self, received: Received) -> frozenset[str]:
        """Return the names of metrics that may leave as they are."""
        if received.simulated:
            return self._public_metrics
        operators = received.config.get("public-metrics")
        return self._public_metrics & set(operators.split() if isinstance(operators, str) else ())

    def _open(self, received: Received, context: Context) -> Node:
        return whole_node(
            received, EffectivePolicy.resolve(received, context, self._policy, self._seed)
        )


def training_kind(received: Received) -> str:
    """Return the type of a message that trains; refuse any other."""
    kind = received.message.metadata.message_type
    if kind.partition(".")[0] != MessageType.TRAIN:
        raise Refusal(Refusal.FORBIDDEN, "This client answers training messages only.")
    return kind


def whole_node(received: Received, terms: EffectivePolicy) -> Node:
    """Return a node that is one user, as its operator has named it."""
    if terms.simulated:
        # Not the ledger of LdpClientApp, which may share the state: that one has many users.
        ledger = StateLedger(received.state, 1, NODE)
        partition = received.config["partition-id"]
        assert isinstance(partition, int)
        keys = NodeKeys(0, partition, 1)
        return Node(terms, keys, ledger, np.zeros(1, np.int64), received.run_id)
    user = received.config.get("user-id")
    if not isinstance(user, str) or not user:
        raise Refusal(Refusal.MISCONFIGURED, "The operator has named no user (user-id).")
    keys = NodeKeys(received.node_id & (1 << 64) - 1, 0, 1)
    ledger_of_all = operators_ledger(received, terms.policy)
    accounts = np.array([user])
    texts(accounts)
    return Node(terms, keys, ledger_of_all, accounts, received.run_id)


def _model(content: RecordDict) -> tuple[str, Parameters]:
    """Return the name of the record that holds the server's model, and its parameters."""
    if len(content.array_records) != 1:
        raise MessageError("Expected one ArrayRecord, the model.")
    ((name, record),) = content.array_records.items()
    try:
        return name, parameters_of(record)
    except Exception as error:  # NumPy's reader fails in many ways on forged headers
        raise MessageError("Expected a model of NumPy arrays.") from error


def _checked(query: Query, model: Parameters) -> tuple[UpdateQuestion, Parameters]:
    """Return the question and the parameters that it is about, or raise MessageError."""
    question = query.question
    if not isinstance(question, UpdateQuestion):
        raise MessageError(f"Unknown statistic {question.name!r}.")
    sent = {name: model[name] for name in question.trains(list(model))}
    vector = flattened(sent)
    if not len(vector) or not np.isfinite(vector).all():
        raise MessageError("Expected a model of finite parameters.")
    question.check(len(vector), query.randomizer.width)
    return question, sent


def reply_of(
    message: Message, context: Context, call_next: CallNext, failed: Failed = log_failure
) -> RecordDict | None:
    """Return what training replies, if anything; what goes wrong stays on this side."""
    try:
        content = call_next(message, context).content
        if not isinstance(content, RecordDict):
            raise TypeError(f"The reply holds {type(content).__name__}.")
        return content
    except KeyboardInterrupt:  # is the operator's
        raise
    except BaseException:
        failed("Training failed; the user reports an update of 0.")
        return None


def _metrics(reply: RecordDict | None, public: frozenset[str]) -> dict[str, int | float]:
    """Return the numbers of these names in a reply's metrics that Flower's wire takes."""
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
    """Return the update that training made; 0 if it returned no model of this form."""
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


def _value(update: Floats, question: UpdateQuestion) -> Floats:
    """Return what is asked about an update; one that is not finite counts as 0."""
    unit, length = directions(update[None])
    if not length[0] > 0:  # nor is NaN: neither has a direction
        return np.zeros_like(update)
    if isinstance(question, ClippedUpdate):
        return np.asarray(unit[0] * np.minimum(length[0], question.radius))
    return np.asarray(unit[0])
