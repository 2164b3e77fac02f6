"""Expected errors that have a formula: of shares of cells and means, of ranks, of found items.

A wave is an oracle and how many users answer with it. Oracles know the covariance of one report
(:meth:`~ldp_flower.randomizers.FrequencyOracle.covariance`), so that nothing was fitted about
cells. What a user reports by one bit of whether its entry is below a threshold has a known
variance, too. What protocols make of all such bits was fitted, on columns of one hump, of several
widths, and on some that lie evenly or around two peaks (`python -m simulations.studies.planning
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


# Of quantiles, how many times larger errors are than without a search, and which part of users' own
# variance remains though all are asked. Bits: on 8 and 106 settings of 500 to 20,000 users. Cells:
# on 18 of 1,000 to 10,000 users at epsilon 3 to 6, 12 runs each; .74 to 1.2 times at 1.5 to 4.
_BY_BITS, _BY_CELLS = (1.05, 0.72), (0.8, 0.25)
# Of the largest error of a distribution function, fitted on 170 settings of 500 to 15,000 users,
# epsilon .5 to 6.5, columns of one hump, 10 or 12 runs each: of the smoothed noise, its power, of
# who is asked and of which rows are drawn; where eight runs of ten lie. The first again, which was
# 1.6, on 16 of 800 to 12,000 users, epsilon .5 to 3 (seeds 9000-9007), as windows are narrower now.
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
    """Return the errors of quantiles in rank, their root mean square, independent and normal.

    randomizers: The first one is of the users who report about the quantiles.
    noise: Variance that it adds to what a user reports about a share.
    parts: How many groups of the users report about different quantiles.
    """
    lost, sampled = _BY_CELLS if isinstance(randomizers[0], KRandomizedResponse) else _BY_BITS
    # Whether a user is below a quantile: of several rows, which differ as those of others do, one
    # is drawn. It is random, too, who are asked about which threshold.
    own = [level * (1 - level) * (1 - (1 - sampled) / rows) for level in levels]
    error = lost * math.sqrt(parts * (noise + sum(own) / len(levels)) / users)
    # Quantiles of the root mean square of so many standard normals.
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
    """Return the largest error of a distribution function.

    Noise counts by a power of the error of the share below a threshold in the middle, of which all
    report by one bit: a smooth density averages. Who is asked first counts as that of a sample.
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

_KINDS = 1000  # of items that somebody holds
_FREQUENT = 10  # the most frequent of them, by which a run is judged


def zipf(domain_size: int) -> Floats:
    """Return the shares of items of which the i-th is ``1 / i`` times as frequent as the first."""
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
    """Return the chance of each item to be found, by the share of the users who hold it.

    By the normal approximation. The support of an item that a share f of n users holds has the mean
    ``n (q + f (p - q))`` and the variance ``n (f p (1 - p) + (1 - f) q (1 - q))``; it has to exceed
    the cut-off of items that nobody holds. With prefixes, taken for different, it has to at every
    length, each of which a random part of the users reports: with them f varies, too.
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
    """Return the chances that supports are above the cut-off of a tail."""
    reach = -float(ndtri(tail)) * math.sqrt(q * (1 - q) / users)
    return np.asarray(ndtr((gap * shares - reach) / np.sqrt(spread / users)))


def expected_misses(mechanism: Mechanism, chances: Floats, notes: Sequence[str]) -> Expectation:
    """Return the mean share of the most frequent items that is missed; chances are independent."""
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
