"""Whether users are enough for a model of a table, from public numbers, before anybody pays."""

import math
from typing import Any

from ..runtime.base import LdpStrategy, TooFewReports

_FEWEST = 300
_COHORTS = 15  # of min_reports users each
_INFORMATIVE, _STRONG = 400, 3_000  # users times epsilon squared
_MOST_EPSILON = 3.2  # from where on people differ more than noise


def check_enough(strategy: LdpStrategy[Any]) -> list[str]:
    """Refuse what cannot work.

    Returns
    -------
    list of str
        Doubts, where it may work.

    Raises
    ------
    TooFewReports
        If there are fewer than 300 users, than 15 times ``min_reports``, or if
        ``users * min(epsilon, 3.2)**2`` is below 400.
    """
    users, epsilon = strategy.num_users, strategy.epsilon
    fewest = max(_FEWEST, _COHORTS * strategy.min_reports)
    needed = max(fewest, _users_for(_INFORMATIVE, epsilon))
    if users < needed:
        ways = [f"At least {needed:,} users are needed"]
        if users >= fewest:
            # Rounded up, so that what is said suffices.
            enough = math.ceil(100 * math.sqrt(_INFORMATIVE / users)) / 100
            ways.append(f"or, with these users, epsilon {enough:g}")
        raise TooFewReports(
            f"{users:,} users are too few for a model at epsilon {epsilon:g}: it would predict "
            f"worse than the mean does. {', '.join(ways)}. With fewer, ask for less: a mean or a "
            "share of all users takes some dozens."
        )
    if users * min(epsilon, _MOST_EPSILON) ** 2 < _STRONG:
        return [
            f"{users:,} users are few for epsilon {epsilon:g}: only a strong relation shows, "
            "and where there is none, the model may be worse than a constant. From "
            f"{_users_for(_STRONG, epsilon):,} users on this is seldom so."
        ]
    return []


def _users_for(informative: int, epsilon: float) -> int:
    return math.ceil(informative / min(epsilon, _MOST_EPSILON) ** 2)
