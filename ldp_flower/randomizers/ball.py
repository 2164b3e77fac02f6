"""Rows as directions and lengths: what the mechanisms for an l2 ball share."""

import numpy as np

from ..validation import Floats
from .elementwise import row_norms


def directions(rows: Floats) -> tuple[Floats, Floats]:
    """Return unit vectors and lengths of finite rows.

    Each row is divided by its largest entry first: squares neither overflow nor
    vanish, so a direction has length 1 whatever the row is, as guarantees need. The
    zero row gets the first axis.
    """
    largest = np.abs(rows).max(axis=1)
    unit = rows / np.where(largest > 0, largest, 1.0)[:, None]
    unit[largest == 0, 0] = 1.0
    length = row_norms(unit)
    unit /= length[:, None]
    with np.errstate(over="ignore"):
        return unit, largest * length


def lift(values: Floats, radius: float) -> Floats:
    """Shorten rows to the ball and lift them to the unit sphere of one dimension more.

    One rule then serves all lengths: the added coordinate is what the length lacks.
    """
    unit, length = directions(values)
    fraction = np.minimum(length / radius, 1.0)
    height = np.sqrt((1 - fraction) * (1 + fraction))
    return np.concatenate([fraction[:, None] * unit, height[:, None]], axis=1)
