"""The runs that ``ldp-flower audit`` records, and the users whom its attacks tell apart."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..guarantee.users import Users
from ..randomness import KeyedRandom, derive
from . import extreme_holders, extreme_users

if TYPE_CHECKING:
    from ..strategies import LdpStrategy

    Runs = Callable[[int, float], Iterator[tuple[LdpStrategy[Any], Users]]]


def _audited_ldp_iht(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield the variants for one record per user, with all links, and for several."""
    from ..strategies import LdpIht

    for rows in (1, 5):
        user = np.repeat(np.arange(3000), rows)
        features = KeyedRandom(derive(0, np.arange(len(user), dtype=np.uint64))).normals(
            (len(user), dim)
        )
        users = Users.from_rows(np.sign(features), np.sign(features[:, 0]), user)
        yield LdpIht(dim, sparsity=1, epsilon=epsilon, samples_per_user=rows), users
        for link in ("logistic", "cosine") if rows == 1 else ():
            yield LdpIht(dim, sparsity=1, epsilon=epsilon, link=link), users


def _audited_tables(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both strategies that take a schema, all of which is bought; and inside users."""
    from ..schema import Numeric, Schema
    from ..strategies import LdpIht, SparseRegression

    users = _normal_users(dim, 5)
    users.features[:, 0] = 1.0
    schema = Schema({f"x{j}": Numeric(-4, 4) for j in range(1, dim)}, "y", Numeric(-4, 4))
    for effects in ("all", "within"):
        yield LdpIht(schema, epsilon=epsilon, samples_per_user=5, effects=effects), users
        strategy = SparseRegression(
            schema, epsilon=epsilon, samples_per_user=5, effects=effects, num_waves=2
        )
        yield strategy, users


def _audited_heavy_hitters(
    domain_size: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield counts of items and of pairs of items, and the two ways through prefixes."""
    from ..strategies import HeavyHitters

    users = Users.from_items(np.arange(3000) % domain_size, np.arange(3000) // 2)
    yield HeavyHitters(domain_size, epsilon=epsilon), users
    if domain_size > 2:
        yield HeavyHitters(domain_size, epsilon=epsilon, set_size=2), users
    for backend in ("prefix", "tree"):
        yield HeavyHitters(domain_size, epsilon=epsilon, backend=backend), users


def _normal_users(dim: int, rows: int) -> Users:
    """Return 4,000 users whose targets are their first feature."""
    user = np.repeat(np.arange(4000), rows)
    states = derive(0, np.arange(len(user), dtype=np.uint64))
    features = KeyedRandom(states).normals((len(user), dim))
    return Users.from_rows(features, features[:, 0], user)


def _audited_user_level_mean(
    dim: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods."""
    from ..strategies import UserLevelMean

    for method in ("auto", "paper"):
        strategy = UserLevelMean(
            dim, epsilon=epsilon, samples_per_user=5, bound=4.0, spread=0.2, method=method
        )
        yield strategy, _normal_users(dim, 5)


def _audited_two_round(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods."""
    from ..strategies import TwoRoundRegression

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
    from ..strategies import MultiRoundRegression

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
    """Yield a run that buys the scale, lets users vote, and ends with two waves; and classes."""
    from ..strategies import SparseRegression

    users = _normal_users(dim, 2)
    for link in ("identity", "logistic"):
        yield (
            SparseRegression(dim, epsilon=epsilon, samples_per_user=2, link=link, num_waves=2),
            users,
        )


def _audited_sparse_mean(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield a run that buys the scale, lets users vote, and ends with two waves."""
    from ..strategies import SparseMean

    yield SparseMean(dim, epsilon=epsilon, num_waves=2), _normal_users(dim, 2)


def _audited_non_interactive(
    dim: int, epsilon: float
) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield both methods."""
    from ..strategies import NonInteractiveIht

    for method, delta in (("auto", 0.0), ("paper", 1e-3)):
        strategy = NonInteractiveIht(dim, sparsity=1, epsilon=epsilon, method=method, delta=delta)
        yield strategy, _normal_users(dim, 1)


def _audited_labels(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield all mechanisms, with a declared and a bought bound, for one label and for two."""
    from ..strategies import LabelLdpIht

    for options in (
        {"label_bound": 1.0},
        {"label_bound": 1.0, "mechanism": "bit", "labels_per_user": 2},
        {"delta": 1e-3},
    ):
        yield LabelLdpIht(dim, sparsity=1, epsilon=epsilon, **options), _normal_users(dim, 2)


def _silo(features: np.ndarray, targets: np.ndarray) -> Users:
    return Users(features, targets, np.array([0, len(features)]))


def _audited_silos(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield plans of one step: there the whole budget can be measured in one report."""
    from ..strategies import DpIht, PeelingDpIht, PeelingTransfer

    draws = KeyedRandom(derive(0, np.arange(4, dtype=np.uint64))).normals((4, dim))
    common: dict[str, Any] = {"sparsity": 1, "epsilon": epsilon, "delta": 1e-3, "num_steps": 1}
    silo = _silo(draws, np.sign(draws[:, 0]))
    for link in ("logistic", "identity"):
        yield DpIht(dim, link=link, residual_bound=1.0, **common), silo
        yield PeelingDpIht(dim, link=link, target_scale=1.0, **common), silo
        yield PeelingTransfer(dim, link=link, target_scale=1.0, **common), silo


def _extreme_silos(num_features: int) -> dict[str, Users]:
    """Return silos of three records, two of which are the same in all."""
    same = np.eye(num_features)[[0, 1]]
    return {
        name: _silo(np.concatenate([same, user.features]), np.append([1.0, 0.0], user.targets))
        for name, user in extreme_users(num_features).items()
        if len(user.features) == 1
    }


def _audited_collections(name: str, **arguments: Any) -> "Runs":
    """Return a function that yields both methods of a protocol that collects once."""

    def runs(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
        from .. import strategies

        users = _normal_users(dim, 1)
        for method in ("auto", "paper"):
            strategy = getattr(strategies, name)(dim, epsilon=epsilon, method=method, **arguments)
            yield strategy, users[:200]

    return runs


def _audited_baselines(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield plans as short as there are: one step, and a choice with one step."""
    from ..strategies import PrivateFrankWolfe, TwoStageRegression

    draws = KeyedRandom(derive(0, np.arange(4, dtype=np.uint64))).normals((4, dim))
    common: dict[str, Any] = {"sparsity": 1, "epsilon": epsilon, "delta": 1e-3, "num_steps": 1}
    silo = _silo(draws, np.sign(draws[:, 0]))
    for link in ("logistic", "identity"):
        yield PrivateFrankWolfe(dim, l1_radius=1.0, link=link, target_scale=1.0, **common), silo
        yield TwoStageRegression(dim, link=link, target_scale=1.0, **common), silo


def _audited_transfer(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield coefficients and answers, of teachers with either loss."""
    from ..strategies import KnowledgeTransfer

    users = _normal_users(dim, 2).partition(0, 100)
    both: tuple[dict[str, Any], ...] = (
        {"link": "identity", "num_waves": 2},
        {"link": "logistic", "ridge": 0.1, "num_waves": 1, "num_answers": dim},
    )
    for options in both:
        yield KnowledgeTransfer(dim, sparsity=1, epsilon=epsilon, radius=1.0, **options), users


def _audited_evaluation(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield the evaluation of a model that is partly right."""
    from ..strategies import PrivateEvaluation

    yield PrivateEvaluation(np.full(dim, 0.5), epsilon=epsilon), _normal_users(dim, 2)


AUDITED = {
    "sparse-regression": _audited_sparse_regression,
    "sparse-mean": _audited_sparse_mean,
    "ldp-iht": _audited_ldp_iht,
    "heavy-hitters": _audited_heavy_hitters,
    "user-level-mean": _audited_user_level_mean,
    "two-round": _audited_two_round,
    "multi-round": _audited_multi_round,
    "non-interactive": _audited_non_interactive,
    "labels": _audited_labels,
    "silos": _audited_silos,
    "constrained-mean": _audited_collections("ConstrainedMean"),
    "constrained-regression": _audited_collections("ConstrainedRegression"),
    "kernel-ridge": _audited_collections("KernelRidgeRegression"),
    "smooth-glm": _audited_collections("SmoothGlm"),
    "silo-baselines": _audited_baselines,
    "knowledge-transfer": _audited_transfer,
    "evaluation": _audited_evaluation,
    "tables": _audited_tables,
}
# The users whom an attack tries to tell apart, by default those of features and targets.
CANDIDATES = {
    "heavy-hitters": extreme_holders,
    "silos": _extreme_silos,
    "silo-baselines": _extreme_silos,
}
