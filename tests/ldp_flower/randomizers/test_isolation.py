"""Isolation in the mechanisms: a user's numbers have the same bits whatever others' are.

Compared before anything is rounded, since a difference in the last bit can be made to decide
a report: by a server, or by users of the same node whose records lie on near ties.
"""

from itertools import product

import numpy as np
import pytest

from ldp_flower.randomizers import (
    _REGISTRY,
    BallSum,
    CellSum,
    Codebook,
    DiscreteSquareWave,
    GaussianMechanism,
    GaussianRecord,
    HadamardBit,
    HadamardCodebook,
    HadamardResponse,
    HybridMechanism,
    KRandomizedResponse,
    NarrowSquareWave,
    NodeSum,
    OptimizedLocalHashing,
    PiecewiseMechanism,
    PrefixExtending,
    RandomizedResponse,
    RecordGaussian,
    RecordMechanism,
    RecordPeeling,
    RecordVertices,
    SampledCoordinate,
    SubsetHypercube,
    SubsetSelection,
    TreeHist,
    sums,
)
from ldp_flower.randomizers.codebooks import BallCodebook
from ldp_flower.randomizers.elementwise import directions, lift
from ldp_flower.randomizers.two_level import sign_chances
from ldp_flower.randomness import KeyedRandom, derive

DIMS = [1, 3, 17, 130]
MORE_DIMS = [2, 7, 8, 64]  # in the slow run
VECTORS = {
    "Codebook": lambda dim: Codebook(1.0, dim, 1.5, 24, num_codebooks=1),
    "GaussianMechanism": lambda dim: GaussianMechanism(1.0, dim),
    "GaussianRecord": lambda dim: GaussianRecord(1.0, dim),
    "BallSum": lambda dim: BallSum(1.0, dim=dim),
    "CellSum": lambda dim: CellSum(1.0, dim=dim),
    "HadamardCodebook": lambda dim: HadamardCodebook(1.0, 254 + dim, 1.5, 24),
    "RecordGaussian": lambda dim: RecordGaussian(1.0, dim),
    "RecordPeeling": lambda dim: RecordPeeling(1.0, dim),
    "RecordVertices": lambda dim: RecordVertices(1.0, dim),
    "SubsetHypercube": lambda dim: SubsetHypercube(1.0, dim, 3.0),
    "SampledCoordinate": lambda dim: SampledCoordinate(RandomizedResponse(1.0, 3.0), dim),
}
NUMBERS = {
    "HybridMechanism": HybridMechanism(1.0, 3.0),
    "PiecewiseMechanism": PiecewiseMechanism(1.0, 3.0),
    "RandomizedResponse": RandomizedResponse(1.0, 3.0),
}
ITEMS = {
    "HadamardBit": HadamardBit(1.0, 9),
    "HadamardResponse": HadamardResponse(1.0, 9),
    "DiscreteSquareWave": DiscreteSquareWave(1.0, 9),
    "NarrowSquareWave": NarrowSquareWave(1.0, 9, 2),
    "KRandomizedResponse": KRandomizedResponse(1.0, 9),
    "OptimizedLocalHashing": OptimizedLocalHashing(1.0, 9),
    "PrefixExtending": PrefixExtending(1.0, 13),
    "SubsetSelection": SubsetSelection(1.0, 9, 3),
    "TreeHist": TreeHist(1.0, 13),
}
MECHANISMS = [
    *(make(dim) for make in VECTORS.values() for dim in DIMS),
    *(
        pytest.param(make(dim), marks=pytest.mark.slow)
        for make in VECTORS.values()
        for dim in MORE_DIMS
    ),
    *NUMBERS.values(),
    *ITEMS.values(),
]
BESIDE = {
    "nothing special": 0.3,
    "not a number": np.nan,
    "infinite": -np.inf,
    "subnormal": 5e-324,
    "huge": 1.7e308,
    "zero": 0.0,
    "no item": -1.5,
}
AROUND = [(1, 0), (0, 1), (3, 2), (0, 40), (33, 7)]  # how many stand before and after
each = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{type(m).__name__}-{m.width}"
)


def test_every_mechanism_that_a_message_can_name_is_here():
    assert set(VECTORS) | set(NUMBERS) | set(ITEMS) == {*_REGISTRY, "SampledCoordinate"}


def own_row(mechanism):
    """Return a value whose numbers have all their bits, and are those of four-byte floats."""
    rng = np.random.default_rng(mechanism.width)
    if type(mechanism).__name__ in ITEMS:
        return np.arange(mechanism.width, dtype=np.float64)
    return rng.standard_normal(mechanism.width).astype(np.float32).astype(np.float64)


