"""Number of users that a regression needs."""

import math
from bisect import bisect_left

from ldp_flower.refusals import TooFew

from ..subprotocols.scales import number_randomizer

_COHORTS = 20  # number of cohorts, of min_reports users each, that a run needs
# Largest standard error of the mean target, in standard deviations of the target, if all users
# report the target clipped to 1.5 of these. With fewer users, 1,000 and 2,000 at epsilon 1, 37 and
# 32 % of runs on 60 tables of chosen_on.txt were worse than an R2 of -.05 (seed 5). With at least
# 1.25 times as many users as needed, up to 3 % were.
_MEAN_ERROR, _CLIP = 0.05, 1.5
# The same limit for public features. With limits of .055, .07 and .08 up to 3 % of runs were worse
# than an R2 of -.05 (198 tables, seeds 6 and 7).
_MEAN_ERROR_PUBLIC = 0.06
_LARGEST_EPSILON = 16  # largest epsilon that a refusal proposes
_STRONG = 2  # multiple of the fewest users from which most relations are found


def too_few_for_regression(
    num_users: int, epsilon: float, min_reports: int, public: bool = False
) -> TooFew | None:
    """Return why ``num_users`` users are too few for a regression, or None if they are enough.

    At least 20 times ``min_reports`` users are needed (400 by default), and enough to estimate the
    mean target well: 4,615 at epsilon 1.
    """
    fewest = _COHORTS * min_reports
    needed = max(fewest, _users_for_mean(epsilon, public))
    if num_users >= needed:
        return None
    larger = None
    if num_users >= fewest:
        steps = range(math.ceil(100 * epsilon), 100 * _LARGEST_EPSILON)
        enough = bisect_left(
            steps, True, key=lambda k: num_users >= _users_for_mean(k / 100, public)
        )
        if enough < len(steps):
            larger = steps[enough] / 100
    return TooFew(
        f"{num_users:,} users are too few for a model at epsilon {epsilon:g}: not even the mean "
        "would be known well.",
        "noise",
        needed,
        _STRONG * needed,
        larger,
        advice="A mean or a share of all users needs only some dozens.",
    )


def precision_notes(num_users: int, epsilon: float, public: bool = False) -> list[str]:
    """Return a list with a note if users are enough for strong relations only; else an empty list.

    The users are enough for a regression in any case.
    """
    needed = _STRONG * _users_for_mean(epsilon, public)
    if num_users >= needed:
        return []
    return [
        f"{num_users:,} users are few for epsilon {epsilon:g}: only a strong relation is found, "
        f"and otherwise the model is the mean. From {needed:,} users on most relations are found."
    ]


def _users_for_mean(epsilon: float, public: bool) -> int:
    variance = number_randomizer(epsilon, _CLIP).variance + 1  # variance of reports, and of users
    return math.ceil(variance / (_MEAN_ERROR_PUBLIC if public else _MEAN_ERROR) ** 2)
