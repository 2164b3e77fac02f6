"""Whether users are enough for a regression on real tables, from public numbers alone."""

import math
from typing import Any

from ..runtime.base import LdpStrategy, TooFewReports

_FEWEST = 500
_COHORTS = 40  # of min_reports users each, that a run may be cut into
_PER_FEATURE = 2  # users
_REFUSED, _DOUBTFUL, _WEAK = 3_000, 8_000, 16_000  # users times epsilon squared
_MOST_EPSILON = 3.2  # from where on people differ more than noise
_FEW_ROWS = 10


def check_enough(
    strategy: LdpStrategy[Any], epsilon: float, num_columns: int, samples_per_user: int
) -> list[str]:
    """Refuse what cannot work, before anybody is asked.

    Parameters
    ----------
    strategy : LdpStrategy
        Whose users they are.
    epsilon : float
        Privacy parameter of each user's one report.
    num_columns : int
        Number of features, with the intercept.
    samples_per_user : int
        Typical number of a user's rows.

    Returns
    -------
    list of str
        Doubts, where it may work.

    Raises
    ------
    TooFewReports
        If there are fewer than 500 users, than 40 times ``min_reports`` or than twice the
        number of features, or if ``users * min(epsilon, 3.2)**2`` is below 3,000.
    """
    users = strategy.num_users
    informative = users * min(epsilon, _MOST_EPSILON) ** 2
    fewest = max(_FEWEST, _COHORTS * strategy.min_reports)
    needed = max(fewest, _PER_FEATURE * num_columns, _users_for(_REFUSED, epsilon))
    if users < needed:
        raise TooFewReports(
            f"{users:,} users are too few for {num_columns} features at epsilon {epsilon:g}: a fit "
            f"would be worse than predicting the mean. "
            f"{_ways_out(users, num_columns, fewest, needed)}"
        )
    if informative < _DOUBTFUL:
        return [
            f"{users:,} users are few for epsilon {epsilon:g}: only a strong signal shows. From "
            f"{_users_for(_DOUBTFUL, epsilon):,} users on this is seldom so."
        ]
    if informative < _WEAK and samples_per_user < _FEW_ROWS:
        return [
            f"{users:,} users with about {samples_per_user} rows each are few for epsilon "
            f"{epsilon:g}: a weak signal does not show. From {_users_for(_WEAK, epsilon):,} users "
            "on this is seldom so."
        ]
    return []


def _users_for(informative: int, epsilon: float) -> int:
    return math.ceil(informative / min(epsilon, _MOST_EPSILON) ** 2)


def _ways_out(users: int, num_columns: int, fewest: int, needed: int) -> str:
    ways = [f"At least {needed:,} users are needed"]
    if users >= max(fewest, _PER_FEATURE * num_columns):
        # Rounded up, so that what is said suffices.
        ways.append(
            f"or, with these users, epsilon {math.ceil(100 * math.sqrt(_REFUSED / users)) / 100:g}"
        )
    elif users >= fewest:
        ways.append(f"or at most {users // _PER_FEATURE} features")
    return ", ".join(ways) + "."
