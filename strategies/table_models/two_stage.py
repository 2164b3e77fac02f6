"""A descent in two stages: within the bounds of columns, then around their estimated centres."""

from bisect import bisect_left
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np

from ldp_flower.randomizers import ball_codebook
from ldp_flower.schema import Schema
from ldp_flower.validation import Floats

from ..runtime.exchange import Ask
from ..runtime.run import Run
from ..subprotocols.scale import enough_for_norm
from ..tables.standardisation import estimate_standardisation, with_standardisation
from .holdout import ask_line, ask_scales, held_out, hold_out
from .ridge_walk import ridge_walk, row_length

FIRST = 0.2  # share of the users who walk before columns' centres and scales are known
_COLUMNS = 0.05  # share of the users who report all centres at first
_WORTH = 0.25  # variance of a centre up to which it helps: that of a column within its bounds
_FEWEST = 1000  # users of two stages
_COHORTS = 50  # of min_reports users each, that all questions of two stages may take
FOR_COLUMNS = 0.3  # share of the users that report centres and scales at most
_SECOND = 0.1  # share of the users that is left for the second stage at least
PRIOR_STEP = 0.7, 0.4  # from the first stage's end to the second's, and how that varies
METHODS = ("auto", "walk", "two-stage")


def noise_of_centres(num_users: int, dim: int, epsilon: float) -> float:
    """Return the variance of a column's estimated centre, in units of its bounds."""
    return ball_codebook(epsilon, dim, 1.0).variance * dim / (_COLUMNS * num_users)


def chosen(num_users: int, dim: int, epsilon: float, min_reports: int) -> str:
    """Return the better method by public numbers alone.

    Of the table cps with bounds ten times too wide the walk alone explains .20 and .24 of the
    variance at epsilon 4 and 8, two stages .30 and .32 (medians of five splits).
    """
    known = noise_of_centres(num_users, dim, epsilon) <= _WORTH
    enough = num_users >= _FEWEST and enough_for_two_stages(num_users, epsilon, min_reports)
    return "two-stage" if known and enough else "walk"


def enough_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> bool:
    """Whether enough users are left for the second stage."""
    kept = held_out(num_users, epsilon, two_stages=True)
    left = (1 - FIRST - FOR_COLUMNS - _SECOND) * num_users - enough_for_norm(epsilon) - kept
    return left >= 0 and num_users >= _COHORTS * min_reports


def too_few_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> str:
    """Return why so many users are too few for two stages; nothing if they are not."""
    if enough_for_two_stages(num_users, epsilon, min_reports):
        return ""
    most = 2 * num_users
    while not enough_for_two_stages(most, epsilon, min_reports):
        most *= 2
    each = range(num_users, most)
    needed = each[
        bisect_left(each, True, key=lambda n: enough_for_two_stages(n, epsilon, min_reports))
    ]
    return (
        f"{num_users:,} users are too few for two stages at epsilon {epsilon:g}: the second would "
        f"lack them. At least {needed:,} users are needed, "
        'or method="walk".'
    )


def two_stages(
    run: Run, schema: Schema, rows_per_user: float | None, start: Floats
) -> Generator[Ask, Any, Floats]:
    """Return coefficients of the schema's features, from all users not asked yet.

    The first stage walks within the bounds. Then columns' centres and scales are estimated, and
    the second stage goes on in units of these: where bounds are much wider than what columns
    hold, the first one gets nowhere. A hold-out cohort estimates the step along the second.
    """
    dim, epsilon = schema.num_features, run.epsilon
    (scale_users,), (line,) = (
        hold_out(run, "stage scales"),
        hold_out(run, "stage moments"),
    )
    length, walkers = row_length(schema), int(FIRST * run.num_users)
    first = yield from ridge_walk(run, walkers, dim, rows_per_user, row_length=length, start=start)
    columns = yield from estimate_standardisation(
        run, epsilon, schema, partial(ball_codebook, epsilon)
    )
    walk = ridge_walk(
        run,
        run.num_unasked,
        dim,
        rows_per_user,
        row_length=length,
        start=columns.moved(first),
    )
    second = yield from with_standardisation(walk, columns)
    direction = columns.restored(second) - first
    scales = yield from ask_scales(scale_users, epsilon, first, direction)
    moments = yield from ask_line(line, epsilon, first, direction, scales)
    step = float(np.clip(moments.best_step(*PRIOR_STEP), 0.0, 1.0))
    return np.asarray(first + step * direction)
