"""The sampler's law, enumerated: every sequence of its decisions, with its exact probability."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from ldp_flower.randomizers import discrete_gaussian as sampler
from ldp_flower.randomness import KeyedRandom, SystemRandom, derive


class _Further(Exception):
    """A decision for which the path has no outcome yet; these are the possible ones."""

    def __init__(self, outcomes):
        self.outcomes = outcomes  # with their probabilities


class Path:
    """Decisions whose outcomes are given, in the place of random ones."""

    def __init__(self, outcomes):
        self._outcomes = iter(outcomes)

    def next(self, outcomes):
        try:
            return next(self._outcomes)
        except StopIteration:
            raise _Further(outcomes) from None


def paths_of(run, least):
    """Return the probability of each result of ``run(path)``, and what is left out."""
    found, left, todo = {}, 0, [((), 1)]
    while todo:
        path, chance = todo.pop()
        if chance < least:
            left += chance
            continue
        try:
            result = run(Path(path))
        except _Further as more:
            todo += [((*path, each), chance * share) for each, share in more.outcomes if share]
        else:
            found[result] = found.get(result, 0) + chance
    return found, left


class OfEvent:
    """Draws of one event of probability exp(-a / 4), by what matters of them."""

    def __init__(self, path, a):
        self._path, self._a = path, a

    def bits(self, number, count):
        below = Fraction(self._a, 1 << number)
        outcomes = [(0, below), ((1 << number) - 1, 1 - below)]
        return np.array([self._path.next(outcomes) for _ in range(count)], np.uint64)

    def below(self, limit, count):
        outcomes = [(0, Fraction(1, limit)), (1, 1 - Fraction(1, limit))]
        return np.array([self._path.next(outcomes) for _ in range(count)], np.uint64)


@pytest.mark.parametrize("a", range(5))
def test_an_event_has_exactly_its_probability(a):
    """By rational numbers: exp(-a / 4), whatever the words are."""

    def run(path):
        return bool(sampler._happens(np.array([a], np.uint64), 2, OfEvent(path, a))[0])

    found, left = paths_of(run, Fraction(1, 10**25))
    assert found.get(True, 0) + found.get(False, 0) + left == 1
    wanted = Fraction(math.exp(-a / 4))
    slack = Fraction(1, 10**15)
    assert found.get(True, 0) - slack <= wanted <= found.get(True, 0) + left + slack
    assert left < Fraction(1, 10**20)


@pytest.mark.parametrize("log_sigma", [0, 1, 2])
def test_numbers_have_exactly_the_probabilities_of_the_discrete_gaussian(log_sigma, monkeypatch):
    """Given that events have theirs: all sequences of decisions are followed."""

    class Decisions:
        def __init__(self, path):
            self.path = path

        def bits(self, number, count):
            outcomes = [(each, 0.5**number) for each in range(1 << number)]
            return np.array([self.path.next(outcomes) for _ in range(count)], np.uint64)

    def happens(numerators, bits, draws):
        chances = [math.exp(-int(a) / (1 << bits)) for a in numerators]
        outcomes = [draws.path.next([(True, p), (False, 1 - p)]) for p in chances]
        return np.array(outcomes, bool)

    monkeypatch.setattr(sampler, "_happens", happens)

    def run(path):
        places, drawn = sampler._once(1, log_sigma, Decisions(path))
        return int(drawn[0]) if len(places) else None

    found, left = paths_of(run, 1e-13)
    assert sum(found.values()) + left == pytest.approx(1, abs=1e-12)
    assert left < 1e-9
    for x in range(-6 << log_sigma, (6 << log_sigma) + 1):
        relative = found[x] / found[0]
        assert relative == pytest.approx(
            math.exp(-(x**2) / (2 * 4.0**log_sigma)), rel=1e-9, abs=left
        )


@pytest.mark.parametrize("rng", [SystemRandom(), KeyedRandom(derive(np.arange(1)))])
def test_draws_have_the_law_by_counts(rng):
    """A right sampler fails once in 10^6 runs where it is not seeded."""
    size = 200_000
    found = sampler.discrete_gaussian(size, rng, 2)
    numbers = np.arange(-12, 13)
    weights = np.exp(-(numbers**2) / 32.0)
    expected = size * weights / weights.sum()
    counts = (found[:, None] == numbers).sum(axis=0)
    kept = expected > 20
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert statistic < chi2.isf(1e-6, kept.sum() - 1)


def test_a_large_scale_is_a_normal_law():
    found = sampler.discrete_gaussian(300_000, KeyedRandom(derive(np.arange(1)))) / sampler.SIGMA
    assert abs(found.mean()) < 5 / math.sqrt(300_000)
    assert np.mean(found**2) == pytest.approx(1, abs=5 * math.sqrt(2 / 300_000))
    assert np.mean(found**4) == pytest.approx(3, abs=5 * math.sqrt(96 / 300_000))
    # Low bits are uniform: nothing rounds.
    odd = np.mean(sampler.discrete_gaussian(100_000, KeyedRandom(derive(np.arange(1)))) % 2)
    assert abs(odd - 0.5) < 5 * 0.5 / math.sqrt(100_000)
