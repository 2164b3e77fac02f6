"""Whether users are enough for a model of a table, from public numbers, before any budget is spent.

The protocols refuse with these texts, and their plans say the same before there are any users.
"""

import math
from bisect import bisect_left

from ldp_flower.randomizers import ball_codebook

from ..subprotocols.squared_errors import number_randomizer

_COHORTS = 15  # of min_reports users each
# Standard error of the mean target in its standard deviations, if all users reported it clipped to
# 1.5 of these. The .36 of them who report it around its place then know it within .083, and 1.25
# times as many within .075; measured errors are 1.2 times as large, by clipping (539 means that
# were returned). An error of .22, which loses 5 % of the variance, is 2.5 times that.
_MEAN_ERROR, _CLIP = 0.05, 1.5
_LARGEST_EPSILON = 16  # that is proposed
_STRONG = 2  # times the fewest users, from where on most relations show
# Of a classifier, measured on 11 tables at epsilon .5 to 8: beyond this sqrt(d c / n) the median
# AUC is .5; and with so many users of each class it is .6 at epsilon 2, .65 at 4, .7 at 8.
_MOST_NOISE, _FEWEST_OF_CLASS, _COHORTS_OF_CLASS = 1.3, 200, 10
_SHARE_ERROR, _HELD_OUT = 0.18, 0.08  # of a class's share, from this share of the users
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


def too_few(num_users: int, epsilon: float, min_reports: int) -> str:
    """Return why so many users are too few for a regression; nothing if they are not.

    They are if they are fewer than 15 times ``min_reports``, or than estimate the mean target well
    at ``epsilon``: 4,615 at epsilon 1, and 401 at any.
    """
    fewest = _COHORTS * min_reports
    needed = max(fewest, _users_for_mean(epsilon))
    if num_users >= needed:
        return ""
    ways = [f"At least {needed:,} users are needed"]
    if num_users >= fewest:
        steps = range(math.ceil(100 * epsilon), 100 * _LARGEST_EPSILON)
        enough = bisect_left(steps, True, key=lambda k: num_users >= _users_for_mean(k / 100))
        if enough < len(steps):
            ways.append(f"or, with these users, epsilon {steps[enough] / 100:g}")
    return (
        f"{num_users:,} users are too few for a model at epsilon {epsilon:g}: not even "
        f"the mean would be known well. {', '.join(ways)}. With fewer, ask for less: a mean or a "
        "share of all users takes some dozens."
    )


def doubts(num_users: int, epsilon: float) -> list[str]:
    """Return what to say of a regression by users who are enough, but few."""
    needed = _STRONG * _users_for_mean(epsilon)
    if num_users >= needed:
        return []
    return [
        f"{num_users:,} users are few for epsilon {epsilon:g}: only a strong relation "
        f"shows, and the mean is returned where none does. From {needed:,} users on most relations "
        "show."
    ]


def _users_for_mean(epsilon: float) -> int:
    variance = number_randomizer(epsilon, _CLIP).variance + 1  # of reports, and of users
    return math.ceil(variance / _MEAN_ERROR**2)


def too_few_for_classes(
    num_users: int, epsilon: float, min_reports: int, classes: int, features: int
) -> str:
    """Return why so many users are too few for a classifier; nothing if they are not.

    ``classes`` is how many are fitted against all others: of two classes, one.
    """

    def needed(epsilon: float, features: int) -> int:
        noise = ball_codebook(epsilon, features, 1.0).variance * features / _MOST_NOISE**2
        shares = number_randomizer(epsilon, 0.5).variance / _SHARE_ERROR**2 / _HELD_OUT
        return math.ceil(
            classes * max(_FEWEST_OF_CLASS, _COHORTS_OF_CLASS * min_reports, noise, shares)
        )

    if num_users >= needed(epsilon, features):
        return ""
    ways = [f"At least {needed(epsilon, features):,} users are needed"]
    enough = (each for each in _EPSILONS if each > epsilon and needed(each, features) <= num_users)
    if (larger := next(enough, None)) is not None:
        ways.append(f"or, with these users, epsilon {larger:g}")
    noise = ball_codebook(epsilon, features).variance
    fewer = int(_MOST_NOISE**2 * num_users / classes / noise)
    if needed(epsilon, max(fewer, 2)) <= num_users:
        ways.append(f"or at most {fewer} features")
    each = f" of each of {classes} classes against all others" if classes > 1 else ""
    return (
        f"{num_users:,} users are too few for {features} features{each} at epsilon "
        f"{epsilon:g}: by this protocol a model would hardly rank better than chance; LdpFedAvg "
        f"with a linear head may do with fewer. {', '.join(ways)}."
    )
