"""What hold-out cohorts' reports come to: a step length, least squares on a line and an R2."""

from types import SimpleNamespace

import numpy as np
import pytest

from ldp_flower.randomizers import SubsetSelection
from ldp_flower.strategies.subprotocols.number_mean import Number
from ldp_flower.strategies.subprotocols.size_histogram import ask_histogram
from ldp_flower.strategies.table_models.holdout import HoldOut
from ldp_flower.strategies.table_models.line_search import Gains, line_search


def hold_out(epsilon, size, *names):
    """Return hold-out cohorts of these names, for a model of two features."""
    return HoldOut(epsilon, 2, dict.fromkeys(names, SimpleNamespace(size=size)))


def found_by(share, noise, rng):
    """Return the step by two cohorts' noisy gains, along a line that explains this share at most.

    Steps have the targets' scale, so that the share is that of a step of its root.
    """
    gains, step = Gains.of_scales(np.array([1.0, 1.0]), 0.1), 1.0
    for _ in range(2):
        half = np.sqrt(share) - step / 2 + noise * rng.standard_normal()
        gains.add([1.0, -step / 2], Number(half, noise))
        step = gains.best_step()
    return gains.safe_step()


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_step_seldom_costs_more_than_is_tolerated(share, noise):
    """At the 98 % level 8 of 400 are expected at R2 -.02, and more than 17 once in 500."""
    rng = np.random.default_rng(0)
    steps = np.array([found_by(share, noise, rng)[0] for _ in range(400)])
    explained = 2 * steps * np.sqrt(share) - steps**2
    assert np.mean(explained < -0.05) <= 17 / 400
    assert np.median(explained) >= (0.0 if share else -0.01)


def test_a_step_that_is_surely_good_is_taken_whole():
    step, explained = found_by(0.5, 0.02, np.random.default_rng(0))
    assert step == pytest.approx(np.sqrt(0.5), abs=0.1) and explained == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("sizes", "reported"), [([0.9, 0.6], 1.0), ([0.5, 1.0], 0.8)])
def test_a_line_search_finds_least_squares_by_gains_alone(sizes, reported):
    """Whatever the sizes are said to be, and where some have no rows; reports are exact."""
    rng = np.random.default_rng(0)
    steps = 0.6 * rng.standard_normal(4000)
    target = 0.3 + 0.8 * steps + 0.4 * rng.standard_normal(4000)
    target -= target.mean() - 0.3
    held_out = hold_out(1.0, 10**9, "first gain", "second gain")
    if reported < 1:
        held_out.present = Number(reported, 1e-6)
    search = line_search(held_out, np.array([0.3, 0.0]), np.array([0.0, 1.0]), np.array(sizes), 0.3)
    ask = next(search)
    try:
        while True:
            question = ask.question
            theta, centre = question.theta, question.centre
            gain = (target - centre) ** 2 - (target - theta[0] - theta[1] * steps) ** 2
            answer = SimpleNamespace(
                mean=np.array([reported * gain.mean()]), std_error=np.array([1e-4]), count=10**9
            )
            assert question.loss_weight == -1 and question.baseline_weight == 1
            ask = search.send(answer)
    except StopIteration as found:
        move, explained = found.value
    assert move == pytest.approx(np.polyfit(steps, target, 1)[0], abs=0.02)
    assert explained * sizes[0] ** 2 == pytest.approx(0.64 * np.var(steps), abs=0.02)


def answered(asking, targets, predicted=0.0):
    """Return what a generator returns that users answer exactly, and whom it asked what."""
    asked = []
    try:
        ask = next(asking)
        while True:
            question, radius = ask.question, ask.randomizer.radius
            asked.append(question)
            if type(question).__name__ == "Gradient":
                values = question.theta[0] - targets
            else:
                loss, constant = (targets - predicted) ** 2, (targets - question.centre) ** 2
                values = question.loss_weight * loss + question.baseline_weight * constant
                values = values - question.offset
            mean = np.clip(values, -radius, radius).mean()
            answer = SimpleNamespace(mean=np.array([mean]), std_error=np.array([1e-3]), count=10**6)
            ask = asking.send(answer)
    except StopIteration as found:
        return found.value, asked


def law_of(sizes, usual=0.35):
    """Return the law that a million users' sizes are taken for."""
    asking = ask_histogram(SimpleNamespace(size=10**6), None, 8.0, usual)
    next(asking)
    places = np.log2(sizes[sizes > 0]) + 32
    octaves = np.floor(places + np.random.default_rng(0).random(len(places))).astype(int)
    shares = np.bincount(octaves, minlength=64) / len(sizes)
    try:
        asking.send(SimpleNamespace(mean=shares, count=10**6))
    except StopIteration as found:
        return found.value


def of_law(kind, number=20000):
    rng = np.random.default_rng(1)
    if kind == "normal":
        return 0.4 * rng.standard_normal(number)
    if kind == "a tenth":
        return 4 * (rng.random(number) < 0.1) - 0.4
    if kind == "near an end":
        return 1.8 + 0.05 * rng.uniform(-1, 1, number)
    return 0.1 * np.exp(rng.standard_normal(number))


