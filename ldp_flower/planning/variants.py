"""A protocol at other numbers than those that somebody has in mind."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from .expectation import Expectation, WouldRefuse
from .plannable import Plannable
from .setting import Setting

MOST_USERS, MOST_EPSILON = 10**9, 16.0
_LEAST_EPSILON = 0.01
_STEP, _STRIDE = 1.05, 4.0  # how exactly numbers are told; how far a search looks at once


class Variants:
    """A protocol at other numbers of users, features and epsilon.

    Parameters
    ----------
    protocol : Plannable or a class of it
        A strategy, which keeps its own parameters; or a class, whose other parameters follow
        from the setting.
    setting : Setting
        Public numbers.
    epsilon : float
        Privacy parameter.
    """

    def __init__(self, protocol: Any, setting: Setting, epsilon: float) -> None:
        self._protocol, self.setting, self.epsilon = protocol, setting, epsilon
        self._known: dict[tuple[Setting, float], Expectation | WouldRefuse] = {}

    def strategy(self, setting: Setting, epsilon: float) -> Any:
        """Return the strategy that asks with these numbers."""
        if isinstance(self._protocol, Plannable):
            return dataclasses.replace(self._protocol, epsilon=epsilon)  # type: ignore[type-var]
        return self._protocol.planned_for(setting, epsilon)

    def expect(self, epsilon: float | None = None, **changed: Any) -> Expectation:
        """Return what to expect with another epsilon or setting.

        Raises
        ------
        NoPlan, WouldRefuse
            As of :meth:`Plannable.expect`.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        setting = dataclasses.replace(self.setting, **changed)
        if (setting, epsilon) not in self._known:
            try:
                self._known[setting, epsilon] = self.strategy(setting, epsilon).expect(setting)
            except WouldRefuse as refusal:
                self._known[setting, epsilon] = refusal
        found = self._known[setting, epsilon]
        if isinstance(found, WouldRefuse):
            raise found
        return found

    def error(self, epsilon: float | None = None, **changed: Any) -> float:
        """Return the expected error; infinite where the run would be refused."""
        try:
            return self.expect(epsilon, **changed).value
        except WouldRefuse:
            return math.inf

    def users_for(self, target: float) -> int | None:
        """Return the fewest users whose expected error is at most ``target``, in two digits."""
        own = self.setting.num_users
        least = _least(lambda n: self.error(num_users=round(n)) <= target, own, 1, MOST_USERS)
        return None if least is None else _up(least)

    def epsilon_for(self, target: float) -> float | None:
        """Return the least epsilon that does, in two digits; None if none up to 16 does."""
        start = min(max(self.epsilon, _LEAST_EPSILON), MOST_EPSILON)
        least = _least(lambda e: self.error(e) <= target, start, _LEAST_EPSILON, MOST_EPSILON)
        return None if least is None else min(_up(100 * least) / 100, MOST_EPSILON)

    def features_for(self, target: float) -> int | None:
        """Return with how many features, fewer than now, the expected error is that small."""
        most = self.setting.num_features
        if most is None or (isinstance(self._protocol, Plannable) and self._protocol.sized):
            return None
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            try:
                reached = self.error(num_features=middle) <= target
            except ValueError:  # fewer than the protocol is for
                reached = True
            low, high = (middle, high) if reached else (low, middle)
        try:
            return low if low and self.error(num_features=low) <= target else None
        except ValueError:
            return None


def _least(reaches: Callable[[float], bool], start: float, low: float, high: float) -> float | None:
    """Return the least number from where on a growing condition holds, within 5 %."""
    if reaches(start):
        least = start
        while least > low and reaches(max(least / _STRIDE, low)):
            least = max(least / _STRIDE, low)
        most, least = least, max(least / _STRIDE, low)
    else:
        most = start
        while most < high and not reaches(most):
            most = min(most * _STRIDE, high)
        if not reaches(most):
            return None
        least = max(most / _STRIDE, low)
    while most > _STEP * least:
        middle = math.sqrt(least * most)
        least, most = (least, middle) if reaches(middle) else (middle, most)
    return most


def _up(number: float) -> int:
    """Return an integer that is not smaller, in two digits."""
    unit: int = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit
