"""Expected errors of a protocol at settings other than the given one."""

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..expectation import Expectation, Plannable, Setting, WouldRefuse
from ..validation import plain_arguments
from .in_memory import Simulations

MOST_USERS, MOST_EPSILON = 10**9, 16.0
_LEAST_EPSILON = 0.01
_STEP = 1.05  # accuracy of a search, as a ratio
# Ratios of consecutive numbers in a search: steps in users, steps in other numbers, and the ratio
# below which the search interpolates. Formulas are quick, so they are evaluated until two numbers
# are near each other.
_FAR_USERS, _FAR, _NEAR = 4.0, 2.0, 2.0
_FEWER = 6  # ratio of the number of runs at the given setting to that at another setting
_CROWDS = (1 / 4, 1.0, 4.0)  # numbers of users on a curve, relative to the given number
# Epsilons on a curve, at the given number of users and at other numbers of users.
_EPSILONS, _FEW_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0.5, 4.0)


@plain_arguments
def expectation(
    strategy: Plannable,
    setting: Setting,
    runs: int | None = None,
    simulations: Simulations | None = None,
) -> Expectation:
    """Return the expected error of a strategy, by its formula or by simulated runs.

    Parameters
    ----------
    strategy : LdpStrategy
        The strategy, with its parameters.
    setting : Setting
        Public numbers.
    runs : int, optional
        Number of runs, if the strategy is simulated; by default 24, or 3 if results state the
        error.
    simulations : Simulations, optional
        Earlier simulations whose synthetic users are used again.

    Raises
    ------
    NoPlan
        If the error is not known.
    ValueError
        If noise is added at the node and the number of nodes is not given, or if it is given and
        noise is added at the user.
    WouldRefuse
        If a run with these numbers would be refused before any query.
    """
    noise = getattr(strategy, "noise", "user")
    if (noise == "user") != (setting.num_nodes is None):
        wanted = "no num_nodes" if noise == "user" else "num_nodes >= 1"
        raise ValueError(f"Expected {wanted} with noise={noise!r}, got {setting.num_nodes}.")
    population = strategy.synthetic(setting)
    if population is None:
        return strategy.expect(setting)
    known = Simulations() if simulations is None else simulations
    runs = population.runs if runs is None else runs
    return known.expectation(strategy, population, setting, runs)  # type: ignore[arg-type]


