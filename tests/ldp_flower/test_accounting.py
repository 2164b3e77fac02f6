"""Gaussian, zCDP and composition, against published values and exact sums."""

import itertools
import math
import time
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from mpmath import mp

from ldp_flower.accounting import (
    GaussianEvent,
    RandomizedResponseEvent,
    gaussian_epsilon,
    noise_multiplier_epsilon,
    total_epsilon,
    total_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from ldp_flower.randomizers.real_valued.gaussian import gaussian_delta, gaussian_mu

R, G = RandomizedResponseEvent, GaussianEvent
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


@cache
def outcomes(reports):
    """Return the probabilities of all outcomes of randomized responses, for two values."""
    found = [(mp.mpf(1), mp.mpf(1))]
    for epsilon in reports:
        likely = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        ways = (likely, 1 - likely), (1 - likely, likely)
        found = [(p * one, q * other) for p, q in found for one, other in ways]
    return found


def enumerated(reports, epsilon):
    """Return the delta of randomized responses, each with its epsilon, at their total's."""
    factor = mp.exp(epsilon)
    return sum(max(mp.mpf(0), p - factor * q) for p, q in outcomes(reports))


REPORTS = [
    *((epsilon,) * count for epsilon in (1e-3, 0.3, 5.0) for count in (1, 2, 7, 12)),
    (0.1, 0.1, 0.4, 2.0),
    tuple(0.05 * i for i in range(1, 11)),
]


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-9, 1e-100])
@pytest.mark.parametrize("reports", REPORTS, ids=str)
def test_pure_reports_compose_exactly(reports, delta):
    """Against all outcomes of up to twelve reports: never below the truth, and within 1e-7."""
    with mp.workdps(140):
        epsilon = total_epsilon([RandomizedResponseEvent(each) for each in reports], delta)
        assert epsilon <= math.nextafter(math.fsum(reports), math.inf)
        assert enumerated(reports, mp.mpf(epsilon)) <= delta
        if epsilon:
            assert enumerated(reports, mp.mpf(epsilon) * (1 - mp.mpf(1e-7))) > delta


@pytest.mark.parametrize("mu", [1e-17, 1e-8, 9.9e-5, 1e-3, 0.1, 1.0, 30.0, 1e3, 1e9, 1e150])
@pytest.mark.parametrize("delta", [0.4, 1e-6, 1e-18, 1e-100, 1e-300])
def test_gaussian_epsilon_is_exact_and_rounded_up(mu, delta):
    with mp.workdps(60):
        for epsilon in (gaussian_epsilon(mu, delta), total_epsilon([GaussianEvent(mu)], delta)):
            assert true_delta(mp.mpf(epsilon), mu) <= delta
            if epsilon:
                assert true_delta(mp.mpf(epsilon) * (1 - mp.mpf(1e-8)), mu) > delta


@pytest.mark.parametrize("mu", [1e-60, 1e-17, 1e-8, 9.9e-5, 1.1e-4, 0.1, 3.0])
@pytest.mark.parametrize("place", [0.0, 1e-9, 0.1, 2.0, 30.0])
def test_gaussian_delta_is_exact(mu, place):
    """Before, it was 0 at mu 1e-17 and epsilon 0, and its difference of two terms was lost."""
    with mp.workdps(700):
        true = true_delta(mp.mpf(place * mu), mu)
        assert 1 - 1e-7 <= float(gaussian_delta(place * mu, mu) / true) <= 1 + 1e-7
        if mu < 1e-4:
            assert gaussian_delta(place * mu, mu) >= true * (1 - mp.mpf(1e-12))


@pytest.mark.parametrize("mu", [1e-17, 1e-9, 5e-5])
def test_little_gaussian_noise_beside_pure_reports_counts(mu):
    with mp.workdps(60):
        for delta in (1e-6, 1e-18):
            found = total_epsilon([R(0.3, 2), G(mu)], delta)
            likely = 1 / (1 + mp.exp(-mp.mpf(0.3)))
            losses = {2: likely**2, 0: 2 * likely * (1 - likely), -2: (1 - likely) ** 2}
            delta_of = sum(
                share * true_delta(mp.mpf(found) - each * mp.mpf(0.3), mu)
                for each, share in losses.items()
            )
            assert delta_of <= delta


