"""What least squares on the largest coefficients make of labels with noise."""

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from ldp_flower.planning import Expectation
from ldp_flower.randomizers import Composed, Estimate, Randomizer
from ldp_flower.values.projections import keep_largest

from ..numerics.attenuation import clipped_square, kept
from ..numerics.denoising import keep_above
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from .answers import of_bins
from .linear_users import DISTANCE, relative_distance
from .trials import Trials

Floats = NDArray[np.float64]

_TRIALS, _SCALES = 99, 33  # runs that are made up, and estimated scales among them


def expected_of_labels(
    mechanism: Callable[[float], Randomizer],
    num_labels: int,
    truth: Floats,
    sparsity: int,
    bounds: Sequence[tuple[float, float]],
    rounds: int,
) -> Expectation:
    """Return the error of coefficients from normal labels of scale 1.

    A label that is reported has the variance of the clipped one and the mechanism's. What the
    coefficients do not explain of it, over the number of labels, is the variance of each
    coefficient, for features that are independent and of mean square 1.

    Parameters
    ----------
    mechanism : callable
        From a bound on labels to their mechanism.
    num_labels : int
        How many are reported.
    truth : ndarray of float64, shape (dim,)
        The coefficients; their squared length is the R2 without privacy.
    sparsity : int
        Number of coefficients that are kept.
    bounds : sequence of (float, float)
        Where labels are clipped, for some runs, and by what coefficients are then divided.
    rounds : int
        How often users are asked.
    """
    dim, quality = len(truth), float(truth @ truth)
    clears = math.sqrt(2 * math.log(max(dim, 2)))
    found = []
    for seed in range(_TRIALS):
        bound, divisor = bounds[seed % len(bounds)]
        variance = single(mechanism(bound)).variance
        factor = kept(bound)
        left = clipped_square(bound) * bound**2 - quality * factor**2 + variance
        error = math.sqrt(left / max(num_labels - sparsity, 1))
        noise = error * default_rng([seed, 1]).standard_normal(dim)
        largest = keep_largest(factor * truth + noise, sparsity)
        coef = keep_above(largest, clears * error) / divisor
        found.append(relative_distance(coef, truth))
    told = Trials(np.array(found), rounds, (mechanism(bounds[0][0]),))
    return told.expectation(
        DISTANCE,
        assumes=(
            f"{np.count_nonzero(truth)} coefficients of one size, which explain {quality:.0%} of "
            "the labels' variance, labels that are normal, of scale 1 unless their bound is "
            "estimated, and independent features of mean 0 and variance 1.",
        ),
    )


def single(randomizer: Randomizer) -> Randomizer:
    """Return the mechanism of one label."""
    return randomizer.parts[0] if isinstance(randomizer, Composed) else randomizer


def scales_told(
    question: Callable[[Cohort], Generator[Ask, Estimate, Any]], size: int, labels: int
) -> list[float]:
    """Return what a small cohort tells of the scale of labels, which is 1, in some runs.

    Parameters
    ----------
    question : callable
        Asks a cohort.
    size : int
        Of the cohort.
    labels : int
        That one of its users has.
    """
    scales = []
    for seed in range(_SCALES):
        asking = question(Cohort(0, 1, size))
        answer = of_bins(next(asking), 0.0, labels, default_rng([seed, 2]))
        try:
            asking.send(answer)
        except StopIteration as end:
            scales.append(float(end.value.value))
    return scales
