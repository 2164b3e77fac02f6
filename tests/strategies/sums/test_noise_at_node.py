"""Strategies with noise at the node: what they estimate, what they state, what they refuse."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    LdpIht,
    LdpStrategy,
    Means,
    PrivateClassification,
    PrivateRegression,
    Quantiles,
    TooFewReports,
    TwoWay,
)
from ldp_flower.strategies.catalogue import PROTOCOLS
from ldp_flower.strategies.runtime.at_node import AtNode
from ldp_flower.strategies.runtime.result import Result

COLUMNS = {"age": Numeric(18, 80), "job": Categories(["office", "shop"])}
WAGE = Schema(COLUMNS, "wage", Numeric(0, 60))
RICH = Schema(COLUMNS, "rich", Categories(["no", "yes"]))
EPSILON = 1.0


def people(number, seed=0, rows=1):
    """Return rows of so many people, whose numbers are alike within a person."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(number), rows)
    age = np.repeat(rng.integers(18, 80, number), rows)
    job = np.repeat(rng.choice(["office", "shop"], number, p=[0.7, 0.3]), rows)
    wage = 8 + 0.3 * age + 6 * (job == "office") + rng.normal(0, 4, number * rows)
    rich = np.where(wage + rng.logistic(0, 2, len(wage)) > 28, "yes", "no")
    return pd.DataFrame({"person": person, "age": age, "job": job, "wage": wage, "rich": rich})


def users_of(schema, frame):
    return schema.users(frame, groups="person")


def at_node(strategy, frame, seed=0, nodes=4):
    return simulate(strategy, users_of(strategy.schema, frame), seed=seed, num_nodes=nodes)


def test_a_mean_is_sharper_by_the_root_of_a_nodes_users():
    frame = people(10_000)
    errors = {
        noise: simulate(
            Means(WAGE, "wage", epsilon=EPSILON, noise=noise),
            WAGE.users(frame),
            seed=0,
            num_nodes=10,
        ).users_std_error[0, 0]
        for noise in ("user", "node")
    }
    assert errors["user"] > 5 * errors["node"]
    # Of the range of 60: at most .0021 where the mean is a tenth of the range from the middle.
    assert errors["node"] < 0.0021 * 60


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4])
def test_means_and_shares_and_quantiles_hold_within_their_intervals(rows, runs=12):
    """Each of 72 intervals misses with .05: 12 or more miss once in 3,000 runs of this test."""
    missed = 0
    for seed in range(runs):
        frame = people(6000, seed, rows)
        by = at_node(Means(WAGE, "wage", by="job", epsilon=EPSILON, noise="node"), frame, seed)
        own = frame.groupby("job")["wage"].mean().to_numpy()
        missed += (np.abs(by.means[0] - own) > 1.96 * by.std_error[0]).sum()
        shares = at_node(Counts(WAGE, "job", epsilon=EPSILON, noise="node"), frame, seed)
        missed += (
            abs(shares.shares[0] - (frame.job == "office").mean()) > 1.96 * shares.std_error[0]
        )
        levels = [0.1, 0.5, 0.9]
        found = at_node(Quantiles(WAGE, "wage", levels, epsilon=EPSILON, noise="node"), frame, seed)
        true = frame.wage.quantile(levels).to_numpy()
        missed += ((true < found.lower) | (found.upper < true)).sum()
    assert missed < 12


