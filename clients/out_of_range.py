"""What the log says of data that are far out of the range that a question expects.

In the node's log only: a reply says nothing of it.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import Query
from ldp_flower.guarantee.users import Users

_FAR_FACTOR = 10.0  # times the bound: no tail, but other units
_MAX_FAR_SHARE = 0.5  # share of the rows, or users, from which on units are in question

_UNITS = (
    "%d of %d %s are more than 10 times beyond the bound of %s and count as the bound: are "
    "columns centred, and in the units that the strategy expects? A Schema sees to both."
)


def tell_far_rows(users: Users, query: Query) -> None:
    """Log it if most rows are far beyond the bound to which the question clips them."""
    bound = getattr(query.question, "feature_bound", None)
    if bound is not None:
        _tell(users.features, bound, "rows", query.statistic)


def tell_far_values(values: NDArray[np.float64], query: Query) -> None:
    """Log it if most users' values are far beyond what the mechanism takes."""
    radius = getattr(query.randomizer, "radius", None)
    if isinstance(radius, float):
        _tell(values, radius, "users' values", query.statistic)


def _tell(rows: NDArray[np.float64], bound: float, what: str, name: str) -> None:
    logger: Any = logging.getLogger(__name__)
    sizes = np.abs(rows).max(axis=1, initial=0.0)
    clipped, far = (int((sizes > factor * bound).sum()) for factor in (1.0, _FAR_FACTOR))
    if far > _MAX_FAR_SHARE * len(sizes):
        logger.warning(_UNITS, far, len(sizes), what, name)
    elif clipped:
        logger.info("%d of %d %s are beyond the bound of %s.", clipped, len(sizes), what, name)
