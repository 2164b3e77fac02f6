"""The synthetic problems: data, the protocol for them, and how wrong its answer is.

Every error is 0 for the best possible answer and 1 for answering zero.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ldp_flower import Users, simulate
from ldp_flower.strategies import (
    ConstrainedMean,
    ConstrainedRegression,
    KernelRidgeRegression,
    LdpStrategy,
    SmoothGlm,
)
from ldp_flower.strategies.numerics.denoising import project_on_l1_ball
from ldp_flower.strategies.numerics.first_order import fista

Floats = NDArray[np.float64]


class Problem(ABC):
    """Data of a seed, and what is asked of them."""

    #: What the error is.
    error_name: str
    #: Numbers of users.
    users: tuple[int, ...] = (3_000, 10_000, 30_000, 100_000, 300_000)

    @property
    @abstractmethod
    def name(self) -> str:
        """Title of the panel."""

    @abstractmethod
    def strategy(self, **arguments: Any) -> LdpStrategy[Any]:
        """Return the protocol."""

    @abstractmethod
    def run(self, num_users: int, seed: int, **arguments: Any) -> float:
        """Return the error of one run."""

    def _simulated(self, x: Floats, y: Floats, seed: int, **arguments: Any) -> Any:
        return simulate(self.strategy(**arguments), Users.from_rows(x, y), seed=seed)


@dataclass(frozen=True)
class Mean(Problem):
    """A mean of five entries and length 0.6, rows around it in the unit ball."""

    dim: int = 1000

    error_name = "relative error"
    users = (1_000, 3_000, 10_000, 30_000, 100_000)

    @property
    def name(self) -> str:
        """Title of the panel."""
        return f"ConstrainedMean, d={self.dim}"

    def strategy(self, **arguments: Any) -> LdpStrategy[Any]:
        """Return the protocol; the l1 bound that the paper's needs is public."""
        return ConstrainedMean(self.dim, l1_bound=1.4, **arguments)

    def run(self, num_users: int, seed: int, **arguments: Any) -> float:
        """Return the distance from the true mean over its length."""
        rng = np.random.default_rng(seed)
        mean = np.zeros(self.dim)
        mean[rng.choice(self.dim, 5, replace=False)] = 0.6 / np.sqrt(5) * rng.choice([-1, 1], 5)
        x = mean + 0.5 / np.sqrt(self.dim) * rng.standard_normal((num_users, self.dim))
        result = self._simulated(x, np.zeros(num_users), seed, **arguments)
        return float(np.linalg.norm(result.coef - mean) / 0.6)


@dataclass(frozen=True)
class Regression(Problem):
    """Rows of length 1 with a decaying spectrum, and noise of standard deviation 0.1.

    Coordinates have standard deviations 1, 1/2, 1/3, ... before rows are brought to length 1.
    Three coefficients differ from zero: the first three, or any three of the first eight.
    """

    dim: int = 16
    anywhere: bool = False

    error_name = "excess risk / that of zero"

    @property
    def name(self) -> str:
        """Title of the panel."""
        places = ", any of 8" if self.anywhere else ""
        return f"ConstrainedRegression, d={self.dim}{places}"

    def strategy(self, **arguments: Any) -> LdpStrategy[Any]:
        """Return the protocol."""
        return ConstrainedRegression(self.dim, **arguments)

    def run(self, num_users: int, seed: int, **arguments: Any) -> float:
        """Return the excess of the mean squared error on the users' rows."""
        rng = np.random.default_rng(seed)
        coef = np.zeros(self.dim)
        places = rng.choice(8, 3, replace=False) if self.anywhere else np.arange(3)
        coef[places] = rng.choice([-1, 1], 3) * rng.dirichlet(np.full(3, 5.0))
        coef *= rng.uniform(0.7, 1)
        x = rng.standard_normal((num_users, self.dim)) / np.arange(1, self.dim + 1)
        x /= np.linalg.norm(x, axis=1)[:, None]
        y = np.clip(x @ coef + 0.1 * rng.standard_normal(num_users), -1, 1)
        result = self._simulated(x, y, seed, **arguments)
        return quadratic_ratio(x, y, result.coef)


