"""Number of users that a regression or a classifier of a table needs."""

import math
from bisect import bisect_left

from ldp_flower.randomizers import ball_codebook
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
# Limits of a classifier, measured on 11 tables at epsilon .5 to 8. If sqrt(d c / n) exceeds
# _MOST_NOISE, the median AUC is .5. With _FEWEST_OF_CLASS users of each class it is .6 at epsilon
# 2, .65 at 4, .7 at 8.
_MOST_NOISE, _FEWEST_OF_CLASS, _COHORTS_OF_CLASS = 1.3, 200, 10
_SHARE_ERROR, _HELD_OUT = 0.18, 0.08  # standard error of a class's share, from this share of users
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


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
    """Return a list with a note if a regression finds strong relations only, or an empty list.

    A run with so many users starts (:func:`too_few_for_regression` returns None). ``public`` is
    True if the features are public.
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


def too_few_for_classes(
    num_users: int, epsilon: float, min_reports: int, classes: int, features: int
) -> TooFew | None:
    """Return why ``num_users`` users are too few for a classifier, or None if they are enough.

    ``classes`` is the number of classes that are fitted against all others; it is 1 for two
    classes.
    """

    def needed(epsilon: float, features: int) -> int:
        noise = ball_codebook(epsilon, features, 1.0).variance * features / _MOST_NOISE**2
        shares = number_randomizer(epsilon, 0.5).variance / _SHARE_ERROR**2 / _HELD_OUT
        return math.ceil(
            classes * max(_FEWEST_OF_CLASS, _COHORTS_OF_CLASS * min_reports, noise, shares)
        )

    if num_users >= needed(epsilon, features):
        return None
    enough = (each for each in _EPSILONS if each > epsilon and needed(each, features) <= num_users)
    noise = ball_codebook(epsilon, features).variance
    fewer = int(_MOST_NOISE**2 * num_users / classes / noise)
    starts = needed(epsilon, max(fewer, 2)) <= num_users
    each = f" of each of {classes} classes against all others" if classes > 1 else ""
    these = f"With {fewer} features it would start. " if starts else ""
    return TooFew(
        f"{num_users:,} users are too few for {features} features{each} at epsilon "
        f"{epsilon:g}: by this protocol a model would hardly rank better than chance.",
        "noise",
        needed(epsilon, features),
        epsilon=next(enough, None),
        advice=f"{these}LdpFedAvg with a linear head may do with fewer.",
    )
