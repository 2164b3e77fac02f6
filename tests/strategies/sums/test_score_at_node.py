"""R2 and AUC with noise at the node, of laws that their constants were not chosen by."""

import numpy as np
import pandas as pd
import pytest
from asked_in_memory import answered
from scipy.stats import rankdata

from ldp_flower import Categories, Numeric, Schema, Users
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.questions import ResidualOctave
from ldp_flower.strategies import LdpIht, PrivateClassification, PrivateRegression
from ldp_flower.strategies.runtime import Run
from ldp_flower.strategies.runtime.population import SizeOnlyPopulation
from ldp_flower.strategies.sums import score
from ldp_flower.strategies.sums.budget import Budget

EPSILON, NODES = 1.0, 10
BOUNDS = 40.0  # distance of the target's bounds, in about its standard deviations
LAWS = {
    "Laplace": lambda rng, size: rng.laplace(size=size) / np.sqrt(2),
    "gamma": lambda rng, size: rng.gamma(2.0, size=size) / np.sqrt(2) - np.sqrt(2),
    "Weibull": lambda rng, size: rng.weibull(0.9, size) - 1,
    "six degrees of freedom": lambda rng, size: rng.standard_t(6, size) / np.sqrt(1.5),
    "two humps": lambda rng, size: rng.choice([-1, 1], size) + 0.3 * rng.normal(size=size),
}


# Factors of targets that grow exponentially with the signal: their errors have a long tail.
FACTORS = {
    "lognormal": lambda rng, size: rng.lognormal(sigma=1.0, size=size),
    "Pareto": lambda rng, size: 1 + rng.pareto(2.5, size),
    "some are large": lambda rng, size: (
        np.where(rng.random(size) < 0.03, 1 + rng.exponential(6), 1)
        * rng.lognormal(sigma=0.4, size=size)
    ),
}


def stated(users, line, centre, rng, most=BOUNDS):
    """Return the score that a run states of a line, a slope and an offset."""
    settings = LdpIht(1, sparsity=1, epsilon=EPSILON, noise="node")
    budget = Budget.of(Run(settings, SizeOnlyPopulation(len(users), NODES)), 1e-6)
    slope, offset = line
    model = np.array([slope])

    def steps():
        sizes = []
        for theta, constant in ((model, offset), (np.zeros(1), centre)):
            question = ResidualOctave(theta, constant)
            sizes.append((yield from score.ask_size(budget, question, most=most)))
        return (yield from score.ask_r2(budget, model, offset, centre, tuple(sizes), 1.0, most))

    return answered(steps(), users, NODES, rng)


def scored(law, number, share, seed):
    """Return a stated R2 and its error, and the true R2, of a model that explains a share."""
    rng = np.random.default_rng([seed, number])
    signal = rng.gamma(3.0, size=number) / np.sqrt(3) - np.sqrt(3)
    targets = np.sqrt(share) * signal + np.sqrt(1 - share) * LAWS[law](rng, number)
    users = Users.from_rows(signal[:, None], targets)
    found = stated(users, (np.sqrt(share), 0.0), 0.0, rng)
    return found.r2, found.error, share


@pytest.mark.parametrize(("number", "unknown"), [(1600, 30), (4000, 0), (20_000, 0)])
def test_r2_is_within_its_interval_and_known_where_a_run_starts(number, unknown, runs=12):
    """Each of 120 intervals misses with .08 at most: 22 or more miss once in 7,000 tests.

    A run starts with 1,532 users. Noise then hides R2 in an eighth of the runs: in more than 30 of
    120 once in 10,000 tests.
    """
    found = np.array(
        [
            scored(law, number, share, seed)
            for law in LAWS
            for share in (0.2, 0.6)
            for seed in range(runs)
        ]
    )
    known = np.isfinite(found).all(axis=1)
    assert len(known) - known.sum() <= unknown
    value, error, true = found[known].T
    assert (np.abs(value - true) > 1.96 * error).sum() < 22


def test_r2_that_noise_hides_is_nan_and_says_so():
    """With 300 users noise hides R2 in about half of the runs: in none of 20 once in a million."""
    hidden = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 300])
        signal = rng.normal(size=300)
        users = Users.from_rows(signal[:, None], 0.5 * signal + rng.normal(size=300))
        found = stated(users, (0.5, 0.0), 0.0, rng)
        assert np.isnan(found.r2) == np.isnan(found.error)
        if np.isnan(found.r2):
            hidden += 1
            assert "R2 is not known" in found.notes[0]
    assert hidden > 0


