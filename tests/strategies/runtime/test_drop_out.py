"""Half of the nodes do not answer: what is estimated about all users stays right.

Whether a node answers is a coin's throw, for every question anew, and has nothing to do with
its data. Half of those that do not answer send an error, the others nothing.
"""

import numpy as np
import pytest
from flwr.app import Error, Message
from scipy.stats import chi2

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import (
    HeavyHitters,
    LdpIht,
    SparseRegression,
    TooFewReports,
    UserLevelMean,
)

EPSILON = 4.0
REACHED = 0.5  # probability that a node answers a question


class DroppingGrid(InProcessGrid):
    """A grid whose nodes answer a question with a probability that may depend on the node."""

    def __init__(self, users, num_nodes, seed, reached=lambda node: REACHED):
        def load(context):
            return users.partition(int(context.node_config["partition-id"]), num_nodes)

        super().__init__(LdpClientApp(load, seed=seed), num_nodes)
        self._reached = reached
        self._rng = np.random.default_rng([seed, 1])

    def _handle(self, message):
        reached = self._reached(message.metadata.dst_node_id - 1)
        if message.metadata.message_type == "query.census" or self._rng.random() < reached:
            return super()._handle(message)
        failed = Message(Error(5, "Error: Node Unavailable"), reply_to=message)
        return failed if self._rng.random() < 0.5 else None


def run(strategy, users, num_nodes, seed, **arguments):
    grid = DroppingGrid(users, num_nodes, seed, **arguments)
    # Replies are there at once or never.
    return strategy.start(grid, timeout=0.0, num_nodes=num_nodes, seed=seed)


def assert_unbiased(z):
    """Check errors over their standard errors, shape (seeds, numbers).

    If all are standard normal, each of the two assertions fails in 1 of 1,000 cases.
    """
    low, high = chi2.ppf([0.0005, 0.9995], z.size)
    assert low < (z**2).sum() < high
    assert bias(z) < chi2.isf(0.001, z.shape[1])


def bias(z):
    """Return the chi-square of the means over seeds: of unbiased numbers, as many as they are."""
    return len(z) * (z.mean(axis=0) ** 2).sum()


MEAN = np.array([0.5, -0.3, 0.2, 0.0])
PHONES = 200


def mean_z_scores(seed, num_users, num_nodes, reached=lambda own: lambda node: REACHED):
    rows = 5
    rng = np.random.default_rng(seed)
    own = MEAN + rng.normal(0, 0.3, (num_users, len(MEAN)))
    x = own[:, None] + rng.normal(0, 0.5, (num_users, rows, len(MEAN)))
    truth = x.mean(axis=(0, 1))  # of everybody, whoever answers
    x = x.reshape(-1, len(MEAN))
    users = Users.from_rows(x, x[:, 0], np.repeat(np.arange(num_users), rows))
    strategy = UserLevelMean(len(MEAN), epsilon=EPSILON, bound=2.0)
    result = run(strategy, users, num_nodes, seed, reached=reached(own))
    assert 0.3 * num_users < result.num_reports < 0.7 * num_users
    return (result.coef - truth) / result.std_error


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_users", "num_nodes"), [(PHONES, PHONES), (600, 60)], ids=["phones", "gateways"]
)
def test_a_mean_is_unbiased_within_its_standard_errors(num_users, num_nodes):
    assert_unbiased(np.array([mean_z_scores(seed, num_users, num_nodes) for seed in range(20)]))


@pytest.mark.long
def test_a_drop_out_that_depends_on_the_data_is_not_corrected():
    # Whoever is above the mean in the first feature answers a third as often.
    def reached(own):
        return lambda node: 0.25 if own[node, 0] > MEAN[0] else 0.75

    z = np.array([mean_z_scores(seed, PHONES, PHONES, reached) for seed in range(20)])
    assert bias(z[:, :1]) > chi2.isf(1e-6, 1)
    assert bias(z[:, 1:]) < chi2.isf(0.001, len(MEAN) - 1)  # what has nothing to do with it


@pytest.mark.parametrize("lost", [[3], [3, 4]])
def test_a_mean_leaves_out_one_lost_wave_and_ends_after_two(lost):
    steps = iter(range(100))  # of one node, which gets one message in each step
    x = MEAN + np.random.default_rng(0).normal(0, 0.3, (400, len(MEAN)))
    strategy = UserLevelMean(len(MEAN), epsilon=EPSILON, bound=2.0)
    users = Users.from_rows(x, x[:, 0])
    result = run(strategy, users, 1, 0, reached=lambda node: float(next(steps) not in lost))
    assert [at for at, step in enumerate(result.steps) if not step.reports] == lost
    assert result.ended_early is (len(lost) == 2)
    assert len(result.steps) == (5 if result.ended_early else 14)


