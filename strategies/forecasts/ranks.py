"""Expected errors in rank: of quantiles, and of a whole distribution function.

What a user reports by one bit of whether its entry is below a threshold has a known variance. What
protocols make of all bits was fitted, on columns of one hump, of several widths, and on some that
lie evenly or around two peaks (`python -m simulations.studies.planning --family analytics`).
"""

import math
from collections.abc import Sequence

from scipy.stats import chi2

from ldp_flower.expectation import Expectation
from ldp_flower.randomizers import KRandomizedResponse, RandomizedResponse, Randomizer

# Of quantiles, how many times larger errors are than without a search, and which part of users' own
# variance remains though all are asked. Bits: on 8 and 106 settings of 500 to 20,000 users. Cells:
# on 18 of 1,000 to 10,000 users at epsilon 3 to 6, 12 runs each; .74 to 1.2 times at 1.5 to 4.
_BY_BITS, _BY_CELLS = (1.05, 0.72), (0.8, 0.25)
# Of the largest error of a distribution function, fitted on 170 settings of 500 to 15,000 users,
# epsilon .5 to 6.5, columns of one hump, 10 or 12 runs each: of the smoothed noise, its power, of
# who is asked and of which rows are drawn; where eight runs of ten lie.
_NOISE, _POWER, _ASKED, _DRAWN, _RANGE = 1.6, 0.82, 0.52, 0.62, (0.65, 1.6)
_HUMP = (
    "The column has one hump, which takes a good part of the bounds; errors are half as large if "
    "it is even, 1.5 times where its standard deviation is below a tenth of the bounds' distance, "
    "and up to three times with two peaks or bounds that are far too wide."
)
_OWN = "Every user has an entry, and entries are no multiples of a round step."
_ROWS = "The rows of one user differ as those of different users do."


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
        assumes=(_OWN, *([_ROWS] if rows > 1 else [])),
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
        assumes=(_OWN, _HUMP, *([_ROWS] if rows > 1 else [])),
        notes=tuple(notes),
    )
