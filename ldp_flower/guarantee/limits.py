"""Limits on the budget that each user may spend, by the operator's policy and by a study."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .budget import Cost, PrivacyPolicy
from .studies import LIMITS, Study

Allowed = NDArray[np.bool_]


@dataclass(frozen=True)
class Limit:
    """A limit on the sum of a user's costs, with the sums that are spent so far.

    Attributes
    ----------
    name : str
        A key of the node's configuration, or a limit of the study.
    place : int
        Index of the limited number in :attr:`.Cost.numbers`.
    largest : float
        Largest sum.
    spent : ndarray
        Sum that each user has spent.
    """

    name: str
    place: int
    largest: float
    spent: NDArray[np.float64]

    def admits(self, cost: Cost) -> Allowed:
        """Return a mask of the users who stay within the limit if they also pay ``cost``."""
        # The limit has no tolerance for the rounding of a sum, which is relative 1e-16 a report:
        # three times 0.1 does not fit into 0.3.
        return np.asarray(self.spent + cost.numbers[self.place] <= self.largest)

    @property
    def left(self) -> NDArray[np.float64]:
        """Largest cost that each user can still pay."""
        return np.maximum(self.largest - self.spent, 0.0)

    @property
    def least(self) -> float:
        """Largest cost that every user can still pay; the whole limit if there are no users."""
        return float(self.left.min(initial=self.largest))


def limits_of(
    policy: PrivacyPolicy,
    spent: NDArray[np.float64],
    for_life: NDArray[np.float64] | None = None,
    study: Study | None = None,
    in_study: NDArray[np.float64] | None = None,
) -> list[Limit]:
    """Return the limits of a study, if one is given, and the limits of a policy.

    ``spent`` holds the epsilon, the delta and the epsilon alone that each user has spent since its
    budget was last renewed, and ``for_life`` the epsilon that it has spent in total. ``in_study``
    holds what each user has ever spent in the study.
    """
    largest = (policy.max_epsilon, policy.max_delta, policy.epsilon_alone)
    found = _each("max-", largest, policy.noise == "shared", spent)
    if policy.lifetime_epsilon is not None:
        before = spent[0] if for_life is None else for_life
        found.append(Limit("lifetime-epsilon", 0, policy.lifetime_epsilon, before))
    if study is not None and in_study is not None:
        shared = study.epsilon_alone is not None
        found = _each("the study's ", study.limits, shared, in_study) + found
    return found


def _each(
    whose: str, largest: Sequence[float], shared: bool, spent: NDArray[np.float64]
) -> list[Limit]:
    """Return limits on epsilon, delta and epsilon alone, whose names begin with ``whose``.

    Without shared noise, the limit on epsilon alone has the name of the limit on epsilon.
    """
    names = LIMITS if shared else (*LIMITS[:2], LIMITS[0])
    each = zip(names, largest, spent, strict=True)
    return [Limit(whose + name, place, *of) for place, (name, *of) in enumerate(each)]


def exceeded(limits: Sequence[Limit], cost: Cost) -> list[str]:
    """Return the names of limits that a cost exceeds, if the names tell no users apart.

    The server receives these names if no user can pay. Limits that the cost exceeds without any
    earlier spending are named. If there are no such limits, and if there are several users who have
    all spent exactly the same, the limits that the cost exceeds for all users are named. Otherwise
    no limit is named.
    """
    found = [each for each in limits if cost.numbers[each.place] > each.largest]
    # The names tell no users apart if all of several users have spent the same.
    alike = all(len(each.spent) > 1 and not np.ptp(each.spent) for each in limits)
    if not found and alike:
        found = [each for each in limits if not each.admits(cost).any()]
    return list(dict.fromkeys(each.name for each in found))
