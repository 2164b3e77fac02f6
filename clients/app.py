"""LdpClientApp: the Flower ClientApp that answers queries, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.data.users import SCHEMA
from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import CENSUS, NUMBERS, QUERY, MessageError, Query
from ldp_flower.questions import WireType, wire_types_with

from .node import EffectivePolicy, LoadUsers, Seed, UsersNode, check_loader, check_own
from .reply import Received, Refusal, reply_with
from .respond import respond
from .statistics import OwnStatistics, checked


def attach(
    app: ClientApp,
    load_users: LoadUsers,
    policy: PrivacyPolicy | None = None,
    seed: Seed = None,
    statistics: OwnStatistics | None = None,
) -> None:
    """Let an existing ClientApp answer ldp-flower's queries.

    Registers the handlers ``query.report`` and ``query.census``; the app's own
    handlers stay as they are. Parameters as those of :class:`LdpClientApp`.

    Guarantee
    ---------
    1. For these two kinds of messages that of :class:`LdpClientApp`.
    2. None for any other message: the app's own handlers answer any server as before,
       with whatever they send, and neither policy nor ledger knows of it.
    """
    check_loader(load_users)
    check_own(policy, seed)
    own = checked(statistics)
    client = _Client(load_users, policy, seed, own, wire_types_with(own))
    app.query(CENSUS)(client.census)
    app.query(QUERY)(client.report)


class LdpClientApp(ClientApp):
    """A ClientApp whose users answer with randomised reports only.

    Parameters
    ----------
    load_users : callable
        Function from the Flower ``Context`` of a node to its :class:`Users` (in a
        simulation also :class:`~ldp_flower.GeneratedUsers`, or others that answer like them). A
        deployment's users need ``ids``. ``Schema.loader``, and users of ``Schema.users``, also
        declare their schema in the census, which is public, so that a server with another
        one does not ask.
    policy : PrivacyPolicy, optional
        The app's own limits. In a deployment the operator's policy in
        ``node_config`` is mandatory and this one can only tighten it. In a
        simulation it is the policy; without one there is no limit.
    seed : int, "run" or callable, optional
        Makes a simulation's reports reproducible; a callable gets the ``Context`` and
        may return None. Anywhere but in a simulation a seed refuses every query. ``"run"``
        stands for the ``seed`` in the run's configuration, which a simulation must then have
        and which nothing else ever reads: the same app is deployed unseeded.
    statistics : mapping of type to callable, optional
        Questions of the app's own: from a class of questions (a frozen dataclass, subclass of
        ``Question``, with a ``stem`` that is new) to the function that computes a user's
        value from its features, shape (rows, num_features), its targets, shape (rows,),
        and the question. It is called for one user at a time, and should keep nothing
        between calls. Where it fails, or returns something else than as many numbers as the
        question's ``width``, this user reports the centre, and the log says why.

    Raises
    ------
    ValueError
        If an argument is of another type, or a name that is asked by exists already.

    Notes
    -----
    In a deployment ``node_config`` (set by the node's operator) must hold
    ``max-epsilon`` and ``ledger-path``, and may hold ``max-delta``,
    ``allow-inexact``, ``max-rows``, ``unit``, ``num-records``, ``features-public``,
    ``allow-public-changes``, ``min-epsilon``, ``max-width`` and ``reply-after`` (see
    :class:`~ldp_flower.PrivacyPolicy`). Nothing in a message or in ``run_config`` is
    consulted about privacy. With ``rehearsal`` true a node answers as always, but with
    reports about no data, and spends nothing.

    Guarantee
    ---------
    1. Protected: everything that a user's rows contain, their number included,
       against the server and everyone who sees the replies.
    2. A reply contains randomised reports of addressed users, or sums of them, and
       nothing else about their data. Which users report, and the size and type of
       the reply, depend on public facts and on the ledger, never on data.
    3. The sum over a user's life of the epsilons (deltas) of all different queries
       that it answers is at most ``max_epsilon`` (``max_delta``), as read off the
       mechanisms that the client itself builds from its closed registry.
    4. The spend is on the ledger before rows are looked at, and the reply before it is sent; the
       same query gets the same bytes again. Whatever fails in between, the reply is one that the
       same noise may give with any rows.
    5. The handlers never raise, and error replies are fixed texts or about the query.
    6. Where the operator protects single records of silos (``unit`` "record"), 1 and 3 are
       about each record instead, whatever the silo's other records are.
    7. Where the operator has declared everything but the targets public
       (``features-public``), it may be sent as it is, and 1 is about the targets.
    8. What ``load_users``, or a ``seed`` that is a function, writes into the context
       changes nothing of this: settings and metadata are copied before they run.
    9. The app's own ``statistics`` change nothing of this, and see one user's rows at a time:
       what a user reports depends on nobody else's, unless they keep what they have seen.
    10. This is per user per ledger: one person under two ids, or on two operators'
        ledgers, spends twice. How long a reply takes is covered by the operator's
        ``reply-after`` only.
    """

    def __init__(
        self,
        load_users: LoadUsers,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        statistics: OwnStatistics | None = None,
    ) -> None:
        super().__init__()
        attach(self, load_users, policy, seed, statistics)


@dataclass(frozen=True)
class _Client:
    """The two handlers of one ClientApp."""

    load_users: LoadUsers
    policy: PrivacyPolicy | None
    seed: Seed
    statistics: OwnStatistics
    forms: Mapping[str, WireType]

    def census(self, message: Message, context: Context) -> Message:
        """Answer how many users the node holds, and what their keys are."""

        def answer(received: Received) -> RecordDict:
            node = self._open(received, context)
            records = RecordDict({"census": MetricRecord({**node.census()})})
            asked = NUMBERS in received.message.content
            if asked and (numbers := node.numbered().keys.numbers) is not None:
                records[NUMBERS] = MetricRecord({NUMBERS: numbers.tolist()})
            for source in (self.load_users, node.users):  # of those that know a schema
                if (digests := getattr(source, "schema_digests", None)) is not None:
                    records[SCHEMA] = MetricRecord({**digests})
            return records

        return reply_with(message, context, self.policy, answer)

    def report(self, message: Message, context: Context) -> Message:
        """Answer one query."""

        def answer(received: Received) -> RecordDict:
            try:
                query = Query.from_record_dict(received.message.content, self.forms)
            except MessageError as error:
                raise Refusal.malformed(error) from error
            return respond(self._open(received, context), query).to_record_dict()

        return reply_with(message, context, self.policy, answer)

    def _open(self, received: Received, context: Context) -> UsersNode:
        terms = EffectivePolicy.resolve(received, context, self.policy, self.seed)
        return UsersNode.of(received, context, terms, self.load_users, self.statistics)
