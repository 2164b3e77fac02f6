"""The gate: users kept back for it tell whether a fit is better than the mean, or it is not used.

A fit of too few users is not a little worse than the mean predictor but many times, and
nothing in it says so. So some users are not asked for the fit. The first of them tell the
targets' level, for centres may be wrong, be they declared or estimated. Others report one number
each, the difference between the fit's mean squared residual and the mean squared deviation from
that level. Half of these do so first: if the fit is not clearly better by them, the other half
judge the fit with slopes half as long, for noise makes fits too long. The last tell the level
of what is returned.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Gradient
from ldp_flower.randomizers import Estimate

from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.result import LinearResult
from ..subprotocols.squared_errors import ask_squared_errors, clip_radius, number_randomizer

Floats = NDArray[np.float64]
AnyResult = TypeVar("AnyResult", bound=LinearResult)

_NOISE = 0.11  # standard error of R2 that is wanted ...
_LEAST_SHARE, _MOST_SHARE = 0.08, 0.15  # ... from these shares of the users
_LEVEL_NOISE = 0.1  # standard error of the level returned that is wanted ...
_MOST_LEVEL_SHARE = 0.1  # ... from at most this share of the users, and half as many before
_LEVEL_VARIANCE = 0.5  # of users' mean residuals
_LEVEL_RADIUS, _LAST_RADIUS = 1.5, 1.0  # where a user's mean residual is clipped
_LEAST_USERS = 20  # in a cohort: a normal score is not one for fewer
_RADIUS_NOISE = 0.05  # standard error up to which differences are clipped farther out
_LEAST_RADIUS = 1.0  # of a difference; less would hide whom a fit serves badly
_SHORTER = 0.5  # what slopes are multiplied by if the first half of the holdout doubts them
# Standard errors of the gain. Above the former the first half of the holdout does not doubt a
# fit. One no better than the mean then clears the latter once in 20 times, whatever its length.
_NO_DOUBT, _SURE = 1.3, 1.85
_CLEAR = 3.3  # standard errors up to which an accepted fit is called weak


@dataclass(frozen=True)
class Holdout:
    """Users who are kept back.

    Attributes
    ----------
    difference : tuple of Cohort
        Two cohorts that compare the fit with the mean predictor.
    level : tuple of Cohort
        Those who tell the targets' level, and those who tell that of what is returned; none
        if levels are 0 by construction.
    """

    difference: tuple[Cohort, Cohort]
    level: tuple[Cohort, ...] = ()


@dataclass(frozen=True)
class Number:
    """A number and its standard deviation."""

    value: float
    std_error: float

    def pooled(self, other: "Number") -> "Number":
        """Return the mean with another estimate, of as many users."""
        error = math.hypot(self.std_error, other.std_error) / 2
        return Number((self.value + other.value) / 2, error)


@dataclass(frozen=True)
class Verdict:
    """What the holdout users said, in units in which the targets' scale is 1.

    Attributes
    ----------
    length : float
        What the fit's slopes are to be multiplied by: 1 or 1/2, or 0 if it is not better
        than the mean predictor, beyond chance.
    gain : Number
        By how much the mean squared error at the length judged last is below the mean
        predictor's: R2, if the scale is the targets' standard deviation.
    level : Number
        The intercept that goes with the length.
    notes : list of str
        What a user of the fit should know.
    """

    length: float
    gain: Number
    level: Number
    notes: list[str] = field(default_factory=list)

    def applied(self, fit: AnyResult) -> AnyResult:
        """Return the fit with slopes of this length around the level."""
        coef, std_error = self.length * fit.coef, self.length * fit.std_error
        coef[0], std_error[0] = self.level.value, self.level.std_error
        return replace(fit, coef=coef, std_error=std_error, notes=[*fit.notes, *self.notes])


def keep_back(strategy: LdpStrategy[Any], epsilon: float, *, level_known: bool = False) -> Holdout:
    """Take users for the gate, before the fit asks the others.

    As many as tell R2 with a standard error of about 0.1, but between 8 and 15 % of all
    users. Up to 15 % tell levels, in two cohorts, of which the second is twice as large.

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
    fewest = max(_LEAST_USERS, strategy.min_reports)
    wanted = number_randomizer(epsilon, 2 / _NOISE).variance / users
    difference = int(np.clip(wanted, _LEAST_SHARE, _MOST_SHARE) * users)
    first, second = strategy.cohorts([max(difference // 2, fewest)] * 2)
    if level_known:
        return Holdout((first, second))
    variance = number_randomizer(epsilon, 1.0).variance + _LEVEL_VARIANCE
    level = int(min(variance / _LEVEL_NOISE**2, _MOST_LEVEL_SHARE * users))
    sizes = [max(size, fewest) for size in (level // 2, level)]
    return Holdout((first, second), tuple(strategy.cohorts(sizes)))


def gate(holdout: Holdout, coef: Floats, epsilon: float) -> Generator[Ask, Estimate, Verdict]:
    """Ask the holdout users whether a fit is better than the mean predictor.

    Parameters
    ----------
    holdout : Holdout
        From :func:`keep_back`, with the same ``epsilon``.
    coef : ndarray, shape (dim,)
        The fit in standardised units. Its first coefficient, the intercept, only says around
        which number the holdout looks for the right one.
    epsilon : float
        Privacy parameter of each holdout user's report.

    Returns
    -------
    Verdict
        With a length above 0 if the gain clears zero by 1.85 standard errors; the answer of
        the first half counts only if it did not doubt the fit. A fit that is no better than
        the mean at either length then passes at most once in 20 times, whatever epsilon is.

    Notes
    -----
    Both are compared around one level, whose error then counts for both. Where features are not
    centred, slopes move predictions, so that the fit has to make up for this, too; what is
    returned has its own level.
    """
    level = Number(0.0, 0.0)
    if holdout.level:
        level = yield from _level(holdout.level[0], np.zeros_like(coef), epsilon, _LEVEL_RADIUS)
    centre = level.value

    def gain_at(length: float, cohort: Cohort) -> Generator[Ask, Estimate, Number]:
        radius = clip_radius(epsilon, cohort, _RADIUS_NOISE, _LEAST_RADIUS)
        randomizer, weights = number_randomizer(epsilon, radius), (-1.0, 1.0)
        shortened = np.append(centre, length * coef[1:])
        told = yield from ask_squared_errors(cohort, shortened, randomizer, weights, centre)
        return Number(told.value, told.std_error)

    first, second = holdout.difference
    gain, judged = (yield from gain_at(1.0, first)), first.size + second.size
    length = 1.0 if gain.value > _NO_DOUBT * gain.std_error else _SHORTER
    again = yield from gain_at(length, second)
    if length == 1:
        gain = gain.pooled(again)
    else:
        gain, judged = again, second.size
    accepted = length if gain.value > _SURE * gain.std_error else 0.0
    if holdout.level:
        around = (1 - accepted) * centre + accepted * coef[0]
        returned = np.append(around, accepted * coef[1:])
        level = yield from _level(holdout.level[1], returned, epsilon, _LAST_RADIUS)
    slopes = "its" if length == 1 else "half its"
    found = (
        f"{judged:,} users who were kept back put what {slopes} slopes explain of the target's "
        f"variation (R2) at about {gain.value:.0%} (standard error {gain.std_error:.0%})"
    )
    return Verdict(accepted, gain, level, _notes(found, accepted, gain, level))


def _level(
    cohort: Cohort, coef: Floats, epsilon: float, radius: float
) -> Generator[Ask, Estimate, Number]:
    """Return the intercept with which the residuals' mean is 0.

    A user's mean residual is minus the gradient of its loss in the intercept.
    """
    question = Gradient(coef, np.zeros(1, np.int64))
    answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
    return Number(float(coef[0] - answer.mean[0]), float(answer.std_error[0]))


def _notes(found: str, length: float, gain: Number, level: Number) -> list[str]:
    if not length:
        return [
            "The fit is not returned but the mean predictor, all slopes zero and a level that may "
            f"be off by {level.std_error:.0%} of the target's typical deviation: {found}, and up "
            f"to {_SURE * gain.std_error:.0%} may be chance. More users or a larger epsilon are "
            "needed."
        ]
    if length < 1:
        return [f"The fit was too long and is returned with slopes half as long: {found}."]
    # The square of the level's error has the mean std_error**2 and 1.4 times that as spread.
    spread = math.hypot(gain.std_error, math.sqrt(2) * level.std_error**2)
    if gain.value - level.std_error**2 < _CLEAR * spread:
        return [
            f"The fit may be weak: {found}, and its level may be off by {level.std_error:.0%} of "
            "the target's typical deviation."
        ]
    return []
