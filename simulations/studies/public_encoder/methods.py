"""Ways to a head for digits that users or silos hold, each with its accuracy on unseen ones."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, Users, simulate
from ldp_flower.clients import NetworkClientApp, NetworkUsersApp
from ldp_flower.models import Network
from ldp_flower.strategies import LdpFedAvg, PrivateClassification, RecordDpSgd, TooFewReports

from .data import CLASSES, PIXELS, WIDTH, Split

ROWS, RECORDS = 5, 200  # of a user, of a silo
REFUSED = "refused"
_NODES = 10  # that users are behind
DELTA, ROUNDS, STEPS = 1e-5, 5, 4
# Chosen with seed 100: of the head 16 of 4, 16.
_RATE, _RATE_OF_WHOLE = 16.0, 1.0

Found = tuple[float, str]


def fedavg(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Train the head by LdpFedAvg: five local steps a user, rounds by rule."""
    return _of_users(split, holders, epsilon, seed, 0, 5)


def one_round(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Ask all users once, for one step from a head of zeros: class sums of embeddings.

    There each class has the probability 1 / k. So the gradient of a user's loss is the sum over
    its rows of (1 / k - one-hot label) times embedding, normalised.
    """
    return _of_users(split, holders, epsilon, seed, 1, 1)


def _of_users(
    split: Split, holders: int, epsilon: float, seed: int, rounds: int, steps: int
) -> Found:
    images, labels = split.held(holders, ROWS, seed)
    users = Users(
        images.reshape(-1, PIXELS).astype(np.float64),
        labels.reshape(-1).astype(np.float64),
        np.arange(holders + 1) * ROWS,
    )
    app = NetworkUsersApp(
        lambda context: users.partition(int(context.node_config["partition-id"]), _NODES),
        seed=lambda _: seed,
    )
    own = {"learning_rate": 1.0} if rounds == 1 else {}
    strategy = LdpFedAvg(epsilon=epsilon, network=split.network, local_steps=steps, **own)
    try:
        result = strategy.start(
            InProcessGrid(app, _NODES), num_rounds=rounds, num_nodes=_NODES, seed=seed
        )
    except TooFewReports:
        return 1 / CLASSES, REFUSED
    arrays = {name: array.numpy() for name, array in result.model.items()}
    return split.accuracy(split.network.with_arrays(arrays)), ""


def table(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Fit PrivateClassification to the encoder's outputs, of which only the bounds are known."""
    images, labels = split.held(holders, ROWS, seed)
    columns = {f"z{j}": Numeric(-1, 1) for j in range(WIDTH)}
    schema = Schema(columns, "digit", Categories(list(range(CLASSES))))
    rows = split.embedded(images.reshape(-1, PIXELS))
    held = {f"z{j}": rows[:, j] for j in range(WIDTH)} | {"digit": labels.reshape(-1)}
    users = schema.users(held, np.repeat(np.arange(holders), ROWS))
    try:
        result = simulate(PrivateClassification(epsilon=epsilon, schema=schema), users, seed=seed)
    except TooFewReports:
        return 1 / CLASSES, REFUSED
    unseen = split.embedded(split.unseen)
    told = result.predict({f"z{j}": unseen[:, j] for j in range(WIDTH)})
    return float((told == split.answers).mean()), ""


def dp_sgd(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Train the head by RecordDpSgd."""
    return _of_silos(split, split.network, holders, epsilon, seed, _RATE)


def whole_dp_sgd(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Train the whole network by RecordDpSgd, without public digits."""
    return _of_silos(split, split.whole, holders, epsilon, seed, _RATE_OF_WHOLE)


def _of_silos(
    split: Split, network: Network, holders: int, epsilon: float, seed: int, rate: float
) -> Found:
    images, labels = split.held(holders, RECORDS, seed)

    def load(context: object) -> tuple[np.ndarray, np.ndarray]:
        silo = int(context.node_config["partition-id"])  # type: ignore[attr-defined]
        return images[silo], labels[silo]

    strategy = RecordDpSgd(
        network,
        epsilon=epsilon,
        delta=DELTA,
        num_rounds=ROUNDS,
        steps=STEPS,
        sampling_rate=1.0,
        learning_rate=rate,
        force=True,  # where noise drowns the network is measured, too
    )
    result = strategy.start(InProcessGrid(NetworkClientApp(load, seed=seed), holders))
    return split.accuracy(result.network), ""


def no_privacy(split: Split, holders: int, epsilon: float, seed: int) -> Found:
    """Fit a logistic regression to embeddings of all private digits but the unseen ones."""
    found = LogisticRegression(C=100.0, max_iter=2000)
    found.fit(split.embedded(split.images), split.labels)
    return float(found.score(split.embedded(split.unseen), split.answers)), ""


NO_PRIVACY = "no privacy"
OF_USERS = {
    "LdpFedAvg": fedavg,
    "LdpFedAvg, one round": one_round,
    "PrivateClassification": table,
}
OF_SILOS = {"RecordDpSgd": dp_sgd, "RecordDpSgd, whole network": whole_dp_sgd}
METHODS = {**OF_USERS, **OF_SILOS, NO_PRIVACY: no_privacy}
