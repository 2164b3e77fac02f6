import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_flower.questions.sparse import keep_largest, project_on_ball

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


@given(vectors, st.floats(1e-3, 1e3))
def test_project_on_ball(vector, radius):
    projected = project_on_ball(vector, radius)
    assert np.linalg.norm(projected) <= radius * (1 + 1e-12)
    if np.linalg.norm(vector) <= radius:
        np.testing.assert_array_equal(projected, vector)
