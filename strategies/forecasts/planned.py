"""What plans read in a setting, and how long a vector of noise is."""

import math

from ldp_flower.planning import Setting

_LOW, _HIGH = 0.1, 0.9  # quantiles of the range that a plan gives


def rows_of(setting: Setting, guessed: int) -> float:
    """Return how many rows a user holds: as planned for, or else as the strategy guesses."""
    return setting.rows_per_user if "rows_per_user" in setting.given() else guessed


def features_of(setting: Setting, protocol: type) -> int:
    """Return the number of features, or say that it is needed."""
    if setting.num_features is None:
        raise ValueError(f"Expected num_features for {protocol.__name__}, got None.")
    return setting.num_features


def noise_length(variance: float, dim: int) -> tuple[float, float, float]:
    """Return quantiles .1, .5 and .9 of the length of normal noise.

    Its square over ``variance``, that of each of the ``dim`` coordinates, is chi-squared.
    """
    from scipy.special import chdtri

    low, median, high = (
        math.sqrt(variance * float(chdtri(dim, 1 - share))) for share in (_LOW, 0.5, _HIGH)
    )
    return low, median, high
