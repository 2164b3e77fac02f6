"""The comparison: what methods are charged, how they run, and how they are shown."""

import bz2
import csv
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent, pld, rdp
from flwr.serverapp import (
    GaussianPrivacyEvent,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp import NeighboringRelation as FlowersRelation
from sklearn.datasets import dump_svmlight_file

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a small stand-in for a9a: 14 of 123 attributes in every row."""
    rng = np.random.default_rng(0)
    x = np.zeros((2000, 123))
    for row in x:
        row[rng.choice(123, 14, replace=False)] = 1
    weights = rng.normal(0, 1.5, 123)
    labels = np.where(rng.uniform(size=2000) < 1 / (1 + np.exp(-(x @ weights))), 1, -1)
    path = tmp_path_factory.mktemp("data")
    with bz2.open(path / "adult_a9a_tick.trn.svm.bz2", "wb") as packed:
        dump_svmlight_file(x, labels, packed, zero_based=False)
    return path


# ------------------------------------------------------------------------ what it is charged


@pytest.mark.parametrize("releases", [1, 20, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_two_accountants_confirm_what_dp_fedavg_claims(epsilon, releases):
    """The noise over the clip counts half: replacing a user moves the sum by two clips.

    Privacy loss distributions are exact but for their grid. Renyi's bound is known to be
    above, by 7 % to 11 % at these settings.
    """
    from simulations.baselines.calibration import DELTA, noise_multiplier, true_epsilon

    noise = noise_multiplier(epsilon, releases)
    assert true_epsilon([noise] * releases) == pytest.approx(epsilon, rel=1e-6)
    event = SelfComposedDpEvent(GaussianDpEvent(noise / 2), releases)
    found = []
    for accountant in (pld.PLDAccountant(), rdp.RdpAccountant()):
        accountant.compose(event)
        found.append(accountant.get_epsilon(DELTA))
    assert found[0] == pytest.approx(epsilon, rel=1e-4)
    assert 1.06 * epsilon < found[1] < 1.12 * epsilon
    # The same through the accountant's own relation, where it is implemented.
    accountant = pld.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(noise), releases))
    assert accountant.get_epsilon(DELTA) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_opacus_agrees_about_dp_sgd(epsilon):
    accountants = pytest.importorskip("opacus.accountants")
    from simulations.baselines.calibration import DELTA, noise_multiplier

    noise, steps = noise_multiplier(epsilon, 5) / 2, 5
    ours = rdp.RdpAccountant()
    ours.compose(SelfComposedDpEvent(GaussianDpEvent(noise), steps))
    theirs = accountants.RDPAccountant()
    for _ in range(steps):
        theirs.step(noise_multiplier=noise, sample_rate=1.0)
    assert theirs.get_epsilon(delta=DELTA) == pytest.approx(ours.get_epsilon(DELTA), rel=0.01)
    assert epsilon < theirs.get_epsilon(delta=DELTA) < 1.12 * epsilon


def test_flowers_accountant_charges_by_another_definition():
    """By "add or remove one" the same noise seems to cost about half; it knows no other here."""
    from simulations.baselines.calibration import DELTA, noise_multiplier

    def config(relation):
        return PrivacyConfig(DELTA, 100, relation, SamplingMethod.NO_AMPLIFICATION)

    accountant = RdpAccountant(config(FlowersRelation.ADD_OR_REMOVE_ONE))
    accountant.compose(GaussianPrivacyEvent(noise_multiplier(2.0, 20), 100, 100), 20)
    assert 0.9 < accountant.get_epsilon(DELTA) < 1.1
    with pytest.raises(ValueError, match="replace-one"):
        config(FlowersRelation.REPLACE_ONE)


# ------------------------------------------------------- what Flower's methods really do


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


# --------------------------------------------------------------------------- the comparison


def test_the_local_model_is_trained_on_ones_own_rows(folder):
    from simulations.studies.compare import problems
    from simulations.studies.compare.methods import METHODS

    problem = problems.a9a(10, 0, folder)
    assert problem.num_users == 160 and problem.x.shape == (1600, 124)
    np.testing.assert_allclose(np.linalg.norm(problem.x, axis=1), 1)
    outcome = METHODS["local model"].run(problem, math.inf, 0)
    assert outcome.bytes_per_user == 0 and 0.5 < outcome.score < 0.8


@pytest.mark.parametrize("kind", ["logistic", "softmax", "squares"])
def test_linear_models_train_as_in_pytorch(kind):
    torch = pytest.importorskip("torch")
    from simulations.studies.compare.learners import Linear

    rng = np.random.default_rng(0)
    learner = Linear(5, 3 if kind == "softmax" else 1, kind, rate=0.5)
    x = rng.standard_normal((8, 5))
    y = rng.integers(0, learner.classes + (kind == "logistic"), 8)
    y = y.astype(float) if kind == "squares" else y
    (trained,) = learner.train(learner.initial(), x, y, 3)
    module, loss = learner.module(learner.initial()), learner.loss()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss(module(torch.from_numpy(x.astype(np.float32))), torch.from_numpy(y)).backward()
        optimizer.step()
    (expected,) = [parameter.detach().numpy() for parameter in module.parameters()]
    np.testing.assert_allclose(trained, expected, atol=1e-5)


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


def test_the_command_compares_and_goes_on_where_it_stopped(folder, tmp_path, capsys):
    """The whole pipeline on 160 users, with every method that needs no PyTorch."""
    from simulations.studies.compare.__main__ import main
    from simulations.studies.compare.methods import METHODS

    methods = [name for name in METHODS if name != "DP-SGD in clients"]
    arguments = ["--problems", "a9a, 10 rows a user", "--epsilons", "4", "--data", str(folder)]
    arguments += ["--output", str(tmp_path), "--methods"]
    main([*arguments, "FedAvg"])
    main([*arguments, *methods])
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    scores = {row["method"]: float(row["score"]) for row in rows}
    assert len(rows) == len(scores) == 8
    assert scores["FedAvg"] > 0.8 and scores["FedAvg"] > scores["local model"]
    assert scores["LdpFedAvg"] > scores["LocalDpMod, calibrated"]
    true = {row["method"]: float(row["true_epsilon"]) for row in rows}
    assert true["LdpFedAvg"] == 4.0 and true["LocalDpMod, nominal"] == pytest.approx(7.91, rel=0.01)
    ours = next(row for row in rows if row["method"] == "LdpFedAvg")
    assert (ours["unit"], ours["trusted"], ours["delta"]) == ("user", "nobody", "0.0")
    assert ours["bytes_per_user"] == "1" and ours["rounds"] == "5"
    shown = capsys.readouterr().out
    assert "AUC" in shown and "user, pure" in shown and "nothing leaves" in shown
    assert "| LdpFedAvg | nobody | user, pure |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_a_hopeless_epsilon_is_refused_and_shown_so(folder):
    from simulations.studies.compare import problems, report
    from simulations.studies.compare.methods import METHODS

    outcome = METHODS["LdpFedAvg"].run(problems.a9a(10, 0, folder), 0.1, 0)
    assert math.isnan(outcome.score)
    assert report._cell(report.pd.DataFrame({"score": [outcome.score]})) == "refused"
