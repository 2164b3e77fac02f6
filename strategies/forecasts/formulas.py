"""Formulas for expected errors: of shares of cells, means, ranks and found items.

A wave is an oracle and the number of users who answer with it. Oracles know the covariance of one
report (:meth:`~ldp_flower.randomizers.FrequencyOracle.covariance`), so the formulas for cells have
no fitted constants. A one-bit report of whether a value is below a threshold has a known variance
too. The precision that protocols reach from all such bits was fitted: on columns with one peak, of
several widths, and on some that are even or have two peaks (`python -m simulations.studies.planning
--family analytics`).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from ldp_flower.expectation import Expectation, Setting
from ldp_flower.randomizers import (
    FrequencyOracle,
    KRandomizedResponse,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.randomizers.items.prefix import PrefixTree
from ldp_flower.validation import Floats

Waves = Sequence[tuple[FrequencyOracle, int]]

_PLACES = 41  # number of places, from the middle to an end, at which all users may be
_EXACT = 1e-12  # small variance that is added so that matrices can be inverted
_OWN = "Every user has an answer."
_EVEN = "Cells are equally frequent."
_ROWS = "The rows of one user differ as those of different users do."
_PLACED = (
    "An eighth of their bounds' distance is the standard deviation of users' values, and the "
    "distance of their mean from the middle."
)
_HIDDEN = "Some runs may estimate no mean: too few users report whether they have an answer."
# Number of standard errors by which a share has to exceed 0: three are needed in a run, and two
# more make it likely that a run has three.
_PLANNED_GROUP_Z = 5.0
_TYPICAL = 0.25  # assumed mean and standard deviation of numbers in [-1, 1]


def variance_of_sum(waves: Waves, shares: Floats, weights: Floats) -> float:
    """Return the variance of a weighted sum of cells' estimated shares.

    For each wave it is ``w' C w / n``, where C is the covariance of one report of a random user.
    Waves are weighted by their precision, and :func:`_left` is added.
    """
    precisions = [
        users / max(float(weights @ oracle.covariance(shares) @ weights), 1e-18)
        for oracle, users in waves
    ]
    return 1 / sum(precisions) + _left(waves, 1 / precisions[0], 1 / sum(precisions))


def _left(waves: Waves, first: float, both: float) -> float:
    """Return the variance that users with a missing answer add in a second wave.

    In the second wave these users draw answers from the shares that the first wave estimated, and
    the number of these users is an estimate too. The variance is the product of those two errors,
    times the squared weight of the second wave.
    """
    if len(waves) < 2:
        return 0.0
    oracle, users = waves[0]
    return oracle.variance_at(0.0) / users * first * (1 - both / first) ** 2


def share_error(waves: Waves, num_cells: int, share: float, rows: float) -> float:
    """Return the standard error of one cell's share among these users, if all others are equal.

    Since the other cells are alike, three numbers contain all information: the estimates of this
    cell, of all other cells together and, in the first wave, of missing answers, which is 1 minus
    the two. They are fitted by least squares, as the protocol fits the cells, and
    ``d(u / (u + v)) = (1 - s) du - s dv``. Each user draws one of its rows, so the part
    ``1 / rows`` of ``s (1 - s) / n`` is not an error.
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
        if users:  # in a second wave users with a missing answer draw one from the others' shares
            design = design[:2] - np.outer([share, 1 - share], [1.0, 1.0])
        # If the counts have a fixed sum, the last one adds no information.
        kept = len(design) - (oracle.support_size is not None)
        design, covariance = design[:kept], covariance[:kept, :kept] + _EXACT * np.eye(kept)
        information += size * design.T @ np.linalg.solve(covariance, design)
        variances.append(float(slope @ np.linalg.solve(information, slope)))
        users += size
    variance = variances[-1] + _left(waves, variances[0], variances[-1])
    return math.sqrt(max(variance - share * (1 - share) / rows / users, 0.0))


