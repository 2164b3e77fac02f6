"""Whether mean updates say anything, on plain vectors and in process."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg
from ldp_flower.strategies.models.signal import Signal

DIM = 50


def looked_at(common, deviation, rounds=20, seed=0):
    """Return the state after every round of updates with this common part."""
    signal, rng = Signal(DIM, rounds), np.random.default_rng(seed)
    seen = []
    for number in range(rounds):
        noise = deviation * rng.standard_normal(DIM)
        signal.add(common(number) + noise, deviation)
        seen.append((signal.found, signal.missing))
    return seen


def along(number):
    return 0.5 * np.eye(DIM)[0]


def to_and_fro(number):
    return (-1) ** number * along(number)


def nothing(number):
    return np.zeros(DIM)


@pytest.mark.parametrize("common", [along, to_and_fro])
def test_a_common_update_is_found(common):
    for seed in range(20):
        seen = looked_at(common, 0.05, seed=seed)
        assert seen[2][0] and seen[-1][0] and not any(missing for _, missing in seen)


def test_without_one_a_run_ends_as_soon_as_a_useful_one_would_have_been_seen():
    for seed in range(20):
        seen = looked_at(nothing, 0.01, seed=seed)
        assert not any(found for found, _ in seen)
        # Noise passes the second level, 0.1, in a test of three now and then, for a while.
        assert not seen[1][1] and any(missing for _, missing in seen[2:10])
    # Noise that would hide it: no run is ended on a guess.
    assert not any(missing for _, missing in looked_at(nothing, 0.5))


def test_a_run_is_ended_in_its_first_half_only():
    assert not any(missing for _, missing in looked_at(nothing, 0.01, rounds=20)[10:])
    assert not any(missing for _, missing in looked_at(nothing, 0.01, rounds=5))


def test_noise_is_seldom_taken_for_a_signal():
    """In 0.4 % of runs; more than 4 of 100 have probability 7e-5."""
    found = sum(looked_at(nothing, 1.0, seed=seed)[-1][0] for seed in range(100))
    assert found <= 4


def test_the_chance_of_one_round_is_uniform_without_a_signal():
    rng = np.random.default_rng(3)
    signal = Signal(DIM, 400)
    chances = [signal.add(2 * rng.standard_normal(DIM), 2.0) for _ in range(400)]
    # The mean of 400 uniform numbers has standard error .0144.
    assert abs(np.mean(chances) - 0.5) < 4 * 0.0144


def test_the_unit_does_not_matter():
    first, second = Signal(DIM, 20), Signal(DIM, 20)
    rng = np.random.default_rng(1)
    for _ in range(5):
        update = rng.standard_normal(DIM) * 0.01
        assert first.add(update, 0.01) == pytest.approx(second.add(update * 30, 0.3))


# ------------------------------------------------------------------------ in process


def raising_app():
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        raise RuntimeError("no data")

    return app


def run(epsilon, num_nodes, **arguments):
    start = ArrayRecord([np.arange(6.0)])
    strategy = LdpFedAvg(epsilon=epsilon, **arguments)
    return strategy.start(
        InProcessGrid(raising_app(), num_nodes), start, num_nodes=num_nodes, seed=1
    )


@pytest.mark.parametrize("arguments", [{}, {"path_length": 5.0}], ids=str)
def test_an_app_that_always_raises_is_ended_before_the_others_pay(arguments):
    result = run(20.0, 600, **arguments)
    assert result.num_reports <= 300
    (note,) = result.notes
    assert note.startswith("No signal was proved") and "the initial one" in note
    assert f"{600 - result.num_reports} nodes were not asked" in note
    assert result.arrays.to_numpy_ndarrays()[0].tolist() == list(range(6))
    assert result.noise == result.path_length == 0


def test_where_noise_hides_everything_the_run_goes_on_and_says_so(caplog):
    result = run(1.0, 120)
    assert result.num_reports == 120
    (note,) = result.notes
    assert note.startswith("No signal was proved") and "not paid" not in note
    assert "at epsilon 1 this test misses most models that learned (110 of 150;" in note
    assert note in caplog.text
    assert math.isfinite(result.noise) and result.noise > 0
