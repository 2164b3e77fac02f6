import mpmath
import numpy as np
import pytest
from scipy import special, stats

from ldp_flower.randomness import KeyedRandom, NumpyRandom, RandomSource, SystemRandom, derive

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


def test_a_stream_goes_on():
    source = KeyedRandom(STATES[:4])
    first, second = source.words((4, 2)), source.words((4, 5))
    whole = KeyedRandom(STATES[:4]).words((4, 7))
    np.testing.assert_array_equal(np.hstack([first, second]), whole)


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


LAST = 2**64 - 1


class Given(RandomSource):
    """Hands out given words, and given further ones for draws near an end."""

    def __init__(self, words, further):
        self._words, self._more = np.array(words, np.uint64), np.array(further, np.uint64)

    def words(self, shape):
        return self._words.reshape(shape).copy()

    def _further(self, shape, where):
        return self._more[: len(where)]


def mass(word, further):
    """Return the exact mass between a uniform and the end that it is near to."""
    cell = min(word >> 12, 2**52 - 1 - (word >> 12))
    number = cell << 960 | sum(w << 64 * (14 - i) for i, w in enumerate(further))
    return mpmath.mpf(2 * number + 1) / 2**1013


FURTHER = [[0] * 15, [0] * 14 + [1], [0] * 7 + [3, *range(7)], [5] * 15, [LAST] * 15]
NEAR = [0, 1, 4095, 4096, 9 << 12, (2**24 - 1) << 12]


@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("word", [w for near in NEAR for w in (near, LAST - near)])
def test_draws_at_the_ends_are_the_exact_quantiles(word, further):
    with mpmath.workdps(330):
        exact, low = mass(word, further), word < 2**63
        source = Given([word], [further])
        below, above = source.sides((1,))
        assert abs((below if low else above)[0] / exact - 1) < 1e-15
        assert abs((above if low else below)[0] - (1 - exact)) < 1e-15
        uniform = source.uniforms((1,))[0]
        assert 0 < uniform < 1
        assert uniform == (below[0] if low else ((word >> 12) + 0.5) * 2.0**-52)
        normal = mpmath.mpf(source.normals((1,))[0])
        assert abs(mpmath.erfc(abs(normal) / mpmath.sqrt(2)) / 2 / exact - 1) < 1e-11
        assert (normal < 0) == low
        exponential = mpmath.mpf(source.exponentials((1,))[0])
        tail = mpmath.exp(-exponential) if low else -mpmath.expm1(-exponential)
        assert abs(tail / exact - 1) < 1e-12


@pytest.mark.parametrize("word", [2**24 << 12, LAST - (2**24 << 12), 1 << 63, (1 << 63) - 1])
def test_draws_away_from_the_ends_need_no_further_words(word):
    source = Given([word], np.empty((0, 15)))
    uniform = ((word >> 12) + 0.5) * 2.0**-52
    assert source.uniforms((1,))[0] == uniform
    assert [side[0] for side in source.sides((1,))] == [uniform, 1 - uniform]
    assert source.normals((1,))[0] == special.ndtri(uniform)
    assert source.exponentials((1,))[0] == -np.log(uniform)


@pytest.mark.parametrize("word", [0, LAST])
def test_deep_tails_have_their_law(word):
    """Fixed seed; Kolmogorov-Smirnov at level 1e-6, in the lowest and the highest cell."""
    further = np.random.default_rng(0).integers(0, LAST, (20_000, 15), np.uint64, endpoint=True)
    source = Given([word] * 20_000, further)
    nearer = np.minimum(*source.sides((20_000, 1)))[:, 0] * 2**52
    assert stats.kstest(nearer, "uniform").pvalue > 1e-6
    tails = stats.norm.cdf(-np.abs(source.normals((20_000, 1))[:, 0])) * 2**52
    assert stats.kstest(tails, "uniform").pvalue > 1e-6


def test_further_bits_do_not_move_a_uniform_out_of_its_cell():
    """Uniforms are compared with multiples of 2**-52, and near an end must not cross them."""
    for cell in (0, 1, 5):
        for further in ([0] * 15, [LAST] * 15):
            uniform = Given([cell << 12], [further]).uniforms((1,))[0]
            assert cell * 2.0**-52 <= uniform < (cell + 1) * 2.0**-52
            high = Given([LAST - (cell << 12)], [further]).uniforms((1,))[0]
            assert 1 - (cell + 1) * 2.0**-52 <= high < 1 - cell * 2.0**-52


def before_mixing(word):
    """Return the counter that SplitMix64 turns into a word."""

    def unshift(word, shift):
        found = word
        for _ in range(64 // shift):
            found = word ^ found >> shift
        return found

    word = unshift(word, 31) * pow(0x94D049BB133111EB, -1, 2**64) & LAST
    word = unshift(word, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & LAST
    return unshift(word, 30)


GOLDEN = 0x9E3779B97F4A7C15


def stream(word, place):
    """Return the state of a stream whose word at a place is the given one."""
    return before_mixing(word) - (place + 1) * GOLDEN & LAST


LAWS = ["uniforms", "normals", "exponentials"]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("word", [3, LAST - 3])
def test_a_draw_near_an_end_moves_no_other_draw(law, word):
    states = np.array([*STATES[:3], stream(word, 2), *STATES[3:5]], np.uint64)
    assert KeyedRandom(states).words((6, 5))[3, 2] == word
    source = KeyedRandom(states)
    drawn = getattr(source, law)((6, 5))
    others = getattr(KeyedRandom(np.delete(states, 3)), law)((5, 5))
    np.testing.assert_array_equal(np.delete(drawn, 3, axis=0), others)
    own = getattr(KeyedRandom(states[3:4]), law)((1, 5))[0]
    np.testing.assert_array_equal(drawn[3], own)
    # What follows in the stream is as if nothing had happened.
    whole = KeyedRandom(states).words((6, 9))
    np.testing.assert_array_equal(source.words((6, 4)), whole[:, 5:])


@pytest.mark.parametrize("law", LAWS)
def test_a_draw_near_an_end_is_the_same_wherever_its_stream_is_entered(law):
    states = np.array([stream(3, 4), *STATES[:2]], np.uint64)
    whole = getattr(KeyedRandom(states), law)((3, 2, 3))
    source = KeyedRandom(states)
    source.words((3, 1))
    np.testing.assert_array_equal(getattr(source, law)((3, 5)), whole.reshape(3, 6)[:, 1:])
    blocks = KeyedRandom(states).blocks(3, 2)
    parts = [getattr(part, law)((run.stop - run.start, 2, 3)) for run, part in blocks]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_draws_near_an_end_add_other_bits_in_every_stream():
    """The same word in many streams, which a function of the word alone would make equal."""
    states = np.array([stream(3, place) for place in range(50)], np.uint64)
    drawn = KeyedRandom(states).uniforms((50, 50))
    assert (KeyedRandom(states).words((50, 50)).diagonal() == 3).all()
    assert len(np.unique(drawn.diagonal())) == 50


@pytest.mark.parametrize(
    "source", [SystemRandom(), NumpyRandom(np.random.default_rng(0))], ids=["system", "numpy"]
)
def test_other_sources_draw_further_words_for_each(source):
    words = source._further((4, 2), np.array([1, 6]))
    assert words.shape == (2, 15) and len(np.unique(words)) == 30
