"""NetworkUsersApp: each user of a node trains a network that comes as data, and reports once."""

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.keys import Slots
from ldp_flower.guarantee.messages import MessageError
from ldp_flower.guarantee.network_round import NETWORK, LocalTraining
from ldp_flower.guarantee.training import RIDER
from ldp_flower.models.graph import Graph, Limits, NetworkError, Tensor
from ldp_flower.models.network import Network
from ldp_flower.models.parsing import parsed
from ldp_flower.validation import Floats

from ..compute import LoadUsers, UsersNode
from ..effective_policy import Seed
from ..node import Node
from ..one_user import OneUser, user_of
from ..reply import Received, Refusal
from ..update_mod import CallNext, Training
from ..user_update_mod import LdpUserUpdateMod
from .network_app import network_in
from .network_training import Arrays, as_rows

_AT_ONCE = 1 << 24  # intermediate numbers of a user's rows that are held at a time


class NetworkUsersApp(ClientApp):
    """A ClientApp whose users train the networks of ``LdpFedAvg(network=...)``.

    Parameters
    ----------
    load_users : callable
        As that of :class:`LdpUserUpdateMod`. A row of features is one record, in C order.
    policy, seed
        As those of :class:`LdpUserUpdateMod`.
    limits : Limits, optional
        What is accepted of a network.

    Raises
    ------
    ValueError
        If an argument is of another type.

    Notes
    -----
    In a deployment ``node_config`` is that of :class:`LdpUserUpdateMod`. Needs the extra ``torch``.

    Guarantee
    ---------
    1. That of :class:`LdpUserUpdateMod`, at pure epsilon: no code of a run is executed, so its
       exceptions for apps that keep what they have seen, or send it, do not apply.
    2. A network is refused, by a text about itself, before data are loaded and budget is spent.
    3. A user's update follows from this user's rows alone. One that is not finite counts as 0.
    4. Not covered: how long training takes, beyond ``reply-after``; a kernel that ends the
       process. Unlike those of :class:`NetworkClientApp` kernels run in the node's own one.
    """

    def __init__(
        self,
        load_users: LoadUsers,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        mod = _NetworkMod(load_users, policy, seed, limits or Limits())

        @self.train()
        def train(message: Message, context: Context) -> Message:
            return mod(message, context, _nothing)


def _nothing(message: Message, context: Context) -> Message:
    return message


class _NetworkMod(LdpUserUpdateMod):
    """Checks a network before anybody is asked, and trains it in the place of an app."""

    def __init__(
        self, load_users: LoadUsers, policy: PrivacyPolicy | None, seed: Seed, limits: Limits
    ) -> None:
        super().__init__(load_users, policy, seed)
        self._limits = limits

    def _answer(self, received: Received, context: Context, call_next: CallNext) -> RecordDict:
        content = received.message.content
        if not content.array_records and RIDER in content:  # the census
            return super()._answer(received, context, call_next)
        try:
            if NETWORK not in content.config_records:
                raise MessageError("This client trains networks that come as data only.")
            asked = LocalTraining.from_config(content.config_records[NETWORK])
            graph = parsed(asked.text, self._limits)
            ((name, _),) = content.array_records.items()
            network = network_in(graph, content, name)
            local = _Local(network, asked, network.target(self._limits), self._limits)
        except (MessageError, NetworkError) as error:
            raise Refusal(Refusal.MALFORMED, str(error)) from error
        except ValueError as error:
            raise Refusal(Refusal.MALFORMED, "Expected one ArrayRecord, the model.") from error

        def train(message: Message, context: Context) -> Message:
            arrays = local.trained(user_of(message))
            record = ArrayRecord({key: Array(array) for key, array in arrays.items()})
            return Message(RecordDict({name: record}), reply_to=message)

        return super()._answer(received, context, train)

    def _updates(self, node: Node, step: int, slots: Slots, training: Training) -> Floats:
        assert isinstance(node, UsersNode)
        asked = training.content.config_records[NETWORK]
        width = parsed(str(asked["text"]), self._limits).record.size
        if node.users.num_features != width:
            raise Refusal(
                Refusal.MALFORMED,
                f"The network takes rows of {width} numbers, and users have "
                f"{node.users.num_features}.",
            )
        return super()._updates(node, step, slots, training)


class _Local:
    """One network, trained on one user's rows after the other's."""

    def __init__(
        self, network: Network, asked: LocalTraining, target: Tensor, limits: Limits
    ) -> None:
        self._network, self._asked, self._target = network, asked, target
        self._at_once = max(1, _AT_ONCE // max(1, network.check(limits).intermediates))

    def trained(self, user: OneUser) -> Arrays:
        """Return all parameters after the steps on a user's rows."""
        import torch
        from torch.func import grad, vmap

        from ldp_flower.models.interpreter import LOSSES, evaluate
        from ldp_flower.models.shortcuts import Frozen

        graph: Graph = self._network.graph
        rows = user.features.reshape(-1, *graph.record.shape)
        goals = user.targets.reshape(-1, *[1] * len(self._target.shape))
        records, targets = as_rows(rows, goals, graph.record, self._target, len(rows))
        constants = {name: torch.tensor(array) for name, array in self._network.arrays.items()}
        kept = {name: constants.pop(name) for name in graph.trainable}
        frozen = Frozen.of(graph)

        def encoded(record: torch.Tensor) -> list[torch.Tensor]:
            return [] if frozen is None else frozen.results(constants, record[None])

        def loss(
            own: dict[str, torch.Tensor],
            record: torch.Tensor,
            target: torch.Tensor,
            known: list[torch.Tensor],
        ) -> torch.Tensor:
            given = None if frozen is None else frozen.given(known)
            output = evaluate(graph, {**constants, **own}, record[None], given)
            return LOSSES[graph.loss](output, target)

        each = vmap(grad(loss), in_dims=(None, 0, 0, 0), chunk_size=self._at_once)
        given = torch.from_numpy(records), torch.from_numpy(targets)
        if len(records):
            with torch.no_grad():
                known = vmap(encoded, chunk_size=self._at_once)(given[0])
            for _ in range(self._asked.steps):
                found = each(kept, *given, known)
                kept = {
                    n: v - self._asked.learning_rate * found[n].mean(0) for n, v in kept.items()
                }
        return {**self._network.arrays, **{name: value.numpy() for name, value in kept.items()}}
