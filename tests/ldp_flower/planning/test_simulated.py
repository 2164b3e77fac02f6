"""Plans that simulate the protocol: refusals, monotony, and whether runs do as was expected."""

import dataclasses
import math

import numpy as np
import pytest

from ldp_flower import Categories, Numeric, Schema, Users, plan, simulate
from ldp_flower.planning import NoPlan, Setting, WouldRefuse, expectation, in_memory
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import (
    ConstrainedMean,
    ConstrainedRegression,
    LabelLdpIht,
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    PrivateClassification,
    PrivateEvaluation,
    PrivateRegression,
    SparseMean,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
    UserLevelMean,
)

SPARSE = (
    *(UserLevelMean, LdpIht, NonInteractiveIht, LabelLdpIht, ConstrainedMean),
    *(SparseMean, SparseRegression, TwoRoundRegression, MultiRoundRegression),
)
TABLES = (PrivateRegression, PrivateClassification)
SETTING = Setting(num_users=2000, num_features=10, rows_per_user=5)


def planned(protocol, epsilon, runs=5, **numbers):
    setting = Setting(**numbers)
    return expectation(protocol.planned_for(setting, epsilon), setting, runs)


def numbers_for(protocol, num_users, num_features=12):
    rows = {"rows_per_user": 10} if "rows_per_user" in protocol.plans_with else {}
    return {"num_users": num_users, "num_features": num_features, **rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    [
        *(UserLevelMean, LdpIht, NonInteractiveIht, ConstrainedMean, PrivateClassification),
        *(
            pytest.param(protocol, marks=pytest.mark.long)
            for protocol in (*SPARSE, PrivateRegression)
            if protocol not in (UserLevelMean, LdpIht, NonInteractiveIht, ConstrainedMean)
        ),
    ],
)
def test_many_more_users_or_epsilon_make_it_better(protocol):
    """Of eight runs each; the seeds are fixed, and errors differ by factors."""
    few, many = (planned(protocol, 2.0, 8, **numbers_for(protocol, n)) for n in (1500, 15_000))
    weaker = planned(protocol, 1.0, 8, **numbers_for(protocol, 12_000))
    for each in (few, many, weaker):
        assert 0 <= each.low <= each.value <= each.high
    assert many.value < 0.6 * few.value
    assert many.value < weaker.value


@pytest.mark.parametrize(
    ("strategy", "num_users"),
    [
        *((cls.planned_for(Setting(num_users=9, num_features=8), 1.0), 9) for cls in SPARSE),
        (ConstrainedRegression(4, epsilon=1.0), 9),
        (SparseRegression(8, epsilon=1.0, samples_per_user=5), 1800),
        (TwoRoundRegression(8, epsilon=1.0, samples_per_user=5, sparsity=2), 30),
        (SparseMean(8, epsilon=2.0), 399),
        (LabelLdpIht(8, epsilon=2.0, sparsity=2), 150),
        *((cls.planned_for(SETTING, 1.0), 190) for cls in TABLES),
        (
            dataclasses.replace(PrivateRegression.planned_for(SETTING, 1.5), method="two-stage"),
            1100,
        ),
    ],
)
def test_a_refusal_is_in_the_strategys_own_words_and_asks_nobody(strategy, num_users):
    with pytest.raises(WouldRefuse) as told:
        expectation(strategy, Setting(num_users=num_users), runs=0)
    width = 11 if isinstance(strategy, TABLES) else strategy.dim
    rows = np.random.default_rng(0).standard_normal((num_users, width))
    with pytest.raises(TooFewReports) as refused:
        simulate(strategy, Users.from_rows(rows, np.abs(rows[:, 0]) * 0), seed=0)
    assert str(told.value) == str(refused.value)


