"""Steps that fit the app, on plain vectors and in process."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg
from ldp_flower.strategies.numerics.step_sizes import NoisyDescent

EAST, NORTH = np.eye(2)


def descended(updates, deviation=1.0, rounds=25, longest=math.inf, fitted=True):
    descent = NoisyDescent(np.zeros(2), [2.0] * rounds, longest, fitted)
    for update in updates:
        descent.follow(update, deviation, update)
    return descent


def test_a_fitted_walk_begins_with_half_of_the_planned_step():
    descent = descended([3 * EAST])
    assert descent.steps == [1.0]
    assert descent.position.tolist() == descent.estimate.tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    ("then", "factor"),
    [
        (NORTH, 1.0),
        (0.5 * EAST, math.exp(0.1)),
        (5 * EAST, math.exp(0.2)),  # counts as one standard deviation
        (-1.5 * EAST, math.exp(-0.3)),
        (-5 * EAST, math.exp(-0.4)),  # as two
    ],
    ids=str,
)
def test_a_step_follows_from_the_projection_on_the_last_one(then, factor):
    descent = descended([7 * EAST, then])
    assert descent.steps == pytest.approx([1.0, factor])
    # In units of the noise, whatever the unit of the updates.
    assert descended([7e6 * EAST, 1e6 * then], 1e6).steps == pytest.approx([1.0, factor])


def test_many_rounds_change_less_each():
    assert descended([EAST, EAST], rounds=100).steps[1] == pytest.approx(math.exp(0.1))


def test_steps_grow_up_to_the_longest():
    assert max(descended([EAST] * 20, longest=3.0).steps) == 3.0
    assert max(descended([EAST] * 20).steps) == pytest.approx(math.exp(0.2 * 19))


def test_a_fitted_walk_averages_recent_positions_above_all():
    moves = [EAST, EAST, NORTH]
    descent = descended(moves)
    positions = np.cumsum([step * u for step, u in zip(descent.steps, moves, strict=True)], axis=0)
    estimate = positions[0]
    for number, position in enumerate(positions[1:], 2):
        estimate = estimate + 9 / (number + 8) * (position - estimate)
    np.testing.assert_allclose(descent.position, positions[-1])
    np.testing.assert_allclose(descent.estimate, estimate)


def test_a_walk_that_is_not_fitted_is_as_planned():
    descent = descended([EAST, -EAST, -EAST], fitted=False)
    assert descent.steps == [2.0] * 3
    assert descent.position.tolist() == descent.estimate.tolist() == [-2.0, 0.0]
    assert descent.noise == pytest.approx(2 * math.sqrt(3))


def test_going_back_leaves_no_trace():
    descent = descended([EAST, EAST])
    descent.reset()
    assert descent.position.tolist() == descent.estimate.tolist() == [0.0, 0.0]
    assert descent.steps == [] and descent.noise == 0
    descent.follow(EAST, 1.0, EAST)
    assert descent.steps == [1.0]


@pytest.mark.parametrize("fitted", [True, False])
def test_the_noise_of_the_estimate_is_known(fitted):
    """With steps that do not depend on it: longer than the longest, if fitted."""
    rng = np.random.default_rng(0)
    descent = NoisyDescent(np.zeros(4000), [100.0] * 10, 0.5 if fitted else 100.0, fitted)
    for deviation in np.linspace(0.5, 2, 10):
        update = deviation * rng.standard_normal(4000)
        descent.follow(update, deviation, update)
    assert len(set(descent.steps)) == 1
    # Of 4,000 coordinates the standard deviation is known within 1.1 %, one standard error.
    assert np.std(descent.estimate) == pytest.approx(descent.noise, rel=0.05)


TARGET = np.array([1.0, -1.0, 0.5, 0.3, -0.4, 0.2])


def test_updates_of_one_length_lead_to_the_target():
    """Normalised updates never shrink near it, so equal steps go past it again and again."""
    for seed in range(20):
        ends = {}
        for fitted in (True, False):
            rng = np.random.default_rng(seed)
            descent = NoisyDescent(np.zeros(6), [1.85] * 20, 4.0, fitted)
            for _ in range(20):
                ahead = TARGET - descent.position
                update = ahead / np.linalg.norm(ahead) + 0.12 * rng.standard_normal(6)
                descent.follow(update, 0.12, update)
            ends[fitted] = np.linalg.norm(descent.estimate - TARGET)
        assert ends[True] < 0.13 < ends[False]


# ------------------------------------------------------------------------ in process


def halfway_app():
    """Return an app whose nodes agree: each moves half of the way to one target."""
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        moved = weights + 0.5 * (TARGET - weights)
        return Message(RecordDict({"arrays": ArrayRecord([moved])}), reply_to=message)

    return app


def test_nodes_that_agree_are_led_to_their_target():
    result = LdpFedAvg(epsilon=4.0).start(
        InProcessGrid(halfway_app(), 600), ArrayRecord([np.zeros(6)]), num_nodes=600, seed=1
    )
    assert np.linalg.norm(result.arrays.to_numpy_ndarrays()[0] - TARGET) < 0.13
    assert result.notes == [] and len(result.steps) == 21
