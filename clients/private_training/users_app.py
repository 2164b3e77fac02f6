"""App for users who train a network sent as data, without any code of a run."""

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import MessageError, Query
from ldp_flower.guarantee.training import NETWORK, RIDER, LocalTraining
from ldp_flower.models.graph import Limits
from ldp_flower.models.parsing import parsed
from ldp_flower.questions import NetworkGradient, NetworkQuestion, NetworkScore

from ..app import QueryHandlers
from ..effective_policy import Seed
from ..node import Node
from ..reply import Received
from ..statistics import OwnStatistics
from ..train_messages import CallNext
from ..user_update_mod import LdpUserUpdateMod, OneUser, user_of
from ..users_node import LoadUsers, UsersNode
from .denormals import flushed
from .network_app import network_in
from .network_round import Arrays
from .on_rows import NetworkStatistic, OnRows, clipped_gradient, shifted_score


class NetworkUsersApp(ClientApp):
    """A ClientApp whose users train and evaluate networks that are sent as data.

    They train for ``LdpFedAvg(network=...)``. With noise at the user, users report an update that
    they make by a few steps. With noise at the node, or shared by nodes, their gradients are added
    up, and the server takes the steps. They evaluate for ``PrivateEvaluation`` of a network.

    Parameters
    ----------
    load_users : callable
        As in :class:`LdpUserUpdateMod`. A row of features is one record, in C order.
    policy, seed
        As in :class:`LdpUserUpdateMod`.
    limits : Limits, optional
        Limits of the networks that the app accepts.

    Raises
    ------
    ValueError
        If an argument has a wrong type.

    Notes
    -----
    In a deployment, ``node_config`` is as for :class:`LdpUserUpdateMod` and, for sums, as for
    :class:`LdpClientApp`. Nodes that share their noise take ``ldp-flower supernode --app``. The app
    needs the extra ``torch``.

    Guarantee
    ---------
    1. The guarantee of :class:`LdpUserUpdateMod` holds for updates, at pure epsilon. The guarantee
       of :class:`LdpClientApp` holds for gradients and scores. No code of a run is executed, so the
       exceptions for apps that remember or send what they have seen do not apply.
    2. A network is refused, with a text about the network, before data are loaded and budget is
       spent. The app answers no queries but those about a network.
    3. A user's update, gradient or score follows from this user's rows alone, to the last bit. One
       that is not finite counts as 0.
    4. Not covered: the time that training takes beyond ``reply-after``, and a kernel that ends the
       process. In contrast to :class:`NetworkClientApp`, kernels run in the node's process.
    """

    def __init__(
        self,
        load_users: LoadUsers,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        limits = limits or Limits()
        mod = _NetworkMod(load_users, policy, seed, limits)
        statistics: OwnStatistics = {
            NetworkGradient: NetworkStatistic(limits, clipped_gradient),
            NetworkScore: NetworkStatistic(limits, shifted_score),
        }
        _NetworkHandlers(load_users, policy, seed, statistics).register(self)

        @self.train()
        def train(message: Message, context: Context) -> Message:
            return mod(message, context, lambda own, _: own)  # the mod itself trains


_OTHERS = "This client only trains networks that are sent as data."


class _NetworkHandlers(QueryHandlers):
    """Handlers of queries about networks, which refuse all other queries."""

    def read(self, content: RecordDict) -> Query:
        """Return the query in a message; raise MessageError or NetworkError for any other."""
        query = super().read(content)
        if not isinstance(question := query.question, NetworkQuestion):
            raise MessageError(_OTHERS)
        statistic = self.statistics[type(question)]
        assert isinstance(statistic, NetworkStatistic)
        statistic.checked(question)
        return query


class _NetworkMod(LdpUserUpdateMod):
    """The mod that checks a network before it asks users, and trains it instead of an app."""

    def __init__(
        self, load_users: LoadUsers, policy: PrivacyPolicy | None, seed: Seed, limits: Limits
    ) -> None:
        super().__init__(load_users, policy, seed)
        self._limits = limits

    def _answer(self, received: Received, context: Context, call_next: CallNext) -> RecordDict:
        content = received.message.content
        if not content.array_records and RIDER in content:  # the census
            return super()._answer(received, context, call_next)
        if NETWORK not in content.config_records:
            raise MessageError(_OTHERS)
        asked = LocalTraining.from_config(content.config_records[NETWORK])
        graph = parsed(asked.text, self._limits)
        if len(content.array_records) != 1:
            raise MessageError("Expected one ArrayRecord, the model.")
        (name,) = content.array_records
        network = network_in(graph, content, name)
        rows = OnRows(network, self._limits)

        def train(message: Message, context: Context) -> Message:
            arrays = trained_on(rows, user_of(message), asked)
            record = ArrayRecord({key: Array(array) for key, array in arrays.items()})
            return Message(RecordDict({name: record}), reply_to=message)

        return super()._answer(received, context, train)

    def _require_fit(self, node: Node, content: RecordDict) -> None:
        assert isinstance(node, UsersNode)
        text = str(content.config_records[NETWORK]["text"])
        width = parsed(text, self._limits).record.size
        if node.users.num_features != width:
            raise MessageError(
                f"The network takes rows of {width} numbers, and users have "
                f"{node.users.num_features}."
            )


@flushed()
def trained_on(rows: OnRows, user: OneUser, asked: LocalTraining) -> Arrays:
    """Return all parameters of a network after the ``asked`` steps on one user's rows."""
    mean = rows.gradients(user.features, user.targets)
    kept = rows.parameters
    for _ in range(asked.steps):
        found = mean(kept)
        kept = {n: v - asked.learning_rate * found[n] for n, v in kept.items()}
    return {**rows.network.arrays, **{name: value.numpy() for name, value in kept.items()}}
