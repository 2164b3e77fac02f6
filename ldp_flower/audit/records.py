"""Check of the sensitivity: the largest effect of one record on a sum, before noise is added.

For mechanisms of single values, the largest value before noise is checked instead. A clip that is
correct for the largest values may be wrong for others, so values of many lengths and directions
are tried.
"""

from collections.abc import Iterator

import numpy as np

from ..data.users import Users
from ..guarantee.messages import Query
from ..randomizers import (
    GaussianMechanism,
    Randomizer,
    RecordGaussian,
    RecordMechanism,
    SampledCoordinate,
)
from ..randomness import KeyedRandom, derive
from ..validation import Floats
from .extreme_users import crowd, one_changed, single, together
from .probe import Client, MakeApp, entering

_COUNTS = (1, 3, 40)  # numbers of records of a silo
_SIZES = (1e-2, 10.0)  # scales of the records that do not change
_LENGTHS = np.geomspace(1e-2, 1e4, 25)  # lengths of values, in radii
_COORDINATES, _ASKEW = 6, 6  # numbers of coordinates, and of random directions, of these values
_MAGNITUDES = (1e-3, 1.0, 1e3, 1e9, 1e300, np.inf, np.nan)  # of the record that changes


def bounded(query: Query, make_app: MakeApp, num_features: int) -> bool:
    """Return True if sums over the records of neighbouring silos differ by at most the diameter.

    The diameter is that of the domain for which the mechanism's noise is calibrated: twice its
    radius. It is a Euclidean length if all coordinates get noise, and otherwise a difference in
    each coordinate. The silos have few and many records, small and large ones, and differ in one
    record at various places. For other mechanisms that add noise, one value may move the sum by at
    most the radius.
    """
    mechanism, client = query.randomizer, Client(query, make_app)
    if not _clips(mechanism.part if isinstance(mechanism, SampledCoordinate) else mechanism):
        return False
    if not isinstance(mechanism, RecordMechanism):
        return True
    largest, order = 2 * mechanism.radius * (1 + 1e-9), _order(mechanism)
    for silos in _neighbouring(num_features):
        totals = []
        for silo in silos:
            with entering(mechanism) as noted:
                client.answers(silo, [0])
            totals.append(noted[0][0][0])
        apart = np.subtract(np.array(totals)[:, None], totals)
        if np.linalg.norm(apart, order, axis=-1).max() > largest:
            return False
    return True


def _clips(mechanism: Randomizer) -> bool:
    """Return True if the mechanism brings numbers of any size into its domain before noise."""
    if isinstance(mechanism, RecordMechanism):
        values = _far_and_wide(mechanism)
        moved = np.array([mechanism.total(value[None]) for value in values])
    elif isinstance(mechanism, GaussianMechanism):
        values = _far_and_wide(mechanism)
        coins = np.repeat(derive(0), len(values))  # the same noise for all values
        reports = mechanism.randomize(values, KeyedRandom(coins), coins)
        moved = mechanism.debias(reports, coins)
        moved -= moved[0]
    else:
        return True
    sizes = np.linalg.norm(moved, _order(mechanism), axis=1)
    rounding = 0.0 if isinstance(mechanism, RecordMechanism) else 1e-6 * mechanism.bound
    return bool(sizes.max() <= mechanism.radius * (1 + 1e-9) + rounding)


def _order(mechanism: Randomizer) -> float:
    """Return the order of the norm in which a record's size is bounded, as the noise assumes.

    It is 2 for the Euclidean length, and inf for the largest coordinate.
    """
    by_coordinate = isinstance(mechanism, RecordMechanism)
    return np.inf if by_coordinate and not isinstance(mechanism, RecordGaussian) else 2


def _far_and_wide(mechanism: RecordMechanism | GaussianMechanism) -> Floats:
    """Return values to try a mechanism's clip with, shape (values, width).

    They have many lengths, along some coordinates and in random directions. The first value is 0.
    """
    few = np.eye(mechanism.width)[:_COORDINATES]
    askew = KeyedRandom(derive(np.arange(_ASKEW))).normals((_ASKEW, mechanism.width))
    askew /= np.linalg.norm(askew, axis=1, keepdims=True)
    ways = np.concatenate([few, -few, askew])
    lengths = mechanism.radius * np.append(0.0, _LENGTHS)
    return np.asarray((lengths[:, None, None] * ways).reshape(-1, mechanism.width))


def _neighbouring(num_features: int) -> Iterator[list[Users]]:
    """Yield lists of silos; any two silos in a list differ in one record."""
    for count in _COUNTS:
        records = together(
            [user[:1].take(np.zeros(1, np.int64), 1) for user in crowd(count, num_features)]
        )
        for size in _SIZES:
            for place in sorted({0, count // 2, count - 1}):
                same = size * records.features, size * records.targets
                yield [single(x, y) for x, y in one_changed(*same, place, _MAGNITUDES)]
