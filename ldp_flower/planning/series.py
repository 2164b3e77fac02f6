"""Errors to expect of a series, from public numbers: split budgets, panels, permanent answers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..expectation import Plannable, Setting, WouldRefuse
from .variants import expectation

#: Assumed standard deviation of users' values, as part of their width: an expectation is about the
#: users who are asked, and a panel is a sample of all.
SPREAD = 0.25


@dataclass(frozen=True)
class SeriesPlan:
    """Standard errors to expect, root mean squares over all collections; NaN if refused."""

    error: str  # what they are errors of, as of :class:`~ldp_flower.planning.Expectation`
    split: float  # everybody answers at every collection, at epsilon / collections
    panel: float  # one panel answers, at epsilon: a collection's own estimate
    today: float  # the level from the panels up to a collection's
    past: float  # the level from all panels
    # Everybody answers permanently, at epsilon, and the times of changes are public; infinite where
    # the protocol cannot ask so.
    memoised: float


def plan_series(
    protocol: type[Plannable], setting: Setting, epsilon: float, collections: int, drift: float
) -> SeriesPlan:
    """Return the errors to expect of a series of 2 or more collections, at epsilon for all of them.

    ``drift`` is the standard deviation of a level's change from one collection to the next, in the
    units of the error. NoPlan says that it is not known what error to expect of the protocol.
    """
    given = vars(setting)
    few = Setting(**{**given, "num_users": max(1, setting.num_users // collections)})
    what, of_panel = _expected(protocol, few, epsilon)
    panel = math.hypot(of_panel, SPREAD / math.sqrt(few.num_users))
    other, split = _expected(protocol, setting, epsilon / collections)
    today, past = level_errors(panel, drift, collections)
    planned: Any = protocol.planned_for(setting, epsilon)
    permanent = math.inf
    if hasattr(planned, "permanent") and (form := planned.permanent()) is not None:
        permanent = float(form.expected(setting.num_users, planned.min_reports))
    return SeriesPlan(what or other or "error", split, panel, today, past, permanent)


def _expected(protocol: type[Plannable], setting: Setting, epsilon: float) -> tuple[str, float]:
    """Return what is expected of one collection."""
    strategy = protocol.planned_for(setting, epsilon)
    population = strategy.synthetic(setting)
    try:
        if population is not None and population.reported:
            found = expectation(strategy, setting)
        else:  # of other simulated protocols no series is known
            found = strategy.expect(setting)
    except WouldRefuse:
        return "", np.nan
    return found.error, found.value


def level_errors(error: float, drift: float, collections: int) -> tuple[float, float]:
    """Return the errors of today's and of past levels, of estimates with this error.

    By the recursions of the Kalman filter and smoother for a random walk whose drift is known.
    """
    filtered = np.full(collections, error**2)
    ahead = filtered + drift**2
    for t in range(1, collections):
        ahead[t] = filtered[t - 1] + drift**2
        filtered[t] = 1 / (1 / ahead[t] + 1 / error**2)
    smoothed = filtered.copy()
    for t in range(collections - 2, -1, -1):
        back = filtered[t] / ahead[t + 1]
        smoothed[t] += back**2 * (smoothed[t + 1] - ahead[t + 1])
    return float(np.sqrt(filtered.mean())), float(np.sqrt(smoothed.mean()))
