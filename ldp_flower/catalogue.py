"""What the command line tells of each protocol, and the runs that it audits."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .audit import extreme_holders
from .randomness import KeyedRandom, derive
from .users import Users

if TYPE_CHECKING:
    from .strategies import LdpStrategy

    Runs = Callable[[int, float], Iterator[tuple[LdpStrategy[Any], Users]]]


@dataclass(frozen=True)
class Protocol:
    """One row of the table of protocols."""

    name: str
    guarantee: str
    rounds: str
    report: str
    use: str


PROTOCOLS = [
    Protocol(
        "LdpIht",
        "user-level, pure epsilon",
        "up to 6; 7 with several records per user (a scale, then 3 x gradient and curvature)",
        "1-2",
        "sparse linear regression, one or several records per user",
    ),
    Protocol(
        "SparseRegression",
        "user-level, pure epsilon",
        "8 (a scale, a vote, 6 waves); 7 with a declared scale or few features",
        "1; votes some bytes",
        "sparse linear regression, many records per user, sparsity and sizes unknown",
    ),
    Protocol(
        "LdpFedAvg",
        "node-level, pure epsilon",
        "20-100",
        "1-2",
        "any model that an existing app trains: some 5 nodes a parameter at epsilon 2, 19 at 1",
    ),
    Protocol(
        "HeavyHitters",
        "user-level, pure epsilon",
        "1",
        "1-2, in small domains up to 64; more for sets of items",
        "most frequent items and their counts, strings too; sparse distributions",
    ),
    Protocol(
        "UserLevelMean",
        "user-level, pure epsilon",
        "up to 8 (a coarse mean, its users' spread, 4 re-centred waves); paper: 2",
        "1; paper: 1-2",
        "mean of a vector, one or several records per user",
    ),
    Protocol(
        "TwoRoundRegression",
        "user-level, pure epsilon",
        "up to 7 (a scale, a vote, 3 waves of coefficients); paper: a vote, then 2",
        "1; votes up to the number of features in bits",
        "comparison with Ma, Jia & Yang (2024); many records per user, known sparsity",
    ),
    Protocol(
        "MultiRoundRegression",
        "user-level, pure epsilon",
        "up to 9 (a scale, a vote, 5 gradient steps); paper: 14",
        "1; votes up to the number of features in bits",
        "comparison with Ma, Jia & Yang (2024); users with few records each",
    ),
    Protocol(
        "ConstrainedMean",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per dimension",
        "sparse mean of hundreds or thousands of features, in one message",
    ),
    Protocol(
        "ConstrainedRegression",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per dimension",
        "linear regression with up to 98 features (more: projected), in one message",
    ),
    Protocol(
        "KernelRidgeRegression",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per Fourier feature",
        "a smooth function of one or two features, in one message",
    ),
    Protocol(
        "SmoothGlm",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 12 per dimension and more",
        "logistic regression with few features, in one message",
    ),
]


def _audited_ldp_iht(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield the variants for one and for several records per user, each with a population."""
    from .strategies import LdpIht

    for rows in (1, 5):
        user = np.repeat(np.arange(3000), rows)
        features = KeyedRandom(derive(0, np.arange(len(user), dtype=np.uint64))).normals(
            (len(user), dim)
        )
        strategy = LdpIht(dim, sparsity=1, epsilon=epsilon, samples_per_user=rows)
        yield strategy, Users.from_rows(np.sign(features), np.sign(features[:, 0]), user)


def _audited_heavy_hitters(
    domain_size: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield counts of items and of pairs of items, and the two ways through prefixes."""
    from .strategies import HeavyHitters

    users = Users.from_items(np.arange(3000) % domain_size, np.arange(3000) // 2)
    yield HeavyHitters(domain_size, epsilon=epsilon), users
    if domain_size > 2:
        yield HeavyHitters(domain_size, epsilon=epsilon, set_size=2), users
    for backend in ("prefix", "tree"):
        yield HeavyHitters(domain_size, epsilon=epsilon, backend=backend), users


def _normal_users(dim: int, rows: int) -> Users:
    """Return 3,000 users whose targets are their first feature."""
    user = np.repeat(np.arange(3000), rows)
    states = derive(0, np.arange(len(user), dtype=np.uint64))
    features = KeyedRandom(states).normals((len(user), dim))
    return Users.from_rows(features, features[:, 0], user)


def _audited_user_level_mean(
    dim: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods."""
    from .strategies import UserLevelMean

    for method in ("auto", "paper"):
        strategy = UserLevelMean(
            dim, epsilon=epsilon, samples_per_user=5, bound=4.0, spread=0.2, method=method
        )
        yield strategy, _normal_users(dim, 5)


def _audited_two_round(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods."""
    from .strategies import TwoRoundRegression

    for method in ("auto", "paper"):
        strategy = TwoRoundRegression(
            dim,
            epsilon=epsilon,
            samples_per_user=5,
            sparsity=2,
            method=method,
            selector="marginal",
            target_scale=1.0,
        )
        yield strategy, _normal_users(dim, 5)


def _audited_multi_round(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods, with two gradient steps each."""
    from .strategies import MultiRoundRegression

    for method in ("auto", "paper"):
        strategy = MultiRoundRegression(
            dim,
            epsilon=epsilon,
            samples_per_user=5,
            sparsity=2,
            num_steps=2,
            method=method,
            selector="marginal",
            target_scale=1.0,
        )
        yield strategy, _normal_users(dim, 5)


def _audited_sparse_regression(
    dim: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield a run that buys the scale, lets users vote, and ends with two waves."""
    from .strategies import SparseRegression

    rows, users = 2, 4000
    features = KeyedRandom(derive(0, np.arange(users * rows))).normals((users * rows, dim))
    offsets = rows * np.arange(users + 1)
    strategy = SparseRegression(dim, epsilon=epsilon, samples_per_user=rows, num_waves=2)
    yield strategy, Users(features, features[:, 0], offsets)


def _audited_collections(name: str, **arguments: Any) -> "Runs":
    """Return a function that yields both methods of a protocol that collects once."""

    def runs(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
        from . import strategies

        users = _normal_users(dim, 1)
        for method in ("auto", "paper"):
            strategy = getattr(strategies, name)(dim, epsilon=epsilon, method=method, **arguments)
            yield strategy, users[:200]

    return runs


AUDITED = {
    "sparse-regression": _audited_sparse_regression,
    "ldp-iht": _audited_ldp_iht,
    "heavy-hitters": _audited_heavy_hitters,
    "user-level-mean": _audited_user_level_mean,
    "two-round": _audited_two_round,
    "multi-round": _audited_multi_round,
    "constrained-mean": _audited_collections("ConstrainedMean"),
    "constrained-regression": _audited_collections("ConstrainedRegression"),
    "kernel-ridge": _audited_collections("KernelRidgeRegression"),
    "smooth-glm": _audited_collections("SmoothGlm"),
}
# The users whom an attack tries to tell apart, by default those of features and targets.
CANDIDATES = {"heavy-hitters": extreme_holders}