def expected_share(waves: Waves, num_cells: int, setting: Setting, what: str) -> Expectation:
    """Return the expected error of shares if all are equal.

    Its range includes the errors of an empty cell and of a cell with half of the users.
    """
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
    """Return the standard error of the mean of users' numbers, in widths of their bounds.

    Its range includes the errors if all numbers are at one place, for any place, or half of them at
    each bound.
    """
    at = np.linspace(-1.0, 1.0, levels)

    def near(place: float) -> Floats:
        """Return the shares of levels in the reports of users at one place."""
        return np.maximum(1 - np.abs(at - place) * (levels - 1) / 2, 0.0)

    def error(shares: Floats, centre: float, known: float) -> float:
        """Return the standard error of a mean of these users, without the variance ``known``."""
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
    """Return True if nearly all runs show that a group is not empty, so that it gets a mean."""
    oracle, users = waves[0]
    variance = variance_of_sum(waves[:1], shares / groups, np.ones(len(shares)))
    if groups == 1:
        variance = min(variance, oracle.variance_at(0.0) / users)  # missing values are reported too
    return _PLANNED_GROUP_Z * math.sqrt(variance) < 1 / groups


# Constants for quantiles: the ratio of errors to those without a search, and the part of users' own
# variance that remains though all are asked. For bits they were fitted on 8 and 106 settings of 500
# to 20,000 users; for cells, on 18 settings of 1,000 to 10,000 users at epsilon 3 to 6, 12 runs
# each, with .74 to 1.2 times the errors at 1.5 to 4.
_BY_BITS, _BY_CELLS = (1.05, 0.72), (0.8, 0.25)
# Constants for the largest error of a distribution function: factor of the smoothed noise, its
# power, factors of the sampling of users and of rows, and the range of eight runs of ten. They were
# fitted on 170 settings of 500 to 15,000 users, epsilon .5 to 6.5, columns with one peak, 10 or 12
# runs each. The first was 1.6. It was fitted again on 16 settings of 800 to 12,000 users, epsilon
# .5 to 3 (seeds 9000-9007), since windows are narrower now.
_NOISE, _POWER, _ASKED, _DRAWN, _RANGE = 1.25, 0.82, 0.52, 0.62, (0.65, 1.6)
_HUMP = (
    "The column has one hump, which takes a good part of the bounds; errors are half as large if "
    "it is even, 1.5 times where its standard deviation is below a tenth of the bounds' distance, "
    "and up to three times with two peaks or bounds that are far too wide."
)
_OWN_ENTRY = "Every user has an entry, and entries are no multiples of a round step."


def expected_quantiles(
    randomizers: Sequence[Randomizer],
    noise: float,
    parts: int,
    levels: Sequence[float],
    users: int,
    rows: float,
    rounds: int,
) -> Expectation:
    """Return the expected root mean square of the quantiles' errors in rank.

    The errors are assumed to be independent and normal.

    randomizers: The first one is that of the users who report about the quantiles.
    noise: Variance that it adds to a user's report about a share.
    parts: Number of groups of users that report about different quantiles.
    """
    lost, sampled = _BY_CELLS if isinstance(randomizers[0], KRandomizedResponse) else _BY_BITS
    # Variance of a bit that says if a user's value is below a quantile. One of a user's rows is
    # drawn, which differ as rows of different users do. The users asked about a threshold are
    # random too.
    own = [level * (1 - level) * (1 - (1 - sampled) / rows) for level in levels]
    error = lost * math.sqrt(parts * (noise + sum(own) / len(levels)) / users)
    # Quantiles of the root mean square of len(levels) standard normal numbers.
    spread = [math.sqrt(chi2.ppf(each, len(levels)) / len(levels)) for each in (0.1, 0.5, 0.9)]
    low, value, high = (min(1.0, error * each) for each in spread)
    many = ", root mean square of all" if len(levels) > 1 else ""
    return Expectation(
        error=f"rank error of a quantile{many}",
        value=value,
        low=low,
        high=high,
        rounds=rounds,
        randomizers=tuple(randomizers),
        assumes=(_OWN_ENTRY, *([_ROWS] if rows > 1 else [])),
    )