@pytest.mark.parametrize(
    "strategy",
    [
        SparseRegression(8, epsilon=4.0, samples_per_user=10, link="logistic"),
        LdpIht(8, epsilon=4.0, sparsity=2, link="cosine"),
        NonInteractiveIht(2, epsilon=4.0, sparsity=1, covariance=[[1.0, 0.5], [0.5, 1.0]]),
    ],
)
def test_parameters_that_no_population_is_known_for_have_no_plan(strategy):
    with pytest.raises(NoPlan, match=type(strategy).__name__):
        expectation(strategy, Setting(num_users=10_000))


@pytest.mark.parametrize("protocol", [*SPARSE, *TABLES, PrivateEvaluation])
def test_a_plan_needs_the_number_of_features(protocol):
    wanted = f"Expected num_features, which a plan of {protocol.__name__} needs, got None."
    with pytest.raises(ValueError, match=wanted):
        protocol.planned_for(Setting(num_users=1000), 1.0)


def test_a_quality_that_is_no_auc_is_refused():
    with pytest.raises(ValueError, match=r"Expected 0.5 <= quality <= 1, an AUC, got 0.3"):
        planned(PrivateClassification, 2.0, num_users=2000, num_features=10, quality=0.3)


def test_a_plan_is_the_same_each_time_and_leaves_the_strategy_as_it_was():
    strategy, setting = LdpIht(8, epsilon=4.0, sparsity=2), Setting(num_users=3000)
    before = dict(vars(strategy))
    assert expectation(strategy, setting, 3) == expectation(strategy, setting, 3)
    assert vars(strategy) == before


@pytest.mark.slow
def test_most_points_of_a_curve_are_simulated(monkeypatch):
    runs = []

    def counted(*arguments):
        runs.append(arguments)
        return run_in_memory(*arguments)

    monkeypatch.setattr(in_memory, "run_in_memory", counted)
    made = plan(ConstrainedMean, num_users=1000, num_features=4, epsilon=4.0)
    assert len(runs) >= 24 + 4 * 8  # one's own numbers, and most of the points of the curve
    assert 0.4 < made.expected.value / made.target / 2 < 2.5
    # The error is like 1 / sqrt(n), so 4,000 users have half of it. Medians of 24 and of 4 runs of
    # four coordinates, whose logarithm has a standard deviation of .37, leave a standard error of
    # .24 from 1,000 users to 4,000: one plan in fourteen is further off than this.
    assert 4000 / 2.4 < made.changes["users"] < 4000 * 2.4
    assert made.expected.notes == ()


# ---------------------------------------------------------------------- plans against runs


def test_a_mean_is_as_far_off_as_planned():
    """A run's error is .51 to 1.6 times its median with probability 97 % (chi-square, 8 degrees).

    So three of five are beyond that with one of 3e-4; 1.8 leaves room for the plan's own.
    """
    told = planned(UserLevelMean, 4.0, num_users=1000, num_features=8, rows_per_user=10)
    strategy = UserLevelMean(8, epsilon=4.0, bound=1.0)
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = 0.5 / math.sqrt(8) * rng.choice([-1, 1], 8)
        users = Users.from_rows(truth + rng.standard_normal((1000, 8)) / math.sqrt(80))
        result = simulate(strategy, users, seed=seed)
        errors.append(np.linalg.norm(result.coef - truth))
    assert told.value / 1.8 < np.median(errors) < 1.8 * told.value


@pytest.mark.slow
def test_coefficients_are_as_far_off_as_planned():
    """One run in ten is below the range and one above.

    The median of seven is outside with probability 2 * 35 * .1**4 = .7 %, of a plan by 24 runs
    with some 3 %; seeds are fixed.
    """
    strategy, users = LdpIht(16, epsilon=4.0, sparsity=4), 6000
    told = expectation(strategy, Setting(num_users=users))
    errors = []
    for seed in range(7):
        rng = np.random.default_rng(100 + seed)
        x = rng.choice([-1.0, 1.0], (users, 16))
        truth = np.where(np.arange(16) < 4, 0.5, 0.0)
        y = x @ truth + rng.standard_normal(users)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        errors.append(np.linalg.norm(result.coef - truth))
    assert told.low < np.median(errors) < told.high
    assert told.rounds == len(result.steps) - 1  # the census is no question
    assert told.report_bytes == max(step.report_bytes for step in result.steps)