def true_delta(epsilon, mu):
    mu = mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def test_sums_of_pure_epsilons_are_rounded_up():
    """Before, three reports at 0.1 cost 0.3 exactly, which is below three times the float 0.1."""
    for epsilons in ([0.1, 0.2, 0.3], [0.1] * 3, [1e-17, 1.0], [0.7] * 9, [1e300, 1e-300]):
        exact = sum(map(Fraction, epsilons))
        for method in ("best", "basic"):
            for delta in (0.0, 1e-300):
                found = total_epsilon([R(each) for each in epsilons], delta, method)
                assert exact <= found <= math.nextafter(float(exact), math.inf)
    assert total_epsilon([R(1.0)] * 10, 0.0) == 10.0


def test_events_may_come_once():
    """Before, a generator of events was used up by the first of two loops, and cost nothing."""
    events = [R(1.0, 3), G(0.5), R(0.2)]
    for method in ("best", "basic"):
        listed = total_epsilon(events, 1e-6, method)
        assert total_epsilon((event for event in events), 1e-6, method) == listed
        assert total_epsilon(iter(events), 1e-6, method) == listed
    assert total_epsilon(iter([G(1.0), R(1.0)]), 0.0) == math.inf
    assert total_mu(G(1.0) for _ in range(4)) == 2.0
    noises = noise_multiplier_epsilon([3.0, 4.0], 1e-6)
    assert noise_multiplier_epsilon((each for each in (3.0, 4.0)), 1e-6) == noises


@pytest.mark.parametrize("events", [[1.0], ["x"], [[R(5.0)]], [R(1.0), None], {R(1.0): 1.0, 2: 1}])
def test_what_is_no_event_is_refused(events):
    """Before, it counted nothing."""
    with pytest.raises(ValueError, match="Expected events of type RandomizedResponseEvent or"):
        total_epsilon(events, 1e-6)
    with pytest.raises(ValueError, match="Expected events of type GaussianEvent, got"):
        total_mu(events)


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


GRID = 1e-4
MIXED = [
    [R(0.1, 100)],
    [R(0.5, 4), G(0.5)],
    [R(0.5, 4), R(0.3, 7), G(0.5), G(0.2, 3)],
    [R(1.0, 5), R(0.2, 30), R(0.05, 200)],
    [R(0.01 * i, 10) for i in range(1, 30)],
    [G(1.0)],
    [R(2.0, 10), G(3.0)],
]


@pytest.mark.parametrize("events", MIXED)
@pytest.mark.parametrize("delta", [slow(1e-2), 1e-6, slow(1e-9)])
def test_what_is_mixed_lies_within_the_bounds_of_privacy_loss_distributions(events, delta):
    """Those of Google's dp-accounting, with the loss of each report rounded down and up."""
    epsilon = total_epsilon(events, delta)
    low, high = (by_distributions(events, delta, pessimistic) for pessimistic in (False, True))
    assert low * (1 - 1e-6) <= epsilon <= high * (1 + 1e-6)
    reports = sum(event.count for event in events if isinstance(event, R))
    assert high - low <= 1.01 * GRID * (reports + 1)


def by_distributions(events, delta, pessimistic):
    from dp_accounting.pld import privacy_loss_distribution as pld

    how = {"pessimistic_estimate": pessimistic, "value_discretization_interval": GRID}
    total = pld.identity(**how)
    for event in events:
        if isinstance(event, GaussianEvent):
            sigma = 1 / (event.mu * math.sqrt(event.count))
            total = total.compose(pld.from_gaussian_mechanism(sigma, **how))
        else:  # its p: the answer is replaced by a fair coin with probability p
            p = 2 / (1 + math.exp(event.epsilon))
            one = pld.from_randomized_response(p, 2, **how)
            total = total.compose(one.self_compose(event.count))
    return total.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("event", [R(0.01), R(2.0), G(0.1), G(1.0)], ids=str)
