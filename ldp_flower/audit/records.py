"""How far one record of a silo moves the sum that is randomised, whatever its other records are."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..guarantee.messages import Query
from ..guarantee.users import Users
from ..randomizers import RecordGaussian, RecordMechanism
from .entering import Floats, entering
from .people import crowd, together
from .probe import Client, MakeApp

_COUNTS = (1, 3, 40)
_SIZES = (1e-2, 10.0)  # of the other records
_MAGNITUDES = (1e-3, 1.0, 1e3, 1e9, 1e300, np.inf, np.nan)


def bounded(query: Query, make_app: MakeApp, num_features: int) -> bool:
    """Whether sums over the records of neighbouring silos differ by at most the diameter.

    Of the domain that the mechanism's noise is for: the diameter is twice its radius, by
    Euclidean length where all coordinates get noise, by each coordinate elsewhere. Tried
    are silos of few and many records, small and large, one of which is any other, wherever
    it stands.
    """
    mechanism, client = query.randomizer, Client(query, make_app)
    if not isinstance(mechanism, RecordMechanism):
        return True
    largest = 2 * mechanism.radius * (1 + 1e-9)
    for silos in _neighbouring(num_features):
        totals = []
        for silo in silos:
            with entering(mechanism) as noted:
                client.answers(silo, [0])
            totals.append(noted[0][0][0])
        if _diameter(np.array(totals), isinstance(mechanism, RecordGaussian)) > largest:
            return False
    return True


def _neighbouring(num_features: int) -> Iterator[list[Users]]:
    """Yield sets of silos each two of which differ in one record."""
    for count in _COUNTS:
        records = together(
            [user[:1].take(np.zeros(1, np.int64), 1) for user in crowd(count, num_features)]
        )
        for size in _SIZES:
            for place in sorted({0, count // 2, count - 1}):
                silos = []
                for magnitude in _MAGNITUDES:
                    for sign in (1.0, -1.0):
                        x, y = size * records.features, size * records.targets
                        x[place], y[place] = magnitude, sign * magnitude
                        silos.append(
                            replace(records, features=x, targets=y, offsets=np.array([0, count]))
                        )
                yield silos


def _diameter(totals: Floats, euclidean: bool) -> float:
    differences = totals[:, None] - totals[None]
    if euclidean:
        return float(np.linalg.norm(differences, axis=-1).max())
    return float(np.abs(differences).max())
