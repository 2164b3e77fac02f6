"""An app's federated training, without privacy or with: users with rows, a model, its scores.

What Flower's methods and LdpFedAvg need to be run on all users at once.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from ldp_flower.compare.methods import JointTraining
from ldp_flower.compare.nodes import Nodes
from ldp_flower.strategies import LinearResult

from .learners import Arrays, DpSgd, Floats, Learner, Net, descend

LOCAL_STEPS = 5
#: The path of a model, its longest step, and that of a net, before anything is known.
LONGEST_PATH, LONGEST_STEP, NET_PATH = 100.0, 4.0, 30.0
_MANY = 5_000  # users, from which there are more rounds
_FEWEST_PER_ROUND = 30
_NUMBERS = 2_000_000  # of features in memory at a time

#: A protocol of its own for a problem: it returns the score and the result's facts.
Protocol = Callable[[float, int], tuple[float, LinearResult]]


@dataclass(frozen=True)
class Problem:
    """Users with rows, and a model that is judged on other rows.

    Attributes
    ----------
    x, y, offsets : ndarray
        The users' rows one after the other; user i's are ``offsets[i]`` to ``offsets[i + 1]``.
    learner : Learner
        The model.
    score : callable
        What a model is worth.
    records : int
        Typical number of a user's rows, publicly known.
    path : float, optional
        Length of the model's path, where something is known of it.
    """

    x: Floats
    y: NDArray[Any]
    offsets: NDArray[np.int64]
    learner: Learner
    score: Callable[[Arrays], float]
    records: int
    path: float | None = None
    protocols: dict[str, Protocol] = field(default_factory=dict)

    @property
    def num_users(self) -> int:
        """Number of users."""
        return len(self.offsets) - 1

    @property
    def is_net(self) -> bool:
        """Whether the model is a neural net."""
        return isinstance(self.learner, Net)

    @property
    def rounds(self) -> int:
        """Number of rounds of Flower's methods."""
        rounds = 20 if self.num_users < _MANY else 30
        return max(1, min(rounds, self.num_users // _FEWEST_PER_ROUND))

    def rows(self, user: int) -> tuple[Floats, NDArray[Any]]:
        """Return a user's rows."""
        own = slice(self.offsets[user], self.offsets[user + 1])
        return self.x[own], self.y[own]

    def train(self, user: int, model: Arrays, steps: int = LOCAL_STEPS) -> Arrays:
        """Return the model after a user's local steps."""
        x, y = self.rows(user)
        return [array[0] for array in descend(self.learner, model, x[None], y[None], steps)]

    def app(self) -> ClientApp:
        """Return the users as an app."""
        app = ClientApp()

        @app.train()
        def train(message: Message, context: Context) -> Message:
            user = int(context.node_config["partition-id"])
            sent = message.content.array_records["arrays"].to_numpy_ndarrays()
            content = RecordDict({"arrays": ArrayRecord(self.train(user, sent))})
            return Message(content, reply_to=message)

        return app

    def shaped(self, vector: Floats) -> Arrays:
        """Return the model with these parameters."""
        like = self.learner.initial()
        ends = np.cumsum([array.size for array in like])[:-1]
        parts = zip(np.split(vector, ends), like, strict=True)
        return [part.reshape(array.shape).astype(array.dtype) for part, array in parts]

    def clip(self, noise: float, rounds: int, reports: int) -> float:
        """Return the clip, which is the longest step that FedAvg takes in a round.

        The sum of the steps is the ``path``, or so long that the noise of a logit is about 1.

        Parameters
        ----------
        noise : float
            Noise over the clip, in every parameter of a round's sum of updates.
        rounds, reports : int
            Number of rounds, and of updates in each.
        """
        # A path's noise is clip noise sqrt(rounds) / reports, its length clip rounds.
        path = self.path or min(LONGEST_PATH, reports * math.sqrt(rounds) / noise)
        return min(path / rounds, LONGEST_STEP)


@dataclass(frozen=True)
class Descent:
    """The users of a problem, all trained at once; ``private``: by DP-SGD."""

    problem: Problem
    private: DpSgd | None = None

    @property
    def num_nodes(self) -> int:
        """Number of users."""
        return self.problem.num_users

    def updates(self, model: Floats, nodes: NDArray[np.int64], number: int) -> Iterator[Floats]:
        """Yield the updates of these users, those with equally many rows together."""
        problem = self.problem
        before = problem.shaped(model)
        counts = np.diff(problem.offsets)[nodes]
        for rows in np.unique(counts):
            alike = nodes[counts == rows]
            size = max(1, int(rows)) * problem.x.shape[1] + 4 * len(model)
            for users in np.array_split(alike, -(-len(alike) * size // _NUMBERS)):
                own = problem.offsets[users][:, None] + np.arange(rows)
                x, y = problem.x[own], problem.y[own]
                after = descend(problem.learner, before, x, y, LOCAL_STEPS, self.private)
                flat = [
                    (trained - sent).reshape(len(users), -1)
                    for trained, sent in zip(after, before, strict=True)
                ]
                yield np.concatenate(flat, axis=1, dtype=np.float64)


def training_of(
    problem: Problem,
    seed: int,
    *,
    delta: float,
    everybody: bool,
    nodes: Nodes | None = None,
) -> JointTraining:
    """Return the training of all users, for the methods of ``ldp_flower.compare``."""
    rounds = problem.rounds
    reports = problem.num_users // (1 if everybody else rounds)
    return JointTraining(
        nodes or Descent(problem),
        np.concatenate([array.ravel() for array in problem.learner.initial()], dtype=np.float64),
        rounds,
        lambda noise: problem.clip(noise, rounds, reports),
        delta,
        everybody,
        seed,
    )
