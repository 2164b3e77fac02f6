"""Expected errors in rank: of quantiles, and of a whole distribution function.

What a user reports by one bit of whether its entry is below a threshold has a known variance. What
protocols make of all bits was fitted, on columns of one hump, of several widths, and on some that
lie evenly or around two peaks (`python -m simulations.studies.planning --family analytics`).
"""

import math
from collections.abc import Sequence

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


def _own_variance(level: float, rows: float, sampled: float) -> float:
    """Return the variance of whether a user is below a quantile, beside its report's noise.

    Of a user with several rows, which differ as those of others do, one is drawn. Of who the users
    are a part is random: some of them are asked about one threshold, some about another.
    """
    return level * (1 - level) * (1 - (1 - sampled) / rows)


def spread_of(number: int) -> tuple[float, float, float]:
    """Return quantiles at 10, 50 and 90 % of the root mean square of so many standard normals."""
    from scipy.stats import chi2

    low, middle, high = (float(chi2.ppf(each, number)) for each in (0.1, 0.5, 0.9))
    return math.sqrt(low / number), math.sqrt(middle / number), math.sqrt(high / number)


def expected_quantiles(
    randomizer: Randomizer,
    noise: float,
    parts: int,
    levels: Sequence[float],
    users: int,
    rows: float,
) -> Expectation:
    """Return the errors of quantiles in rank, their root mean square, without who answers by what.

    noise: Variance that it adds to what a user reports about a share.
    parts: How many groups of the users report about different quantiles.

    Errors are taken for independent and normal.
    """
    lost, sampled = _BY_CELLS if isinstance(randomizer, KRandomizedResponse) else _BY_BITS
    own = [_own_variance(level, rows, sampled) for level in levels]
    error = lost * math.sqrt(parts * (noise + sum(own) / len(levels)) / users)
    low, value, high = (min(1.0, error * each) for each in spread_of(len(levels)))
    many = ", root mean square of all" if len(levels) > 1 else ""
    return Expectation(
        error=f"rank error of a quantile{many}",
        value=value,
        low=low,
        high=high,
        rounds=1,
        randomizers=(randomizer,),
        assumes=(_OWN, *([_ROWS] if rows > 1 else [])),
    )


def expected_function(epsilon: float, users: int, rows: float) -> Expectation:
    """Return the largest error of a distribution function, without who answers by what.

    Noise counts by a power of the error of the share below one threshold in the middle, of which
    all users report by one bit: a smooth density averages over thresholds. That other users
    are asked first than later counts as that of a sample.
    """
    one = math.sqrt((RandomizedResponse(epsilon).variance - 1) / 4 / users)
    sampled = math.hypot(_ASKED / math.sqrt(rows), _DRAWN * math.sqrt(1 - 1 / rows))
    value = min(1.0, math.hypot(_NOISE * one**_POWER, sampled / math.sqrt(users)))
    return Expectation(
        error="largest error of the distribution function",
        value=value,
        low=value * _RANGE[0],
        high=min(1.0, value * _RANGE[1]),
        rounds=2,
        randomizers=(RandomizedResponse(epsilon),),
        assumes=(_OWN, _HUMP, *([_ROWS] if rows > 1 else [])),
    )
