"""What is measured: every protocol on users that are generated while they are asked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from numpy.typing import NDArray

from ldp_flower import Categories, GeneratedUsers, Numeric, Schema, Users, strategies
from ldp_flower.clients import LdpUpdateMod, attach
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.strategies import LdpStrategy, PrivateEvaluation, Result

Indices = NDArray[np.int64]
Everyone = Users | GeneratedUsers

_ITEMS = 1 << 10
_NUMBER = Numeric(-1, 1)  # of a table's columns


@dataclass(frozen=True)
class Workload:
    """A protocol at its usual size, and the users that it is given.

    Attributes
    ----------
    strategy : callable
        The function ``(dim, rows) -> LdpStrategy``.
    generate : callable
        The function ``(indices, dim, rows) -> Users``.
    users, dim, rows : int
        The usual numbers of users (or silos), features, and records of each user.
    alone : int (default: 200)
        The usual number of users in the engine, each a node of its own.
    features : callable, optional
        The function ``(dim) -> num_features``, by default ``dim``.
    """

    strategy: Callable[[int, int], LdpStrategy[Any]]
    generate: Callable[[Indices, int, int], Users]
    users: int
    dim: int
    rows: int = 1
    alone: int = 200
    features: Callable[[int], int] = lambda dim: dim

    def population(self, users: int, dim: int, rows: int) -> GeneratedUsers:
        """Return the users."""
        generate = partial(self.generate, dim=dim, rows=rows)
        return GeneratedUsers(users, self.features(dim), generate)

    def serve(self, app: ClientApp, everyone: Everyone, nodes: int) -> None:
        """Let an app answer for its node's share of the users."""

        def load_users(context: Context) -> Everyone:
            return everyone.partition(int(context.node_config["partition-id"]), nodes)

        attach(app, load_users, seed=0)

    def start(self, grid: Grid, dim: int, rows: int, nodes: int) -> Result:
        """Run the protocol."""
        return self.strategy(dim, rows).start(grid, num_nodes=nodes, seed=0)


class Training(Workload):
    """A protocol that rides on an app's own training: a node is one user."""

    def serve(self, app: ClientApp, everyone: Everyone, nodes: int) -> None:
        """Let an app take a gradient step on its node's records, behind the mod."""

        @app.train(mods=[LdpUpdateMod(seed=0)])
        def train(message: Message, context: Context) -> Message:
            node = int(context.node_config["partition-id"])
            user = everyone.partition(node, nodes).take(np.zeros(1, np.int64))
            (theta,) = message.content["arrays"].to_numpy_ndarrays()
            chances = 1 / (1 + np.exp(user.targets * (user.features @ theta)))
            theta = theta + (user.targets * chances) @ user.features / user.num_rows
            content = RecordDict({"arrays": ArrayRecord([theta])})
            return Message(content, reply_to=message)

    def start(self, grid: Grid, dim: int, rows: int, nodes: int) -> Result:
        """Train a model that starts from zero."""
        initial = ArrayRecord([np.zeros(dim)])
        return self.strategy(dim, rows).start(grid, initial, num_nodes=nodes, seed=0)


