"""The synthetic population of Ma, Jia & Yang (ICML 2024), generated while it is asked.

``y = X beta + N(0, 1)`` with eight coefficients that are not zero, of norm
``sqrt(0.32)``. A record depends on the seed and on its own number alone, so users may be
generated in any order and in batches of any size.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from ldp_flower import GeneratedUsers, Users
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.validation import check_choice, check_integer, check_positive

Floats = NDArray[np.float64]

SPARSITY = 8
NORM = math.sqrt(0.32)  # of the coefficients: eight times 0.2 in the paper
DECLARED_SCALE = 1.25  # root mean square of the targets; the truth is sqrt(1.32) = 1.149
CORRELATION = 0.6  # of neighbouring features in the "ar" design
_RECORDS, _POSITIONS, _SIGNS = 0x55534C31, 0x55534C32, 0x55534C33  # streams of their own
_BATCH = 1 << 22  # numbers that are generated at once


@dataclass(frozen=True)
class Setting:
    """One point of the experiment.

    Parameters
    ----------
    num_users, samples_per_user, dim, epsilon
        As in the strategies; the defaults are the paper's.
    design : str (default: "independent")
        Features: independent normals, or ``"ar"``, where the features ``i`` and ``j``
        correlate at ``0.6 ** abs(i - j)``; of unit variance both.
    sizes : str (default: "equal")
        Coefficients of 0.2, or ``"unequal"``: evenly spaced from 0.05 to 0.35, scaled
        to the same norm.
    signs : str (default: "positive")
        All positive as in the paper, or ``"random"``.
    positions : str (default: "random")
        Where the coefficients are, or ``"first"``: they are the first eight.
    scale : str (default: "estimated")
        How protocols learn the scale of the targets if they need it: from reports, or
        ``"declared"``: it is public, at ``DECLARED_SCALE``.
    """

    num_users: int = 400
    samples_per_user: int = 100
    dim: int = 256
    epsilon: float = 4.0
    design: str = "independent"
    sizes: str = "equal"
    signs: str = "positive"
    positions: str = "random"
    scale: str = "estimated"

    def __post_init__(self) -> None:
        check_integer("num_users", self.num_users, 1)
        check_integer("samples_per_user", self.samples_per_user, 1)
        check_integer("dim", self.dim, SPARSITY)
        check_positive("epsilon", self.epsilon)
        check_choice("design", self.design, ("independent", "ar"))
        check_choice("sizes", self.sizes, ("equal", "unequal"))
        check_choice("signs", self.signs, ("positive", "random"))
        check_choice("positions", self.positions, ("random", "first"))
        check_choice("scale", self.scale, ("estimated", "declared"))


class Population:
    """The users of a setting and the coefficients that they know nothing of.

    Parameters
    ----------
    setting : Setting
        The experiment.
    seed : int
        Decides the coefficients and all data.
    """

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = setting
        self.seed = seed
        self.support = self._positions()
        self.values = self._values()
        self.coef = np.zeros(setting.dim)
        self.coef[self.support] = self.values

    def users(self) -> GeneratedUsers:
        """Return the users, each with ``samples_per_user`` records."""
        rows, dim = self.setting.samples_per_user, self.setting.dim

        def generate(indices: NDArray[np.int64]) -> Users:
            x, y = self.rows((indices[:, None] * rows + np.arange(rows)).ravel())
            return Users(x, y, np.arange(len(indices) + 1) * rows)

        return GeneratedUsers(self.setting.num_users, dim, generate)

    def single_records(self, feature_scale: float) -> GeneratedUsers:
        """Return the same records, one for each of ``n m`` users, features divided by a scale."""
        count = self.setting.num_users * self.setting.samples_per_user

        def generate(indices: NDArray[np.int64]) -> Users:
            x, y = self.rows(indices)
            return Users(x / feature_scale, y, np.arange(len(indices) + 1))

        return GeneratedUsers(count, self.setting.dim, generate)

    def rows(self, records: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return features and targets of some records, numbered user by user."""
        draws = KeyedRandom(derive(_RECORDS, self.seed, records)).normals(
            (len(records), self.setting.dim + 1)
        )
        x, noise = np.ascontiguousarray(draws[:, :-1]), draws[:, -1]
        if self.setting.design == "ar":
            x[:, 0] /= math.sqrt(1 - CORRELATION**2)  # the first column is stationary, too
            x = lfilter([math.sqrt(1 - CORRELATION**2)], [1, -CORRELATION], x, axis=1)
        # Not a matrix product, whose last bits depend on how many rows it has.
        return x, (x[:, self.support] * self.values).sum(axis=1) + noise

    def batches(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield all data: features (users, rows, dim) and targets (users, rows) of some users."""
        users, rows, dim = (
            self.setting.num_users,
            self.setting.samples_per_user,
            self.setting.dim,
        )
        size = max(1, _BATCH // (rows * dim))
        for start in range(0, users, size):
            stop = min(start + size, users)
            x, y = self.rows(np.arange(start * rows, stop * rows))
            yield x.reshape(-1, rows, dim), y.reshape(-1, rows)

    def _positions(self) -> NDArray[np.int64]:
        if self.setting.positions == "first":
            return np.arange(SPARSITY)
        lots = KeyedRandom(derive(_POSITIONS, self.seed)).uniforms((1, self.setting.dim))[0]
        return np.argsort(lots)[:SPARSITY]

    def _values(self) -> Floats:
        equal = self.setting.sizes == "equal"
        values = np.ones(SPARSITY) if equal else np.linspace(0.05, 0.35, SPARSITY)
        values *= NORM / np.linalg.norm(values)
        if self.setting.signs == "random":
            lots = KeyedRandom(derive(_SIGNS, self.seed)).uniforms((1, SPARSITY))[0]
            values *= np.where(lots < 0.5, -1, 1)
        return values
