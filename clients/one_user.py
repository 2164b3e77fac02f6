"""One user of a node, as an app's train function gets to see it: alone, as on a node of its own."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from ldp_flower.guarantee.training import RIDER
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

_FIELDS = ("features", "targets", "seed")


@dataclass(frozen=True, eq=False)
class OneUser:
    """The user that a train function is called for.

    Attributes
    ----------
    features : ndarray of float64, shape (rows, num_features)
        The user's rows; there may be none.
    targets : ndarray of float64, shape (rows,)
        Their targets, zeros if there are none.
    seed : int
        A seed of 32 bits for whatever training draws, from which Python's, NumPy's and PyTorch's
        global generators start as well.
    """

    features: Floats = field(repr=False)
    targets: Floats = field(repr=False)
    seed: int


def user_of(message: Message) -> OneUser:
    """Return the user that a train function behind :class:`LdpUserUpdateMod` is called for.

    ValueError if the message is not for one user.
    """
    record = message.content.get(RIDER)
    if not isinstance(record, ArrayRecord) or set(record) != set(_FIELDS):
        raise ValueError(
            "Expected a message to one user: is LdpUserUpdateMod(load_users) among the mods?"
        )
    features, targets, seed = (record[name].numpy() for name in _FIELDS)
    return OneUser(features, targets, int(seed))


def with_user(content: RecordDict, user: Users, seed: int) -> RecordDict:
    """Return an app's records, in copies, with the rows of the one user of ``user``."""
    # Copies row by row: how they lie in memory must not depend on others.
    rows = (np.array(user.features, order="C"), np.array(user.targets), np.array(seed))
    arrays = {name: Array(array) for name, array in zip(_FIELDS, rows, strict=True)}
    return RecordDict({**deepcopy(content), RIDER: ArrayRecord(arrays)})


def own_context(context: Context) -> Context:
    """Return a context that nothing is left in by others' training: its state is empty."""
    return replace(
        context,
        node_config=deepcopy(context.node_config),
        run_config=deepcopy(context.run_config),
        state=RecordDict(),
    )


@contextmanager
def as_if_alone(seed: int) -> Iterator[None]:
    """Let a user's training find the process's global settings as no other user's left them.

    Its random generators (Python's, NumPy's and, if it is installed, PyTorch's) start
    from ``seed``: how much one user's training draws depends on its data, and must not
    decide what the next one draws. Afterwards they are what they were.
    """
    # Imported here: whether somebody's training has done so may depend on that user's data.
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