def signs(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of one record, of random signs and a sparse linear target."""
    words = -(-dim // 64)
    bits = KeyedRandom(derive(1, indices)).words((len(indices), words))
    x = np.unpackbits(bits.view(np.uint8), axis=1)[:, :dim].astype(np.float32)
    x *= 2
    x -= 1
    return Users(x, (0.6 * x[:, 1] - 0.8 * x[:, 3]).astype(np.float64), np.arange(len(x) + 1))


def _draws(indices: Indices, columns: int, rows: int) -> NDArray[np.float64]:
    """Draw standard normal rows, as many for each user."""
    records = (indices[:, None] * rows + np.arange(rows)).ravel()
    return KeyedRandom(derive(2, records)).normals((len(records), columns))


def normals(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of standard normal records, and a sparse linear target with noise."""
    draws = _draws(indices, dim + 1, rows)
    x = draws[:, :dim]
    y = 0.4 * x[:, 1] - 0.4 * x[:, 3] + draws[:, dim]
    return Users(np.ascontiguousarray(x), y, np.arange(len(indices) + 1) * rows)


def classes(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of normal records of length about 1, with the sign of the target."""
    users = normals(indices, dim, rows)
    return Users(users.features / np.sqrt(dim), np.sign(users.targets), users.offsets)


def curves(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of standard normal records, and the sine of the first feature."""
    x = _draws(indices, dim, rows)
    return Users(x, np.sin(x[:, 0]), np.arange(len(indices) + 1) * rows)


def people(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of a table: two columns of categories, dim - 5 of numbers, and a target."""
    draws = _draws(indices, dim - 2, rows)
    kind, sort = np.where(draws[:, :2] < 0, 0.5, -0.5).T
    numbers = np.clip(draws[:, 3:], -2, 2)
    x = np.column_stack([np.ones(len(draws)), kind, -kind, sort, -sort, numbers])
    y = np.clip(kind + 0.4 * numbers[:, 0] + 0.6 * draws[:, 2], -2, 2)
    return Users(x, y, np.arange(len(indices) + 1) * rows)


def people_of_classes(indices: Indices, dim: int, rows: int) -> Users:
    """Return the same users, whose target is one of two classes."""
    users = people(indices, dim, rows)
    return Users(users.features, (users.targets > 0).astype(float), users.offsets)


def items(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of one item each, the more popular the smaller its number."""
    uniforms = KeyedRandom(derive(3, indices)).uniforms((len(indices), 1))
    return Users(np.floor(dim**uniforms) - 1, np.zeros(len(indices)), np.arange(len(indices) + 1))


def _many_records(name: str, **options: Any) -> Callable[[int, int], LdpStrategy[Any]]:
    """Return the strategy of a class that is told the number of records."""
    cls = getattr(strategies, name)
    return lambda dim, rows: cls(dim, epsilon=4.0, samples_per_user=rows, **options)


def _other(name: str, **options: Any) -> Callable[[int, int], LdpStrategy[Any]]:
    cls = getattr(strategies, name)
    return lambda dim, rows: cls(dim, **{"epsilon": 2.0, **options})


def _of_table(
    name: str, *columns: Any, bounds: Any = _NUMBER, **options: Any
) -> Callable[[int, int], LdpStrategy[Any]]:
    """Return the strategy of a class that is told the schema of :func:`people`."""
    cls = getattr(strategies, name)
    sorts = {"kind": Categories(["a", "b"]), "sort": Categories(["c", "d"])}

    def strategy(dim: int, rows: int) -> LdpStrategy[Any]:
        schema = Schema({**sorts, **{f"x{i}": _NUMBER for i in range(dim - 5)}}, "y", bounds)
        return cls(schema, *columns, **{"epsilon": 2.0, **options})  # type: ignore[no-any-return]

    return strategy


def _evaluation(dim: int, rows: int) -> PrivateEvaluation:
    """Return the strategy that evaluates the model of which :func:`normals` are drawn."""
    coef = np.zeros(dim)
    coef[[1, 3]] = 0.4, -0.4
    return PrivateEvaluation(coef, epsilon=2.0)


_SILO = {"sparsity": 4, "epsilon": 2.0, "delta": 1e-5}
_SCALED = {**_SILO, "target_scale": 1.2}
_DECLARED = {"sparsity": 2, "target_scale": 1.1}


def _silos(name: str, **options: Any) -> Workload:
    """Return ten silos of 1,000 records; in the engine twenty, who are asked over and over."""
    return Workload(_other(name, **options), normals, 10, 64, 1_000, alone=20)


WORKLOADS: dict[str, Workload] = {
    "LdpIht": Workload(_other("LdpIht", sparsity=4), signs, 100_000, 256),
    "LdpIht, 10 records": Workload(_many_records("LdpIht", sparsity=4), normals, 2_000, 64, 10),
    "NonInteractiveIht": Workload(_other("NonInteractiveIht", sparsity=4), signs, 20_000, 64),
    "LabelLdpIht": Workload(
        _other("LabelLdpIht", sparsity=4, label_bound=3.0), normals, 10_000, 64
    ),
    "SparseRegression": Workload(_many_records("SparseRegression"), normals, 400, 256, 100),
    "SparseMean": Workload(_other("SparseMean", epsilon=4.0), normals, 2_000, 256, 10),
    "UserLevelMean": Workload(
        _other("UserLevelMean", epsilon=4.0, bound=4.0), normals, 20_000, 64, 10
    ),
    "TwoRoundRegression": Workload(
        _many_records("TwoRoundRegression", **_DECLARED), normals, 400, 64, 100
    ),
    "MultiRoundRegression": Workload(
        _many_records("MultiRoundRegression", **_DECLARED), normals, 400, 64, 100
    ),
    "HeavyHitters": Workload(_other("HeavyHitters"), items, 100_000, _ITEMS, features=lambda d: 1),
    "HeavyHitters, 2^40": Workload(
        _other("HeavyHitters"), items, 100_000, 1 << 40, features=lambda d: 1
    ),
    "ConstrainedMean": Workload(_other("ConstrainedMean"), classes, 20_000, 64),
    "ConstrainedRegression": Workload(_other("ConstrainedRegression"), classes, 20_000, 32),
    "KernelRidgeRegression": Workload(_other("KernelRidgeRegression"), curves, 20_000, 2),
    "SmoothGlm": Workload(_other("SmoothGlm"), classes, 20_000, 4),
    "DpIht": _silos("DpIht", **_SILO),
    "PeelingDpIht": _silos("PeelingDpIht", **_SCALED),
    "PrivateFrankWolfe": _silos("PrivateFrankWolfe", l1_radius=1.0, **_SCALED),
    "PeelingTransfer": _silos("PeelingTransfer", **_SCALED),
    "KnowledgeTransfer": Workload(
        _other("KnowledgeTransfer", sparsity=4, radius=1.0), normals, 1_000, 64, 100
    ),
    "PrivateRegression": Workload(_of_table("PrivateRegression"), people, 4_000, 32, 10),
    "PrivateClassification": Workload(
        _of_table("PrivateClassification", bounds=Categories(["no", "yes"])),
        *(people_of_classes, 4_000, 32, 10),
    ),
    "Describe": Workload(
        _of_table("Describe", columns=["kind", "x0"], epsilon=4.0), people, 20_000, 8
    ),
    "Means": Workload(_of_table("Means", "x0"), people, 100_000, 8),
    "Difference": Workload(_of_table("Difference", "x0", by="kind"), people, 100_000, 8),
    "Correlation": Workload(_of_table("Correlation", ["x0", "y"], epsilon=4.0), people, 20_000, 8),
    "Counts": Workload(_of_table("Counts", "kind"), people, 100_000, 8),
    "Quantiles": Workload(_of_table("Quantiles", "x0", [0.1, 0.5, 0.9]), people, 100_000, 8),
    "Distribution": Workload(_of_table("Distribution", "x0"), people, 100_000, 8),
    "TwoWay": Workload(_of_table("TwoWay", "kind", "sort"), people, 100_000, 8),
    "Synthesize": Workload(
        _of_table("Synthesize", ["kind", "x0", "y"], epsilon=4.0), people, 20_000, 8
    ),
    "PrivateEvaluation": Workload(_evaluation, normals, 10_000, 64, 10),
    "LdpFedAvg": Training(
        lambda dim, rows: strategies.LdpFedAvg(epsilon=2.0), classes, 2_000, 16, 10
    ),
}
