"""Expected errors of the shares of cells, and of means made of them: from the oracles' covariance.

A wave is an oracle and how many users answer with it. Oracles know the covariance of one report
(:meth:`~ldp_flower.randomizers.FrequencyOracle.covariance`), so nothing here was fitted.
"""

import math
from collections.abc import Sequence

import numpy as np

from ldp_flower.expectation import Expectation, Setting
from ldp_flower.randomizers import FrequencyOracle, Randomizer
from ldp_flower.validation import Floats

Waves = Sequence[tuple[FrequencyOracle, int]]

_PLACES = 41  # of a number between the middle and an end, where all users may be
_EXACT = 1e-12  # a variance below which nothing differs: inverses stay inverses
_OWN = "Every user has an answer."
_EVEN = "Cells are equally frequent."
_ROWS = "The rows of one user differ as those of different users do."
_PLACED = (
    "An eighth of their bounds' distance is the standard deviation of users' values, and the "
    "distance of their mean from the middle."
)
_HIDDEN = "Some runs may estimate no mean: too few users report whether they have an answer."
_CLEAR = 5.0  # standard errors of a share: three have to be seen, and two more make it likely
_TYPICAL = 0.25  # both, of numbers in [-1, 1]


def variance_of_sum(waves: Waves, shares: Floats, weights: Floats) -> float:
    """Return the variance of a weighted sum of cells' estimated shares.

    Of each wave it is ``w' C w / n``, C the covariance of one report of a user drawn at random;
    waves are weighted by their precision, and :func:`_left` is added.
    """
    precisions = [
        users / max(float(weights @ oracle.covariance(shares) @ weights), 1e-18)
        for oracle, users in waves
    ]
    return 1 / sum(precisions) + _left(waves, 1 / precisions[0], 1 / sum(precisions))


def _left(waves: Waves, first: float, both: float) -> float:
    """Return the variance that is left where few users report how those without an answer answer.

    In a second wave these draw answers of the first wave's shares, and how many they are is not
    known either: the product of two errors, as far as the second wave counts.
    """
    if len(waves) < 2:
        return 0.0
    oracle, users = waves[0]
    return oracle.variance_at(0.0) / users * first * (1 - both / first) ** 2


def share_error(waves: Waves, num_cells: int, share: float, rows: float) -> float:
    """Return the standard error of one cell's share among these users; others are equally large.

    All other cells are alike, and so are their estimates: what reports say is in three numbers, the
    estimates of this cell, of all others together and, in a first wave, of who has no answer, which
    is 1 less the two. They are fitted by least squares as the protocol fits the cells, and ``d(u /
    (u + v)) = (1 - s) du - s dv``. Each user draws one of its rows: of ``s (1 - s) / n`` the part
    ``1 / rows`` is no error.
    """
    rest = (1 - share) / (num_cells - 1)
    cells = np.array([share, rest, rest, 0.0])
    k = num_cells - 1
    adding = np.diag([1.0, k, 1.0])
    slope = np.array([1 - share, -share])
    information, variances, users = np.zeros((2, 2)), list[float](), 0
    for oracle, size in waves:
        report = oracle.covariance(cells)
        covariance = adding @ report[np.ix_((0, 1, 3), (0, 1, 3))] @ adding
        covariance[1, 1] += k * (k - 1) * (report[1, 2] - report[1, 1])
        design = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
        if users:  # in a second wave whoever has no answer gives one as others do
            design = design[:2] - np.outer([share, 1 - share], [1.0, 1.0])
        # Where counts add up the last one says nothing.
        kept = len(design) - (oracle.support_size is not None)
        design, covariance = design[:kept], covariance[:kept, :kept] + _EXACT * np.eye(kept)
        information += size * design.T @ np.linalg.solve(covariance, design)
        variances.append(float(slope @ np.linalg.solve(information, slope)))
        users += size
    variance = variances[-1] + _left(waves, variances[0], variances[-1])
    return math.sqrt(max(variance - share * (1 - share) / rows / users, 0.0))


def expected_share(waves: Waves, num_cells: int, setting: Setting, what: str) -> Expectation:
    """Return the error of equal shares; its range is that of a cell of nobody, or half of all."""
    rows = setting.rows_per_user
    value = share_error(waves, num_cells, 1 / num_cells, rows)
    ends = [share_error(waves, num_cells, share, rows) for share in (0.0, 0.5)]
    return Expectation(
        error=f"standard error of {what}",
        value=value,
        low=min(value, *ends),
        high=max(value, *ends),
        rounds=len(waves),
        randomizers=tuple(oracle for oracle, _ in waves),
        assumes=(_OWN, _EVEN, *([_ROWS] if rows > 1 else [])),
    )


def expected_mean(
    waves: Waves, groups: int, levels: int, num_users: int, others: Sequence[Randomizer] = ()
) -> Expectation:
    """Return the standard error of a mean of so many users' numbers, in widths of their bounds.

    Its range is that of numbers at one place, wherever it is, or half of them at each bound.
    """
    at = np.linspace(-1.0, 1.0, levels)

    def near(place: float) -> Floats:
        """Return how often levels are reported by those who are at one place."""
        return np.maximum(1 - np.abs(at - place) * (levels - 1) / 2, 0.0)

    def error(shares: Floats, centre: float, known: float) -> float:
        """Return the standard error of a mean, less what is known: it is about these users."""
        variance = variance_of_sum(waves, shares / groups, groups * (at - centre))
        return math.sqrt(max(variance - known, 0.0))

    places = np.linspace(0.0, 1.0, _PLACES)
    around = _TYPICAL * (1 + math.sqrt(3) * (2 * places - 1))
    typical = np.mean([near(place) for place in around], axis=0)
    apart = np.where(np.abs(at) == 1, 0.5, 0.0)
    known = float(np.var(around)) * groups / num_users
    value = error(typical, _TYPICAL, known)
    ends = [value, error(apart, 0.0, groups / num_users)]
    ends += [error(near(place), float(place), 0.0) for place in places]
    return Expectation(
        error="standard error of a mean, in widths of the bounds",
        value=value / 2,
        low=min(ends) / 2,
        high=max(ends) / 2,
        rounds=len(waves) + len(others),
        randomizers=(*(oracle for oracle, _ in waves), *others),
        assumes=(_OWN, _PLACED, *(["Groups are equally large."] if groups > 1 else [])),
        notes=() if _shows(waves, groups, typical) else (_HIDDEN,),
    )


def _shows(waves: Waves, groups: int, shares: Floats) -> bool:
    """Whether it is clear in nearly all runs that a group is not empty, so that it gets a mean."""
    oracle, users = waves[0]
    variance = variance_of_sum(waves[:1], shares / groups, np.ones(len(shares)))
    if groups == 1:
        variance = min(variance, oracle.variance_at(0.0) / users)  # who is in none reports it, too
    return _CLEAR * math.sqrt(variance) < 1 / groups