def expected_function(
    epsilon: float,
    users: int,
    rows: float,
    rounds: int,
    randomizers: Sequence[Randomizer],
    notes: Sequence[str],
) -> Expectation:
    """Return the expected largest error of a distribution function.

    The part from noise is a power of the error of the share below a middle threshold, if all users
    report one bit on it: a smooth density averages noise. The part from the choice of the users who
    are asked first is that of a sample.
    """
    one = math.sqrt((RandomizedResponse(epsilon).variance - 1) / 4 / users)
    sampled = math.hypot(_ASKED / math.sqrt(rows), _DRAWN * math.sqrt(1 - 1 / rows))
    value = min(1.0, math.hypot(_NOISE * one**_POWER, sampled / math.sqrt(users)))
    return Expectation(
        error="largest error of the distribution function",
        value=value,
        low=value * _RANGE[0],
        high=min(1.0, value * _RANGE[1]),
        rounds=rounds,
        randomizers=tuple(randomizers),
        assumes=(_OWN_ENTRY, _HUMP, *([_ROWS] if rows > 1 else [])),
        notes=tuple(notes),
    )


Mechanism = FrequencyOracle | PrefixTree

_KINDS = 1000  # largest number of distinct items that users hold
_FREQUENT = 10  # number of most frequent items by which a run is judged


def zipf(domain_size: int) -> Floats:
    """Return shares of items; the i-th item is ``1 / i`` times as frequent as the first."""
    weights = 1.0 / np.arange(1, min(domain_size, _KINDS) + 1)
    return np.asarray(weights / weights.sum())


def chances_to_find(
    mechanism: Mechanism,
    num_users: int,
    shares: Floats,
    domain_size: int,
    max_items: int,
    false_alarm: float,
) -> Floats:
    """Return the probability that each item is found, given the share of the users who hold it.

    The normal approximation is used. The support of an item that a share f of n users holds has the
    mean ``n (q + f (p - q))`` and the variance ``n (f p (1 - p) + (1 - f) q (1 - q))``. To be found
    it has to exceed the cut-off for items that no user holds. With a prefix tree, whose prefixes
    are assumed to differ, this has to hold at every length. A random part of the users reports each
    length, so f varies between lengths.
    """
    p, q = float(mechanism.own), float(mechanism.other)
    if isinstance(mechanism, FrequencyOracle):
        spread = shares * p * (1 - p) + (1 - shares) * q * (1 - q)
        return _above(num_users, q, p - q, false_alarm / domain_size, shares, spread)
    lengths, chances, before = mechanism.lengths, np.ones(len(shares)), 0
    spread = shares * p * (1 - p) + (1 - shares) * q * (1 - q)
    spread += shares * (1 - shares) * (p - q) ** 2 * (1 - 1 / len(lengths))
    survivors = 1.0
    for length in lengths:
        candidates = max(2.0, survivors * 2.0 ** (length - before))
        tail = (false_alarm if length == lengths[-1] else 1.0) / candidates
        chances *= _above(num_users / len(lengths), q, p - q, tail, shares, spread)
        survivors = min(1.0 + float(chances.sum()), 2.0 * max_items)
        before = length
    return chances


def _above(
    users: float, q: float, gap: float, tail: float, shares: Floats, spread: Floats
) -> Floats:
    """Return the probabilities that supports exceed the cut-off of tail probability ``tail``."""
    reach = -float(ndtri(tail)) * math.sqrt(q * (1 - q) / users)
    return np.asarray(ndtr((gap * shares - reach) / np.sqrt(spread / users)))


def expected_misses(mechanism: Mechanism, chances: Floats, notes: Sequence[str]) -> Expectation:
    """Return the expected share of the most frequent items that is missed.

    ``chances`` has each item's probability of being found; they are assumed to be independent.
    """
    missed = 1 - chances[:_FREQUENT]
    law = np.ones(1)
    for chance in missed:
        law = np.convolve(law, [1 - chance, chance])
    number, below = len(missed), np.cumsum(law)
    low, high = (float(np.searchsorted(below, each)) / number for each in (0.1, 0.9))
    value = float(missed.mean())
    return Expectation(
        error=f"share of the {number} most frequent items that is missed",
        value=value,
        low=min(low, value),
        high=max(min(high, 1.0), value),
        rounds=1,
        randomizers=(mechanism,),
        assumes=(
            f"There are {len(chances)} items that somebody holds, of which the i-th is 1 / i times "
            "as frequent as the first.",
        ),
        notes=tuple(notes),
    )
