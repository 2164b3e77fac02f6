"""Gaussian, zCDP and composition, against published values and exact sums."""

import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from ldp_flower.accounting import (
    GaussianEvent,
    RandomizedResponseEvent,
    gaussian_epsilon,
    total_epsilon,
    total_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from ldp_flower.randomizers.real_valued.gaussian import gaussian_delta, gaussian_mu

DELTAS = (1e-2, 1e-3, 1e-5, 1e-6)
SIGMAS = {  # standard deviation over sensitivity
    0.5: (3.147, 4.610, 7.032, 8.058),
    1: (1.878, 2.575, 3.731, 4.225),
    2: (1.116, 1.445, 1.994, 2.231),
    4: (0.669, 0.823, 1.081, 1.194),
    8: (0.408, 0.480, 0.600, 0.653),
    10: (0.350, 0.406, 0.500, 0.541),
}


@pytest.mark.parametrize("epsilon", SIGMAS)
@pytest.mark.parametrize("place", range(4))
def test_gaussian_noise_is_that_of_the_table_and_on_the_safe_side(epsilon, place):
    delta = DELTAS[place]
    mu = gaussian_mu(epsilon, delta)
    assert 1 / mu == pytest.approx(SIGMAS[epsilon][place], abs=6e-4)
    assert delta * (1 - 1e-6) <= gaussian_delta(epsilon, mu) <= delta
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "true"), [(10, 1e-2, 0.0406), (8, 1e-3, 1.3e-3), (8, 1e-2, 1.8e-2)]
)
def test_the_classical_formula_is_not_valid_for_large_epsilon(epsilon, delta, true):
    classical = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    assert gaussian_delta(epsilon, classical) == pytest.approx(true, rel=0.03)
    assert gaussian_delta(epsilon, classical) > delta


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0, 50.0, 700.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1, 0.9])
def test_gaussian_extremes(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert 0 < mu < math.inf and gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, 1.001 * mu) > delta
    assert gaussian_delta(gaussian_epsilon(mu, delta), mu) <= delta


def test_gaussian_epsilon_may_be_zero():
    assert gaussian_epsilon(0.01, 0.5) == 0


def test_gaussian_reports_compose_exactly():
    mu = gaussian_mu(1.0, 1e-5)
    events = [GaussianEvent(mu / 10, 50), *[GaussianEvent(mu / 10)] * 50]
    assert total_mu(events) == pytest.approx(mu, rel=1e-12)
    assert total_epsilon(events, 1e-5, "basic") == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_zcdp(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    # Never smaller than the truth for Gaussian noise (mu**2 / 2 = rho), never larger than
    # the bound of Bun & Steinke (2016).
    assert gaussian_epsilon(math.sqrt(2 * rho), delta) <= epsilon
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_zcdp_bound_is_the_printed_one():
    rho, delta, epsilon = 0.1, 1e-5, zcdp_epsilon(0.1, 1e-5)
    orders = 1 + np.exp(np.linspace(-6, 8, 100_000))
    log_delta = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1)
    log_delta += orders * np.log1p(-1 / orders)
    assert math.exp(log_delta.min()) == pytest.approx(delta, rel=1e-5)


EVENTS = [
    RandomizedResponseEvent(0.01),
    RandomizedResponseEvent(0.3),
    RandomizedResponseEvent(2.0),
    GaussianEvent(0.1),
    pytest.param(GaussianEvent(1.0), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_loop_count_and_self_composition_agree(event):
    delta, count = 1e-5, 7
    loop = total_epsilon([event] * count, delta, "pld")
    counted = total_epsilon([replace(event, count=count)], delta, "pld")
    parts = total_epsilon([replace(event, count=3), replace(event, count=4)], delta, "pld")
    assert loop == pytest.approx(counted, rel=1e-3, abs=1e-6)
    assert parts == pytest.approx(counted, rel=1e-3, abs=1e-6)
    assert counted > 1.5 * total_epsilon([event], delta, "pld")
    truth = _exact(event, count, delta)
    assert truth - 1e-6 <= counted <= truth * 1.01 + 1e-3


def _exact(event, count, delta):
    """Return epsilon at delta, for randomized response by summing over the number of ones."""
    if isinstance(event, GaussianEvent):
        return gaussian_epsilon(event.mu * math.sqrt(count), delta)
    p = 1 / (1 + math.exp(-event.epsilon))
    ones = np.arange(count + 1)
    mass, other = binom.pmf(ones, count, p), binom.pmf(ones, count, 1 - p)

    def excess(epsilon):
        return np.maximum(mass - math.exp(epsilon) * other, 0).sum() - delta

    return brentq(excess, 0, count * event.epsilon + 1, xtol=1e-12)


def test_dp_accountings_own_accountant_still_ignores_the_count():
    """Once this fails, the accountant can be used as it is."""
    from dp_accounting import NeighboringRelation, RandomizedResponseDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    def epsilon(event):
        accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
        return accountant.compose(event).get_epsilon(1e-5)

    event = RandomizedResponseDpEvent(2 / (1 + math.exp(0.3)), 2)
    assert epsilon(SelfComposedDpEvent(event, 7)) == epsilon(event)


def test_best_is_never_worse_than_basic():
    for count, delta in itertools.product((1, 2, 100), (0.0, 1e-6, 1e-2)):
        events = [RandomizedResponseEvent(0.1, count)]
        best, basic = total_epsilon(events, delta), total_epsilon(events, delta, "basic")
        assert 0 < best <= basic == pytest.approx(0.1 * count)
    assert total_epsilon([RandomizedResponseEvent(0.1, 100)], 1e-6) < 6  # basic says 10
    mixed = [RandomizedResponseEvent(0.5, 4), GaussianEvent(0.5)]
    assert total_epsilon(mixed, 1e-5) < total_epsilon(mixed, 1e-5, "basic")
    assert total_epsilon(mixed, 0.0) == math.inf
    assert total_epsilon([], 1e-5) == 0


def test_large_totals_stay_tractable():
    events = [RandomizedResponseEvent(50.0, 100), RandomizedResponseEvent(1e-3)]
    assert total_epsilon(events, 1e-6) <= 5000.001 + 1e-9


def test_what_is_refused():
    for call, name in (
        (lambda: gaussian_mu(1.0, 0.0), "delta"),
        (lambda: gaussian_mu(0.0, 0.1), "epsilon"),
        (lambda: gaussian_delta(-1.0, 1.0), "epsilon"),
        (lambda: zcdp_rho(1.0, 2.0), "delta"),
        (lambda: total_epsilon([], 1.0), "delta"),
        (lambda: total_epsilon([], 0.1, "renyi"), "method"),
        (lambda: RandomizedResponseEvent(math.inf), "epsilon"),
        (lambda: GaussianEvent(1.0, 0), "count"),
    ):
        with pytest.raises(ValueError, match=f"Expected.*{name}"):
            call()


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r'pip install "ldp-flower\[sim\]"'):
        total_epsilon([RandomizedResponseEvent(1.0, 2)], 1e-5)
    assert total_epsilon([RandomizedResponseEvent(1.0, 2)], 0.0) == 2.0
