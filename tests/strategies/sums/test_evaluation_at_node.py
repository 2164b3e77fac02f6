"""R2 of a given model with noise at the node: its errors, its notes, what it refuses.

Seeds are fixed; each bound says how often chance would break it.
"""

import numpy as np
import pytest

from ldp_flower import Users, plan, simulate
from ldp_flower.clients.statistics.sums import loss_moments
from ldp_flower.questions import LossMoments
from ldp_flower.strategies import PrivateEvaluation, TooFewReports

COEF = np.array([0.5, 0.0, -0.7, 0.2])


def people(number, seed, law="normal", rows=1):
    """Return users whose residuals have this law and, in part, are alike within a user."""
    rng = np.random.default_rng([seed, 60])
    x = rng.standard_normal((number * rows, 4))
    x[:, 3] = 1.0
    rest = {"normal": rng.standard_normal, "heavy": lambda n: rng.standard_t(3, n) / 3**0.5}[law]
    levels = np.repeat(0.2 * rng.standard_normal(number), rows)
    y = np.clip(x @ COEF + levels + 0.4 * rest(len(x)), -2, 2)
    return Users.from_rows(x, y, np.repeat(np.arange(number), rows))


def evaluated(users, seed=0, nodes=10, coef=COEF, noise="node", epsilon=1.0, **arguments):
    strategy = PrivateEvaluation(coef, epsilon=epsilon, noise=noise, **arguments)
    return simulate(strategy, users, seed=seed, num_nodes=nodes)


def losses(users, coef=COEF):
    """Return the mean losses of these users, without noise."""
    question = LossMoments(coef, 0.0, 4.0)
    return 4 * (loss_moments(users, question)[:, :2].mean(axis=0) + 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "rows", "number", "nodes"),
    [("normal", 1, 3000, 4), ("heavy", 1, 6000, 12), ("heavy", 4, 1500, 3)],
)
def test_standard_errors_cover_the_truth(law, rows, number, nodes, runs=40):
    """Of 40 intervals of .95 six or more miss in one of 70 tests; of these users in one of 70."""
    loss, baseline = losses(people(200_000, 1, law, rows))
    scores, of_users = [], []
    for seed in range(300, 300 + runs):
        users = people(number, seed, law, rows)
        found = evaluated(users, seed, nodes)
        assert not found.notes and found.num_reports == number
        own, base = losses(users)
        scores.append((found.r2 - (1 - loss / baseline)) / found.std_error)
        of_users.append((found.r2 - (1 - own / base)) / found.users_std_error)
    assert (np.abs([scores, of_users]) > 1.96).sum(axis=1).max() < 6
    assert np.mean(np.square(of_users)) > 0.3  # below once in a million times


def test_it_is_far_sharper_than_noise_at_the_user():
    users = people(4000, 0)
    at_node, at_user = (evaluated(users, noise=noise) for noise in ("node", "user"))
    assert at_user.std_error > 3 * at_node.std_error
    assert np.isnan(at_user.users_std_error) and at_node.users_std_error < at_node.std_error
    assert (at_node.privacy.noise, at_node.privacy.epsilon) == ("node", 1.0)


def test_it_does_not_matter_who_is_on_which_node():
    users = people(2000, 0)
    order = np.argsort(users.targets, kind="stable")
    sorted_users = Users.from_rows(users.features[order], users.targets[order])
    assert evaluated(users).r2 == evaluated(sorted_users).r2


def test_users_without_rows_change_nothing_but_the_noise():
    users = people(4000, 0)
    rows = np.append(users.offsets, [users.offsets[-1]] * 4000)
    with_empty = evaluated(Users(users.features, users.targets, rows))
    loss, baseline = losses(users)
    assert abs(with_empty.r2 - (1 - loss / baseline)) < 4 * with_empty.users_std_error < 0.2
    assert abs(with_empty.loss - loss / 2) < 4 * with_empty.loss_std_error


def test_a_ruinous_model_is_called_one():
    found = evaluated(people(2000, 0), coef=np.array([7.0, -3.0, 2.0, 0.0]))
    assert found.r2 < -1 and "Most residuals were clipped" in repr(found)


def test_few_users_are_refused_or_told_how_many_it_takes():
    with pytest.raises(TooFewReports, match="on 10 nodes are too few"):
        evaluated(people(100, 0), epsilon=0.5)
    strategy = PrivateEvaluation(COEF, epsilon=0.5, noise="node")
    few = strategy.refusal(50, num_nodes=10)
    assert strategy.refusal(few.needed, num_nodes=10) is None
    assert strategy.refusal(few.needed - 1, num_nodes=10) is not None
    vague = evaluated(people(1400, 0), epsilon=0.5)
    assert vague.std_error > 0.1 and "would take about" in repr(vague)
    needed = int(repr(vague).split("take about ")[1].split(" users")[0].replace(",", ""))
    assert evaluated(people(needed, 0), epsilon=0.5).std_error < 0.12
    small = people(2500, 0)
    small.targets[:] /= 10
    hidden = evaluated(small, epsilon=0.5)
    assert np.isnan(hidden.r2) and not np.isfinite(hidden.users_std_error)


def test_a_plan_tells_the_error():
    expected = plan(PrivateEvaluation, num_users=3000, num_features=3, epsilon=1.0, num_nodes=4)
    stated = evaluated(people(3000, 0), nodes=4).std_error
    assert stated / 3 < expected.expected.value < 3 * stated


def test_an_argument_without_effect_is_refused():
    with pytest.raises(ValueError, match='no delta with noise="user"'):
        PrivateEvaluation(COEF, epsilon=1.0, delta=1e-5)
