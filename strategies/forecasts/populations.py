"""Synthetic users, on which plans and the audit run protocols."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting, WrongSetting
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.validation import Floats


def normals(rows: int, dim: int) -> np.ndarray:
    """Return ``rows`` rows of ``dim`` standard normal features, the same in every call."""
    return KeyedRandom(derive(0, np.arange(rows, dtype=np.uint64))).normals((rows, dim))


def users_of(features: np.ndarray, rows: int) -> Users:
    """Return users for an audit, with ``rows`` of the rows each; a target is the first feature."""
    return Users.from_rows(features, features[:, 0], np.arange(len(features)) // rows)


def normal_users(dim: int, rows: int, num_users: int = 4000) -> Users:
    """Return users for an audit, with ``rows`` normal rows each; a target is the first feature."""
    return users_of(normals(num_users * rows, dim), rows)


def table_users(dim: int, num_users: int = 4000) -> tuple[Schema, Users]:
    """Return a table for an audit: a schema of ``dim`` features, and users with 5 rows each.

    The first feature is constant.
    """
    users = normal_users(dim, 5, num_users)
    users.features[:, 0] = 1.0
    return Schema({f"x{j}": Numeric(-4, 4) for j in range(1, dim)}, "y", Numeric(-4, 4)), users


def audited_users(schema: Schema, num_rows: int, rows_per_user: int = 1) -> Users:
    """Return users of a table for an audit, which needs queries and no estimate.

    The entries of a column run through its bounds or its categories, at another pace in each.
    """
    rows, entries = np.arange(num_rows), {}
    for pace, name in enumerate(schema.columns_read, 1):
        kind = schema.kind(name)
        if isinstance(kind, Numeric):
            entries[name] = kind.low + (kind.high - kind.low) * (pace * rows % num_rows) / num_rows
        else:
            entries[name] = np.array(kind.declared, object)[rows // pace % len(kind.declared)]
    return schema.users(entries, groups=rows // rows_per_user)


def one_silo(dim: int) -> Users:
    """Return one silo for an audit, with four records of two classes."""
    features = normals(4, dim)
    return Users(features, np.sign(features[:, 0]), np.array([0, 4]))


Rng = np.random.Generator

USUAL_R2 = 0.5  # default R2 without privacy
_OTHERS = 4  # multiple of the users that are drawn if a mean has no formula
_ALIKE = 0.2  # default share of the variance that is between users
_SPREAD = 1.25  # factor by which targets' variance differs between tables that are evaluated
# Largest number of entries drawn for a run, and smallest and largest number of users drawn.
_MAX_ENTRIES, _MIN_USERS, _MAX_USERS = 300_000, 400, 2000
_MAX_ROWS = 100  # most rows of a synthetic user: more take time and hardly change its answer


@dataclass(frozen=True)
class Drawn:
    """Synthetic users, and functions that return the errors of a result about them."""

    users: Users
    error: Callable[[Any], float]
    #: Functions that return further errors, by the name of the error.
    others: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)


#: Largest number of all users' features together that a plan simulates if users send features; a
#: run then takes seconds.
MAX_PLANNED = 2_000_000


@dataclass(frozen=True, kw_only=True)
class SyntheticPopulation(ABC):
    """Base class of distributions of synthetic users, on whom a plan simulates runs of a protocol.

    A protocol's ``synthetic`` returns one. The plan draws users from it, runs the protocol in
    memory, and states the errors of the results.
    """

    #: True if the error is the error of a number, so that a series of collections can be planned.
    in_series: ClassVar[bool] = False
    #: True if new users are drawn for every number of users, since the error is about the drawn
    #: users. Then :meth:`draw` is given the number of users for whom they stand in.
    redrawn: ClassVar[bool] = False

    error: str  # name of the error, with its unit
    dim: int  # number of features, or of coordinates
    rows: float = 1  # mean number of a user's rows
    # Texts on the plan's assumptions, and its notes, as in Expectation
    assumes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # Largest number of users that is simulated if fewer users cannot stand in for their reports.
    # For larger numbers errors are assumed to fall with this power of the number
    max_users: int | None = None
    power: float = 0.5
    runs: int = 24  # number of runs that determine the error
    # Error of an estimate without data, such as the mean or zero. A run with an infinite error has
    # no result; if all runs have none, this is the error.
    useless: float = math.inf

    @property
    def size(self) -> float:
        """Mean number of numbers in a user's rows, which limits how many users are drawn."""
        return self.dim * min(self.rows, _MAX_ROWS)

    @property
    def most(self) -> int:
        """Largest number of users that are drawn; they represent the others."""
        return int(np.clip(_MAX_ENTRIES / self.size, _MIN_USERS, _MAX_USERS))

    @abstractmethod
    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users.

        stand_in: True if the users stand in for a far larger number. They then come in pairs with
            noise of opposite signs, so that their mean or least squares fit is the true one.
        """


def offsets_of(rows: float, num_users: int, rng: Rng) -> NDArray[np.int64]:
    """Return the index of each user's first row, and the number of all rows at the end.

    A user has ``rows`` rows on average, rounded at random, and at most 100.
    """
    counts = np.floor(min(rows, _MAX_ROWS) + rng.uniform(size=num_users)).astype(np.int64)
    return np.concatenate([[0], np.cumsum(counts)])


def alike_within(
    offsets: NDArray[np.int64], width: int, variance_between: float, rng: Rng
) -> Floats:
    """Return standard normal rows of users, whose own rows resemble each other.

    The share ``variance_between`` of the variance is between users, and the rest within users.
    """
    own = rng.standard_normal((len(offsets) - 1, width))
    rows = rng.standard_normal((int(offsets[-1]), width))
    rows *= math.sqrt(1 - variance_between)
    return rows + math.sqrt(variance_between) * np.repeat(own, np.diff(offsets), axis=0)


def _sparse(dim: int, sparsity: int, size: float) -> Floats:
    return np.where(np.arange(dim) < sparsity, size, 0.0)


def _distance(truth: Floats, unit: float) -> Callable[[Any], float]:
    return lambda result: float(np.linalg.norm(result.coef - truth)) / unit


@dataclass(frozen=True, kw_only=True)
class LinearUsers(SyntheticPopulation):
    """Users whose targets are a linear function of independent features, plus normal noise.

    Plans simulate regressions on them.
    """

    ERROR: ClassVar[str] = "distance of the coefficients from the truth, over their length"

    error: str = ERROR
    useless: float = 1.0
    sparsity: int  # number of coefficients of one size; the others are zero
    length: float  # Euclidean length of the coefficients
    noise: float  # standard deviation of targets given the features
    variance_between: float = 0.0  # share of the variance of features and noise between users
    # Features are plus or minus this number; if None, they are standard normal
    feature_size: float | None = None
    # Factor of all targets. If None, it is drawn from 1 to 2, so that scales may lie anywhere in an
    # octave's bins
    scale: float | None = 1.0

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users, see :meth:`SyntheticPopulation.draw`."""
        offsets = offsets_of(self.rows, num_users // (1 + stand_in), rng)
        scale = 2 ** rng.uniform() if self.scale is None else self.scale
        x = alike_within(offsets, self.dim, self.variance_between, rng)
        if self.feature_size is not None:
            x = self.feature_size * np.sign(x)
        truth = _sparse(self.dim, self.sparsity, scale * self.length / math.sqrt(self.sparsity))
        noise = alike_within(offsets, 1, self.variance_between, rng)[:, 0]
        if stand_in:
            x, noise = np.tile(x, (2, 1)), np.append(noise, -noise)
            offsets = np.append(offsets, offsets[-1] + offsets[1:])
        users = Users(x, x @ truth + scale * self.noise * noise, offsets)
        return Drawn(users, _distance(truth, float(np.linalg.norm(truth))))


def planned_length(radius: float, dim: int) -> float:
    """Return the length of the coefficients that a plan assumes for a constraint's radius.

    It is the radius, but half of it for a single coefficient, which would otherwise be found
    without error.
    """
    return radius if dim > 1 else radius / 2


def linear_users(
    setting: Setting,
    dim: int,
    sparsity: int,
    length: float | None = None,
    samples_per_user: int | None = None,
    **others: Any,
) -> LinearUsers:
    """Return the users on whom a plan simulates regressions, and its assumptions about them.

    Coefficients explain the setting's share of the targets' variance. If ``length`` is not given,
    this variance is 1. ``samples_per_user`` is a strategy's guess of a user's rows, if users have
    several.
    """
    quality = setting.quality or USUAL_R2
    if samples_per_user is not None:
        others["rows"] = rows_for(setting, samples_per_user)
        others["variance_between"] = setting.variance_between or 0.0
    feature_size = others.get("feature_size")
    assumed = (
        f"{sparsity} coefficients of one size, which explain {quality:.0%} of the targets' "
        "variance, and independent features of mean 0 and "
        f"{'variance 1' if feature_size is None else f'mean square {feature_size**2:g}'}."
    )
    if length is None:
        length, noise = math.sqrt(quality), math.sqrt(1 - quality)
    else:
        noise = length * (feature_size or 1.0) * math.sqrt((1 - quality) / quality)
    users = LinearUsers(dim=dim, sparsity=sparsity, length=length, noise=noise, **others)
    more = "" if users.rows <= _MAX_ROWS else f", of whom {_MAX_ROWS} rows each are simulated"
    between = f"{users.variance_between:.0%} is between users{more}."
    alike = f"Of the variance of features and noise, {between}"
    return replace(users, assumes=(assumed,) if users.rows == 1 else (assumed, alike))


@dataclass(frozen=True, kw_only=True)
class MeanUsers(SyntheticPopulation):
    """Users of one row each, from an isotropic normal distribution around a mean.

    Plans simulate estimates of means on them.
    """

    sparsity: int  # number of coordinates of the mean of one size; the others are zero
    length: float  # Euclidean length of the mean
    spread: float  # root mean square distance of a user's row from the mean
    unit: float  # unit of the error
    # Length to which longer rows are shortened, which makes the mean slightly shorter too
    radius: float = math.inf

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users, see :meth:`SyntheticPopulation.draw`."""
        truth = _sparse(self.dim, self.sparsity, self.length / math.sqrt(self.sparsity))
        off = rng.standard_normal((num_users // 2 if stand_in else _OTHERS * num_users, self.dim))
        off *= self.spread / math.sqrt(self.dim)
        rows = truth + (np.concatenate([off, -off]) if stand_in else off)
        if self.radius < math.inf:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / self.radius, 1.0)
            truth = rows.mean(axis=0)
        return Drawn(Users.from_rows(rows[:num_users]), _distance(truth, self.unit))


@dataclass(frozen=True, kw_only=True)
class SphereUsers(SyntheticPopulation):
    """Users of one row each, with features on a sphere and a target that they determine."""

    error: str = LinearUsers.ERROR
    useless: float = 1.0
    sparsity: int  # number of coefficients of one size; the others are zero
    radius: float  # length of a row
    l1_norm: float  # sum of the coefficients

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users, see :meth:`SyntheticPopulation.draw`; without noise every fit is exact."""
        x = rng.standard_normal((num_users, self.dim))
        x *= self.radius / np.linalg.norm(x, axis=1, keepdims=True)
        truth = _sparse(self.dim, self.sparsity, self.l1_norm / self.sparsity)
        return Drawn(Users.from_rows(x, x @ truth), _distance(truth, float(np.linalg.norm(truth))))


@dataclass(frozen=True, kw_only=True)
class EvaluatedUsers(SyntheticPopulation):
    """Users whose targets are partly explained by a given linear model.

    Plans simulate evaluations of the model on them. The error is the standard error that a result
    states.
    """

    in_series = True

    useless: float = 1.0
    coef: tuple[float, ...]
    # Mean and usual variance of the targets
    centre: float
    variance: float
    quality: float  # R2 of the model

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users, see :meth:`SyntheticPopulation.draw`."""
        offsets = offsets_of(self.rows, num_users, rng)
        variance = self.variance * _SPREAD ** rng.uniform(-1, 1)
        explained, rest = alike_within(offsets, 2, _ALIKE, rng).T * math.sqrt(variance)
        explained *= math.sqrt(self.quality)
        targets = self.centre + explained + math.sqrt(1 - self.quality) * rest
        coef = np.array(self.coef)
        # The model's predictions are the explained part, if it predicts anything but 0.
        x = np.outer(self.centre + explained, coef / max(float(coef @ coef), 1e-300))
        users = Users(x, targets, offsets)
        return Drawn(users, lambda result: float(result.std_error))


def rows_for(setting: Setting, guessed: int) -> float:
    """Return the number of a user's rows that a plan assumes: the setting's, or ``guessed``."""
    return setting.rows_per_user if "rows_per_user" in setting.given() else guessed


def features_of(setting: Setting, protocol: type) -> int:
    """Return the number of features of a plan; raise WrongSetting if its setting has none."""
    if setting.num_features is None:
        text = f"Expected {{}}, which a plan of {protocol.__name__} needs, got None."
        raise WrongSetting("num_features", text)
    return setting.num_features