BEYOND = pytest.mark.xfail(strict=True, reason="of few that are far larger it is too sure")


@pytest.mark.parametrize(
    "kind",
    ["normal", pytest.param("a tenth", marks=BEYOND), pytest.param("lognormal", marks=BEYOND)],
)
def test_a_law_tells_what_clipping_takes_away(kind):
    """Reports are exact: what is left is that octaves are coarse.

    Known to fail: lognormal sizes are taken for 13 % smaller, and of a tenth that is ten times as
    large a sixth of what clipping takes is seen.
    """
    sizes = np.abs(of_law(kind))
    law = law_of(sizes)
    size = np.sqrt(np.mean(sizes**2))
    assert law.root_mean_square == pytest.approx(size, rel=0.12)
    for bound in (1.5, 2.5):
        for power in (1, 2):
            (cut,), (spread,) = law.cut(np.array([bound * size]), power)
            truth = np.maximum(sizes**power - (bound * size) ** power, 0).mean()
            assert abs(cut - truth) < 3 * spread + 0.03 * size**power


def test_less_noise_lets_sizes_be_larger():
    """And at no noise nothing is cut that may be had; a bound that nobody exceeds cuts nothing."""
    law = law_of(np.abs(of_law("normal")))
    bounds = [law.clip(noise, most=4.0).bound for noise in (1e-2, 1e-4, 1e-8)]
    assert bounds == sorted(bounds) and bounds[0] < bounds[-1] <= 4.0
    sure = law.clip(0.0, most=4.0)
    assert sure.bound == 4.0 and sure.cut == sure.spread == 0.0
    shortened = [law.shortening(noise, 0.1) for noise in (10.0, 1e-2, 1e-6)]
    assert shortened == sorted(shortened) and shortened[0] < shortened[-1]


def test_users_without_a_size_do_not_change_the_law():
    """Half of the users name no octave, and that is known."""
    sizes = np.abs(of_law("normal"))
    asking = ask_histogram(SimpleNamespace(size=10**6), None, 8.0, 0.35, 0.5)
    assert isinstance(next(asking).randomizer, SubsetSelection)
    places = np.floor(np.log2(sizes) + 32.5).astype(int)
    shares = 0.5 * np.bincount(places, minlength=64) / len(sizes)
    with pytest.raises(StopIteration) as found:
        asking.send(SimpleNamespace(mean=shares, count=10**6))
    assert found.value.value.root_mean_square == pytest.approx(0.4, rel=0.2)


@pytest.mark.parametrize("kind", ["normal", "a tenth", "lognormal", "near an end"])
def test_a_mean_is_within_what_is_stated(kind):
    targets = of_law(kind)
    held_out = hold_out(4.0, 2000, "place", "place again")
    about, _ = answered(held_out.place(), targets)
    assert abs(about - targets.mean()) < targets.std() + 0.05  # from afar, clipped at 1 and .75
    theta = np.array([about, 0.0])
    law = law_of(np.abs(targets - about))
    found, _ = answered(held_out.mean(["place", "place again"], theta, law), targets)
    assert abs(about + found.value - targets.mean()) < 1.96 * found.std_error
    assert found.std_error < 0.2 * targets.std()


@pytest.mark.parametrize("share", [0.1, 0.7])
@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_the_score_is_r2_within_its_error(kind, share):
    """By the gain where that is the smaller part, by what is left where that is."""
    noise = of_law(kind)
    rng = np.random.default_rng(5)
    predicted = np.sqrt(share / (1 - share)) * noise.std() * rng.standard_normal(len(noise))
    targets = noise - noise.mean() + predicted
    laws = law_of(np.abs(targets)), law_of(np.abs(targets - predicted))
    held_out, theta = hold_out(4.0, 50_000, "left", "spread"), np.zeros(2)
    gain = held_out.gain(theta, 0.0, laws[0], predicted.std())
    asking = held_out.score(theta, 0.0, laws, share, gain)
    found, asked = answered(asking, targets, predicted)
    truth = 1 - np.mean((targets - predicted) ** 2) / np.var(targets)
    assert abs(found.value - truth) < 1.96 * found.std_error < 0.5
    assert [question.loss_weight for question in asked] == [0.0, 1.0 if share > 0.4 else -1.0]


def test_a_score_whose_targets_noise_hides_is_not_known():
    targets = of_law("normal")
    law = law_of(np.abs(targets))
    held_out = hold_out(0.1, 3, "left", "spread")
    asking = held_out.score(np.zeros(2), 0.0, (law, law), 0.1, iter(()))
    next(asking)
    with pytest.raises(StopIteration) as found:
        asking.send(SimpleNamespace(mean=np.zeros(1), std_error=np.array([10.0]), count=3))
    assert np.isnan(found.value.value.value) and np.isnan(found.value.value.std_error)


def test_numbers_are_pooled_by_precision():
    pooled = Number(1.0, 1.0).pooled(Number(4.0, 0.5))
    assert pooled.value == pytest.approx(3.4) and pooled.std_error == pytest.approx(0.2**0.5)