def quadratic_ratio(x: Floats, y: Floats, coef: Floats) -> float:
    """Return the excess risk of coefficients over that of zero; the best are in the l1 ball."""
    squares, products = x.T @ x / len(x), x.T @ y / len(x)

    def risk(w: Floats) -> float:
        return float(w @ squares @ w / 2 - products @ w)

    best = fista(
        lambda w: squares @ w - products,
        lambda w, _: project_on_l1_ball(w, 1.0),
        float(np.linalg.eigvalsh(squares)[-1]),
        np.zeros(len(coef)),
        5000,
    )
    return (risk(coef) - risk(best)) / -risk(best)


@dataclass(frozen=True)
class Kernel(Problem):
    """A sine of one period, or a product of two in two dimensions, and noise of 0.2."""

    dim: int = 1
    num_features: int = 16

    error_name = "test MSE / variance of f"

    @property
    def name(self) -> str:
        """Title of the panel."""
        return f"KernelRidgeRegression, {self.dim}-d, {self.num_features} features"

    def strategy(self, **arguments: Any) -> LdpStrategy[Any]:
        """Return the protocol; the length scale is about that over which the sine changes."""
        return KernelRidgeRegression(
            self.dim, num_features=self.num_features, length_scale=0.4, **arguments
        )

    def run(self, num_users: int, seed: int, **arguments: Any) -> float:
        """Return the squared error on fresh rows without noise."""
        rng = np.random.default_rng(seed)
        x, fresh = (rng.uniform(-1, 1, (size, self.dim)) for size in (num_users, 4000))
        y = _sine(x) + 0.2 * rng.standard_normal(num_users)
        predicted = self._simulated(x, y, seed, **arguments).predict(fresh)
        return float(np.mean((predicted - _sine(fresh)) ** 2) / np.var(_sine(fresh)))


def _sine(x: Floats) -> Floats:
    return np.asarray(np.sin(3 * x[:, 0]) * (np.cos(2 * x[:, 1]) if x.shape[1] > 1 else 1.0))


@dataclass(frozen=True)
class Logistic(Problem):
    """Normal rows of typical length 0.77, cut off at 1, and coefficients of length 4."""

    dim: int = 5

    error_name = "excess log loss / that of zero"

    @property
    def name(self) -> str:
        """Title of the panel."""
        return f"SmoothGlm, d={self.dim}, r=4"

    def strategy(self, **arguments: Any) -> LdpStrategy[Any]:
        """Return the protocol."""
        return SmoothGlm(self.dim, **arguments)

    def run(self, num_users: int, seed: int, **arguments: Any) -> float:
        """Return the excess log loss on the users' rows; the best has length 4 at most."""
        rng = np.random.default_rng(seed)
        coef = rng.standard_normal(self.dim)
        coef *= 4 / np.linalg.norm(coef)
        x = rng.standard_normal((num_users, self.dim)) / (1.3 * np.sqrt(self.dim))
        x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
        y = np.where(rng.random(num_users) < 1 / (1 + np.exp(-x @ coef)), 1.0, -1.0)
        return logistic_ratio(x, y, self._simulated(x, y, seed, **arguments).coef)


def logistic_ratio(x: Floats, y: Floats, coef: Floats, radius: float = 4.0) -> float:
    """Return the excess log loss of coefficients over that of zero."""

    def loss(w: Floats) -> float:
        return float(np.mean(np.logaddexp(0, -y * (x @ w))))

    def slope(w: Floats) -> Floats:
        return np.asarray(-(y / (1 + np.exp(y * (x @ w)))) @ x / len(x))

    within = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w}
    best = minimize(loss, coef, jac=slope, constraints=within).fun
    return (loss(coef) - best) / (np.log(2) - best)


PROBLEMS: dict[str, Problem] = {
    "mean": Mean(),
    "regression": Regression(),
    "regression-64": Regression(64),
    "regression-anywhere": Regression(16, anywhere=True),
    "kernel": Kernel(),
    "kernel-2d": Kernel(2, 32),
    "logistic": Logistic(),
}
