"""PrivateClassification: from a table with classes to probabilities, on small tables."""

import logging

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.metrics import log_loss, roc_auc_score

from ldp_flower import Categories, Numeric, Schema, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.strategies import (
    ClassificationFit,
    LdpIht,
    PrivateClassification,
    SparseRegression,
    TooFewReports,
)
from ldp_flower.strategies.numerics.two_normals import Ranked, ranked
from ldp_flower.strategies.runtime.result import HALF_WIDTH_95
from ldp_flower.strategies.table_models import class_holdout

COLUMNS = {"age": Numeric(18, 66), "hours": Numeric(0, 80), "site": Categories(["a", "b", "c"])}
TWO = Schema(COLUMNS, target="left", bounds=Categories(["no", "yes"]))


def people(number, rows, seed, signal=1.0):
    """Return a table; who left is told by age, hours and site, and luck."""
    rng = np.random.default_rng(seed)
    size = number * rows
    table = pd.DataFrame(
        {
            "person": np.repeat(np.arange(number), rows),
            "age": rng.uniform(18, 66, size),
            "hours": rng.normal(38, 12, size),
            "site": rng.choice(["a", "b", "c"], size),
        }
    )
    logit = signal * (0.06 * (table.age - 42) - 0.05 * (table.hours - 38) + (table.site == "a"))
    left = rng.random(size) < 1 / (1 + np.exp(-(logit - 0.8)))
    return table.assign(left=np.where(left, "yes", "no"))


def fit(schema, table, epsilon, seed=0, **given):
    users = schema.users(table, groups="person")
    return simulate(PrivateClassification(schema, epsilon=epsilon, **given), users, seed=seed)


@pytest.fixture(scope="module")
def fitted():
    return fit(TWO, people(3000, 4, 0), 4.0)


def test_it_ranks_is_calibrated_and_knows_how_well(fitted):
    """The best AUC is .77, the best gain in log-loss 17 % of the shares'."""
    fresh = people(3000, 4, 1)
    found = fitted.predict_proba(fresh)
    left = fresh.left == "yes"
    auc = roc_auc_score(left, found[:, 1])
    assert auc > 0.74
    # Scores need not be normal: .035 of the error is of that, at an AUC of .77.
    assert abs(fitted.score - auc) < 4 * fitted.score_std_error < 4 * np.hypot(0.05, 0.035)
    assert log_loss(left, found) < 0.9 * log_loss(left, np.full(len(fresh), left.mean()))
    assert abs(fitted.shares[1] - left.mean()) < 4 * fitted.shares_std_error[1] < 0.2
    assert not fitted.notes


