"""Exact mechanisms for items, and for sets of them: frequency oracles and prefix trees."""

import math
from functools import lru_cache

from ...validation import check_integer, plain_arguments
from .frequency import FrequencyOracle, KRandomizedResponse
from .hadamard import HadamardResponse
from .hashing import OptimizedLocalHashing
from .subset import SubsetSelection


@plain_arguments
def best_frequency_oracle(
    epsilon: float, domain_size: int, num_users: int, set_size: int = 1
) -> FrequencyOracle:
    """Return the frequency oracle whose counts have the least variance.

    For one item, it compares :class:`KRandomizedResponse`, :class:`SubsetSelection`,
    :class:`OptimizedLocalHashing` and :class:`HadamardResponse` by the standard error of the
    count of an item of average frequency ``1 / domain_size``, ``sqrt(num_users *
    variance_at(1 / domain_size))``. Standard errors within one user of the least count as equal,
    and the oracle with the smallest report is then chosen. The cost of reading reports is not
    compared.

    For sets, it returns :class:`SubsetSelection`. The other oracles take one item; if each user
    drew one of its items for them, the variance would rise by the square of ``set_size``.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    domain_size : int
        Number of items.
    num_users : int
        Number of users that will report.
    set_size : int (default: 1)
        Number of items that every user holds.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    check_integer("num_users", num_users, 1)
    if set_size != 1:
        return SubsetSelection(epsilon, domain_size, set_size)
    oracles = _for_one_item(epsilon, domain_size)
    errors = [math.sqrt(num_users * oracle.variance_at(1 / domain_size)) for oracle in oracles]
    tied = [o for o, error in zip(oracles, errors, strict=True) if error <= min(errors) + 1]
    return min(tied, key=lambda oracle: oracle.report_bytes)


@lru_cache(maxsize=1024, typed=True)  # exact probabilities take long to compute
def _for_one_item(epsilon: float, domain_size: int) -> tuple[FrequencyOracle, ...]:
    return (
        KRandomizedResponse(epsilon, domain_size),
        HadamardResponse(epsilon, domain_size),
        OptimizedLocalHashing(epsilon, domain_size),
        SubsetSelection(epsilon, domain_size),
    )
