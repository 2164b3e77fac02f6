"""What least squares on the largest coefficients make of labels with noise."""

import math

import numpy as np

from ldp_flower.planning import Expectation
from ldp_flower.randomizers import Composed, Randomizer
from ldp_flower.values.projections import keep_largest

from ..numerics.attenuation import clipped_square, kept
from ..numerics.denoising import keep_above
from .linear_users import DISTANCE, equal_coefficients, relative_distance

_TRIALS = 101
_LOW, _HIGH = 0.1, 0.9  # quantiles of the range that a plan gives


def expected_of_labels(
    randomizer: Randomizer,
    num_labels: int,
    dim: int,
    sparsity: int,
    quality: float,
    bound: float,
    undone: bool,
) -> Expectation:
    """Return the error of coefficients that explain this share of normal labels of scale 1.

    A label that is reported has the variance of the clipped one and the mechanism's. What the
    coefficients do not explain of it, over the number of labels, is the variance of each
    coefficient, for features that are independent and of mean square 1.

    Parameters
    ----------
    randomizer : Randomizer
        The mechanism of a user's labels.
    num_labels : int
        How many are reported.
    dim, sparsity : int
        Number of features, and of coefficients, all of one size.
    quality : float
        R2 without privacy.
    bound : float
        Where labels are clipped, in units of their scale.
    undone : bool
        Whether what clipping takes away is undone.
    """
    one = randomizer.parts[0] if isinstance(randomizer, Composed) else randomizer
    factor = kept(bound)
    truth = equal_coefficients(dim, sparsity, math.sqrt(quality))
    explained = quality * factor**2
    left = clipped_square(bound) * bound**2 - explained + one.variance
    error = math.sqrt(left / max(num_labels - sparsity, 1)) / (factor if undone else 1.0)
    clears = math.sqrt(2 * math.log(max(dim, 2)))
    found = []
    for seed in range(_TRIALS):
        noise = error * np.random.default_rng([seed, 1]).standard_normal(dim)
        largest = keep_largest((truth if undone else factor * truth) + noise, sparsity)
        found.append(relative_distance(keep_above(largest, clears * error), truth))
    low, value, high = np.quantile(found, [_LOW, 0.5, _HIGH]).tolist()
    return Expectation(
        error=DISTANCE,
        value=value,
        low=low,
        high=high,
        rounds=2 if undone else 1,
        randomizers=(randomizer,),
        assumes=(
            f"{sparsity} coefficients of one size, which explain {quality:.0%} of the labels' "
            "variance, labels that are normal and of scale 1, and independent features of mean 0 "
            "and variance 1.",
        ),
    )
