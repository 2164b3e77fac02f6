"""LdpUserUpdateMod: an app's training, run for each of several users behind one node."""

import logging

import numpy as np
from flwr.app import Context

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import Slots
from ldp_flower.guarantee.training import flattened
from ldp_flower.validation import Floats

from .node import EffectivePolicy, LoadUsers, Node, Seed, UsersNode, check_loader
from .one_user import as_if_alone, own_context, with_user
from .reply import Received, with_own_metadata
from .update_mod import LdpUpdateMod, Training, log_failure, reply_of, update_of


class LdpUserUpdateMod(LdpUpdateMod):
    """A Flower mod for silos: every user of the node reports an update of its own.

    The app's train function is called once for each user that the server asks, with the model,
    the config and that user's rows, as if the user had a node of its own::

        app = ClientApp(mods=[LdpUserUpdateMod(load_users)])

        @app.train()
        def train(message, context):
            user = user_of(message)  # features, targets and a seed, of one user
            ...

    The server runs :class:`ldp_flower.strategies.LdpFedAvg`, as for :class:`LdpUpdateMod`,
    and a simulation's estimate has the same bits however users are spread over nodes.

    Parameters
    ----------
    load_users : callable
        Function from the Flower ``Context`` of a node to its :class:`~ldp_flower.Users`, as
        that of :class:`LdpClientApp`. A deployment's users need ``ids``.
    policy, seed
        As those of :class:`LdpClientApp`; ``max_rows`` is the number of a user's rows that its
        training gets to see.

    Raises
    ------
    ValueError
        If an argument is of another type.

    Notes
    -----
    In a deployment ``node_config`` (set by the node's operator) must hold ``max-epsilon``
    and ``ledger-path``, and may hold ``max-rows`` and the others of :class:`LdpUpdateMod`
    but ``user-id``: the ledger has one account for each id, which :class:`LdpClientApp`
    pays from as well. No metric leaves.

    Training a user takes as long here as on a node of its own, and all users of a cohort
    are trained one after the other: a server should wait so long. Rows in which something is not
    finite are left out, as by :class:`LdpClientApp`.

    Guarantee
    ---------
    1. Protected: everything that a user's rows contain, their number included, at the
       epsilon (delta) of the query's randomizer; against the server and everyone who sees
       the replies.
    2. A reply holds one report of that randomizer for each addressed user who can pay, or
       the sum of these reports where that is shorter, whatever the train function does: a
       user for whom it fails (see :class:`LdpUpdateMod`) reports the update 0, and
       the others what they would have reported anyway.
    3. The sum over a user's life of the epsilons (deltas) of all different queries that it
       answers is at most ``max_epsilon`` (``max_delta``). A user who has spent them
       is left out, and trains nothing; others go on.
    4. The spends and the reports are on the ledger before the reply is sent. The same query
       gets the same bytes again and trains nobody.
    5. The mod never raises, and error replies are fixed texts or about the query.
    6. A train function sees one user at a time: copies of its rows, of the model and of the
       config, a context without state, and global random generators that start from the
       user's own seed. So a report depends on nobody else's rows, unless the
       app's code keeps what it has seen (in a global variable, a file), or makes settings of the
       process that outlast a call (of PyTorch, say).
    7. What the app's code writes into the message, its metadata or the context changes
       nothing of this: what counts of them is copied before it runs.
    8. This is per user per ledger. Not covered: how long training takes, where it is
       longer than the operator's ``reply-after``, a process that dies of it, and other ways out
       that an app's own code may use (files, network).
    """

    _in_advance = False  # a reservation does not say which of several users it charged

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

    def _updates(self, node: Node, step: int, slots: Slots, training: Training) -> Floats:
        """Return the users' updates, shape (users, parameters)."""
        assert isinstance(node, UsersNode)
        failures = _Failures()
        updates = np.zeros((len(slots), len(flattened(training.sent))))
        for i, seed in enumerate(node.training_seeds(step, slots).tolist()):
            updates[i] = _update(node, slots[i : i + 1], seed, training, failures)
        failures.log(len(slots))
        return updates


class _Failures:
    """What goes wrong with users' training: the log has the first, and how many."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, text: str) -> None:
        self._count += 1
        if self._count == 1:
            log_failure(text)

    def log(self, users: int) -> None:
        """Log of how many users training failed, if of any."""
        if self._count:
            logging.getLogger(__name__).warning(
                "Training failed for %d of %d users, who report an update of 0.", self._count, users
            )


def _update(
    node: UsersNode, slot: Slots, seed: int, training: Training, failures: _Failures
) -> Floats:
    """Return the update of one user; 0 if it has none."""
    inner = with_own_metadata(training.received.message)
    try:
        user = node.take(slot).finite()
    except Exception:
        failures("A user has no rows that can be read; the user reports an update of 0.")
        return np.zeros(len(flattened(training.sent)))
    inner.content = with_user(training.content, user, seed)
    with as_if_alone(seed):
        reply = reply_of(inner, own_context(training.context), training.call_next, failures)
        return update_of(reply, training.name, training.sent, failures)
