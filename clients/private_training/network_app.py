"""App for a silo that trains a network sent as data, without any code of a run."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger import texts
from ldp_flower.guarantee.messages import MessageError, Report, Slots
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.guarantee.training import (
    ARRAYS,
    METRICS,
    NETWORK,
    RIDER,
    NetworkRound,
    digest,
    split_query,
)
from ldp_flower.models.graph import Graph, Limits
from ldp_flower.models.network import Network
from ldp_flower.models.parsing import parsed
from ldp_flower.randomness import RandomSource, SystemRandom

from ..effective_policy import Seed, called, check_own
from ..node import CheckedQuery, Node
from ..reply import Received, Refusal, reply_with
from ..train_messages import whole_node
from .child import Child, ChildLimits
from .network_round import Arrays, Round
from .plan_rounds import NUM_EXAMPLES, as_reply, asked_round, check_plan, cost_of, report_of
from .records import Data, Form, Loaded

#: Function from a node's context to its records, their targets and, optionally, their owners.
LoadRecords = Callable[[Context], tuple[Any, Any] | tuple[Any, Any, Any]]


class NetworkClientApp(ClientApp):
    """A ClientApp that trains the networks of :class:`ldp_flower.strategies.RecordDpSgd`.

    The server sends the network as text, which is checked. The training loop is part of the
    library. No code of a run sees a record::

        app = NetworkClientApp(lambda context: load_my_scans())

    Parameters
    ----------
    load_records : callable
        Function from the Flower ``Context`` of a node to its records, shape (records, ...), and
        their targets. Their numbers are converted to the network's types. A third array, shape
        (records,), has the name of the user whom each record is about, a text or an integer. It is
        needed for runs that protect users (``unit="user"``).
    policy, seed
        As in :class:`LdpClientApp`.
    limits : Limits, optional
        Limits of the networks that the app accepts.
    child_limits : ChildLimits, optional
        Limits of time and memory of the process that trains. A simulation trains in its own
        process.

    Raises
    ------
    ValueError
        If an argument has a wrong type.

    Notes
    -----
    In a deployment, ``node_config`` is as for :class:`RecordDpSgdMod`. For runs that
    protect users it has ``noise="node"`` instead of ``unit="record"`` and ``num-records``. A node
    answers either runs that protect records or runs that protect users. The app needs the extra
    ``torch``.

    Guarantee
    ---------
    1. Protected: a record's values against any other values of that record, including absent ones,
       at the plan's (epsilon, delta) for all rounds together, against the server and everyone who
       sees the replies; in real arithmetic. ``num-records`` is public. If a run protects users, a
       user's records and their number are protected in the same way, for every user of the node.
       The number of users with records is public.
    2. This holds for all networks made of the listed operations. No operation has randomness, files
       or memory, and on a CPU one record changes no bit of another record's gradient (tested for
       each operation). Indices and classes out of range are clamped or count nothing. A record that
       has another shape, or does not hold numbers, keeps its place and counts as 0.
    3. A gradient that is not finite counts as 0. Other gradients are clipped to ``max_grad_norm``
       and summed, in doubles: one record moves a sum by twice ``max_grad_norm`` at most. A user's
       gradient is the mean of its records' gradients, and is clipped in the same way. Blocks have a
       public size, and places without a record hold zeros, which are not added.
    4. A network is refused, with a text about the network, before data are loaded and budget is
       spent. This includes a network that would take too long, by the time of a block of zeros, or
       too much memory. If a run protects users, their number is needed for these two checks, and
       data are loaded before them. No budget is spent until then, either. Kernels run in a separate
       process with limits of time and memory. Once this process has records, it can open neither
       ledger nor data nor connections (see :class:`~.child.Child`). Its answer is read as numbers
       of a declared size.
    5. The plan's whole (epsilon, delta) is on the ledger before that process gets a record, for the
       silo or, if users are protected, for each of them, and a reply is on the ledger before it is
       sent. If the process ends without an answer, for any reason, the reply is the result of a
       round without records, which was computed before. The same message gets the same bytes, and
       trains nothing. If the server ends a plan that is stoppable, no other round of it is answered
       any more, and the epsilon of these rounds is given back in the same transaction. What is kept
       holds for an end that the replies have decided (see
       :class:`~ldp_flower.randomizers.real_valued.dp_sgd.DpSgdPlan`), and is at least
       ``min-epsilon`` a round.
    6. Arrays whose shape or type as a whole is not the network's are refused before anything is
       spent. So shape and type are public. The values are not, and only the operator's log shows
       how many records count.
    7. A reply holds the trained parameters, the declared number of records or the number of users,
       and whether the node rehearses or is in a seeded simulation.
    8. Not covered: the time that training takes, except by ``reply-after``, up to the limit of
       ``child_limits`` for the data; a person with several records, in runs that protect records;
       and results that ``load_records`` has computed from all records before.
    """

    def __init__(
        self,
        load_records: LoadRecords,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        limits: Limits | None = None,
        child_limits: ChildLimits | None = None,
    ) -> None:
        super().__init__()
        check_own(policy, seed)
        if not callable(load_records):
            raise ValueError(f"Expected load_records to be a function, got {load_records!r}.")
        self._load_records = load_records
        self._policy = policy
        self._seed = seed
        self._limits = limits or Limits()
        self._child_limits = child_limits or ChildLimits()
        self.train()(self._train)

    def _train(self, message: Message, context: Context) -> Message:
        return reply_with(
            message, context, self._policy, lambda received: self._answer(received, context)
        )

    def _answer(self, received: Received, context: Context) -> RecordDict:
        content = received.message.content
        if RIDER in content:
            return self._census(received, context)
        if set(content) == {NETWORK}:
            return self._ended(received, context)
        asked, graph = _read(content, self._limits)
        network = network_in(graph, content, ARRAYS)
        node = whole_node(received, context, self._policy, self._seed)
        check_plan(node.terms.policy, asked.plan, network.num_trainable)
        data = None
        if asked.plan.unit == "user":  # the users' names are needed for the ledger
            data = self._loaded(context)
            node = _of_users(node, received, data)
        message = digest(content)
        kind = received.message.metadata.message_type
        question = asked_round(node, asked.plan, asked.salt, kind, message)
        if (report := node.answered(question)) is None:
            how = asked.plan, asked.optimizer, asked.learning_rate
            task = Round(network, *how, 1, self._limits)
            if node.terms.simulated:
                step = int(message[:15], 16)
                report = self._simulated(node, question, data, context, task, step)
            else:
                report = self._deployed(node, question, data, context, task)
        return as_reply(report, ARRAYS, {})

    def _census(self, received: Received, context: Context) -> RecordDict:
        """Return the census of one silo, with its public numbers of records and of their users."""
        query, _ = split_query(received.message.content)
        if query is not None:
            raise MessageError("This client only trains networks that are sent as data.")
        node = whole_node(received, context, self._policy, self._seed)
        policy = node.terms.policy
        records, owners = policy.num_records or 0, 0
        if policy.noise != "user":
            data = self._loaded(context)
            owners = len(data.names)
            if node.terms.simulated and not records:
                records = max(len(data.records), 1)
        facts = MetricRecord({**node.census(), "records": records, "owners": owners})
        return RecordDict({"census": facts})

    def _ended(self, received: Received, context: Context) -> RecordDict:
        """End a plan: its other rounds are answered no more, and their epsilon is given back."""
        config = received.message.content[NETWORK]
        asked = NetworkRound.from_config(config) if isinstance(config, ConfigRecord) else None
        if asked is None or asked.number:
            raise MessageError("Expected parameters to train, or the end of a plan.")
        node = whole_node(received, context, self._policy, self._seed)
        if asked.plan.unit == "user":
            node = _of_users(node, received, self._loaded(context))
        if not node.terms.rehearsal:
            cost, least = cost_of(asked.plan, asked.salt), node.terms.policy.min_epsilon

            def kept(rounds: int) -> float:
                return max(asked.plan.epsilon_after(rounds), rounds * least)

            node.ledger.end_plan(node.accounts, cost, kept)
        return RecordDict({METRICS: MetricRecord({"ended": 1})})

    def _deployed(
        self,
        node: Node,
        question: CheckedQuery,
        data: Loaded | None,
        context: Context,
        task: Round,
    ) -> Report:
        """Return the report on a round that a child process trains."""
        count = node.terms.policy.num_records if data is None else len(data.names)
        assert count is not None  # otherwise the policy would have refused the query
        task = replace(task, count=count)
        with Child(self._child_limits) as child:
            # The network is checked before data are loaded, unless users are protected.
            form, alone = child.prepare(task)
            data = (data or self._loaded(context)).fit_for(form)

            def trained(own: Node, slots: Slots) -> Report:
                if own.blind:
                    return _report_of(alone, task, own)
                rows = _fitted(form, data, task, own, slots, SystemRandom())
                if own.terms.rehearsal:
                    rows = form.nothing(task.count, task.plan.records_per_user)
                return _report_of(child.train(task, rows), task, own)

            return node.answer_once(question, trained)

    def _simulated(
        self,
        node: Node,
        question: CheckedQuery,
        data: Loaded | None,
        context: Context,
        task: Round,
        step: int,
    ) -> Report:
        """Return the report on a round that is trained in this process, as in a simulation.

        The number of records is the true one if none is declared.
        """
        form = Form.of(task.network, self._limits)
        data = (data or self._loaded(context)).fit_for(form)
        records = node.terms.policy.num_records or max(len(data.records), 1)
        of_users = task.plan.unit == "user"
        task = replace(task, count=len(data.names) if of_users else records)

        def trained(own: Node, slots: Slots) -> Report:
            randomness = own.private_randomness(step, np.zeros(1, np.int64))
            if own.blind:
                return _report_of(task.without_records(randomness), task, own)
            rows = _fitted(form, data, task, own, slots, randomness)
            return _report_of(task.trained(rows, randomness), task, own)

        return node.answer_once(question, trained)

    def _loaded(self, context: Context) -> "Loaded":
        """Return records, targets and owners; raise ValueError if their numbers differ."""
        return Loaded.of(*called(self._load_records, context))


def _of_users(node: Node, received: Received, data: Loaded) -> Node:
    """Return a silo's node on whose ledger each user with records has an account."""
    if not len(data.names):
        raise Refusal(Refusal.MISCONFIGURED, "The records of this node have no owners.")
    if not node.terms.simulated:
        texts(data.names)
        return replace(node, accounts=data.names)
    number = len(data.names)
    return replace(node, ledger=StateLedger(received.state, number), accounts=np.arange(number))