@pytest.mark.parametrize("law", FACTORS)
@pytest.mark.parametrize("number", [4000, 20_000])
def test_r2_of_skewed_targets_is_within_three_errors_or_has_a_note(law, number):
    """The line is fitted as a descent does that clips moves: to targets without their tail."""
    for seed in range(8):
        rng = np.random.default_rng([seed, number])
        signal = rng.normal(size=number)
        targets = np.exp(0.6 * signal) * FACTORS[law](rng, number)
        line = np.polyfit(signal, np.minimum(targets, np.quantile(targets, 0.9)), 1)
        true = 1 - np.mean((targets - np.polyval(line, signal)) ** 2) / targets.var()
        users, centre = Users.from_rows(signal[:, None], targets), float(targets.mean())
        found = stated(users, line, centre, rng, most=200.0)
        assert found.notes or abs(found.r2 - true) < 3 * found.error


def test_errors_that_are_not_clipped_have_no_note():
    rng = np.random.default_rng(5)
    signal = rng.normal(size=20_000)
    users = Users.from_rows(signal[:, None], np.clip(signal + rng.normal(size=20_000), -2, 2))
    found = stated(users, (0.8, 0.0), 0.0, rng, most=4.0)
    assert not found.notes
    assert found.error < 0.1


def test_more_users_and_a_better_model_have_a_smaller_error():
    def error(number, share, law="gamma"):
        return np.median([scored(law, number, share, seed)[1] for seed in range(25)])

    assert error(20_000, 0.6, "two humps") < 0.6 * error(4000, 0.6, "two humps")
    # Of a skewed target the part beyond the bounds falls more slowly than the noise.
    assert error(20_000, 0.6) < 0.8 * error(4000, 0.6)
    assert error(4000, 0.9) < 0.6 * error(4000, 0.5)


@pytest.mark.parametrize("bound", [40.0, 500.0])
def test_auc_of_skewed_columns_is_within_three_errors(bound):
    """Rows near a corner of the bounds are longer than most, and so shortened.

    In wide bounds the mean is not known to the distance of most rows.
    """
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.lognormal(size=(20_000, 3)), columns=["a", "b", "c"])
    odds = (table - table.mean()) @ np.array([1.0, 0.7, -0.5]) / table.a.std()
    is_one = rng.random(len(table)) < 1 / (1 + np.exp(-odds))
    table["class"] = np.where(is_one, "yes", "no")
    columns = {name: Numeric(0, bound) for name in "abc"}
    schema = Schema(columns, "class", Categories(["no", "yes"]))
    strategy = PrivateClassification(schema, epsilon=EPSILON, noise="node")
    found = run_in_memory(strategy, schema.users(table), 3, num_nodes=NODES).result
    ranks = rankdata(found.predict_proba(table)[:, 1])
    own = int(is_one.sum())
    true = (ranks[is_one].sum() - own * (own + 1) / 2) / (own * (len(table) - own))
    assert abs(found.score - true) < 3 * found.score_std_error
    assert found.score_std_error < 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_r2_in_wide_bounds_is_within_three_errors(seed):
    """Most rows are near a corner of the bounds, so that they are shortened for mean features."""
    rng = np.random.default_rng([seed, 9])
    table = pd.DataFrame(rng.lognormal(size=(8000, 3)), columns=["a", "b", "c"])
    table["y"] = 0.6 * table.a + 0.3 * table.b + 0.5 * rng.gamma(2.0, size=len(table))
    columns = {name: Numeric(0, 60) for name in "abc"}
    schema = Schema(columns, "y", Numeric(0, 40))
    strategy = PrivateRegression(schema, epsilon=EPSILON, noise="node")
    found = run_in_memory(strategy, schema.users(table), seed, num_nodes=NODES).result
    true = 1 - np.mean((table.y - schema.in_units(schema.features(table) @ found.coef)) ** 2) / (
        table.y.var()
    )
    assert abs(found.score - true) < 3 * found.score_std_error
