"""What a series keeps of each collection, and the levels behind them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..runtime.facts import PrivacySpent, Step
from ..runtime.result import Floats
from .local_level import local_level


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One collection.

    Attributes
    ----------
    number : int
        From 1.
    names : list of str
        What is estimated.
    values, std_errors : ndarray of float64, shape (names,)
        The estimates, with their standard errors for the population.
    num_users : int
        Users in the census.
    asked : int
        Users in the panel.
    reports : int
        Users of the panel who reported.
    no_budget : int
        Users of the panel who had no budget left.
    steps : list of Step
        Who was asked and who answered, question by question.
    notes : list of str
        What a user of these estimates should know.
    privacy : PrivacySpent
        What one of these users spent at most.
    """

    number: int
    names: list[str]
    values: Floats
    std_errors: Floats
    num_users: int
    asked: int
    reports: int
    no_budget: int
    steps: list[Step]
    notes: list[str]
    privacy: PrivacySpent


@dataclass(frozen=True)
class Levels:
    """Levels of everything that is estimated, each array of shape (collections, names).

    ``raw`` and ``raw_std_error`` are the estimates themselves; the others are as of
    :class:`~ldp_flower.strategies.recurring.local_level.LocalLevel`.
    """

    raw: Floats
    raw_std_error: Floats
    filtered: Floats
    filtered_std_error: Floats
    level: Floats
    std_error: Floats


def levels_of(collected: Sequence[Collected]) -> Levels:
    """Return the levels from the first to the last collection; those left out are missing."""
    shape = collected[-1].number, len(collected[0].names)
    raw, errors = np.full(shape, np.nan), np.full(shape, np.inf)
    for each in collected:
        raw[each.number - 1], errors[each.number - 1] = each.values, each.std_errors
    errors[~np.isfinite(raw)] = np.inf
    columns = [local_level(*pair) for pair in zip(raw.T, errors.T, strict=True)]
    found = (
        np.stack([getattr(column, name) for column in columns], axis=1)
        for name in ("filtered", "filtered_std_error", "level", "std_error")
    )
    return Levels(raw, errors, *found)
