"""200,000 reports of one value confirm the stated mean and variance of every mechanism.

A mean may be off by 5 standard errors (some 500 scores: fails by chance once in 3,000) and
a variance by 4 (some 60 scores: once in 250), both estimated from the reports themselves; a
variance's is the spread of the squared errors, that is, the sample's fourth moment. Seeds
are fixed.
"""

import numpy as np
import pytest

from ldp_flower.randomizers import (
    Codebook,
    GaussianMechanism,
    HadamardResponse,
    HybridMechanism,
    KRandomizedResponse,
    OptimizedLocalHashing,
    PiecewiseMechanism,
    RandomizedResponse,
    SubsetHypercube,
    SubsetSelection,
)

USERS = 200_000
ROUNDING = 1e-6  # of a float32; where squared errors are all the same, they have no spread

VECTORS = [
    *(SubsetHypercube(epsilon, dim) for epsilon, dim in ((0.5, 3), (2.0, 8), (6.0, 64))),
    *(GaussianMechanism(epsilon, 16, delta=1e-5) for epsilon in (1.0, 8.0)),
]
LIFTED = [
    *(Codebook(epsilon, dim, num_codewords=16) for epsilon, dim in ((0.5, 3), (4.0, 8))),
]
SCALARS = (RandomizedResponse, PiecewiseMechanism, HybridMechanism)
SINGLE = (
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    SubsetSelection,
)
ORACLES = [
    *(kind(epsilon, items) for kind in SINGLE for epsilon, items in ((0.5, 5), (3.0, 40))),
    *(SubsetSelection(epsilon, items, 3) for epsilon, items in ((0.5, 7), (3.0, 40))),
]


def debiased(mechanism, value, seed):
    rng = np.random.default_rng(seed)
    return mechanism.debias(mechanism.randomize(np.tile(value, (USERS, 1)), rng))


def scores(samples, expected, scale):
    """Return by how many standard errors the columns' means exceed what is expected."""
    error = samples.std(axis=0) / USERS**0.5 + ROUNDING * scale
    return (samples.mean(axis=0) - expected) / error


def vector_errors(mechanism, length):
    """Return squared errors per coordinate, having checked the mean along the value and across."""
    dim = mechanism.dim
    axes = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    value = length * axes[:, 0]  # the other axes are across it
    errors = debiased(mechanism, value, 1) - value
    assert np.abs(scores(errors @ axes, 0.0, 1.0)).max() < 5
    return (errors**2).mean(axis=1)


@pytest.mark.parametrize("mechanism", VECTORS, ids=str)
def test_vectors(mechanism):
    length = 0.8
    stated = mechanism.variance
    if not isinstance(mechanism, GaussianMechanism):
        # Their reports have one length: the variance is the largest at the centre.
        stated -= length**2 / mechanism.dim
    assert abs(scores(vector_errors(mechanism, length), stated, stated)) < 4


@pytest.mark.parametrize("mechanism", LIFTED, ids=str)
def test_lifted_vectors(mechanism):
    ends = [vector_errors(mechanism, length) for length in (0.0, 1.0)]
    found = max(scores(end, mechanism.variance, mechanism.variance) for end in ends)
    assert -4 < found < 4


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("t", [0.0, 0.7, -1.0])
def test_numbers(kind, epsilon, t):
    mechanism = kind(epsilon, radius=3.0)
    stated = {RandomizedResponse: mechanism.variance - 9 * t * t}
    if kind not in stated:
        stated[kind] = 9 * mechanism.variance_at(t)
    errors = debiased(mechanism, 3.0 * t, 2) - 3.0 * t
    assert abs(scores(errors, 0.0, 1.0)) < 5
    assert abs(scores(errors**2, stated[kind], stated[kind])) < 4
    assert stated[kind] <= mechanism.variance * (1 + 1e-9)


@pytest.mark.parametrize("oracle", ORACLES, ids=str)
def test_items(oracle):
    value = np.arange(oracle.width) + 1.0
    held = np.isin(np.arange(oracle.domain_size), value)
    errors = debiased(oracle, value, 3) - held
    assert np.abs(scores(errors, 0.0, 1.0)).max() < 5
    for items, stated in ((held, oracle.variance_at(1.0)), (~held, oracle.variance)):
        assert abs(scores((errors[:, items] ** 2).mean(axis=1), stated, stated)) < 4
