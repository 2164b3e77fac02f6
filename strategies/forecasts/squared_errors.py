"""How well the means of users' squared errors are told: those of a model, and of a constant."""

import math

from ldp_flower.randomizers import RandomizedResponse, Randomizer

_ALIKE = 0.2  # squared correlation of two rows of a user, of residuals as of predictions


def difference_spread(quality: float, pivot: float, rows: float) -> float:
    """Return the standard deviation over users of ``A - (1 - pivot) B``, where B is 1 in the mean.

    A user's A is the mean square of residuals e and B that of targets f + e, over its rows.
    If e and f are normal, of variances ``1 - quality`` and ``quality``, a row's difference
    ``e**2 - (1 - pivot) (f + e)**2`` has the variance below. A user's mean of rows which are alike
    varies as much as their squares do: by ``1 / rows`` of that, and by what they have in common.
    """
    loss, rest = 1 - quality, 1 - pivot
    of_row = 2 * (pivot * loss) ** 2 + 2 * (rest * quality) ** 2 + 4 * rest**2 * quality * loss
    return math.sqrt(of_row * (1 / rows + (1 - 1 / rows) * _ALIKE**2))


def error_of_mean(randomizer: Randomizer, mean: float, spread: float, count: int) -> float:
    """Return the standard error of a mean over users, from the spread of their reports.

    A mechanism of two answers has reports of one size, whatever people hold; the others add
    their noise to what people differ by.
    """
    variance = randomizer.variance
    if isinstance(randomizer, RandomizedResponse):
        return math.sqrt(max(variance - mean**2, 0.0) / count)
    return math.sqrt((variance + spread**2) / count)