class Variants:
    """Variants of a protocol with other numbers of users and features and other epsilons.

    The curve of a plan, and its changes that reach a target error, are made of their errors.
    A given strategy keeps its other parameters. For a class, the parameters follow from the
    setting.
    """

    def __init__(self, protocol: Any, setting: Setting, epsilon: float, noise: str) -> None:
        self._protocol, self.setting, self.epsilon = protocol, setting, epsilon
        self.noise = noise
        self._simulations = Simulations()
        population = self.strategy(setting, epsilon).synthetic(setting)
        self._runs = 0 if population is None else population.runs
        self._near = _FAR_USERS if self._runs else _NEAR
        self._known: dict[tuple[Setting, float], Expectation | WouldRefuse] = {}

    def strategy(self, setting: Setting, epsilon: float) -> Any:
        """Return the strategy for this setting and epsilon."""
        if isinstance(self._protocol, Plannable):
            return dataclasses.replace(self._protocol, epsilon=epsilon)  # type: ignore[type-var]
        planned = self._protocol.planned_for(setting, epsilon)
        return planned if self.noise == "user" else planned.with_noise(self.noise)

    def points(self) -> list[tuple[int, float]]:
        """Return the points of the plan's curve, pairs of users and epsilon, in ascending order."""
        own = self.setting.num_users
        crowds = {max(round(share * own), 1): share for share in _CROWDS}
        crowds[own] = 1.0
        return [
            (users, epsilon)
            for users, share in sorted(crowds.items())
            for epsilon in sorted({*(_EPSILONS if share == 1 else _FEW_EPSILONS), self.epsilon})
        ]

    def expect(self, epsilon: float | None = None, **changed: Any) -> Expectation:
        """Return the expectation with other numbers, or raise WouldRefuse.

        A run need not use all of its users and epsilon. The error is therefore never larger than
        at a point of the curve with fewer users and a smaller epsilon. Without this rule, the
        scatter of medians could show larger errors for more users.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        setting = dataclasses.replace(self.setting, **changed)
        own = least = self._expected(setting, epsilon)
        if "num_features" in changed:
            return own
        for users, less in self.points():
            if users <= setting.num_users and less <= epsilon:
                with suppress(WouldRefuse):
                    fewer = dataclasses.replace(self.setting, num_users=users)
                    least = min(least, self._expected(fewer, less), key=lambda each: each.value)
        return dataclasses.replace(own, low=least.low, value=least.value, high=least.high)

    def error(self, epsilon: float | None = None, **changed: Any) -> float:
        """Return the expected error, or infinity if the run would be refused."""
        try:
            return self.expect(epsilon, **changed).value
        except WouldRefuse:
            return math.inf

    def _expected(self, setting: Setting, epsilon: float) -> Expectation:
        """Return the expected error that a simulation or formula gives; it is cached."""
        at = setting, epsilon
        if at not in self._known:
            own = self._known.get((self.setting, self.epsilon))
            try:
                found = self._known[at] = expectation(
                    self.strategy(*at),
                    setting,
                    self._runs if at == (self.setting, self.epsilon) else -(-self._runs // _FEWER),
                    self._simulations,
                )
                if self._runs and isinstance(own, Expectation) and own.value:
                    self._known[at] = self._adjusted(own, found, *at)
            except WouldRefuse as refusal:
                self._known[at] = refusal
        expected = self._known[at]
        if isinstance(expected, WouldRefuse):
            raise expected
        return expected

    def _adjusted(
        self, own: Expectation, found: Expectation, setting: Setting, epsilon: float
    ) -> Expectation:
        """Return the expectation ``found`` by few runs, adjusted to ``own`` by many runs.

        ``own`` is the expectation at the setting that the plan is made for. With at most as many
        users and as large an epsilon, the error is not smaller than there. The range is in
        proportion to the range there.
        """
        value = found.value
        if epsilon <= self.epsilon and setting.num_features == self.setting.num_features:
            value = max(value, own.value) if setting.num_users <= self.setting.num_users else value
        share = value / own.value
        return dataclasses.replace(found, low=share * own.low, value=value, high=share * own.high)

    def users_for(self, target: float) -> int | None:
        """Return the fewest users with an expected error of at most ``target``, to two digits.

        Returns None if no number of users reaches the target.
        """
        own = self.setting.num_users
        stride = _FAR_USERS, self._near
        least = _least(lambda n: self.error(num_users=round(n)), target, own, 1, MOST_USERS, stride)
        return None if least is None else _rounded_up(least)

    def epsilon_for(self, target: float) -> float | None:
        """Return the least epsilon with an expected error of at most ``target``, to two digits.

        Returns None if no epsilon up to 16 reaches the target.
        """
        start = min(max(self.epsilon, _LEAST_EPSILON), MOST_EPSILON)
        stride = _FAR, self._near
        least = _least(self.error, target, start, _LEAST_EPSILON, MOST_EPSILON, stride)
        return None if least is None else min(_rounded_up(100 * least) / 100, MOST_EPSILON)

    def features_for(self, target: float) -> int | None:
        """Return the largest number of features with an expected error of at most ``target``.

        It is at most the given number of features. Returns None if no number reaches the target,
        or if the number of features cannot be changed.
        """
        most = self.setting.num_features
        if most is None or (isinstance(self._protocol, Plannable) and self._protocol.sized):
            return None

        def error(number: int) -> float:
            try:
                return self.error(num_features=number)
            except ValueError:  # fewer features than the protocol accepts
                return -math.inf

        stride = _FAR, self._near
        least = _least(lambda n: error(max(round(most / n), 1)), target, 1, 1, most, stride)
        found = 0 if least is None else int(most / least + 1e-6)
        return found if found and math.isfinite(error(found)) else None


def _least(
    error: Callable[[float], float],
    target: float,
    start: float,
    low: float,
    high: float,
    stride: tuple[float, float],
) -> float | None:
    """Return the least number, within 5 %, at which a falling error is at most the target.

    The search begins at ``start`` and multiplies or divides the number by ``stride[0]`` in each
    step. Between two numbers whose ratio is at most ``stride[1]``, it interpolates the error as a
    power of the number. Returns None if no number up to ``high`` reaches the target.
    """
    far, near = stride

    def reaches(number: float) -> bool:
        return error(number) <= target

    if reaches(start):
        least = start
        while least > low and reaches(max(least / far, low)):
            least = max(least / far, low)
        most, least = least, max(least / far, low)
    else:
        most = min(start * far, high)
        if not reaches(most) and not reaches(high):
            return None
        while not reaches(most):
            most = min(most * far, high)
        least = max(most / far, min(start, high), low)
    while most > _STEP * least:
        more, less = error(least), error(most)
        if most <= near * _STEP * least and math.isfinite(more) and 0 < less < target < more:
            share = math.log(more / target) / math.log(more / less)
            return float(least * (most / least) ** share)
        middle = math.sqrt(least * most)
        least, most = (least, middle) if reaches(middle) else (middle, most)
    return most


def _rounded_up(number: float) -> int:
    """Return a number rounded up to an integer of two significant digits."""
    unit: int = 10 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return math.ceil(number / unit) * unit
