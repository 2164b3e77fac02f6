"""The gate: users kept back for it tell whether a fit is better than the mean, or it is not used.

A fit of too few users is not a little worse than the mean predictor but many times, and
nothing in it says so. So some users are not asked for the fit. A fifth of them tell the
targets' level, for centres may be wrong, be they declared or bought. The others report one
number each, the difference between the fit's mean squared residual and the mean squared
deviation from that level.
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
_LEAST_SHARE, _MOST_SHARE = 0.1, 0.25  # ... from these shares of the users
_REACH_NOISE = 0.05  # standard error up to which differences are clipped farther out
_LEAST_USERS = 20  # in a cohort: a normal score is not one for fewer
_LEAST_REACH = 1.0  # of a difference; less would hide whom a fit serves badly
_SURE = 1.645  # standard errors: a model no better than the mean passes once in 20 times
_LEVEL_SHARE = 0.2  # of those kept back
_LEVEL_REACH = 1.5  # where a user's mean target is clipped
_CONSISTENT = 2.0  # standard errors up to which the judges agree with a centre


@dataclass(frozen=True)
class Judges:
    """Users who are kept back.

    Attributes
    ----------
    difference : Cohort
        Those who compare the fit with the mean predictor.
    level : Cohort, optional
        Those who tell the targets' mean before; none if it is 0 by construction.
    """

    difference: Cohort
    level: Cohort | None = None


@dataclass(frozen=True)
class Verdict:
    """What the judges said, in units in which the targets' scale is 1.

    Attributes
    ----------
    accepted : bool
        Whether the fit is better than the mean predictor, beyond chance.
    gain : float
        By how much its mean squared error is below the mean predictor's: R2, if the scale
        is the targets' standard deviation.
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
    gain: float
    std_error: float
    level: float
    level_error: float
    notes: list[str] = field(default_factory=list)

    def applied(self, fit: AnyFit) -> AnyFit:
        """Return the fit's slopes around the level, or no slopes if they were not accepted."""
        coef, std_error = self.accepted * fit.coef, self.accepted * fit.std_error
        coef[0], std_error[0] = self.level, self.level_error
        return replace(fit, coef=coef, std_error=std_error, notes=[*fit.notes, *self.notes])


def keep_back(strategy: LdpStrategy[Any], epsilon: float, *, level_known: bool = False) -> Judges:
    """Take users for the gate, before the fit asks the others.

    As many as tell R2 with a standard error of 0.1, but between 10 and 25 % of all users.
    A fifth of them tell the level.

    Parameters
    ----------
    strategy : LdpStrategy
        Whose users they are.
    epsilon : float
        Privacy parameter of each user's one report.
    level_known : bool (default: False)
        Whether the targets' mean is 0 by construction, as of deviations from users' means.

    Raises
    ------
    TooFewReports
        If that would leave too few for the fit, or for a cohort.
    """
    users = strategy.num_users
    wanted = number_randomizer(epsilon, 2 / _NOISE).variance / users
    size = int(np.clip(wanted, _LEAST_SHARE, _MOST_SHARE) * users)
    fewest = max(_LEAST_USERS, strategy.min_reports)
    if level_known:
        return Judges(*strategy.cohorts([max(size, fewest)]))
    level = max(round(_LEVEL_SHARE * size), fewest)
    return Judges(*strategy.cohorts([max(size - level, fewest), level]))


def gate(
    judges: Judges, coef: Floats, epsilon: float, level_error: float = 0.0
) -> Generator[Ask, Estimate, Verdict]:
    """Ask the judges whether a fit is better than the mean predictor.

    Parameters
    ----------
    judges : Judges
        From :func:`keep_back`, with the same ``epsilon``.
    coef : ndarray, shape (dim,)
        The fit in standardised units. Its first coefficient, the intercept, does not count:
        both the fit and the mean predictor get the level that the judges tell.
    epsilon : float
        Privacy parameter of each judge's report.
    level_error : float (default: 0.0)
        What is believed to be the standard deviation of the targets' mean around 0, in
        units of their scale: 1 if nothing is known.

    Returns
    -------
    Verdict
        Accepted if the gain clears zero by 1.645 standard errors, so that a fit no better
        than the mean predictor passes once in 20 times, whatever epsilon is.

    Notes
    -----
    Around a level that is off by ``d`` both are worse than around the targets' mean by
    ``d**2``, which changes nothing between them, but may make the fit a weak one.
    """
    if judges.level is None:
        level, level_error = 0.0, 0.0
    else:
        level, level_error = yield from _level(judges.level, len(coef), epsilon, level_error)
    coef = np.concatenate([[level], coef[1:]])
    radius = reach(epsilon, judges.difference, _REACH_NOISE, _LEAST_REACH)
    randomizer = number_randomizer(epsilon, radius)
    told = yield from ask_squared_errors(judges.difference, coef, randomizer, (1.0, -1.0), level)
    gain, std_error = -told.value, told.std_error
    accepted = gain > _SURE * std_error
    notes = _notes(gain, std_error, level_error, judges.difference.size, accepted)
    return Verdict(accepted, gain, std_error, level, level_error, notes)


def _level(
    cohort: Cohort, dim: int, epsilon: float, level_error: float
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Return the mean of the targets and its error, given that it should be about 0."""
    # A user's mean target is a quarter of the difference of its mean squares around -1 and 1.
    around_minus_one = -np.eye(1, dim)[0]
    randomizer = number_randomizer(epsilon, _LEVEL_REACH)
    weights = (0.25, -0.25)
    told = yield from ask_squared_errors(cohort, around_minus_one, randomizer, weights, 1.0)
    # What was believed counts a fifth at most: its error leaves out bias, or it was declared.
    prior, noise = max(level_error, 2 * told.std_error) ** 2, told.std_error**2
    if abs(told.value) > _CONSISTENT * math.sqrt(prior + noise):
        return told.value, told.std_error  # the centre is wrong, whoever told it
    weight = prior / (prior + noise)
    return weight * told.value, math.sqrt(weight) * told.std_error


def _notes(
    gain: float, std_error: float, level_error: float, judges: int, accepted: bool
) -> list[str]:
    found = (
        f"{judges:,} users who were kept back put its gain over the mean at {gain:.2f} "
        f"squared scales of the target (standard error {std_error:.2f})"
    )
    if not accepted:
        return [
            "The fit is not returned but the mean predictor, all slopes zero and a level within "
            f"about {level_error:.2f} scales: {found}, and {_SURE * std_error:.2f} may be chance. "
            "More users or a larger epsilon are needed."
        ]
    # The square of the level's error has the mean level_error**2 and 1.4 times that as spread.
    if gain - level_error**2 < 2 * _SURE * math.hypot(std_error, math.sqrt(2) * level_error**2):
        return [f"The fit may be weak: {found}, and the level's error is {level_error:.2f} scales."]
    return []