SHARES = np.array([0.3, 0.2, 0.15, 0.1])  # of the first items; the others are rare


def count_z_scores(seed, num_users, num_nodes, domain_size, backend):
    rng = np.random.default_rng(seed)
    which = np.searchsorted(np.cumsum(SHARES), rng.random(num_users))
    items = np.where(which < len(SHARES), which, rng.integers(len(SHARES), domain_size, num_users))
    strategy = HeavyHitters(domain_size, epsilon=EPSILON, backend=backend)
    result = run(strategy, Users.from_items(items), num_nodes, seed)
    z = []
    for item in range(3):  # the most frequent, which nobody has to be lucky to find
        (at,) = np.flatnonzero(result.items == item)
        count, std_error = result.counts[at], result.std_error[at]
        share = np.mean(items == item)  # of everybody
        # The users who answered are a sample without replacement.
        sampling = share * (1 - share) * (1 / result.num_reports - 1 / num_users)
        error = count / result.num_reports - share
        z.append(error / np.sqrt((std_error / result.num_reports) ** 2 + sampling))
    return z


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_users", "num_nodes", "domain_size", "backend"),
    [(400, 400, 20, "direct"), (2000, 40, 20, "direct"), (2000, 40, 1 << 12, "prefix")],
    ids=["phones", "gateways", "prefixes"],
)
def test_frequencies_are_unbiased_within_their_standard_errors(
    num_users, num_nodes, domain_size, backend
):
    z = [count_z_scores(s, num_users, num_nodes, domain_size, backend) for s in range(16)]
    assert_unbiased(np.array(z))


def regression_error(strategy, make_users, num_users, num_nodes, seed, reached):
    users, coef = make_users(num_users, np.random.default_rng([seed, num_users]))
    result = run(strategy, users, num_nodes, seed, reached=lambda node: reached)
    return np.linalg.norm(result.coef - coef)


def one_record(num_users, rng):
    coef = np.array([0.5, -0.5, 0.5, -0.5, 0, 0, 0, 0])
    x = rng.choice([-1.0, 1.0], (num_users, 8))
    return Users.from_rows(x, x @ coef + rng.normal(0, 0.04, num_users)), coef


def fifty_records(num_users, rng):
    coef = np.repeat([0.35, -0.35, 0.0, 0.0], 4)
    x = rng.normal(size=(50 * num_users, 16))
    y = x @ coef + rng.normal(0, 0.5, len(x))
    return Users.from_rows(x, y, np.repeat(np.arange(num_users), 50)), coef


@pytest.mark.long
@pytest.mark.parametrize(
    ("make_strategy", "make_users", "num_users"),
    [
        (lambda: LdpIht(8, sparsity=4, epsilon=EPSILON), one_record, 3000),
        (
            lambda: LdpIht(16, epsilon=EPSILON, samples_per_user=50, min_reports=5),
            fifty_records,
            400,
        ),
        (
            lambda: SparseRegression(16, epsilon=EPSILON, samples_per_user=50),
            fifty_records,
            200,
        ),
    ],
    ids=["LdpIht", "LdpIht, several records", "SparseRegression"],
)
def test_a_regression_loses_what_the_missing_users_explain(make_strategy, make_users, num_users):
    """Half of twice as many users tell as much as all of them.

    Over seeds errors vary by .4 of their size, so the ratio of two medians of 16 varies
    by .18; beyond 1.5 it is in 1 of 300 cases.
    """

    def median(times, reached):
        return np.median(
            [
                regression_error(make_strategy(), make_users, times * num_users, 40, seed, reached)
                for seed in range(16)
            ]
        )

    assert median(2, REACHED) < 1.5 * median(1, 1.0)


def test_a_scale_is_bought_from_more_cohorts_where_few_answer():
    users, coef = fifty_records(1600, np.random.default_rng(0))

    def fit(reached):
        strategy = SparseRegression(16, epsilon=2.0, samples_per_user=50)
        # Four to eight cohorts with three of four seeds; with seed 0 two are enough.
        return run(strategy, users, 80, 1, reached=lambda node: reached)

    result = fit(0.25)
    cohorts = [step for step in result.steps if step.statistic == "target_scale"]
    assert len(cohorts) > 3 and sum(step.reports for step in cohorts) < 3 * cohorts[0].asked
    assert "may have spent budget all the same" in result.notes[0]
    assert all("1 of " in note for note in result.notes[1:])  # a hold-out has few reports, too
    assert np.linalg.norm(result.coef - coef) < 0.5 * np.linalg.norm(coef)
    with pytest.raises(TooFewReports, match="None of the users asked for the scale"):
        fit(0.0)
