"""LdpUpdateMod: a Flower mod that turns the update of an app's training into a report."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import MessageError, Query, Report, Slots
from ldp_flower.guarantee.training import PUBLIC, Parameters, digest, flattened, split_query
from ldp_flower.questions import ClippedUpdate, UpdateQuestion
from ldp_flower.randomizers.elementwise import directions
from ldp_flower.validation import Floats

from .app_checks import objection
from .effective_policy import Seed, check_own
from .node import Node
from .reply import Received, Refusal, reply_with, with_own_metadata
from .respond import randomised
from .train_messages import (
    CallNext,
    metrics_in,
    model_in,
    reply_of,
    training_kind,
    update_of,
    whole_node,
)
from .values import CHUNK

_ENTRIES = 1 << 23  # number of entries of users' updates in memory at a time


@dataclass(frozen=True)
class AppTraining:
    """The inputs of an app's training for one message, and its public metrics.

    ``received`` holds copies that training does not see. ``content`` holds the app's records.
    ``name`` is the name of the record with the model, and ``sent`` holds the model's parameters.
    ``public`` holds the metrics that are sent without randomisation.
    """

    received: Received
    context: Context
    call_next: CallNext
    content: RecordDict
    name: str
    sent: Parameters
    public: dict[str, int | float] = field(default_factory=dict)


class LdpUpdateMod:
    """A Flower mod that sends the update of an app's training as one randomised report.

    The app needs one more line. Its train function may return the same as before::

        app = ClientApp(mods=[LdpUpdateMod()])

    The server runs :class:`ldp_flower.strategies.LdpFedAvg`. The update is the difference between
    the parameters that the train function returns and those that the server sent. It covers the
    arrays of floats that the query names, by default all. The update is normalised or clipped, and
    randomised as the query says, within the limits of the node's operator. Nothing else of the
    train function's reply leaves the node: no counter, no other record, and no metric that is not
    declared public (``num-examples`` is such a metric).

    Parameters
    ----------
    policy : PrivacyPolicy, optional
        The app's limits, as in :class:`LdpClientApp`. ``max_rows`` has no effect, since the train
        function chooses the rows that it reads.
    seed : int, "run" or callable, optional
        As in :class:`LdpClientApp`.
    public_metrics : sequence of str (default: ())
        Names of metrics that are sent as the train function returns them, such as facts about the
        device that depend on no row of data. In a deployment, the operator has to name them as well
        (``public-metrics`` in ``node_config``, names separated by spaces). They are outside the
        guarantee.

    Raises
    ------
    ValueError
        If ``public_metrics`` is not a sequence of names, or if another argument has a wrong type.

    Notes
    -----
    The whole node is one user. For several users behind a node, see :class:`LdpUserUpdateMod`. In a
    deployment, ``node_config`` (set by the node's operator) must hold ``max-epsilon``,
    ``ledger-path`` and ``user-id``, the user's name on the ledger. It may hold ``max-delta`` and
    ``allow-inexact``.

    If the mod is given to the ClientApp, it refuses all messages except train messages: evaluation
    would send metrics that are not private. If the mod is given to a train function only
    (``@app.train(mods=[LdpUpdateMod()])``), it protects that function's replies only. It should be
    the first of the mods: mods before it see the census (with the app's config, whose
    ``server-round`` is 0), and a report where they expect a model. The mod refuses all messages,
    including the census, if a mod of Flower after it clips or adds noise, if the app has the
    legacy form, or if the train function does not take (message, context). Otherwise users would
    spend budget for an empty report.

    Guarantee
    ---------
    1. Protected: everything that the train function's update depends on, against any other data of
       the whole node, at the epsilon (delta) of the query's randomizer; against the server and
       everyone who sees the replies.
    2. The reply is a report of that randomizer for any behaviour of the train function: a reply
       without an update of the right form (an exception, None, an error, other shapes, no numbers)
       counts as the update 0. The reply's size depends on the query alone. Metrics that app and
       operator declare public are sent beside the report and are not protected at all. Nor is the
       fact that the train function returned them.
    3. The sum over the user's life of the epsilons (deltas) of all different queries is at most
       ``max_epsilon`` (``max_delta``). The client reads these epsilons (deltas) off the mechanisms
       that it builds from its closed registry. A query over the limit trains nothing.
    4. The cost is on the ledger before training begins, and the report is on the ledger before the
       reply is sent. The same query (randomizer, model and the app's other records; not the run's
       id) gets the same bytes again and trains nothing, since a second training would be a second
       look at the data. If there is no report yet, the app trains at no further cost (once more,
       and then the update is 0). The first report that is stored is the answer to all repetitions.
    5. The mod never raises. Error replies are fixed texts, or texts about the query.
    6. If training writes into the message, its metadata or the context, this guarantee stays the
       same: the relevant parts are copied before training runs.
    7. The guarantee is per ``user-id`` per ledger. Not covered: the time that training takes beyond
       the operator's ``reply-after``, a process that training ends (by lack of memory, say), and
       other channels that an app's code may use (files, network).
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
        """Answer the census, or answer a query with a report of the update by ``call_next``."""
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
        query, content = split_query(received.message.content)
        node = self._open(received, context)
        if query is None:
            return RecordDict({"census": MetricRecord({**node.census()})})
        name, model = model_in(content)
        question, sent = _selected(query, model)
        node.terms.require_allowed(query.randomizer)
        if query.randomizer.shared:
            # Its reports have one node's part of the noise only, and this reply has no mask.
            raise Refusal(Refusal.MALFORMED, "An update cannot have noise that nodes share.")
        self._require_fit(node, content)
        training = AppTraining(received, context, call_next, content, name, sent)

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
        """Raise Refusal if a node's users cannot train this model, for any data."""

    def _updates(self, node: Node, step: int, slots: Slots, training: AppTraining) -> Floats:
        """Return the change of the model by one training, as the only user's, (1, parameters)."""
        # From here on the app owns this message: the mod does not read it after training.
        inner = with_own_metadata(training.received.message)
        inner.content = training.content
        reply = reply_of(inner, training.context, training.call_next)
        if not node.terms.rehearsal:
            training.public.update(metrics_in(reply, self._public(training.received)))
        return update_of(reply, training.name, training.sent)[None]

    def _public(self, received: Received) -> frozenset[str]:
        """Return the names of the metrics to send without noise, as app and operator declare."""
        if received.simulated:
            return self._public_metrics
        operators = received.config.get("public-metrics")
        return self._public_metrics & set(operators.split() if isinstance(operators, str) else ())

    def _open(self, received: Received, context: Context) -> Node:
        return whole_node(received, context, self._policy, self._seed)


def _selected(query: Query, model: Parameters) -> tuple[UpdateQuestion, Parameters]:
    """Return a query's question, and the model's parameters that the question trains, by name.

    Raise MessageError if it asks for no update, or if a parameter is not finite.
    """
    question = query.question
    if not isinstance(question, UpdateQuestion):
        raise MessageError(f"Unknown statistic {question.name!r}.")
    sent = {name: model[name] for name in question.trains(list(model))}
    vector = flattened(sent)
    if not len(vector) or not np.isfinite(vector).all():
        raise MessageError("Expected a model of finite parameters.")
    question.check(len(vector), query.randomizer.width)
    return question, sent


def _value(update: Floats, question: UpdateQuestion) -> Floats:
    """Return the update's direction, or for :class:`ClippedUpdate` the clipped update.

    Return zeros if the update is zero or not finite.
    """
    unit, length = directions(update[None])
    if not length[0] > 0:  # also true for NaN; zero and NaN have no direction
        return np.zeros_like(update)
    if isinstance(question, ClippedUpdate):
        return np.asarray(unit[0] * np.minimum(length[0], question.radius))
    return np.asarray(unit[0])