def test_the_result_speaks_the_tables_language(fitted):
    fresh = people(100, 2, 2)
    found = fitted.predict_proba(fresh)
    assert found.shape == (200, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert fitted.classes.tolist() == ["no", "yes"]
    assert fitted.predict(fresh).tolist() == np.where(found[:, 1] > 0.5, "yes", "no").tolist()
    table = fitted.table().set_index("name")
    assert list(table) == ["unit", "left=yes"]
    assert table.loc["age", "unit"] == "log odds / age"
    assert table.loc["age", "left=yes"] > 0 > table.loc["hours", "left=yes"]
    again = ClassificationFit.from_dict(fitted.to_dict())
    np.testing.assert_array_equal(again.predict_proba(fresh), found)
    assert "AUC" in repr(fitted) and "AUC" in fitted.to_html()
    assert fitted.plot().get_title(loc="left").startswith("AUC")


def test_classes_are_what_was_declared():
    table = people(2000, 4, 3)
    schema = Schema(COLUMNS, target="left", bounds=Categories([0, 1]))
    table["left"] = (table.left == "yes").astype(int)
    result = fit(schema, table, 4.0, rows_per_user=4)
    assert set(result.predict(table).tolist()) == {0, 1}
    assert Schema.from_dict(schema.to_dict()).bounds.declared == (0, 1)


def test_three_classes_are_told_apart():
    table = people(3000, 4, 4)
    rng = np.random.default_rng(0)
    table["plan"] = np.where(table.left == "yes", "go", rng.choice(["stay", "move"], len(table)))
    table.loc[table.age > 55, "plan"] = "move"
    schema = Schema(COLUMNS, target="plan", bounds=Categories(["stay", "move", "go"]))
    result = fit(schema, table, 4.0, rows_per_user=4)
    found = result.predict_proba(table)
    assert result.coef.shape == (3, schema.num_features)
    assert result.classes.tolist() == ["stay", "move", "go"]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert roc_auc_score(table.plan == "move", found[:, 1]) > 0.65
    assert len(result.table().columns) == 5 and result.plot().get_legend()


def test_noise_is_given_away_as_the_shares_or_with_doubts():
    """Five seeds without a signal: an estimate passes two standard errors once in 44."""
    doubts = 0
    for seed in range(5):
        table = people(800, 2, seed, signal=0.0)
        result = fit(TWO, table, 1.0, seed, rows_per_user=2)
        doubts += any("better than chance" in note for note in result.notes)
        if result.method == "shares":
            assert not result.coef[1:].any()
            np.testing.assert_allclose(result.predict_proba(table)[:, 1], result.shares[1])
    assert doubts >= 4


@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_nobody_has_is_said_and_flatters_no_score(seed):
    """What is noise about it is weighed by its share; others' AUC is .77 without privacy."""
    three = Schema(COLUMNS, target="left", bounds=Categories(["no", "yes", "maybe"]))
    result = fit(three, people(3000, 4, seed), 4.0, seed, rows_per_user=4)
    assert result.shares[2] < 0.1
    assert any("Perhaps no row is of class 'maybe'" in note for note in result.notes)
    assert abs(result.score - 0.75) < 4 * result.score_std_error < 0.4


def test_one_class_only_is_said():
    result = fit(TWO, people(1000, 3, 0).assign(left="no"), 4.0, rows_per_user=3)
    assert any("Perhaps no row is of class 'yes'" in note for note in result.notes)
    assert result.predict_proba(people(9, 3, 1))[:, 1].max() < 0.2
    with pytest.raises(ValueError, match="rows whose 'left' is 'no' or 'yes', got none"):
        fit(TWO, people(1000, 3, 0).assign(left="Yes"), 4.0)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_the_error_of_an_auc_is_what_covariances_beside_it_tell(share):
    """Inside it is the slope's; where the classes are far apart, or rare, it is no nothing."""
    covariance = share * (1 - share) * (2 / np.pi) ** 0.5 * 0.2  # of a distance of .2, nearly
    slope = 1 / (share * (1 - share) * 8**0.5)  # of the AUC, in the covariance
    small = 0.03 * share
    found = ranked(covariance, small, share, HALF_WIDTH_95)
    lines = 0.5 + covariance / (4 * share * (1 - share))  # the area if scores are not normal
    wanted = np.hypot(small * slope, (found.auc - lines) / 1.96)
    assert found.std_error == pytest.approx(wanted, rel=0.1)
    assert small * slope > 0.5 * wanted  # it is most of it here
    assert ranked(9.0, 0.3 * share, share, HALF_WIDTH_95).std_error > 0.02
    assert 0.3 < ranked(9.0, share, share, HALF_WIDTH_95).std_error <= 1


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_slopes_are_shorter_the_less_is_known(share):
    """A distance of 1 is hardly shortened where it is sure, and what is usual where it is not."""
    at_one = share * (1 - share) * 2 * (ndtr(share) + ndtr(1 - share) - 1)
    assert ranked(at_one, 0.01 * share, share, HALF_WIDTH_95).distance == pytest.approx(1, rel=0.1)
    usual = ranked(at_one, 9.0, share, HALF_WIDTH_95).distance
    assert usual == pytest.approx(0.7 * (2 / np.pi) ** 0.5, rel=0.02)  # mean of half a normal
    worse = [
        ranked(-deviations * 0.3 * share, 0.3 * share, share, HALF_WIDTH_95).distance
        for deviations in (0, 1, 3)
    ]
    assert usual > worse[0] > worse[1] > worse[2] > 0


def test_who_ranks_no_better_than_chance_gets_the_shares(monkeypatch):
    """From one standard error above chance the model is returned, up to two with a note."""
    table = people(600, 2, 0, signal=0.0)
    for score, method, said in (
        (0.5 - 1.9 * 0.05, "shares", "did not surely rank better than chance"),
        (0.5 + 0.9 * 0.05, "shares", "did not surely rank better than chance"),
        (0.5 + 1.1 * 0.05, "lengths", "may rank no better than chance"),
        (0.5 + 1.9 * 0.05, "lengths", "may rank no better than chance"),
        (0.5 + 2.1 * 0.05, "lengths", ""),
    ):
        told = Ranked(score, 0.05, 0.2)
        monkeypatch.setattr(class_holdout, "ranked", lambda *_, told=told: told)
        result = fit(TWO, table, 4.0, rows_per_user=2)
        assert result.method == method
        assert said in " ".join(result.notes) and bool(result.notes) == bool(said)
        assert bool(result.coef[1:].any()) == (method != "shares")


@pytest.mark.parametrize("epsilon, ways", [(0.2, "With these users epsilon"), (0.05, "users")])
def test_too_few_users_are_refused_with_what_would_do(epsilon, ways):
    with pytest.raises(TooFewReports, match=f"At least .* users are needed.*{ways}|{ways}"):
        fit(TWO, people(400, 1, 0), epsilon)


def test_many_features_are_refused_with_how_many_would_do():
    wide = Schema({f"x{j}": Numeric(0, 1) for j in range(400)}, "y", Categories([0, 1]))
    users = Users.from_rows(np.zeros((900, 401)), np.zeros(900))
    with pytest.raises(TooFewReports, match=r"With 2\d\d features it would start"):
        simulate(PrivateClassification(wide, epsilon=1.0), users, seed=0)


@pytest.mark.parametrize(
    "schema, given, message",
    [
        (Schema(COLUMNS, "wage", Numeric(0, 9)), {}, "Categories.*PrivateRegression"),
        (Schema(COLUMNS), {}, "Categories"),
        (7, {}, "Categories.*got 7"),
        (TWO, {"rows_per_user": 0}, "rows_per_user"),
        (TWO, {"method": "guess"}, "method"),
    ],
)
def test_what_it_cannot_do_is_refused(schema, given, message):
    with pytest.raises(ValueError, match=message):
        PrivateClassification(schema, epsilon=1.0, **given)


def test_a_strategy_shows_its_arguments_and_no_address():
    assert repr(PrivateClassification(TWO, epsilon=2.0)) == "PrivateClassification(epsilon=2.0)"


def test_other_labels_are_left_out_and_counted(caplog):
    users = Users.from_rows(np.ones((3000, 6)), np.tile([0.0, 1.0, 2.0], 1000))
    with caplog.at_level(logging.WARNING):
        result = simulate(PrivateClassification(TWO, epsilon=4.0, rows_per_user=1), users, seed=0)
    assert "have a label other than 0 to 1 and are left out" in caplog.text
    assert abs(result.shares[1] - 0.5) < 0.15


def test_links_for_classes_that_do_not_suit_tables_name_it():
    with pytest.raises(ValueError, match=r"samples_per_user >= 10 .* PrivateClassification"):
        SparseRegression(33, epsilon=4.0, samples_per_user=2, link="logistic")
    users = Users.from_rows(np.ones((8000, 37)), np.zeros(8000))
    with pytest.raises(TooFewReports, match="PrivateClassification"):
        simulate(LdpIht(37, sparsity=37, epsilon=4.0, link="logistic"), users, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["class_step", pytest.param("ranking", marks=pytest.mark.slow)])
def test_a_report_about_a_class_depends_on_the_user_only_through_the_mechanism(name):
    """The kinds of queries of the audit's runs; those about targets against whole handlers."""
    runs = list(PrivateClassification.audit_runs(3, 2.0))[:1]
    queries = [query for run in runs for query in recorded_queries(*run)]
    one_each = {query.statistic.removeprefix("standardised_"): query for query in queries}
    assert set(one_each) == {
        *("row_count", "column_means", "class_step"),
        *("class_share", "root_curvature", "mean_score", "ranking"),
    }
    assert all(query.randomizer.epsilon == 2.0 for query in queries)
    users = {name: extreme_users(3)[name] for name in ("ones", "NaN")}
    assert audit_handler(one_each[name], users, num_reports=100, seed=0).passed


@pytest.mark.parametrize("share", [0.05, 0.11])
def test_a_rare_class_of_which_little_is_known_is_named(monkeypatch, share):
    """Where it may have less than 10 % of the rows, and while the AUC may be below .6."""
    table = people(3000, 2, 0, signal=0.0)
    rare = np.random.default_rng(0).random(len(table)) < share
    table["left"] = np.where(rare, "yes", "no")
    for score, named in ((0.62, True), (0.95, False)):
        told = Ranked(score, 0.02, 0.5)
        monkeypatch.setattr(class_holdout, "ranked", lambda *_, told=told: told)
        notes = fit(TWO, table, 8.0, rows_per_user=2).notes
        assert any("Rare: 'yes'" in note for note in notes) == named
