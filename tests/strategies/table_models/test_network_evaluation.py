"""PrivateEvaluation of a network: its errors, the sites, and what it refuses."""

import numpy as np
import pytest
import torch

from ldp_flower import Users, simulate
from ldp_flower.models import Network
from ldp_flower.strategies import PrivateEvaluation, Result, TooFewReports


def linear(loss="cross_entropy", outputs=2):
    net = torch.nn.Linear(3, outputs)
    with torch.no_grad():
        net.weight.zero_()[-1, 0] = 2.0
        net.bias.zero_()
    return Network.export(net, np.zeros(3, np.float32), loss)


NETWORK, NUMBERS = linear(), linear("mse", 1)


def people(number, seed=0, rows=2):
    rng = np.random.default_rng([seed, 61])
    x = rng.standard_normal((number * rows, 3))
    y = (x[:, 0] + 0.7 * rng.standard_normal(len(x)) > 0).astype(float)
    return Users.from_rows(x, y, np.repeat(np.arange(number), rows))


def right(users):
    return ((users.features[:, 0] > 0) == users.targets).reshape(len(users), -1).mean(axis=1)


def evaluated(users, noise="node", seed=0, nodes=3, network=NETWORK, epsilon=2.0, **arguments):
    strategy = PrivateEvaluation(network, epsilon=epsilon, noise=noise, **arguments)
    return simulate(strategy, users, seed=seed, num_nodes=nodes)


@pytest.mark.parametrize("noise", ["user", "node", "shared"])
def test_an_accuracy_is_found_wherever_the_noise_is(noise):
    users = people(600)
    found = evaluated(users, noise, nodes=5)
    assert abs(found.value - right(users).mean()) < 4 * found.std_error < 0.3
    assert (found.metric, found.clip, found.privacy.noise) == ("accuracy", 1.0, noise)
    assert np.isnan(found.users_std_error) == (noise == "user")
    assert len(found.sites) == (5 if noise == "node" else 0)
    assert found.num_reports == 600


def test_each_site_has_its_own_score():
    users = people(600)
    users.targets[:400] = 1 - users.targets[:400]  # the first of three nodes
    found = evaluated(users)
    truth = right(users).reshape(3, 200).mean(axis=1)
    for site, true in zip(found.sites, truth, strict=True):
        assert site.users == 200 and abs(site.value - true) < 4 * site.std_error < 0.3
    table = found.table()
    assert table["value"].tolist() == [found.value, *(site.value for site in found.sites)]
    again = Result.from_dict(found.to_dict())
    assert again.sites == found.sites and "on 3 nodes" in repr(again)


def test_a_site_with_few_users_has_no_score_and_says_how_many_it_takes():
    found = evaluated(people(600), nodes=30, epsilon=1.0)
    assert all(np.isnan(site.value) and site.users == 20 for site in found.sites)
    assert "30 nodes of 30 have too few users" in found.notes[0] and "on 0 nodes" not in repr(found)
    enough = int(found.notes[0].split(": ")[1].split(" users")[0])
    more = evaluated(people(2 * enough), nodes=2, epsilon=1.0)
    assert not more.notes and max(site.std_error for site in more.sites) <= 0.1


def test_a_loss_is_clipped_at_its_bound():
    users = people(600)
    loss = ((2 * users.features[:, 0] - users.targets) ** 2).reshape(600, -1).mean(axis=1)
    for bound in (2.0, 20.0):
        found = evaluated(users, network=NUMBERS, bound=bound)
        true = np.minimum(loss, bound).mean()
        assert found.metric == "loss" and abs(found.value - true) < 4 * found.std_error < bound / 4
    assert evaluated(users, metric="loss").metric == "loss"


@pytest.mark.slow
def test_standard_errors_cover_the_truth(runs=25):
    """Mean squares of 25 and of 75 scores break each of these bounds once in 3,000 times."""
    true, scores = right(people(100_000, 1)).mean(), []
    for seed in range(500, 500 + runs):
        found = evaluated(people(400, seed), seed=seed, epsilon=1.0)
        scores.append([(s.value - true) / s.std_error for s in found.sites])
        scores[-1].append((found.value - true) / found.std_error)
    squares = np.square(scores).mean(axis=0)
    assert 0.3 < squares[-1] < 2.3 and 0.5 < squares[:-1].mean() < 1.7


def test_few_users_are_refused_with_the_number_that_is_enough():
    for noise in ("user", "node"):
        strategy = PrivateEvaluation(NETWORK, epsilon=0.3, noise=noise)
        few = strategy.refusal(30, num_nodes=4)
        assert strategy.refusal(few.needed, num_nodes=4) is None
        assert strategy.refusal(few.needed - 1, num_nodes=4) is not None
        with pytest.raises(TooFewReports, match="to estimate the accuracy"):
            evaluated(people(30), noise, epsilon=0.3)


def test_arguments_without_effect_are_refused():
    for network, given, words in (
        (NETWORK, {"centre": 1.0}, "no centre with a network"),
        (NETWORK, {"bound": 2.0}, "no bound with an accuracy"),
        (NETWORK, {"metric": "auc"}, r"metric in \['accuracy', 'loss'\]"),
        (NUMBERS, {"metric": "accuracy"}, r"metric in \['loss'\]"),
        (np.ones(3), {"metric": "loss"}, "no metric without a network"),
    ):
        with pytest.raises(ValueError, match=words):
            PrivateEvaluation(network, epsilon=1.0, **given)
    with pytest.raises(ValueError, match="rows have 3 features"):
        evaluated(Users.from_rows(np.ones((50, 2)), np.ones(50)))
