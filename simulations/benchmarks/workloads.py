"""What is measured: every protocol on users that are generated while they are asked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import GeneratedUsers, Users, strategies
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.strategies import LdpStrategy

Indices = NDArray[np.int64]

_ITEMS = 1 << 10


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
    features : callable, optional
        The function ``(dim) -> num_features``, by default ``dim``.
    """

    strategy: Callable[[int, int], LdpStrategy[Any]]
    generate: Callable[[Indices, int, int], Users]
    users: int
    dim: int
    rows: int = 1
    features: Callable[[int], int] = lambda dim: dim

    def population(self, users: int, dim: int, rows: int) -> GeneratedUsers:
        """Return the users."""
        generate = partial(self.generate, dim=dim, rows=rows)
        return GeneratedUsers(users, self.features(dim), generate)


def signs(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of one record, of random signs and a sparse linear target."""
    words = -(-dim // 64)
    bits = KeyedRandom(derive(1, indices)).words((len(indices), words))
    x = np.unpackbits(bits.view(np.uint8), axis=1)[:, :dim].astype(np.float32)
    x *= 2
    x -= 1
    return Users(x, (0.6 * x[:, 1] - 0.8 * x[:, 3]).astype(np.float64), np.arange(len(x) + 1))


def normals(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of normal records, of length about 1, and a sparse linear target."""
    records = (indices[:, None] * rows + np.arange(rows)).ravel()
    draws = KeyedRandom(derive(2, records)).normals((len(records), dim + 1))
    x = draws[:, :dim]
    y = 0.4 * x[:, 1] - 0.4 * x[:, 3] + draws[:, dim]
    return Users(np.ascontiguousarray(x), y, np.arange(len(indices) + 1) * rows)


def classes(indices: Indices, dim: int, rows: int) -> Users:
    """Return users of normal records of length about 1, with the sign of the target."""
    users = normals(indices, dim, rows)
    return Users(users.features / np.sqrt(dim), np.sign(users.targets), users.offsets)


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


_SILO = {"sparsity": 4, "epsilon": 2.0, "delta": 1e-5}
_DECLARED = {"sparsity": 2, "target_scale": 1.1}

WORKLOADS: dict[str, Workload] = {
    "LdpIht": Workload(_other("LdpIht", sparsity=4), signs, 100_000, 256),
    "LdpIht, 10 records": Workload(_many_records("LdpIht", sparsity=4), normals, 2_000, 64, 10),
    "NonInteractiveIht": Workload(_other("NonInteractiveIht", sparsity=4), signs, 20_000, 64),
    "LabelLdpIht": Workload(
        _other("LabelLdpIht", sparsity=4, label_bound=3.0), normals, 10_000, 64
    ),
    "SparseRegression": Workload(_many_records("SparseRegression"), normals, 400, 256, 100),
    "SparseMean": Workload(_other("SparseMean", epsilon=4.0), normals, 2_000, 256, 10),
    "UserLevelMean": Workload(_many_records("UserLevelMean", bound=4.0), normals, 2_000, 64, 10),
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
    "ConstrainedRegression": Workload(_other("ConstrainedRegression"), classes, 20_000, 16),
    "SmoothGlm": Workload(_other("SmoothGlm"), classes, 20_000, 4),
    "DpIht": Workload(_other("DpIht", **_SILO), normals, 10, 64, 1_000),
    "PeelingDpIht": Workload(
        _other("PeelingDpIht", target_scale=1.2, **_SILO), normals, 10, 64, 1_000
    ),
}