def _fitted(
    form: Form, data: Loaded, task: Round, node: Node, slots: Slots, randomness: RandomSource
) -> Data:
    """Return the data to train on; log how many records count.

    If the round protects users, the data are records of the users who pay, and their size is
    public.
    """
    if (each := task.plan.records_per_user) is None:
        rows, goals, usable = form.fitted(data.records, data.targets, task.count)
        found = Data(rows, goals)
    else:
        most = node.terms.policy.max_rows or len(data.records)
        found, usable = data.of_users(form, slots, most, each, randomness)
    logger = logging.getLogger(__name__)
    logger.log(logging.WARNING if usable.faults else logging.INFO, "%s", usable)
    return found


def _report_of(arrays: Arrays, task: Round, node: Node) -> Report:
    facts = {"seeded": node.terms.seed is not None, "rehearsing": node.terms.rehearsal}
    flags = {name: 1 for name, holds in facts.items() if holds}
    return report_of(arrays, {NUM_EXAMPLES: task.count, **flags})


def _read(content: RecordDict, limits: Limits) -> tuple[NetworkRound, Graph]:
    if set(content) != {ARRAYS, NETWORK} or NETWORK not in content.config_records:
        raise MessageError(f"Expected the records {ARRAYS!r} and {NETWORK!r}.")
    asked = NetworkRound.from_config(content.config_records[NETWORK])
    if not asked.number:
        raise MessageError("Expected the end of a plan without parameters.")
    return asked, parsed(asked.text, limits)


def network_in(graph: Graph, content: RecordDict, name: str) -> Network:
    """Return a network with the parameters in a message's record of this name."""
    if name not in content.array_records:
        raise MessageError("Expected one ArrayRecord, which holds the parameters.")
    try:
        record = content.array_records[name]
        arrays = {name: array.numpy() for name, array in record.items()}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError  # NumPy's reader also opens archives of arrays
    except Exception as error:  # NumPy's reader fails in many ways on forged headers
        raise MessageError("Expected parameters as NumPy arrays.") from error
    return Network(graph, arrays)