def test_missing_entries_count_for_nothing():
    frame = people(8000)
    frame.loc[frame.index % 3 == 0, "wage"] = np.nan
    schema = Schema({**COLUMNS, "wage": Numeric(0, 60)})
    found = at_node(Means(schema, "wage", epsilon=2.0, noise="node"), frame)
    assert abs(found.means[0, 0] - frame.wage.mean()) < 4 * found.std_error[0, 0]
    assert abs(found.shares[0, 0] - 2 / 3) < 4 * found.share_errors[0, 0]
    level = at_node(Quantiles(schema, "wage", [0.5], epsilon=2.0, noise="node"), frame)
    assert level.lower[0] <= frame.wage.median() <= level.upper[0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
def test_a_description_holds_within_its_intervals(rows, runs=12):
    """Each of 72 intervals misses with .05: 12 or more miss once in 3,000 runs of this test.

    Several rows of a person have ages alike and wages that differ.
    """
    missed = 0
    for seed in range(100, 100 + runs):
        frame = people(8000, seed, rows)
        found = at_node(Describe(WAGE, ["wage", "job"], epsilon=2.0, noise="node"), frame, seed)
        own = frame.wage.describe()[["mean", "std", "25%", "50%", "75%"]].to_numpy()
        missed += (np.abs(found.values[1:, 0] - own) > 1.96 * found.std_error[1:, 0]).sum()
        office = (frame.job == "office").mean()
        missed += abs(found.shares[0][0] - office) > 1.96 * found.share_errors[0][0]
        assert found.privacy.epsilon == 2.0
    assert missed < 12


@pytest.mark.slow
def test_a_band_holds_the_whole_distribution(runs=20):
    """Each of 20 bands misses with .05: 5 or more miss once in 400 runs of this test."""
    missed = 0
    for seed in range(runs):
        frame = people(4000, seed)
        frame.loc[frame.index % 4 == 0, "wage"] = frame.wage.clip(upper=20)  # many at one value
        frame.loc[frame.index % 5 == 0, "wage"] = 60.0  # the upper bound
        found = at_node(Distribution(WAGE, "wage", epsilon=EPSILON, noise="node"), frame, seed)
        band = found.band()
        true = np.searchsorted(np.sort(frame.wage), band["wage"] + 1e-9, side="right") / len(frame)
        inner = slice(1, -1)
        missed += ((true < band.lower) | (band.upper < true))[inner].any()
        assert abs(found.cdf(59.9) - 0.8) < 4 * found.cdf_error(59.9)
    assert missed < 5


def test_two_columns_go_together_or_do_not(runs=20):
    """Of independent columns one of 20 is taken for dependent: 5 or more once in 400 tests."""
    both = Schema({**COLUMNS, "rich": Categories(["no", "yes"])})
    strategy = TwoWay(both, "job", "rich", epsilon=EPSILON, noise="node")
    frame = people(4000)
    found = at_node(strategy, frame)
    true = pd.crosstab(frame.job, frame.rich, normalize=True).to_numpy()
    assert found.p_value < 1e-6
    assert (np.abs(found.shares - true) < 4 * found.std_error).all()
    rejected = 0
    for seed in range(runs):
        shuffled = people(4000, seed)
        shuffled["job"] = np.random.default_rng(seed + 500).permutation(shuffled.job)
        rejected += at_node(strategy, shuffled, seed).p_value < 0.05
    assert rejected < 5


def test_a_regression_is_nearly_as_good_as_without_privacy():
    frame, test = people(4000), people(4000, 99)
    fit = at_node(PrivateRegression(WAGE, epsilon=EPSILON, noise="node"), frame)
    # Without privacy R2 is .70; of 12 other seeds all are within .02 of it.
    assert r2_score(test.wage, fit.predict(test)) > 0.65
    assert abs(fit.score - 0.7) < 3 * fit.score_std_error
    assert fit.method == "sums of nodes" and "whom it was fitted to" in repr(fit)
    with pytest.raises(TooFewReports):
        at_node(PrivateRegression(WAGE, epsilon=EPSILON), frame)


@pytest.mark.slow
def test_a_classification_is_nearly_as_good_as_without_privacy():
    frame, test = people(4000), people(4000, 99)
    fit = at_node(PrivateClassification(RICH, epsilon=EPSILON, noise="node"), frame)
    auc = roc_auc_score(test.rich == "yes", fit.predict_proba(test)[:, 1])
    assert auc > 0.8 and abs(fit.score - auc) < 3 * fit.score_std_error
    chance = frame.assign(rich=np.random.default_rng(4321).choice(["no", "yes"], len(frame)))
    doubtful = at_node(PrivateClassification(RICH, epsilon=EPSILON, noise="node"), chance)
    assert doubtful.method == "shares" or doubtful.notes


@pytest.mark.slow
def test_several_classes_are_fitted_at_once():
    """Gumbel choices among three, of people unlike those of any study."""
    rng = np.random.default_rng(77)
    table = pd.DataFrame(rng.normal(size=(7000, 3)), columns=list("abc"))
    weights = np.array([[2.0, -1.0, 0.0], [0.0, 1.5, -1.5], [-1.0, 0.0, 1.0]])
    chances = table.to_numpy() @ weights + [0.5, 0.0, -0.5] + rng.gumbel(size=(7000, 3))
    table["choice"] = np.array(["bus", "car", "train"])[chances.argmax(axis=1)]
    classes = Categories(["bus", "car", "train"])
    schema = Schema({name: Numeric(-3, 3) for name in "abc"}, "choice", classes)
    people, test = table[:5000], table[5000:]
    strategy = PrivateClassification(schema, epsilon=EPSILON, noise="node")
    fit = simulate(strategy, schema.users(people), seed=0, num_nodes=4)
    assert fit.coef.shape == (3, 4) and len(fit.steps) == 1 + 2 + 40 + 3 * 3
    found = fit.predict_proba(test)
    shares = (test.choice.to_numpy()[:, None] == fit.classes).mean(axis=0)
    aucs = [roc_auc_score(test.choice == each, found[:, i]) for i, each in enumerate(fit.classes)]
    assert shares @ aucs > 0.85 and (fit.predict(test) == test.choice).mean() > 0.68
    assert abs(fit.score - shares @ aucs) < 3 * fit.score_std_error < 0.12
    np.testing.assert_allclose(fit.shares, shares, atol=0.05)
    few = strategy.refusal(20)
    assert "fit 12 coefficients" in str(few) and strategy.refusal(few.needed) is None


@pytest.mark.parametrize(
    "strategy",
    [
        Means(WAGE, "wage", epsilon=EPSILON, noise="node"),
        PrivateRegression(WAGE, epsilon=EPSILON, noise="node"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_result_says_where_the_noise_is_and_whom_that_trusts(strategy):
    found = at_node(strategy, people(4000))
    assert (found.privacy.epsilon, found.privacy.delta) == (EPSILON, 1e-6)
    assert found.privacy.exact and found.privacy.noise == "node"
    assert "noise at the node" in repr(found)
    assert "trusts the node that holds its rows" in found.to_html()
    assert found.num_reports == found.num_users == 4000
    again = type(found).from_dict(found.to_dict())
    assert isinstance(again, Result) and again.privacy == found.privacy


def test_the_plan_is_paid_once_however_many_steps_there_are():
    frame = people(4000)
    strategy = PrivateRegression(WAGE, epsilon=EPSILON, noise="node")
    allowed = PrivacyPolicy(EPSILON, max_delta=1e-6, noise="node", min_epsilon=1e-4)
    found = simulate(strategy, users_of(WAGE, frame), seed=0, num_nodes=4, policy=allowed)
    assert found.privacy.epsilon == EPSILON and len(found.steps) > 40


def test_where_no_operator_allows_it_nobody_pays():
    users = users_of(WAGE, people(400))
    strategy = Means(WAGE, "wage", epsilon=EPSILON, noise="node")
    with pytest.raises(TooFewReports, match="does not allow this mechanism"):
        simulate(strategy, users, seed=0, policy=PrivacyPolicy(4.0, max_delta=1e-5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        Means(WAGE, "wage", by="job", epsilon=EPSILON, noise="node"),
        Quantiles(WAGE, "wage", [0.1, 0.5], epsilon=EPSILON, noise="node"),
        PrivateRegression(WAGE, epsilon=EPSILON, noise="node"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_it_does_not_matter_who_is_on_which_node(strategy):
    """Sums are exact, so nodes that are unlike give the same bits as nodes that are alike."""
    frame = people(4000)
    alike, unlike = (
        at_node(strategy, dealt.assign(person=np.arange(4000)))
        for dealt in (frame, frame.sort_values("wage"))
    )
    for one, other in zip(alike.arrays.values(), unlike.arrays.values(), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_too_few_are_refused_with_a_number_that_starts():
    for make in (
        lambda: Means(WAGE, "wage", epsilon=0.5, noise="node"),
        lambda: Counts(WAGE, "job", epsilon=0.5, noise="node"),
        lambda: Quantiles(WAGE, "wage", [0.5], epsilon=0.5, noise="node"),
        lambda: Distribution(WAGE, "wage", epsilon=0.5, noise="node"),
        lambda: TwoWay(RICH, "job", "rich", epsilon=0.5, noise="node"),
        lambda: Describe(WAGE, epsilon=0.5, noise="node"),
        lambda: PrivateRegression(WAGE, epsilon=0.5, noise="node"),
        lambda: PrivateClassification(RICH, epsilon=0.5, noise="node"),
    ):
        few = make().refusal(20)
        assert few is not None and few.needed > 20 and "K nodes" in few.advice
        assert make().refusal(few.needed) is None
        assert make().refusal(few.needed - 1) is not None


def test_more_nodes_take_more_users():
    """With noise of sixteen nodes the same people are four times as few."""
    strategy = Describe(WAGE, epsilon=EPSILON, noise="node")
    alone = strategy.refusal(20).needed
    with pytest.raises(TooFewReports, match="on 16 nodes are too few") as refused:
        at_node(strategy, people(2 * alone), nodes=16)
    needed = refused.value.refusal.needed
    assert needed == 4 * alone and at_node(strategy, people(needed), nodes=16).num_users == needed


@pytest.mark.parametrize("name", PROTOCOLS)
def test_others_refuse_and_name_those_that_have_it(name):
    kind = PROTOCOLS[name]
    if not issubclass(kind, LdpStrategy) or issubclass(kind, AtNode):
        return
    strategy, _ = next(iter(kind.audit_runs(4, 2.0)), (None, None))
    if strategy is None or name == "Series":
        return
    with pytest.raises(ValueError, match=r"Expected noise='user'.*got 'node'.*Means, Counts"):
        dataclasses.replace(strategy, noise="node")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Means(WAGE, "wage", epsilon=1.0, delta=1e-5), 'no delta with noise="user"'),
        (lambda: Means(WAGE, "wage", epsilon=1.0, noise="node", delta=2.0), "0 < delta < 1"),
        (lambda: LdpIht(4, sparsity=1, epsilon=1.0, noise="server"), "Expected noise in"),
        (
            lambda: PrivateRegression(WAGE, epsilon=1.0, noise="node", rows_per_user=3),
            'no rows_per_user with noise="node"',
        ),
    ],
)
def test_arguments_without_effect_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_users_without_a_target_do_not_raise_the_radius(epsilon):
    """A radius that grows at each step would have noise that hides the slopes. Of classes, too."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 8000)
    y = np.where(rng.random(8000) < 0.1, np.nan, x + rng.normal(0, 0.5, 8000))
    schema = Schema({"x": Numeric(-1, 1)}, "y", Numeric(-3, 3))
    people = schema.users({"x": x, "y": y})
    fit = simulate(
        PrivateRegression(schema, epsilon=epsilon, noise="node"), people, seed=0, num_nodes=10
    )
    slope = (fit.predict({"x": [1.0]}) - fit.predict({"x": [-1.0]}))[0] / 2
    assert abs(slope - 1) < 0.15
    classes = Schema({"x": Numeric(-1, 1)}, "y", Categories(["low", "high"]))
    names = np.where(np.isnan(y), None, np.where(y > 0, "high", "low"))
    strategy = PrivateClassification(classes, epsilon=epsilon, noise="node")
    found = simulate(strategy, classes.users({"x": x, "y": names}), seed=0, num_nodes=10)
    assert abs(found.shares[1] - np.mean(y[~np.isnan(y)] > 0)) < 0.03
    sure = found.predict_proba({"x": [0.8]})[0, 1]
    assert 0.85 < sure < 0.99
