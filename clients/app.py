"""LdpClientApp: a Flower ClientApp that answers queries only."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.data.users import SCHEMA
from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import CENSUS, NUMBERS, QUERY, Query
from ldp_flower.guarantee.shared_sums import COMMIT, SET, Members
from ldp_flower.questions import WireType, wire_types_with

from .effective_policy import EffectivePolicy, Seed, check_own
from .reply import Received, Refusal, reply_with
from .respond import check, respond
from .shared_sums import commit, peers_of
from .statistics import OwnStatistics, checked
from .update_mod import LdpUpdateMod
from .users_node import LoadUsers, UsersNode, check_loader

_REFUSES = (
    "Expected an app whose mods let queries through, got {0} among the mods of the whole app, "
    "which answers training only. Give it to the train function: @app.train(mods=[{0}(...)])."
)


def attach(
    app: ClientApp,
    load_users: LoadUsers,
    policy: PrivacyPolicy | None = None,
    seed: Seed = None,
    statistics: OwnStatistics | None = None,
) -> None:
    """Let an existing ClientApp answer ldp-flower's queries.

    Register the handlers ``query.report``, ``query.commit`` and ``query.census``. The app's other
    handlers stay unchanged. The parameters are those of :class:`LdpClientApp`.

    Raises
    ------
    ValueError
        If a mod of the whole app, such as :class:`LdpUpdateMod`, would refuse these messages.

    Guarantee
    ---------
    1. These three kinds of messages have the guarantee of :class:`LdpClientApp`.
    2. Other messages have no guarantee. The app's other handlers answer any server as before, and
       may send anything. Neither the policy nor the ledger covers their replies.
    """
    check_loader(load_users)
    check_own(policy, seed)
    own = checked(statistics)
    for mod in app._mods:
        if isinstance(mod, LdpUpdateMod):
            raise ValueError(_REFUSES.format(type(mod).__name__))
    QueryHandlers(load_users, policy, seed, own).register(app)


class LdpClientApp(ClientApp):
    """A ClientApp whose users answer with randomised reports only.

    Parameters
    ----------
    load_users : callable
        Function from the Flower ``Context`` of a node to its :class:`Users`. In a simulation, it
        may also return :class:`~ldp_flower.GeneratedUsers` or another source of users. Users in a
        deployment need ``ids``. ``Schema.loader``, and users of ``Schema.users``, also declare
        their schema in the census, which is public. A server with another schema then asks no
        query.
    policy : PrivacyPolicy, optional
        The app's limits. In a deployment, the operator's policy in ``node_config`` is mandatory,
        and this one can only tighten it. In a simulation, this is the policy; the default is no
        limit.
    seed : int, "run" or callable, optional
        Makes a simulation's reports reproducible. A callable gets the ``Context`` and may return
        None. Outside of a simulation, a client with a seed refuses every query. ``"run"`` stands
        for the ``seed`` in the run's configuration, which a simulation must then have. A deployment
        does not read it, so that the same app is deployed unseeded.
    statistics : mapping of type to callable, optional
        Statistics for additional questions of the app: from a class of questions to a function. The
        class is a frozen dataclass and a subclass of ``Question``, with a new ``stem``. The
        function computes a user's value from its features, shape (rows, num_features), its targets,
        shape (rows,), and the question. It is called for one user at a time, and should keep
        nothing between calls. If it fails, or does not return ``width`` numbers, this user reports
        the centre, and the log says why.

    Raises
    ------
    ValueError
        If an argument has a wrong type, or if the name of a question exists already.

    Notes
    -----
    In a deployment ``node_config`` (set by the node's operator) must hold
    ``max-epsilon`` and ``ledger-path``, and may hold ``max-delta``,
    ``allow-inexact``, ``max-rows``, ``unit``, ``noise``, ``max-dishonest``,
    ``max-epsilon-alone``, ``num-records``, ``features-public``,
    ``allow-public-changes``, ``min-epsilon``, ``max-width``, ``reply-after`` and ``studies`` (see
    :class:`~ldp_flower.PrivacyPolicy`). Nothing in a message or in ``run_config`` is
    consulted about privacy. With ``rehearsal`` true, a node answers as usual, but its reports are
    about no data, and it spends nothing.

    Guarantee
    ---------
    1. Protected: everything that a user's rows contain, including their number, against the server
       and everyone who sees the replies.
    2. A reply contains randomised reports of addressed users, or sums of them, and nothing else
       about their data. The choice of reporting users, and the size and type of the reply, depend
       on public facts and on the ledger, never on data.
    3. The sum over a user's life of the epsilons (deltas) of all different queries that it answers
       is at most ``max_epsilon`` (``max_delta``). The client reads these epsilons (deltas) off the
       mechanisms that it builds from its closed registry.
    4. The cost is on the ledger before the client reads rows, and the reply is on the ledger before
       it is sent. The same query gets the same bytes again. If something fails in between, the
       reply is one that the same noise may give with any rows.
    5. The handlers never raise. Error replies are fixed texts, or texts about the query.
    6. If the operator protects single records of silos (``unit`` "record"), 1 and 3 are about each
       record instead, for any other records of the silo.
    7. If the operator has declared everything but the targets public (``features-public``), the
       public data may be sent unchanged, and 1 is about the targets.
    8. If ``load_users``, or a ``seed`` that is a function, writes into the context, this guarantee
       stays the same: settings and metadata are copied before these functions run.
    9. The app's ``statistics`` do not change this guarantee. They see one user's rows at a time. A
       user's report depends on no other user's rows, unless the statistics remember what they have
       seen.
    10. The guarantee is per user per ledger: one person under two ids, or on two operators'
        ledgers, spends twice. The time that a reply takes is protected only by the operator's
        ``reply-after``.
    11. If the operator allows noise once to the sum over all users (``noise`` "node"), 1 is against
        everyone except the node that holds the rows, and the number of its users is public. With
        ``noise`` "shared", 1 and 3 hold if at most ``max_dishonest`` other nodes collude with the
        server. If more do, the epsilons of 3 add up to ``max_epsilon_alone`` at most.
    12. If the operator has a file of approved studies (``studies``), a query is refused, at no
        cost, unless a study in this file approves its question, the columns that it reads and the
        place of its noise. 3 then also holds for each study with the study's limits, for life. A
        refusal may name the limit that no user's budget allows, if it tells no users apart.
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
class QueryHandlers:
    """The handlers of one ClientApp for queries to its users."""

    load_users: LoadUsers
    policy: PrivacyPolicy | None
    seed: Seed
    statistics: OwnStatistics

    def register(self, app: ClientApp) -> None:
        """Make an app answer messages by these handlers."""
        app.query(CENSUS)(self.census)
        app.query(QUERY)(self.report)
        app.query(COMMIT)(self.commit)

    def census(self, message: Message, context: Context) -> Message:
        """Return the reply to the census: number of users, their keys, and the schema if known."""

        def answer(received: Received) -> RecordDict:
            node = self._open(received, context, self._terms(received, context))
            records = RecordDict({"census": MetricRecord({**node.census()})})
            asked = NUMBERS in received.message.content
            if asked and (numbers := node.numbered().keys.numbers) is not None:
                records[NUMBERS] = MetricRecord({NUMBERS: numbers.tolist()})
            for source in (self.load_users, node.users):  # either may know a schema
                if (digests := getattr(source, "schema_digests", None)) is not None:
                    records[SCHEMA] = MetricRecord({**digests})
            return records

        return reply_with(message, context, self.policy, answer)

    def report(self, message: Message, context: Context) -> Message:
        """Return the reply to one query: a report, or an error."""

        def answer(received: Received) -> RecordDict:
            records = dict(received.message.content.items())
            given = records.pop(SET, None)
            query = self.read(RecordDict(records))
            members = None if given is None else Members.from_record(given)
            if query.randomizer.shared != (members is not None):
                raise Refusal(Refusal.MALFORMED, "Expected a set of members for shared noise only.")
            terms = self._terms(received, context)
            peers = None if members is None else peers_of(received, terms)
            node = self._open(received, context, terms)
            return respond(node, query, members, peers).to_record_dict()

        return reply_with(message, context, self.policy, answer)

    def commit(self, message: Message, context: Context) -> Message:
        """Return the reply with the node's commit to a query whose noise is shared."""

        def answer(received: Received) -> RecordDict:
            query = self.read(received.message.content)
            if not query.randomizer.shared:
                raise Refusal(Refusal.MALFORMED, "A node commits to shared noise only.")
            terms = self._terms(received, context)
            peers = peers_of(received, terms)
            node = self._open(received, context, terms)
            check(node, query)
            return RecordDict({COMMIT: commit(node, query, peers).to_record()})

        return reply_with(message, context, self.policy, answer)

    @cached_property
    def _forms(self) -> Mapping[str, WireType]:
        return wire_types_with(self.statistics)

    def read(self, content: RecordDict) -> Query:
        """Return the query in a message; raise MessageError if the app does not know it."""
        return Query.from_record_dict(content, self._forms)

    def _terms(self, received: Received, context: Context) -> EffectivePolicy:
        return EffectivePolicy.resolve(received, context, self.policy, self.seed)

    def _open(self, received: Received, context: Context, terms: EffectivePolicy) -> UsersNode:
        return UsersNode.of(received, context, terms, self.load_users, self.statistics)
