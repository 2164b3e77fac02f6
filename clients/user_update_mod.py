"""LdpUserUpdateMod: an app's training, run separately for each user of a node."""

import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from ldp_flower.data.users import Users
from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import Purpose, Slots
from ldp_flower.guarantee.training import RIDER, flattened
from ldp_flower.validation import Floats

from .effective_policy import EffectivePolicy, Seed
from .failures import contained
from .node import Node
from .reply import Received, with_own_metadata
from .train_messages import Failed, log_failure, reply_of, update_of
from .update_mod import AppTraining, LdpUpdateMod
from .users_node import LoadUsers, UsersNode, check_loader

_FIELDS = ("features", "targets", "seed")


@dataclass(frozen=True, eq=False)
class OneUser:
    """The user for whom a train function is called.

    Attributes
    ----------
    features : ndarray of float64, shape (rows, num_features)
        The user's rows; there may be none.
    targets : ndarray of float64, shape (rows,)
        The rows' targets; zeros if the users have no targets.
    seed : int
        A seed of 32 bits for the random draws of training. The global generators of Python, NumPy
        and PyTorch also start from it.
    """

    features: Floats = field(repr=False)
    targets: Floats = field(repr=False)
    seed: int


def user_of(message: Message) -> OneUser:
    """Return the user for whom :class:`LdpUserUpdateMod` calls a train function.

    Raise ValueError if the message is not for one user.
    """
    record = message.content.get(RIDER)
    if not isinstance(record, ArrayRecord) or set(record) != set(_FIELDS):
        raise ValueError(
            "Expected a message to one user: is LdpUserUpdateMod(load_users) among the mods?"
        )
    features, targets, seed = (record[name].numpy() for name in _FIELDS)
    return OneUser(features, targets, int(seed))


def with_user(content: RecordDict, user: Users, seed: int) -> RecordDict:
    """Return the content for the train function: the app's records and one user's rows, copied."""
    # New arrays: their memory layout must not depend on other users.
    rows = (np.array(user.features, order="C"), np.array(user.targets), np.array(seed))
    arrays = {name: Array(array) for name, array in zip(_FIELDS, rows, strict=True)}
    return RecordDict({**deepcopy(content), RIDER: ArrayRecord(arrays)})


def own_context(context: Context) -> Context:
    """Return a copy of a context whose state is empty, so that trainings share no data by it."""
    return replace(
        context,
        node_config=deepcopy(context.node_config),
        run_config=deepcopy(context.run_config),
        state=RecordDict(),
    )


@contextmanager
def isolated_training(seed: int) -> Iterator[None]:
    """Isolate a user's training from the global settings that other users' training has left.

    The random generators (Python's, NumPy's and, if it is installed, PyTorch's) start from
    ``seed``. The number of draws of one user's training depends on its data, and must not decide
    the next user's draws. Afterwards the settings are restored.
    """
    # Imported here for all users: an import by training could depend on one user's data.
    torch = import_module("torch") if find_spec("torch") else None
    with ExitStack() as kept:
        kept.callback(random.setstate, random.getstate())
        random.seed(seed)
        kept.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        if torch is not None:
            kept.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(seed)
        kept.enter_context(np.errstate())
        yield