def people(seed, users, rows, between):
    """Return ten columns and a target of which they explain half."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(users), rows)

    def normals(width):
        own = rng.standard_normal((users, width))[who]
        each = rng.standard_normal((len(who), width))
        return np.sqrt(between) * own + np.sqrt(1 - between) * each

    columns = np.clip(rng.uniform(-0.4, 0.4, 10) + 0.3 * normals(10), -1, 1)
    explained = (columns - columns.mean(axis=0)) @ rng.standard_normal(10)
    target = 0.3 * (explained / explained.std() + normals(1)[:, 0]) / np.sqrt(2)
    return who, columns, np.clip(target, -1, 1)


def lost(strategy, seed, users, rows, between):
    who, columns, target = people(seed, users, rows, between)
    table = {f"x{place}": column for place, column in enumerate(columns.T, 1)}
    everybody = strategy.schema.users(table | {"y": target, "who": who}, groups="who")
    found = simulate(strategy, everybody, seed=seed)
    _, fresh, wanted = people(seed, users, rows, between)
    table = {f"x{place}": column for place, column in enumerate(fresh.T, 1)}
    return np.var(wanted - found.predict(table)) / np.var(wanted) - 0.5, found


@pytest.mark.long
def test_a_regression_loses_about_what_was_expected():
    """The plan's range leaves out one run in ten at either end, its ends are of 24 runs.

    More than three of eight beyond one end: probability .005, each; the seeds are fixed.
    """
    setting = dataclasses.replace(SETTING, num_users=1000)
    strategy = PrivateRegression.planned_for(SETTING, 4.0)
    told, losses = expectation(strategy, setting), []
    for seed in range(8):
        loss, found = lost(strategy, seed, 1000, 5, 0.0)
        losses.append(loss)
        assert len(found.steps) - 1 <= told.rounds
    assert sum(loss > told.high for loss in losses) <= 3
    assert sum(loss < told.low for loss in losses) <= 3


@pytest.mark.slow
def test_rows_that_are_alike_are_worth_less_and_the_plan_says_so():
    """The medians of eleven runs, with seeds that the plan does not have.

    With independent rows the plan is too good by a factor of 3 and more; with the share that is
    between users it is within a factor 2.
    """
    rows, between, users = 20, 0.9, 1500
    strategy = MultiRoundRegression(8, epsilon=4.0, samples_per_user=rows, sparsity=4)
    given = Setting(num_users=users, rows_per_user=rows)
    told, independent = (
        expectation(strategy, dataclasses.replace(given, variance_between=share), 16)
        for share in (between, None)
    )
    errors = []
    for seed in range(11):
        rng = np.random.default_rng(1000 + seed)
        who = np.repeat(np.arange(users), rows)

        def normals(width, rng=rng, who=who):
            own = rng.standard_normal((users, width))[who]
            each = rng.standard_normal((len(who), width))
            return math.sqrt(between) * own + math.sqrt(1 - between) * each

        truth = np.where(np.arange(8) < 4, math.sqrt(0.5) / 2, 0.0)
        x = normals(8)
        y = 1.4 * (x @ truth + math.sqrt(0.5) * normals(1)[:, 0])
        result = simulate(strategy, Users(x, y, rows * np.arange(users + 1)), seed=seed)
        errors.append(np.linalg.norm(result.coef / 1.4 - truth) / math.sqrt(0.5))
    assert np.median(errors) > 2 * independent.value
    assert told.value / 2 < np.median(errors) < 2 * told.value


def test_an_evaluation_has_the_standard_error_that_was_expected():
    """In 25 runs like this it was never off by more than 15 %."""
    strategy = PrivateEvaluation.planned_for(SETTING, 4.0)
    told = expectation(strategy, dataclasses.replace(SETTING, num_users=1000, quality=0.5), 8)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5000, 11))
    users = Users.from_rows(rows, rows[:, 0] + rng.standard_normal(5000), np.arange(5000) // 5)
    users = Users(users.features, users.targets * 0.7, users.offsets)
    model = dataclasses.replace(strategy, coef=0.7 * np.eye(1, 11)[0])
    assert simulate(model, users, seed=0).std_error == pytest.approx(told.value, rel=0.25)


def test_evaluations_gain_by_users_and_are_refused_in_the_words_of_the_run():
    setting = dataclasses.replace(SETTING, num_users=20_000)
    strategy = PrivateEvaluation.planned_for(SETTING, 2.0)
    assert expectation(strategy, setting, 8).value < expectation(strategy, SETTING, 8).value
    for users, epsilon in ((100, 1.0), (50, 8.0)):
        few = dataclasses.replace(strategy, epsilon=epsilon)
        with pytest.raises(WouldRefuse) as refused:
            expectation(few, dataclasses.replace(SETTING, num_users=users))
        nobody = Users.from_rows(np.zeros((users, 11)), np.zeros(users))
        with pytest.raises(TooFewReports) as run:
            simulate(few, nobody, seed=0)
        assert str(refused.value) == str(run.value)


# ---------------------------------------------------------------------- synthetic tables


def drawn(schema, quality, rows, between, stand_in=False, seed=0):
    from ldp_flower.strategies.forecasts.tables import users_of_tables

    setting = Setting(num_users=1, quality=quality, variance_between=between)
    population = users_of_tables(schema, setting, rows)
    return population.draw(1500, stand_in, np.random.default_rng(seed))


COLUMNS = {
    "a": Numeric(0, 10),
    "b": Numeric(-5, 5, centre=1, scale=0.5),
    "kind": Categories(["p", "q", "r"]),
}


@pytest.mark.parametrize("stand_in", [False, True])
def test_a_table_is_explained_as_well_as_was_asked_for(stand_in):
    """R2 of least squares on 6,000 rows: standard error .01."""
    found = drawn(Schema(COLUMNS, "y", Numeric(0, 4)), 0.6, 4, 0.0, stand_in)
    users = found.users
    coef, *_ = np.linalg.lstsq(users.features, users.targets)
    left = users.targets - users.features @ coef
    assert 1 - left.var() / users.targets.var() == pytest.approx(0.6, abs=0.05)
    # The best model loses nothing, and the mean loses all.
    best, mean = (dataclasses.make_dataclass("M", ["coef"])(c) for c in (coef, 0 * coef))
    assert found.error(best) < 0.03
    mean.coef[0] = users.targets.mean()
    assert found.error(mean) == pytest.approx(0.6, abs=0.06)


@pytest.mark.parametrize("classes", ["no", "nom"])
def test_classes_are_told_apart_as_well_as_was_asked_for(classes):
    from sklearn.linear_model import LogisticRegression

    found = drawn(Schema(COLUMNS, "y", Categories(list(classes))), 0.8, 4, 0.0)
    users = found.users
    model = LogisticRegression(C=100.0).fit(users.features[:, 1:], users.targets)
    coef = np.column_stack([model.intercept_, model.coef_])
    made = dataclasses.make_dataclass("M", ["coef"])
    assert found.error(made(coef[0] if len(classes) == 2 else coef)) < 0.04
    assert found.error(made(0 * coef)) == pytest.approx(0.3, abs=0.04)


def test_the_share_of_variance_between_users_is_the_one_given():
    """By the variance of users' means: of 1,500 users its standard error is 4 %."""
    for between in (0.0, 0.7):
        found = drawn(Schema({"b": COLUMNS["b"]}, "y", Numeric(0, 4)), 0.5, 5, between)
        column = found.users.features[:, 1]
        means = np.add.reduceat(column, found.users.offsets[:-1]) / found.users.num_rows
        wanted = between + (1 - between) / 5
        assert means.var() / column.var() == pytest.approx(wanted, rel=0.15)