def test_loop_and_count_agree(event):
    counted = total_epsilon([replace(event, count=7)], 1e-5)
    for events in ([event] * 7, [replace(event, count=3), replace(event, count=4)]):
        assert total_epsilon(events, 1e-5) == pytest.approx(counted, rel=1e-12)
    assert counted > 1.5 * total_epsilon([event], 1e-5)


def test_many_small_reports_are_one_gaussian_report():
    """By the central limit theorem: n reports at epsilon 1 / sqrt(n) approach mu 1 from below."""
    limit = gaussian_epsilon(1.0, 1e-6)
    found = [total_epsilon([R(10**-power, 10 ** (2 * power))], 1e-6) for power in (1, 2, 3, 4)]
    assert found == sorted(found) and found[-1] < limit
    assert found[-1] == pytest.approx(limit, rel=1e-7)


def test_no_totals_take_long():
    """Before, mu 20 took half a minute and 1.4 GB, and mu 40 did not end."""
    started = time.process_time()
    assert total_epsilon([G(40.0)], 1e-5) == gaussian_epsilon(40.0, 1e-5)
    many = [R(0.01 * i, 1000) for i in range(1, 10)]
    assert total_epsilon([*many, G(20.0)], 1e-6) < total_epsilon(many, 1e-6) + total_epsilon(
        [G(20.0)], 1e-6
    )
    assert total_epsilon([R(1e-4, 10**9)], 1e-6) < 30
    assert total_epsilon([G(1e200)], 1e-6) == total_epsilon([R(1e308, 9)], 1e-6) == math.inf
    assert total_epsilon([G(1e-300)], 1e-300) == 0
    assert time.process_time() - started < 30


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


@pytest.mark.parametrize("delta", [1e-6, 1e-320])
def test_large_totals_are_never_above_the_sum(delta):
    events = [RandomizedResponseEvent(50.0, 100), RandomizedResponseEvent(1e-3)]
    assert 4999 < total_epsilon(events, delta) <= 5000.001 + 1e-9
    many = [RandomizedResponseEvent(0.01 * i, 100) for i in range(1, 9)]
    assert 0 < total_epsilon(many, delta) <= total_epsilon(many, 0.0) + 1e-9


def test_what_is_refused():
    for call, name in (
        (lambda: gaussian_mu(1.0, 0.0), "delta"),
        (lambda: gaussian_mu(0.0, 0.1), "epsilon"),
        (lambda: gaussian_delta(-1.0, 1.0), "epsilon"),
        (lambda: zcdp_rho(1.0, 2.0), "delta"),
        (lambda: total_epsilon([], 1.0), "delta"),
        (lambda: total_epsilon([], 0.1, "renyi"), "method"),
        (lambda: total_epsilon([], math.nan), "delta"),
        (lambda: RandomizedResponseEvent(math.inf), "epsilon"),
        (lambda: GaussianEvent(1.0, 0), "count"),
        (lambda: total_epsilon(R(1.0), 1e-6), "iterable of events"),
        (lambda: total_mu(3.0), "iterable of events"),
        (lambda: noise_multiplier_epsilon(2.0, 1e-6), "iterable of noise_multipliers"),
        (lambda: noise_multiplier_epsilon(iter([]), 1e-6), "one number in noise_multipliers"),
        (lambda: noise_multiplier_epsilon(iter([0.0]), 1e-6), "noise_multipliers > 0"),
        (lambda: noise_multiplier_epsilon(iter(["2"]), 1e-6), "noise_multipliers to be a number"),
        (lambda: GaussianEvent(1.0, 10**10), "count"),
    ):
        with pytest.raises(ValueError, match=f"Expected.*{name}"):
            call()