class LdpUserUpdateMod(LdpUpdateMod):
    """A Flower mod for silos: each user of the node reports a separate update.

    The app's train function is called once for each user that the server asks, with the model,
    the config and this user's rows, as if the user had a separate node::

        app = ClientApp(mods=[LdpUserUpdateMod(load_users)])

        @app.train()
        def train(message, context):
            user = user_of(message)  # features, targets and a seed, of one user
            ...

    The server runs :class:`ldp_flower.strategies.LdpFedAvg`, as for :class:`LdpUpdateMod`,
    and a simulation's estimate has the same bits for any distribution of users over nodes.

    Parameters
    ----------
    load_users : callable
        Function from the Flower ``Context`` of a node to its :class:`~ldp_flower.Users`, as in
        :class:`LdpClientApp`. Users in a deployment need ``ids``.
    policy, seed
        As in :class:`LdpClientApp`. ``max_rows`` is the largest number of a user's rows that
        training sees.

    Raises
    ------
    ValueError
        If an argument has a wrong type.

    Notes
    -----
    In a deployment, ``node_config`` (set by the node's operator) must hold ``max-epsilon`` and
    ``ledger-path``. It may hold ``max-rows`` and the other keys of :class:`LdpUpdateMod`, except
    ``user-id``. The ledger has one account for each id, and :class:`LdpClientApp` pays from the
    same accounts. No metric leaves the node.

    Training a user takes as long as on a separate node, and all users of a cohort are trained one
    after the other. A server should wait for this time. Rows with a non-finite number are left out,
    as in :class:`LdpClientApp`.

    Guarantee
    ---------
    1. Protected: everything that a user's rows contain, including their number, at the epsilon
       (delta) of the query's randomizer; against the server and everyone who sees the replies.
    2. A reply holds one report of that randomizer for each addressed user who can pay, or the sum
       of these reports if that is shorter. This holds for any behaviour of the train function: a
       user for whom it fails (see :class:`LdpUpdateMod`) reports the update 0, and the other users'
       reports do not change.
    3. The sum over a user's life of the epsilons (deltas) of all different queries that it answers
       is at most ``max_epsilon`` (``max_delta``). A user who has spent them is left out and trains
       nothing, and the others go on.
    4. The costs are on the ledger before training begins, and the reports are on the ledger before
       the reply is sent. The same query gets the same bytes again and trains no user. If there are
       no reports yet, the users who have paid train at no further cost (once more, and then their
       updates are 0).
    5. The mod never raises. Error replies are fixed texts, or texts about the query.
    6. A train function sees one user at a time: copies of the user's rows, of the model and of the
       config, a context without state, and global random generators that start from the user's
       seed. So a report depends on no other user's rows. Exceptions are an app's code that
       remembers what it has seen (in a global variable, a file), and settings of the process that
       outlast a call (of PyTorch, say).
    7. If the app's code writes into the message, its metadata or the context, this guarantee stays
       the same: the relevant parts are copied before the code runs.
    8. The guarantee is per user per ledger. Not covered: the time that training takes beyond the
       operator's ``reply-after``, a process that training ends, and other channels that an app's
       code may use (files, network).
    """

    def __init__(
        self,
        load_users: LoadUsers,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(policy, seed)
        check_loader(load_users)
        self._load_users = load_users

    def _open(self, received: Received, context: Context) -> UsersNode:
        terms = EffectivePolicy.resolve(received, context, self._policy, self._seed)
        return UsersNode.of(received, context, terms, self._load_users)

    def _updates(self, node: Node, step: int, slots: Slots, training: AppTraining) -> Floats:
        """Return each user's change of the model by a training on its rows, (users, parameters)."""
        assert isinstance(node, UsersNode)
        failures: list[str] = []

        def failed(text: str) -> None:
            if not failures:
                log_failure(text)
            failures.append(text)

        updates = np.zeros((len(slots), len(flattened(training.sent))))
        words = node.words(Purpose.TRAINING, step, slots)
        for i, seed in enumerate((words >> np.uint64(32)).tolist()):
            updates[i] = _update(node, slots[i : i + 1], seed, training, failed)
        if failures:
            logging.getLogger(__name__).warning(
                "Training failed for %d of %d users, who report an update of 0.",
                *(len(failures), len(slots)),
            )
        return updates


def _update(
    node: UsersNode, slot: Slots, seed: int, training: AppTraining, failed: Failed
) -> Floats:
    """Return one user's change of the model by a training on its rows.

    It is zeros if the rows cannot be read or if the training fails.
    """
    inner = with_own_metadata(training.received.message)
    user = None
    text = "A user has no rows that can be read; the user reports an update of 0."
    with contained(lambda: failed(text)):
        user = node.take(slot).finite()
    if user is None:
        return np.zeros(len(flattened(training.sent)))
    inner.content = with_user(training.content, user, seed)
    with isolated_training(seed):
        reply = reply_of(inner, own_context(training.context), training.call_next, failed)
        return update_of(reply, training.name, training.sent, failed)
