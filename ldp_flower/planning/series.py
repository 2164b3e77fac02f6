"""Expected errors of a series: split budgets, panels, permanent answers, noise at the node."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..expectation import Plannable, Setting, WouldRefuse
from ..randomizers.sum_budget import plan_epsilon, plan_rho
from .variants import expectation

#: Assumed standard deviation of users' values, relative to the width of their bounds. It adds a
#: panel's sampling error, since an expectation is about the queried users only.
SPREAD = 0.25


@dataclass(frozen=True)
class SeriesPlan:
    """Expected standard errors (root mean squares over all collections); NaN if refused."""

    error: str  # name of the error, see :class:`~ldp_flower.planning.Expectation`
    split: float  # all users answer in every collection, at epsilon / collections
    panel: float  # one panel answers in each collection, at epsilon; the collection's estimate
    today: float  # level estimated from the panels up to a collection
    past: float  # level estimated from all panels
    # All users give permanent answers, at epsilon, and the times of changes are public. Infinite
    # if the protocol has no permanent answers.
    memoised: float
    # All users answer in every collection by a share of one plan, with noise at the node: the
    # collection's estimate, today's level, past levels. Infinite without a number of nodes.
    node: float = math.inf
    node_today: float = math.inf
    node_past: float = math.inf

    @property
    def errors(self) -> tuple[float, ...]:
        """The plan's expected errors, one for each way to collect, in the order of the fields."""
        return tuple(getattr(self, each.name) for each in fields(self)[1:])


def plan_series(
    protocol: type[Plannable], setting: Setting, epsilon: float, collections: int, drift: float
) -> SeriesPlan:
    """Return the expected errors of a series of 2 or more collections, which cost epsilon together.

    ``drift`` is the standard deviation of a level's change from one collection to the next, in the
    units of the error. The plan includes noise at the node if the setting has a number of nodes,
    and if the protocol can add noise there. Raise NoPlan if the expected error of the protocol is
    not known.
    """
    alone = replace(setting, num_nodes=None)
    few = replace(alone, num_users=max(1, setting.num_users // collections))
    what, of_panel = _expected(protocol.planned_for(few, epsilon), few)
    panel = math.hypot(of_panel, SPREAD / math.sqrt(few.num_users))
    other, split = _expected(protocol.planned_for(alone, epsilon / collections), alone)
    levels = level_errors(panel, drift, collections)
    planned: Any = protocol.planned_for(alone, epsilon)
    permanent = math.inf
    if hasattr(planned, "permanent") and (form := planned.permanent()) is not None:
        permanent = float(form.expected(setting.num_users, planned.min_reports))
    at_node = (math.inf,) * 3
    if setting.num_nodes is not None and "node" in protocol.noises:
        # The epsilon at which a separate run has the noise of one collection.
        rho = plan_rho(epsilon, planned.delta) / collections
        one: Any = protocol.planned_for(setting, plan_epsilon(rho, planned.delta))
        third, error = _expected(replace(one, noise="node"), setting)
        other, at_node = other or third, (error, *level_errors(error, drift, collections))
    return SeriesPlan(what or other or "error", split, panel, *levels, permanent, *at_node)


def _expected(strategy: Any, setting: Setting) -> tuple[str, float]:
    """Return the name and the value of one collection's expected error; NaN if refused."""
    population = strategy.synthetic(setting)
    try:
        if population is None or population.in_series:
            found = expectation(strategy, setting)
        else:  # raises NoPlan, as series of models are not planned
            found = strategy.expect(setting)
    except WouldRefuse:
        return "", np.nan
    return found.error, found.value


def level_errors(error: float, drift: float, collections: int) -> tuple[float, float]:
    """Return the errors of today's level and of past levels, from estimates with this error.

    The errors follow from the recursions of the Kalman filter and smoother for a random walk with
    known drift.
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
