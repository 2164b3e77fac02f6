import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_flower.strategies.numerics.denoising import (
    keep_above,
    keep_largest,
    project_on_ball,
    shrink,
    with_least_risk,
)

vectors = arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6))


@given(vectors, st.integers(1, 20))
def test_keep_largest(vector, sparsity):
    kept = keep_largest(vector, sparsity)
    support = kept != 0
    assert support.sum() <= sparsity
    np.testing.assert_array_equal(kept[support], vector[support])
    dropped = np.abs(vector[~support])
    if support.any() and dropped.any() and support.sum() == sparsity:
        assert np.abs(vector[support]).min() >= dropped.max()


def test_keep_above():
    assert keep_above(np.array([-3.0, 1.0, 2.0]), 1.0).tolist() == [-3.0, 0.0, 2.0]


@given(vectors, st.floats(1e-3, 1e3))
def test_project_on_ball(vector, radius):
    projected = project_on_ball(vector, radius)
    assert np.linalg.norm(projected) <= radius * (1 + 1e-12)
    if np.linalg.norm(vector) <= radius:
        np.testing.assert_array_equal(projected, vector)


def test_least_risk_beats_doing_nothing_whether_signals_are_dense_sparse_or_absent():
    """Mean squared errors of 400 draws; 1 is that of the noise, and each has a known best rule."""
    rng = np.random.default_rng(0)
    sparse, dense = np.zeros(100), np.full(100, 1.0)
    sparse[:2] = 8.0
    for signal, at_most in ((np.zeros(100), 0.05), (sparse, 0.3), (dense, 0.6), (9 * dense, 1.1)):
        draws = signal + rng.standard_normal((400, 100))
        errors = [np.mean((with_least_risk(draw, 1.0) - signal) ** 2) for draw in draws]
        assert np.mean(errors) < at_most
    assert not with_least_risk(np.zeros(5), 1.0).any()


@given(vectors, st.floats(1e-3, 1e3))
def test_taking_noise_off_never_turns_or_lengthens(vector, variance):
    for shorter in (shrink(vector, variance), with_least_risk(vector, variance)):
        assert (shorter * vector >= 0).all()
        assert (np.abs(shorter) <= np.abs(vector) * (1 + 1e-12)).all()
