"""Ordinary users whom the audit has a protocol ask, to see every question that it asks."""

import numpy as np

from ldp_flower.guarantee.users import Users
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.schema import Numeric, Schema


def normals(rows: int, dim: int) -> np.ndarray:
    """Return rows of standard normal features, always the same."""
    return KeyedRandom(derive(0, np.arange(rows, dtype=np.uint64))).normals((rows, dim))


def users_of(features: np.ndarray, rows: int) -> Users:
    """Return users with so many rows each, whose targets are their first feature."""
    return Users.from_rows(features, features[:, 0], np.arange(len(features)) // rows)


def normal_users(dim: int, rows: int, num_users: int = 4000) -> Users:
    """Return users with normal features."""
    return users_of(normals(num_users * rows, dim), rows)


def table_users(dim: int, num_users: int = 4000) -> tuple[Schema, Users]:
    """Return users with 5 rows each, a constant among their features, and their schema."""
    users = normal_users(dim, 5, num_users)
    users.features[:, 0] = 1.0
    return Schema({f"x{j}": Numeric(-4, 4) for j in range(1, dim)}, "y", Numeric(-4, 4)), users


def one_silo(dim: int) -> Users:
    """Return one silo of four records of either class."""
    features = normals(4, dim)
    return Users(features, np.sign(features[:, 0]), np.array([0, 4]))
