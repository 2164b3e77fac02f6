"""The gate: users kept back for it tell whether a fit is better than the mean, or it is not used.

A fit of too few users is not a little worse than the mean predictor but many times, and
nothing in it says so. So some users are not asked for the fit. Each of them reports one
number, the difference between its mean squared residual and its mean squared deviation from
the targets' level, both in units in which targets have variance 1.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.randomizers import Estimate

from .base import LdpStrategy
from .exchange import Ask
from .population import Cohort
from .result import Fit
from .squared_errors import ask_squared_errors, number_randomizer, reach

Floats = NDArray[np.float64]
AnyFit = TypeVar("AnyFit", bound=Fit)

_NOISE = 0.1  # standard error of R2 that is wanted ...
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.2  # ... from these shares of the users
_LEAST_USERS = 30  # a normal score is not one for fewer
_SURE = 1.645  # standard errors: a model no better than the mean passes once in 20 times
_KNOWN = 0.2  # standard error of the level up to which users are not asked for it
_LEVEL_SHARE = 1 / 3  # of those kept back
_LEVEL_REACH = 1.5  # where a user's mean target is clipped


@dataclass(frozen=True)
class Judges:
    """Users who are kept back.

    Attributes
    ----------
    difference : Cohort
        Those who compare the fit with the mean predictor.
    level : Cohort, optional
        Those who tell the targets' mean before, if it is not known.
    """

    difference: Cohort
    level: Cohort | None = None


@dataclass(frozen=True)
class Verdict:
    """What the judges said, in units in which targets have variance 1.

    Attributes
    ----------
    accepted : bool
        Whether the fit is better than the mean predictor, beyond chance.
    r2 : float
        Share of the targets' variance that the fit explains.
    std_error : float
        Its standard deviation.
    level : float
        Mean of the targets, which the mean predictor predicts.
    level_error : float
        Its standard deviation.
    notes : list of str
        What a user of the fit should know.
    """

    accepted: bool
    r2: float
    std_error: float
    level: float
    level_error: float
    notes: list[str] = field(default_factory=list)

    def applied(self, fit: AnyFit) -> AnyFit:
        """Return the fit, or the mean predictor if it was not accepted, with the notes."""
        notes = [*fit.notes, *self.notes]
        if self.accepted:
            return replace(fit, notes=notes)
        first = np.eye(1, len(fit.coef))[0]
        return replace(
            fit, coef=self.level * first, std_error=self.level_error * first, notes=notes
        )


def keep_back(strategy: LdpStrategy[Any], epsilon: float, level_error: float = 0.0) -> Judges:
    """Take users for the gate, before the fit asks the others.

    As many as tell R2 with a standard error of 0.1, but between 5 and 20 % of all users.

    Parameters
    ----------
    strategy : LdpStrategy
        Whose users they are.
    epsilon : float
        Privacy parameter of each user's one report.
    level_error : float (default: 0.0)
        Standard deviation of what is known about the targets' mean, in units of their standard
        deviation: 0 if it was declared. Above 0.2 a third of the judges tell it.

    Raises
    ------
    TooFewReports
        If that would leave fewer than 30 judges, or than ``min_reports``.
    """
    users = strategy.num_users
    wanted = number_randomizer(epsilon, 2 / _NOISE).variance / users
    size = int(np.clip(wanted, _LEAST_SHARE, _MOST_SHARE) * users)
    size = max(size, _LEAST_USERS, strategy.min_reports)
    if level_error <= _KNOWN:
        return Judges(*strategy.cohorts([size]))
    level = int(_LEVEL_SHARE * size)
    difference, tellers = strategy.cohorts([size - level, level])
    return Judges(difference, tellers)


def gate(
    judges: Judges, coef: Floats, epsilon: float, level_error: float = 0.0
) -> Generator[Ask, Estimate, Verdict]:
    """Ask the judges whether a fit is better than the mean predictor.

    Parameters
    ----------
    judges : Judges
        From :func:`keep_back`, with the same ``epsilon`` and ``level_error``.
    coef : ndarray, shape (dim,)
        The fit in standardised units; its first coefficient is the intercept.
    epsilon : float
        Privacy parameter of each judge's report.
    level_error : float (default: 0.0)
        Standard deviation of the targets' mean around 0, in units of their standard deviation.

    Returns
    -------
    Verdict
        Accepted if R2 clears zero by 1.645 standard errors, so that a fit no better than
        the mean predictor passes once in 20 times, whatever epsilon is.

    Notes
    -----
    The mean square around a centre that is off by ``d`` is too large by ``d**2``, which
    is known on average: R2 is less by it, and its variance more by that of ``d**2``.
    """
    level = 0.0
    if judges.level is not None:
        level, level_error = yield from _ask_level(judges.level, len(coef), epsilon, level_error)
    radius = reach(epsilon, judges.difference, _NOISE)
    randomizer = number_randomizer(epsilon, radius)
    told = yield from ask_squared_errors(judges.difference, coef, randomizer, (1.0, -1.0), level)
    r2 = -told.value - level_error**2
    std_error = math.hypot(told.std_error, math.sqrt(2) * level_error**2)
    accepted = r2 > _SURE * std_error
    notes = _notes(r2, std_error, judges.difference.size, accepted)
    return Verdict(accepted, r2, std_error, level, level_error, notes)


def _ask_level(
    cohort: Cohort, dim: int, epsilon: float, level_error: float
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Return the mean of the targets and its error, given that it is about 0."""
    # A user's mean target is a quarter of the difference of its mean squares around -1 and 1.
    around_minus_one = -np.eye(1, dim)[0]
    randomizer = number_randomizer(epsilon, _LEVEL_REACH)
    weights = (0.25, -0.25)
    told = yield from ask_squared_errors(cohort, around_minus_one, randomizer, weights, 1.0)
    weight = level_error**2 / (level_error**2 + told.std_error**2)
    return weight * told.value, math.sqrt(weight) * told.std_error


def _notes(r2: float, std_error: float, judges: int, accepted: bool) -> list[str]:
    found = (
        f"{judges:,} users who were kept back say that it explains {r2:.2f} of the targets' "
        f"variance (standard error {std_error:.2f})"
    )
    if not accepted:
        return [
            f"The fit is not returned but the mean predictor, all slopes zero: {found}, and "
            f"{_SURE * std_error:.2f} is what chance alone may give. More users or a larger "
            "epsilon are needed."
        ]
    if r2 < 2 * _SURE * std_error:
        return [f"The fit may be weak: {found}."]
    return []
