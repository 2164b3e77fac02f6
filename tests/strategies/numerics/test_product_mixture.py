"""The fit to tables of pairs: exact tables are found again, and stated distances hold the real."""

from itertools import combinations

import numpy as np
import pytest

from ldp_flower.strategies.numerics.product_mixture import (
    PairTable,
    ProductMixture,
    distances,
    fitted,
)

SIZES = [4, 3, 4, 2]


def truth(seed, components=6):
    rng = np.random.default_rng(seed)
    cells = [rng.dirichlet(np.full(size, 0.5), components) for size in SIZES]
    return ProductMixture(rng.dirichlet(np.full(components, 3.0)), cells)


def tables(shares_of, error, seed):
    rng = np.random.default_rng(seed)
    found = []
    for pair in combinations(range(len(SIZES)), 2):
        shares = shares_of(*pair)
        noise = error * rng.standard_normal(shares.shape)
        found.append(PairTable(pair, shares + noise, np.full(shares.shape, error)))
    return found


def apart(mixture, shares_of):
    pairs = list(combinations(range(len(SIZES)), 2))
    off = [np.abs(mixture.two_way(*pair) - shares_of(*pair)).sum() / 2 for pair in pairs]
    return np.mean(off)


def test_a_mixture_is_a_distribution():
    mixture = truth(0)
    assert mixture.two_way(0, 2).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(mixture.two_way(0, 2).sum(axis=1), mixture.one_way(0))
    drawn = mixture.draw(100_000, np.random.default_rng(1))
    counts = np.bincount(drawn[:, 0] * SIZES[2] + drawn[:, 2], minlength=16).reshape(4, 4) / 1e5
    # Five standard errors of a share of 1/4, the largest that a share in 16 cells may well have.
    assert np.abs(counts - mixture.two_way(0, 2)).max() < 5 * np.sqrt(0.25 * 0.75 / 1e5)


def test_exact_tables_are_found_again():
    mixture = truth(0)
    again = fitted(tables(mixture.two_way, 0.0, 0), SIZES)
    assert apart(again, mixture.two_way) < 0.01
    assert again.weights.sum() == pytest.approx(1.0)
    assert all(block.sum(axis=1) == pytest.approx(1.0) for block in again.cells)


def test_a_fit_is_nearer_than_what_was_measured():
    mixture = truth(1)
    measured = tables(mixture.two_way, 0.02, 1)
    raw = np.mean(
        [np.abs(each.shares - mixture.two_way(*each.columns)).sum() / 2 for each in measured]
    )
    assert apart(fitted(measured, SIZES), mixture.two_way) < raw


def test_a_table_that_is_less_noisy_counts_more():
    mixture = truth(2)
    measured = tables(mixture.two_way, 1e-3, 2)
    wild = measured[0].shares[::-1]
    measured[0] = PairTable((0, 1), wild, np.full(wild.shape, 10.0))
    assert apart(fitted(measured[1:] + measured[:1], SIZES), mixture.two_way) < 0.1


@pytest.mark.parametrize("error", [0.002, 0.02])
def test_the_stated_distance_holds_the_real_one(error, users=4000):
    """Of 6 intervals of 95 %, 3 or more miss once in 500 runs."""
    missed = 0
    for seed in range(3):
        codes = truth(10 + seed).draw(users, np.random.default_rng(seed))

        def counted(one, other, codes=codes):
            flat = codes[:, one] * SIZES[other] + codes[:, other]
            counts = np.bincount(flat, minlength=SIZES[one] * SIZES[other]) / users
            return counts.reshape(SIZES[one], SIZES[other])

        measured = tables(counted, error, seed)
        found = fitted(measured, SIZES)
        stated = distances(measured, SIZES, found, users)
        real = apart(found, counted)
        missed += not stated.two_way[1] <= real <= stated.two_way[2]
        singles = [
            np.abs(found.one_way(i) - np.bincount(codes[:, i], minlength=size) / users).sum() / 2
            for i, size in enumerate(SIZES)
        ]
        missed += not stated.one_way[1] <= np.mean(singles) <= stated.one_way[2]
        np.testing.assert_allclose(stated.pairs, stated.pairs.T)
    assert missed < 3
