import numpy as np
import pytest
from scipy import stats

from ldp_flower.randomness import (
    KeyedRandom,
    NumpyRandom,
    RandomSource,
    SystemRandom,
    derive,
)

STATES = derive(7, np.arange(5000, dtype=np.uint64))
SOURCES = [KeyedRandom(STATES), SystemRandom(), NumpyRandom(np.random.default_rng(0))]


def test_derive_separates_every_part_and_its_place():
    seen = {int(derive(a, b)[0]) for a in range(50) for b in range(50)}
    assert len(seen) == 2500
    assert derive(-1)[0] == derive(2**64 - 1)[0]  # integers are taken modulo 2**64
    for part in (0, 7, 2**63, 2**64 - 1):  # numbers and arrays are hashed alike
        assert derive(part, 5)[0] == derive(np.array([part], np.uint64), 5)[0]


def test_a_stream_depends_on_its_own_state_only():
    everyone = KeyedRandom(STATES).words((5000, 3))
    some = KeyedRandom(STATES[[17, 4]]).words((2, 3))
    np.testing.assert_array_equal(some, everyone[[17, 4]])


def test_a_stream_goes_on_and_can_be_entered_anywhere():
    source = KeyedRandom(STATES[:4])
    first, second = source.words((4, 2)), source.words((4, 5))
    whole = KeyedRandom(STATES[:4]).words((4, 7))
    np.testing.assert_array_equal(np.hstack([first, second]), whole)
    skips = np.array([0, 1, 2, 3], np.uint64)
    entered = KeyedRandom(STATES[:4]).skip(skips).words((4, 2))
    for user in range(4):
        np.testing.assert_array_equal(entered[user], whole[user, user : user + 2])


def test_large_and_small_draws_agree():
    wide = KeyedRandom(STATES).words((5000, 40))
    np.testing.assert_array_equal(wide[:3], KeyedRandom(STATES[:3]).words((3, 40)))


def test_runs_of_users_draw_what_all_would_draw_together():
    source, together = KeyedRandom(STATES[:7]), KeyedRandom(STATES[:7])
    for width in (2, 3):  # the second time the streams go on
        blocks = source.blocks(7, 3)
        drawn = [part.words((run.stop - run.start, width)) for run, part in blocks]
        assert [len(words) for words in drawn] == [3, 3, 1]
        np.testing.assert_array_equal(np.vstack(drawn), together.words((7, width)))
    np.testing.assert_array_equal(source.words((7, 1)), together.words((7, 1)))


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: type(s).__name__)
def test_draws_have_their_laws(source):
    # Kolmogorov-Smirnov at level 1e-6 on each of two laws and three sources; the
    # system's source has no seed, so this fails by chance once in 250,000 runs.
    assert stats.kstest(source.uniforms((5000, 8)).ravel(), "uniform").pvalue > 1e-6
    assert stats.kstest(source.normals((5000, 8)).ravel(), "norm").pvalue > 1e-6
    bits = source.words((5000, 8)).ravel()[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(40_000)


def test_streams_of_neighbouring_users_are_uncorrelated():
    states = derive(np.arange(100_001, dtype=np.uint64))
    normals = KeyedRandom(states).normals((100_001, 1))[:, 0]
    assert abs(np.corrcoef(normals[1:], normals[:-1])[0, 1]) < 5 / np.sqrt(100_000)


def test_wrong_number_of_users_is_refused():
    source = KeyedRandom(STATES[:4])
    for draw in (lambda: source.words((3, 2)), lambda: next(source.blocks(3, 2))):
        with pytest.raises(ValueError, match="Expected 4 users, got 3"):
            draw()


def test_uniforms_are_open_at_both_ends():
    class Ends(RandomSource):
        def words(self, shape):
            return np.resize(np.array([0, 2**64 - 1], np.uint64), shape)

    for source in (Ends(), NumpyRandom(FixedBits())):
        low, high = source.uniforms((2,))
        assert 0 < low < high < 1
    assert np.isfinite(Ends().normals((2,))).all()


class FixedBits:
    """Stands in for a NumPy generator."""

    def integers(self, low, high, size, dtype, endpoint):
        return np.resize(np.array([low, high], dtype), size)
