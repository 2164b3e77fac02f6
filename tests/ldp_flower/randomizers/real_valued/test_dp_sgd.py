"""What DP-SGD costs: against Opacus's accountant, closed forms, and the proof's claim."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from opacus.accountants import PRVAccountant
from scipy.stats import norm

from ldp_flower.accounting import gaussian_delta, gaussian_epsilon
from ldp_flower.randomizers.real_valued import dp_sgd
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan, dp_sgd_epsilon

PLAN = DpSgdPlan(1.0, 1e-5, num_rounds=20, steps=10, sampling_rate=0.05, max_grad_norm=1.0)


def at_least(epsilon, noise, rate, steps, delta, relation):
    """Return an epsilon that is surely not above the exact one, by some half percent."""
    one = from_gaussian_mechanism(
        noise,
        pessimistic_estimate=False,  # losses are rounded down
        value_discretization_interval=0.01 * epsilon / steps,
        sampling_prob=rate,
        use_connect_dots=False,
        neighboring_relation=relation,
    )
    return one.self_compose(steps).get_epsilon_for_delta(delta)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        replace(PLAN, epsilon=0.2),
        replace(PLAN, epsilon=4.0),
        replace(PLAN, sampling_rate=1.0),
    ],
    ids=str,
)
def test_the_noise_costs_what_is_said_and_hardly_less(plan):
    steps = plan.num_rounds * plan.steps
    given = (plan.noise_multiplier, plan.sampling_rate, steps, plan.delta)
    exact = at_least(plan.epsilon, *given, NeighboringRelation.REPLACE_ONE)
    found = dp_sgd_epsilon(*given, grid=1e-3 * plan.epsilon)
    assert 0.99 * plan.epsilon < exact <= found <= plan.epsilon * (1 + 1e-9)


def test_for_presence_it_is_what_opacus_says():
    opacus = PRVAccountant()
    opacus.history = [(PLAN.noise_multiplier, PLAN.sampling_rate, 200)]
    theirs = opacus.get_epsilon(1e-5, eps_error=0.002)
    ours = PLAN.epsilon_of_presence
    assert abs(ours / theirs - 1) < 0.01
    given = (PLAN.noise_multiplier, PLAN.sampling_rate, 200, 1e-5)
    assert ours >= at_least(ours, *given, NeighboringRelation.ADD_OR_REMOVE_ONE)


def test_with_all_records_in_all_steps_it_is_the_gaussian_mechanism():
    noise, steps = 30.0, 100
    exact = gaussian_epsilon(2 * math.sqrt(steps) / noise, 1e-6)
    assert exact <= dp_sgd_epsilon(noise, 1.0, steps, 1e-6) < exact * 1.001
    assert gaussian_delta(exact, 2 * math.sqrt(steps) / noise) <= 1e-6


@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.3), (2.0, 0.05), (1.0, 1.0)])
def test_opposite_gradients_are_the_worst_in_the_plane(noise, rate):
    """The claim behind the accounting, by numerical integration over a grid."""
    side = np.linspace(-7 * noise - 1, 7 * noise + 1, 301)
    x, y = np.meshgrid(side, side)
    cell = (side[1] - side[0]) ** 2

    def mixture(vector):
        def normal(at):
            squares = (x - at[0]) ** 2 + (y - at[1]) ** 2
            return np.exp(-squares / (2 * noise**2)) / (2 * math.pi * noise**2)

        return (1 - rate) * normal((0.0, 0.0)) + rate * normal(vector)

    def divergence(first, second, factor):
        return np.maximum(mixture(first) - factor * mixture(second), 0).sum() * cell

    lengths, angles = (0.0, 0.5, 1.0), (0.5, 2.0, 3.0)
    for factor in (0.5, 1.0, 1.2, 3.0):
        worst = divergence((1.0, 0.0), (-1.0, 0.0), factor)
        for long in lengths:
            for other in lengths:
                for angle in angles:
                    second = (other * math.cos(angle), other * math.sin(angle))
                    assert divergence((long, 0.0), second, factor) <= worst + 1e-9
    # Not as if all were alike.
    assert divergence((1.0, 0.0), (-1.0, 0.0), 1.0) > 1.3 * divergence((1.0, 0.0), (0.0, 0.0), 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.0}, "Expected epsilon > 0"),
        ({"delta": 0.0}, "Expected 0 < delta < 1"),
        ({"delta": 1e-11}, "Expected delta >= 1e-10, got 1e-11"),
        ({"num_rounds": 0}, "Expected an integer num_rounds >= 1, got 0"),
        ({"steps": 2.0}, "Expected an integer steps >= 1, got 2.0"),
        ({"steps": 10**6}, r"Expected num_rounds \* steps <= 1000000, got 20000000"),
        ({"sampling_rate": 1.01}, "Expected 1e-06 <= sampling_rate <= 1, got 1.01"),
        ({"sampling_rate": 0.0}, "Expected 1e-06 <= sampling_rate <= 1, got 0.0"),
        ({"max_grad_norm": math.inf}, r"Expected 1e-30 <= max_grad_norm <= 1e\+30, got inf"),
        ({"max_grad_norm": 1e31}, r"Expected 1e-30 <= max_grad_norm <= 1e\+30, got 1e\+31"),
        ({"max_grad_norm": 1e-31}, "Expected 1e-30 <= max_grad_norm"),
    ],
)
def test_what_is_no_plan_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **wrong)


def test_a_plan_is_another_one_if_its_noise_is():
    assert replace(PLAN, max_grad_norm=5.0).name == PLAN.name  # noise grows with it
    for change in (
        {"epsilon": 1.1},
        {"delta": 1e-6},
        {"num_rounds": 21},
        {"steps": 11},
        {"sampling_rate": 0.06},
    ):
        assert replace(PLAN, **change).name != PLAN.name


def test_where_records_are_hardly_drawn_there_still_is_noise():
    plan = DpSgdPlan(50.0, 0.1, 1, 1, 0.01, 1.0)
    assert plan.noise_multiplier == pytest.approx(0.3)


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(dp_sgd, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "ldp-flower\[accounting\]"'):
        dp_sgd_epsilon(1.0, 0.5, 1, 1e-5)


def excess_of_the_best_end(step, epsilons):
    """Return the largest mean of ``1 - exp(epsilons[k] - L)``, where above 0, for any end k.

    L is the privacy loss of normal steps whose means differ by ``step`` deviations. The best end is
    found from the last round backwards, on a grid of losses.
    """
    width = step / 50
    losses = np.arange(-8 * step * len(epsilons) ** 0.5, 30 * width * len(epsilons) + 20, width)
    moves = np.arange(-8 * step, 8 * step, width)
    weights = norm.pdf(moves / step)
    weights /= weights.sum()
    worth = np.zeros(len(losses))
    for epsilon in reversed(epsilons):
        now = np.maximum(1 - np.exp(np.minimum(epsilon - losses, 0)), worth)
        ahead = losses[None] + moves[:, None] + step**2 / 2
        worth = sum(w * np.interp(a, losses, now) for w, a in zip(weights, ahead, strict=True))
    return float(np.interp(0.0, losses, worth))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_end_that_the_answers_decide_is_within_delta_if_a_plan_is_stoppable(epsilon):
    """Otherwise the best end finds four times delta, and so nothing may be given back."""
    delta, rounds = 1e-4, 8
    plans = [DpSgdPlan(epsilon, delta, rounds, 1, 1.0, 1.0, stoppable=may) for may in (False, True)]
    found = []
    for plan in plans:
        epsilons = [plan.epsilon_after(number) for number in range(1, rounds + 1)]
        assert np.diff(epsilons).min() > -1e-3 and max(epsilons) <= epsilon
        found.append(excess_of_the_best_end(2 / plan.noise_multiplier, epsilons) / delta)
    plain, stoppable = found
    assert 3 < plain < 9 and 0.3 < stoppable <= 1
    assert 1 < plans[1].noise_multiplier / plans[0].noise_multiplier < 1.06
    assert plans[0].name in plans[1].name != plans[0].name


def test_deltas_of_stoppable_plans_are_checked_in_all_parts():
    with pytest.raises(ValueError, match=r"delta >= 3\.8e-09, got 1e-09"):
        DpSgdPlan(1.0, 1e-9, 20, 1, 1.0, 1.0, stoppable=True)
    with pytest.raises(ValueError, match="stoppable true or false, got 1"):
        DpSgdPlan(1.0, 1e-5, 20, 1, 1.0, 1.0, stoppable=1)
    single = DpSgdPlan(1.0, 1e-5, 1, 3, 0.5, 1.0, stoppable=True)
    assert single.epsilon_after(1) <= 1.0
