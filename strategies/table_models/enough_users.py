"""How many users a regression needs."""

import math
from bisect import bisect_left

from ldp_flower.refusals import TooFew

from ..subprotocols.scales import number_randomizer

_COHORTS = 20  # of min_reports users each, that a run needs
# Standard error of the mean target in its standard deviations, if all users reported it clipped to
# 1.5 of these. With fewer, 1,000 and 2,000 users at epsilon 1, 37 and 32 % of runs on 60 tables of
# chosen_on.txt were worse than an R2 of -.05 (seed 5); with 1.25 times as many or more, up to 3 %.
_MEAN_ERROR, _CLIP = 0.05, 1.5
# Likewise of public features: with .055, .07 and .08 up to 3 % were (198 tables, seeds 6 and 7).
_MEAN_ERROR_PUBLIC = 0.06
_LARGEST_EPSILON = 16  # that is proposed
_STRONG = 2  # times the fewest users, from where on most relations show


def too_few(
    num_users: int, epsilon: float, min_reports: int, public: bool = False
) -> TooFew | None:
    """Return why so many users are too few for a regression; None if they are not.

    They are if they are fewer than 20 times ``min_reports``, or than estimate the mean target well
    at ``epsilon``: 4,615 at epsilon 1, and 400 at any.
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
        advice="A mean or a share of all users takes some dozens.",
    )


def doubts(num_users: int, epsilon: float, public: bool = False) -> list[str]:
    """Return what to say of a regression by users who are enough, but few."""
    needed = _STRONG * _users_for_mean(epsilon, public)
    if num_users >= needed:
        return []
    return [
        f"{num_users:,} users are few for epsilon {epsilon:g}: only a strong relation "
        f"shows, and the mean is returned where none does. From {needed:,} users on most relations "
        "show."
    ]


def _users_for_mean(epsilon: float, public: bool) -> int:
    variance = number_randomizer(epsilon, _CLIP).variance + 1  # of reports, and of users
    return math.ceil(variance / (_MEAN_ERROR_PUBLIC if public else _MEAN_ERROR) ** 2)
