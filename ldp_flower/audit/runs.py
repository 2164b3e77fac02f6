"""The runs that ``ldp-flower audit`` records, and the users whom its attacks tell apart."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..guarantee.users import Users
from ..randomness import KeyedRandom, derive
from . import extreme_holders, extreme_users

Options = dict[str, Any]

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


def _audited(name: str, rows: int, *variants: Options, users: int = 4000, **common: Any) -> "Runs":
    """Return a function that yields variants of a protocol, for users of so many rows."""

    def runs(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
        from .. import strategies

        for options in variants:
            strategy = getattr(strategies, name)(dim, epsilon=epsilon, **common, **options)
            yield strategy, _normal_users(dim, rows)[:users]

    return runs


def _silo(features: np.ndarray, targets: np.ndarray) -> Users:
    return Users(features, targets, np.array([0, len(features)]))


def _audited_on_a_silo(**protocols: Options) -> "Runs":
    """Return a function that yields plans as short as there are, of either loss.

    There the whole budget can be measured in one report: of one step, and a choice with one
    step.
    """

    def runs(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
        from .. import strategies

        draws = KeyedRandom(derive(0, np.arange(4, dtype=np.uint64))).normals((4, dim))
        silo = _silo(draws, np.sign(draws[:, 0]))
        common: Options = {"sparsity": 1, "epsilon": epsilon, "delta": 1e-3, "num_steps": 1}
        for link in ("logistic", "identity"):
            for name, options in protocols.items():
                yield getattr(strategies, name)(dim, link=link, **common, **options), silo

    return runs


def _extreme_silos(num_features: int) -> dict[str, Users]:
    """Return silos of three records, two of which are the same in all."""
    same = np.eye(num_features)[[0, 1]]
    return {
        name: _silo(np.concatenate([same, user.features]), np.append([1.0, 0.0], user.targets))
        for name, user in extreme_users(num_features).items()
        if len(user.features) == 1
    }


def _audited_transfer(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield coefficients and answers, of teachers with either loss."""
    from ..strategies import KnowledgeTransfer

    users = _normal_users(dim, 2).partition(0, 100)
    both: tuple[Options, ...] = (
        {"link": "identity", "num_waves": 2},
        {"link": "logistic", "ridge": 0.1, "num_waves": 1, "num_answers": dim},
    )
    for options in both:
        yield KnowledgeTransfer(dim, sparsity=1, epsilon=epsilon, radius=1.0, **options), users


def _audited_evaluation(dim: int, epsilon: float) -> "Iterator[tuple[LdpStrategy[Any], Users]]":
    """Yield the evaluation of a model that is partly right."""
    from ..strategies import PrivateEvaluation

    yield PrivateEvaluation(np.full(dim, 0.5), epsilon=epsilon), _normal_users(dim, 2)


_METHODS: tuple[Options, ...] = ({"method": "auto"}, {"method": "paper"})
_GROUPED: Options = dict(samples_per_user=5, sparsity=2, selector="marginal", target_scale=1.0)

AUDITED = {
    # Runs that buy the scale, let users vote, and end with two waves; and classes.
    "sparse-regression": _audited(
        "SparseRegression",
        2,
        {"link": "identity"},
        {"link": "logistic"},
        samples_per_user=2,
        num_waves=2,
    ),
    "sparse-mean": _audited("SparseMean", 2, {"num_waves": 2}),
    "ldp-iht": _audited_ldp_iht,
    "heavy-hitters": _audited_heavy_hitters,
    "user-level-mean": _audited(
        "UserLevelMean", 5, *_METHODS, samples_per_user=5, bound=4.0, spread=0.2
    ),
    "two-round": _audited("TwoRoundRegression", 5, *_METHODS, **_GROUPED),
    "multi-round": _audited("MultiRoundRegression", 5, *_METHODS, num_steps=2, **_GROUPED),
    "non-interactive": _audited(
        "NonInteractiveIht", 1, {}, {"method": "paper", "delta": 1e-3}, sparsity=1
    ),
    # All mechanisms, with a declared and a bought bound, for one label and for two.
    "labels": _audited(
        "LabelLdpIht",
        2,
        {"label_bound": 1.0},
        {"label_bound": 1.0, "mechanism": "bit", "labels_per_user": 2},
        {"delta": 1e-3},
        sparsity=1,
    ),
    "silos": _audited_on_a_silo(
        DpIht={"residual_bound": 1.0},
        PeelingDpIht={"target_scale": 1.0},
        PeelingTransfer={"target_scale": 1.0},
    ),
    "constrained-mean": _audited("ConstrainedMean", 1, *_METHODS, users=200),
    "constrained-regression": _audited("ConstrainedRegression", 1, *_METHODS, users=200),
    "kernel-ridge": _audited("KernelRidgeRegression", 1, *_METHODS, users=200),
    "smooth-glm": _audited("SmoothGlm", 1, *_METHODS, users=200),
    "silo-baselines": _audited_on_a_silo(
        PrivateFrankWolfe={"l1_radius": 1.0, "target_scale": 1.0},
        TwoStageRegression={"target_scale": 1.0},
    ),
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
