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

_TRIALS, _SCALES = 99, 33  # simulated runs, and estimated scales among them


def expected_of_labels(
    mechanism: Callable[[float], Randomizer],
    sizes: Sequence[int],
    truth: Floats,
    sparsity: int,
    bounds: Sequence[tuple[float, float]],
    clip: float,
    first: int,
) -> Expectation:
    """Return the error of coefficients from normal labels of scale 1.

    A label that is reported has the variance of the clipped one and the mechanism's. What the
    coefficients do not explain of it, over the number of labels, is the variance of each
    coefficient, for features that are independent and of mean square 1.

    Parameters
    ----------
    mechanism : callable
        From a bound on labels to their mechanism.
    sizes : sequence of int
        How many labels each round reports.
    truth : ndarray of float64, shape (dim,)
        The coefficients; their squared length is the R2 without privacy.
    sparsity : int
        Number of coefficients that are kept.
    bounds : sequence of (float, float)
        Where the first round clips labels, for some runs, and by what coefficients are divided.
    clip : float
        Where later rounds clip residuals, over their root mean square as it is estimated.
    first : int
        Number of rounds before these.
    """
    found = []
    for seed in range(_TRIALS):
        coef = _simulated(mechanism, sizes, truth, sparsity, bounds[seed % len(bounds)], clip, seed)
        found.append(relative_distance(coef, truth))
    told = Trials(np.array(found), first + len(sizes), (mechanism(bounds[0][0]),))
    return told.expectation(
        DISTANCE,
        assumes=(
            f"{np.count_nonzero(truth)} coefficients of one size, which explain "
            f"{float(truth @ truth):.0%} of "
            "the labels' variance, labels that are normal, of scale 1 unless their bound is "
            "estimated, and independent features of mean 0 and variance 1.",
        ),
    )


def _simulated(
    mechanism: Callable[[float], Randomizer],
    sizes: Sequence[int],
    truth: Floats,
    sparsity: int,
    first: tuple[float, float],
    clip: float,
    seed: int,
) -> Floats:
    """Return the coefficients of one run, from the law of each round's least squares."""
    rng, dim = default_rng([seed, 1]), len(truth)
    clears = math.sqrt(2 * math.log(max(dim, 2)))
    (bound, slope), coef = first, np.zeros(dim)
    weighted, precision, squared = np.zeros(dim), 0.0, 0.0  # of all rounds
    for size in sizes:
        own = single(mechanism(bound)).variance
        rest = truth - coef
        left = max(1 - float(truth @ truth), 0.0) + float(rest @ rest)  # the mean square residual
        true_slope = kept(bound / math.sqrt(left))
        of_label = clipped_square(bound / math.sqrt(left)) * bound**2
        variance = (own + of_label - true_slope**2 * float(rest @ rest)) / slope**2
        noise = math.sqrt(variance / max(size - sparsity, 1)) * rng.standard_normal(dim)
        weight = size / variance
        weighted += weight * (coef + true_slope / slope * rest + noise)
        precision += weight
        squared += size * slope**4 / own**2 / 2
        error = 1 / math.sqrt(precision)
        coef = keep_above(keep_largest(weighted / precision, sparsity), clears * error)
        s = int(np.count_nonzero(coef))
        rest = truth - coef
        measured = max(1 - float(truth @ truth), 0.0) + float(rest @ rest)
        measured += rng.standard_normal() / math.sqrt(squared)
        added = 1 / math.sqrt(squared) + s * (1 + 2 * math.log(dim / max(s, 1))) * error**2
        residual = math.sqrt(max(measured, 0.0) + added)
        bound = min(bound, clip * residual)
        slope = kept(bound / residual)
    return coef


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
