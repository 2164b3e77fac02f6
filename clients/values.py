"""Users' values: computation by a statistic, so that no failure by a user's data is visible."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.users import Users
from ldp_flower.guarantee.messages import Query, Slots
from ldp_flower.questions import Rows
from ldp_flower.randomness import Words

from .arithmetic import chosen, with_places
from .failures import contained
from .statistics import NONE, OwnStatistics, compute, of_each, public_block

logger = logging.getLogger(__name__)

# Number of values in memory at a time, 128 MB. A message can ask for 2**20 values per user.
ENTRIES = 1 << 24
# Number of users per chunk. The number of users is public. Their rows are private, and must not
# decide the order in which reports are summed.
CHUNK = 1024


def values_of(
    take: Callable[[Slots], Users],
    slots: Slots,
    query: Query,
    own: OwnStatistics = NONE,
    words: Words | None = None,
) -> NDArray[np.float64]:
    """Return the values that a mechanism randomises, shape (users, width).

    A value that cannot be computed becomes NaN, for which the randomizer uses the centre of its
    domain. The reply then looks like any other, and the log reports the error. ``take`` returns the
    users in some slots. ``own`` holds the app's statistics. ``words`` holds one random word per
    slot, by which users draw rows. Without words, users take their first rows.
    """
    coins = np.zeros(len(slots), np.uint64) if words is None else words

    def computed(some: Slots) -> NDArray[np.float64]:
        users = take(slots[some])
        if query.question.classes_asked:
            users = with_places(users, query.question.classes_asked)
        kept = chosen(users, query.question, coins[some])
        lost = len(users.targets) - len(kept.targets)
        if lost and query.question.rows is Rows.FINITE:
            logger.warning("Records that are not finite and are left out: %d.", lost)
        bound = getattr(query.question, "feature_bound", None)
        if bound is not None:
            _log_beyond_bound(kept.features, bound, "rows", query.statistic)
        if (statistic := own.get(type(query.question))) is not None:
            return of_each(kept, query.question, statistic, query.randomizer.width)
        return compute(kept, query.question, coins[some])

    values = _compute_isolated(
        computed,
        np.arange(len(slots)),
        lambda: np.full((1, query.randomizer.width), np.nan),
        query.statistic,
    )
    radius = getattr(query.randomizer, "radius", None)
    if isinstance(radius, float):
        _log_beyond_bound(values, radius, "users' values", query.statistic)
    if bad := int((~np.isfinite(values).all(axis=1)).sum()):
        logger.warning(
            "Users who answer at random, since they have nothing that can be reported (an entry or "
            "the target is missing or is not a number): %d.",
            bad,
        )
    return values


def public_of(
    take: Callable[[Slots], Users],
    slots: Slots,
    query: Query,
    num_features: int,
    words: Words | None = None,
) -> NDArray[np.float32]:
    """Return the users' data that the operator has declared public, to send beside the reports.

    A user with unreadable rows counts as one without rows. The data are about the rows that the
    same ``words`` select in :func:`values_of`.
    """
    nobody = Users(np.zeros((0, num_features)), np.zeros(0), np.zeros(2, np.int64))
    coins = np.zeros(len(slots), np.uint64) if words is None else words

    def block(some: Slots) -> NDArray[np.float32]:
        return public_block(chosen(take(slots[some]), query.question, coins[some]), query.question)

    return _compute_isolated(
        block,
        np.arange(len(slots)),
        lambda: public_block(nobody, query.question),
        query.statistic,
    )


def _compute_isolated(
    compute: Callable[[Slots], NDArray[Any]],
    slots: Slots,
    otherwise: Callable[[], NDArray[Any]],
    name: str,
) -> NDArray[Any]:
    """Return the values of all users, computed at once or, if that fails, for each user alone.

    So one user's data do not lose the others' answers. They do not change the others' answers
    either: a user's value has the same bits alone as among others, see :mod:`.statistics`.
    ``otherwise`` returns the value of a user for whom the computation fails.
    """
    alone = len(slots) == 1

    def failed() -> None:
        if alone:
            text = "Statistic %s failed for a user, who reports as if without data."
            logger.exception(text, name)

    with contained(failed):
        return compute(slots)
    if alone:
        return otherwise()
    runs = (slots[i : i + 1] for i in range(len(slots)))
    return np.concatenate([_compute_isolated(compute, one, otherwise, name) for one in runs])


_FAR_FACTOR = 10.0  # times the bound; values beyond this suggest wrong units, not a heavy tail
_MAX_FAR_SHARE = 0.5  # share of rows or users beyond this factor that causes the warning

_UNITS = (
    "%d of %d %s are more than 10 times beyond the bound of %s and count as the bound: are "
    "columns centred, and in the units that the strategy expects? A Schema takes care of both."
)


def _log_beyond_bound(rows: NDArray[np.float64], bound: float, what: str, name: str) -> None:
    """Log the number of rows or values beyond their bound; warn if most are far beyond it."""
    sizes = np.abs(rows).max(axis=1, initial=0.0)
    clipped, far = (int((sizes > factor * bound).sum()) for factor in (1.0, _FAR_FACTOR))
    if far > _MAX_FAR_SHARE * len(sizes):
        logger.warning(_UNITS, far, len(sizes), what, name)
    elif clipped:
        logger.info("%d of %d %s are beyond the bound of %s.", clipped, len(sizes), what, name)