def in_columns(values):
    return np.asfortranarray(values)


def strided(values):
    wide = np.full((2 * len(values), 3 * values.shape[1]), np.nan)
    wide[::2, 1::3] = values
    return wide[::2, 1::3]


def backwards(values):
    return np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1]


def odd_bytes(values):
    place = np.empty(values.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(values.shape)
    place[:] = values
    return place


def swapped(values):
    return values.astype(values.dtype.newbyteorder())


LAYOUTS = [np.ascontiguousarray, in_columns, strided, backwards, odd_bytes, swapped, np.longdouble]
layouts = pytest.mark.parametrize("laid_out", LAYOUTS, ids=lambda function: function.__name__)


def randomized(mechanism, values, place, monkeypatch):
    """Return the reports and all blocks that entered ``_randomize``, of parts as well.

    The user at ``place`` has the same coin and the same private words in all calls.
    """
    entered = []
    with monkeypatch.context() as patch:
        for cls in {type(mechanism), *(type(part) for part in parts(mechanism))}:
            patch.setattr(cls, "_randomize", spying(cls._randomize, entered))
        states = derive(3, np.arange(len(values)) + 1000 * (np.arange(len(values)) != place))
        states[place] = derive(4)[0]
        coins = derive(5, states)
        reports = mechanism.randomize(values, KeyedRandom(states), coins)
    return reports, entered


def parts(mechanism):
    return [mechanism.part] if isinstance(mechanism, SampledCoordinate) else []


def spying(randomize, entered):
    def spy(self, values, rng, coins):
        entered.append((self, values, values.copy(), rng, coins))
        return randomize(self, values, rng, coins)

    return spy


def bits(array):
    return np.asarray(array).tobytes()


@each
def test_values_enter_as_own_doubles_row_after_row(mechanism, monkeypatch):
    rows = np.tile(own_row(mechanism), (5, 1))
    alone, ((_, _, expected, *_), *_) = randomized(mechanism, rows[:1], 0, monkeypatch)
    for laid_out, beside in product(LAYOUTS, BESIDE.values()):
        rows[[0, 3]] = beside
        given = laid_out(rows)
        reports, entered = randomized(mechanism, given, 2, monkeypatch)
        assert len(entered) == 1 + len(parts(mechanism))
        for _, values, *_ in entered:
            assert values.dtype == np.float64 and values.dtype.isnative
            assert values.flags.c_contiguous and values.flags.aligned and values.flags.writeable
            assert not np.shares_memory(values, given)
        assert bits(entered[0][2][2]) == bits(expected[0])
        assert bits(reports[2]) == bits(alone[0])


@each
def test_four_byte_floats_are_the_doubles_that_they_equal(mechanism, monkeypatch):
    rows = np.tile(own_row(mechanism), (3, 1))
    as_doubles, _ = randomized(mechanism, rows, 1, monkeypatch)
    as_floats, entered = randomized(mechanism, rows.astype(np.float32), 1, monkeypatch)
    np.testing.assert_array_equal(as_floats, as_doubles)
    assert all(values.dtype == np.float64 for _, values, *_ in entered)


def products(mechanism, values, coins):
    whole = np.full((len(values), mechanism.num_codewords), np.nan)
    for users, some in mechanism._products(values, coins):
        whole[users] = some
    assert not np.isnan(whole).any()
    return whole


def unrounded(mechanism, values, states, coins):
    """Return what a mechanism computes of values with floating-point numbers, row by row."""
    draws = KeyedRandom(states)
    if isinstance(mechanism, BallCodebook):
        return [lift(values, mechanism.radius), products(mechanism, values, coins)]
    if isinstance(mechanism, SubsetHypercube):
        return [mechanism._chances(values, coins)]
    if isinstance(mechanism, RandomizedResponse):
        return [sign_chances(values, mechanism.radius)]
    if isinstance(mechanism, GaussianMechanism):
        return list(directions(values))
    if isinstance(mechanism, HybridMechanism | PiecewiseMechanism):
        return [mechanism._draw(values[:, 0] / mechanism.radius, draws)]
    if isinstance(mechanism, NodeSum):
        return [mechanism.integers(values)]
    if isinstance(mechanism, RecordMechanism):
        clipped = mechanism._clipped(values)
        return [clipped, mechanism._noisy(clipped, np.zeros((len(values), 1)), draws)]
    return [mechanism._numbered(values)]


@pytest.fixture
def quick_noise(monkeypatch):
    """Let the noise of a sum be the first words of its stream; exact draws take a millisecond."""
    monkeypatch.setattr(
        sums, "discrete_gaussian", lambda size, rng: rng.words((1, size))[0].astype(np.int64)
    )


@each
def test_nothing_beside_a_user_moves_a_bit_of_it(mechanism, quick_noise, monkeypatch):
    row = own_row(mechanism)
    alone, first = randomized(mechanism, row[None], 0, monkeypatch)
    with np.errstate(all="ignore"):
        computed = [
            (i, part, unrounded(part, own, derive(6, coin), coin))
            for i, (part, _, own, _, coin) in enumerate(first)
            if not isinstance(part, SampledCoordinate)
        ]
    laid_out = (np.ascontiguousarray, in_columns, strided)
    for beside, layout, (before, after) in product(BESIDE, laid_out, AROUND):
        rows = np.full((before + 1 + after, mechanism.width), BESIDE[beside])
        rows[before] = row
        reports, entered = randomized(mechanism, layout(rows), before, monkeypatch)
        where = beside, layout.__name__, before, after
        assert bits(reports[before]) == bits(alone[0]), where
        assert len(entered) == len(first)
        for i, part, expected in computed:
            _, _, block, _, coins = entered[i]
            states = derive(6, coins)
            with np.errstate(all="ignore"):
                found = unrounded(part, block, states, coins)
            for one, many in zip(expected, found, strict=True):
                assert bits(one[0]) == bits(many[before]), where


@pytest.mark.parametrize("dim", [8191, 8193, 20_000])
@pytest.mark.parametrize("make", [GaussianMechanism])
def test_long_rows_are_no_exception(make, dim, monkeypatch):
    """NumPy takes thousands of numbers at a time; where it begins must not depend on others."""
    mechanism = make(1.0, dim)
    row = own_row(mechanism)
    alone, ((_, _, own, _, coin),) = randomized(mechanism, row[None], 0, monkeypatch)
    for before, after in [(1, 0), (0, 2), (3, 1)]:
        rows = np.full((before + 1 + after, dim), np.nan)
        rows[before] = row
        reports, ((_, _, block, _, coins),) = randomized(mechanism, rows, before, monkeypatch)
        assert bits(reports[before]) == bits(alone[0])
        expected = unrounded(mechanism, own, derive(6, coin), coin)
        found = unrounded(mechanism, block, derive(6, coins), coins)
        for one, many in zip(expected, found, strict=True):
            assert bits(one[0]) == bits(many[before])


@pytest.mark.parametrize("dim", [5, 31, 32, 63, 64, 65, 255, 1000, 2049])
@pytest.mark.parametrize("num_codewords", [7, 256, 1024])
def test_a_product_with_shared_words_has_the_same_bits_wherever_a_user_stands(dim, num_codewords):
    """One matrix product ranks many users; its shape is fixed, so only a user's row counts."""
    mechanism = Codebook(1.0, dim, 1.0, num_codewords, num_codebooks=1)
    row = own_row(mechanism)
    coin = derive(1)
    alone = products(mechanism, row[None], coin)[0]
    for number, beside in enumerate(BESIDE.values()):
        rows = np.full((97, dim), beside)
        where = [(5 * number) % 97, 31, 32, 95, 96]
        rows[where] = row
        coins = derive(2, np.arange(97))
        coins[where] = coin
        with np.errstate(all="ignore"):
            among = products(mechanism, mechanism._own(rows), coins)
        assert {bits(one) for one in among[where]} == {bits(alone)}


@layouts
@pytest.mark.parametrize("dim", [*DIMS, *MORE_DIMS])
@pytest.mark.parametrize("name", ["RecordGaussian", "RecordPeeling", "RecordVertices"])
def test_records_of_a_silo_do_not_move_each_other(name, dim, laid_out, monkeypatch):
    mechanism = VECTORS[name](dim)
    row, clipped = own_row(mechanism), []
    inner = type(mechanism)._clipped
    with monkeypatch.context() as patch:
        patch.setattr(
            type(mechanism),
            "_clipped",
            lambda self, values: clipped.append(inner(self, values)) or clipped[-1],
        )
        mechanism.total(row[None])
        for beside in BESIDE.values():
            rows = np.full((6, dim), beside)
            rows[4] = row
            mechanism.total(laid_out(rows))
            assert bits(clipped[-1][4]) == bits(clipped[0][0])


@pytest.mark.parametrize("mechanism", NUMBERS.values())
def test_no_number_is_an_error(mechanism):
    rows = np.array([[number] * mechanism.width for number in BESIDE.values()])
    with np.errstate(all="raise"):
        mechanism.randomize(rows, np.random.default_rng(0))
