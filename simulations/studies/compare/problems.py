"""The problems: whose data, which model, how it is judged, and what is known beforehand.

Everything in a Problem but the rows is public and was fixed before any run: scales from
the data's description, five local steps, the learning rates that README.md lists.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_digits, load_svmlight_file
from sklearn.metrics import roc_auc_score

from ldp_flower import simulate
from ldp_flower.strategies import LinearResult, SparseRegression, TooFewReports

from ...flights.flights import data as flights_data
from ...flights.flights import design
from ...flights.flights.protocols import RADIUS, fits
from ...user_level.user_level.population import DECLARED_SCALE, NORM, Population, Setting
from .learners import Arrays, DpSgd, Floats, Learner, Linear, Net, descend

LOCAL_STEPS = 5
#: The path of a model, its longest step, and that of a net, before anything is known.
LONGEST_PATH, LONGEST_STEP, NET_PATH = 100.0, 4.0, 30.0
_MANY = 5_000  # users, from which there are more rounds
_FEWEST_PER_ROUND = 30
_NUMBERS = 2_000_000  # of features in memory at a time
A9A_FILE = "adult_a9a_tick.trn.svm.bz2"
A9A_ROWS = 32_561  # of Adult's training file; 26,049 of them are four fifths

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


# ------------------------------------------------------------------------------- a9a


@lru_cache(maxsize=1)
def _a9a(folder: Path | None) -> tuple[Floats, NDArray[np.int64]]:
    """Return rows of length 1 (14 attributes at most and a constant) and labels 0 or 1."""
    if folder is not None:
        x, y = load_svmlight_file(folder / A9A_FILE, n_features=123)
    else:
        x, y = fetch_openml("a9a", version=1, as_frame=False, return_X_y=True)
        x, y = x[:A9A_ROWS], np.asarray(y[:A9A_ROWS], np.float64)
    dense = np.hstack([x.toarray() > 0, np.ones((x.shape[0], 1), bool)])
    return dense / math.sqrt(15), (y > 0).astype(np.int64)


def a9a(records: int, seed: int, folder: Path | None) -> Problem:
    """Return logistic regression on Adult, by AUC; users are groups of rows at random."""
    x, y = _a9a(folder)
    order = np.random.default_rng(seed).permutation(len(y))
    training = len(y) * 4 // 5 + 1
    users = training // records
    mine, held_out = order[: users * records], order[training:]
    learner = Linear(x.shape[1], 1, "logistic", rate=5.0)

    def auc(model: Arrays) -> float:
        logits = learner.outputs(model, x[held_out])[:, 0]
        return float(roc_auc_score(y[held_out], logits))

    return Problem(x[mine], y[mine], np.arange(users + 1) * records, learner, auc, records)


# ---------------------------------------------------------------------------- digits


def digits(users: int, hidden: int, seed: int) -> Problem:
    """Return digits of 8 x 8 pixels; a user has ten rows drawn with replacement from 1,347.

    A study of noise: users overlap, so their number counts reports, not people.
    """
    x, y = load_digits(return_X_y=True)
    # Pixels are at most 16, a bit under a third inked; a centred image has length about 3.
    x = np.hstack([(x / 16 - 0.305) / 3, np.full((len(x), 1), 0.3)])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    training, held_out = order[: len(y) * 3 // 4], order[len(y) * 3 // 4 :]
    mine = rng.choice(training, (users, 10)).ravel()
    learner: Learner = Linear(65, 10, "softmax", rate=5.0)
    if hidden:
        learner = Net(65, hidden, 10, rate=0.5)

    def accuracy(model: Arrays) -> float:
        return float(np.mean(learner.outputs(model, x[held_out]).argmax(1) == y[held_out]))

    return Problem(x[mine], y[mine], np.arange(users + 1) * 10, learner, accuracy, 10)


# ----------------------------------------------------------------------- regressions


def flights(seed: int) -> Problem:
    """Return the arrival delays of 4,037 aircraft, by R2 on the flights of held-out ones."""
    users = flights_data.training_users(seed)
    # An intercept, 12 numbers of unit spread and 5 categories: rows of length about 1.
    scale = math.sqrt(1 + len(design.NUMERIC) + len(design.CATEGORIES))
    test, arrivals = flights_data.judged(seed)

    def r2(coef: Floats) -> float:
        error = arrivals - design.minutes(test @ coef)
        return float(1 - np.mean(error**2) / np.var(arrivals))

    def protocol(name: str) -> Protocol:
        def run(epsilon: float, seed: int) -> tuple[float, LinearResult]:
            result = fits(sparsity=3)[name](users, epsilon, seed)
            return r2(result.coef), result

        return run

    return Problem(
        np.asarray(users.features, np.float64) / scale,
        np.asarray(users.targets, np.float64),
        users.offsets,
        Linear(users.features.shape[1], 1, "squares", rate=1.0),
        lambda model: r2(model[0][0] / scale),
        records=50,
        path=RADIUS * scale,
        protocols={name: protocol(name) for name in ("SparseRegression", "LDP-IHT")},
    )


def sparse(seed: int) -> Problem:
    """Return the regression of Ma, Jia & Yang (2024), judged by R2 of noiseless targets."""
    setting = Setting()
    population = Population(setting, seed)
    users = population.users().take(np.arange(setting.num_users))
    scale = math.sqrt(setting.dim)
    # Curvature of independent features at m records a user: the largest safe local rate.
    curvature = (1 + math.sqrt(setting.dim / setting.samples_per_user)) ** 2 / setting.dim

    def r2(coef: Floats) -> float:
        return 1 - float(np.sum((coef - population.coef) ** 2)) / NORM**2

    def by_waves(epsilon: float, seed: int) -> tuple[float, LinearResult]:
        known = {"epsilon": epsilon, "samples_per_user": setting.samples_per_user}
        try:
            strategy = SparseRegression(setting.dim, **known)
            result: LinearResult = simulate(strategy, users, seed=seed)
        except TooFewReports:  # raised before anybody is asked, from public numbers
            strategy = SparseRegression(setting.dim, target_scale=DECLARED_SCALE, **known)
            result = simulate(strategy, users, seed=seed)
        return r2(result.coef), result

    return Problem(
        np.asarray(users.features, np.float64) / scale,
        users.targets,
        users.offsets,
        Linear(setting.dim, 1, "squares", rate=1 / curvature),
        lambda model: r2(model[0][0] / scale),
        records=setting.samples_per_user,
        path=scale,  # coefficients of length 1
        protocols={"SparseRegression": by_waves},
    )
