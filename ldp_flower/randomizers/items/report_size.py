"""How many items a report of subset selection or of the set vote lists."""

import math
from functools import lru_cache

import numpy as np

_VOTING_SHARE = 0.15  # of users that vote for an item worth finding
_FOUND_WEIGHT = 0.6  # what the spread of its votes counts against that of the others


@lru_cache(maxsize=256)
def best_report_size(epsilon: float, domain_size: int, set_size: int) -> int:
    """Return the number of items of a report that separates held from other items best.

    For one item it minimises the total variance of the counts; for a set it
    maximises the distance between an item that many users vote for and an item that
    a random set holds, in units of the spread of both.
    """
    d, k = domain_size, set_size
    w = np.arange(1, d - k + 1, dtype=np.float64)
    miss, miss_by_rest = np.ones(len(w)), np.ones(len(w))
    for i in range(k):
        miss *= (d - i - w) / (d - i)
        miss_by_rest *= (d - i - w) / (d - i - 1)  # without a given item of the report
    raised = math.exp(epsilon)
    level = 1 / (1 + (1 - miss) * math.expm1(epsilon))
    own = np.minimum(level * raised * w / d, 1.0)
    other = level * w / d * (raised * (1 - miss_by_rest) + miss_by_rest)
    if k == 1:
        score = (own - other) / np.sqrt(own * (1 - own) / d + other * (1 - other) * (1 - 1 / d))
    else:
        share = min(1.0, max(_VOTING_SHARE, 2 * k / d))
        null, found = (f * own + (1 - f) * other for f in (k / d, share))
        spread = np.sqrt(null * (1 - null)) + _FOUND_WEIGHT * np.sqrt(found * (1 - found))
        score = (found - null) / spread
    return int(np.argmax(score)) + 1
