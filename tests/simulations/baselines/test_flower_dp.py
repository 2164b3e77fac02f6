"""What Flower's methods and Opacus really do."""

import math

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def federation(train, num_users=40, dim=2000, **options):
    from simulations.baselines.flower_dp import Federation

    arguments = {"rounds": 2, "path": 0.2, "seed": 3} | options
    return Federation(train, [np.zeros(dim)], num_users, **arguments)


def stays(user, model):
    return model


def moves(user, model):
    return [model[0] + 5.0 / math.sqrt(len(model[0]))]


@pytest.mark.parametrize("clients_clip", [False, True])
def test_dp_fedavg_adds_the_noise_that_is_charged(clients_clip):
    """2,000 coordinates: the standard deviation is known within 1.6 % of itself."""
    from simulations.baselines import calibration, flower_dp

    for everybody, replies in ((True, 40), (False, 20)):
        users = federation(stays, everybody=everybody)
        (model,), guarantee = flower_dp.dp_fedavg(users, 2.0, clients_clip)
        noise = calibration.noise_multiplier(2.0, 2 if everybody else 1)
        expected = math.sqrt(2) * noise * 0.1 / replies  # two rounds, clip 0.1
        assert np.std(model) == pytest.approx(expected, rel=0.08)
        assert (guarantee.unit, guarantee.delta) == ("user", 1e-5)
        assert guarantee.epsilon == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("clients_clip", [False, True])
def test_dp_fedavg_clips_every_update(clients_clip):
    from simulations.baselines import flower_dp

    (model,), _ = flower_dp.dp_fedavg(federation(moves, dim=50), 1e3, clients_clip)
    assert np.linalg.norm(model) == pytest.approx(0.2, rel=0.1)  # two rounds of 0.1


def test_local_dp_is_charged_what_it_costs():
    from simulations.baselines import calibration, flower_dp

    for nominal, cost in ((False, 2.0), (True, 3.511)):
        (model,), guarantee = flower_dp.local_dp(federation(stays, everybody=False), 2.0, nominal)
        assert guarantee.epsilon == pytest.approx(cost, rel=1e-3)
        noise = 0.1 * math.sqrt(2 / 20)  # of two rounds' means, times noise over the clip
        noise *= (
            math.sqrt(2 * math.log(1.25e5)) / 2 if nominal else calibration.noise_multiplier(2.0, 1)
        )
        assert np.std(model) == pytest.approx(noise, rel=0.08)


def test_flowers_adaptive_clip_runs_away_from_the_wanted_quantile():
    """All updates have length 5: a clip above should fall to it, and one below rise."""
    from simulations.baselines import flower_dp

    def last(first):
        users = federation(moves, num_users=60, dim=50, rounds=10)
        strategy = flower_dp.DifferentialPrivacyServerSideAdaptiveClipping(
            users.averaging(), 0.1, 60, initial_clipping_norm=first
        )
        users.run(strategy)
        return strategy.clipping_norm

    assert last(4.0) < 2 and last(6.0) > 12
    # A clip that shrinks costs more than it was calibrated for.
    (_, guarantee) = flower_dp.dp_fedavg_adaptive(
        federation(moves, num_users=60, dim=50, rounds=10), 8.0
    )
    assert 8.5 < guarantee.epsilon < 10


def test_a_zero_update_ends_flowers_run():
    """Should it be mended, Federation.run need not replace zero updates."""
    from simulations.baselines import flower_dp

    users = federation(stays)
    flower_dp._NOTHING, kept = 0.0, flower_dp._NOTHING
    try:
        with pytest.raises(ZeroDivisionError):
            flower_dp.dp_fedavg(users, 2.0)
    finally:
        flower_dp._NOTHING = kept


def test_every_user_answers_as_often_as_it_is_charged_for():
    from simulations.baselines import flower_dp

    for everybody, times in ((True, 4), (False, 1)):
        asked = []

        def train(user, model, asked=asked):
            asked.append(user)
            return [model[0] + 1]

        users = federation(train, num_users=10, dim=3, rounds=4, everybody=everybody)
        (model,), _ = flower_dp.fedavg(users)
        assert sorted(asked) == sorted([*range(10)] * times)
        np.testing.assert_allclose(model, 4)


def test_dp_sgd_adds_opacus_noise_to_clipped_gradients_of_rows():
    pytest.importorskip("opacus")
    from simulations.baselines import calibration, dp_sgd
    from simulations.studies.compare.learners import Linear

    learner = Linear(1500, 1, "logistic", rate=5.0)
    x = np.zeros((4, 1500))
    x[:, 0] = 1e6  # clipped to 1 by DP-SGD
    options = {"steps": 1, "learning_rate": 1.0, "seed": 0}
    (weights,) = dp_sgd.train(
        learner.module(learner.initial()), learner.loss(), x, np.ones(4, int), epsilon=4, **options
    )
    noise = calibration.noise_multiplier(4.0, 1) / 4
    assert np.std(weights[0, 1:]) == pytest.approx(noise, rel=0.09)
    assert abs(weights[0, 0] - 1) < 4 * noise
