"""scikit-learn's face: its conventions, the same estimate as simulate's, and nothing silent."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from ldp_flower import Categories, Numeric, Schema, simulate
from ldp_flower.estimators import LdpClassifier, LdpRegressor
from ldp_flower.strategies import PrivateClassification, PrivateRegression, TooFewReports

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*predicts a public constant"),
    pytest.mark.filterwarnings("ignore:The classes .* are taken from y"),
]
COLUMNS = {"age": Numeric(18, 80), "sector": Categories(["public", "private"])}
WAGE = Schema(COLUMNS, target="wage", bounds=Numeric(0, 60))
PROMOTED = Schema(COLUMNS, target="promoted", bounds=Categories(["yes", "no"]))  # not sorted


def people(number=1000, rows=4, seed=0):
    rng = np.random.default_rng(seed)
    size = number * rows
    table = pd.DataFrame(
        {
            "person": np.repeat(np.arange(number), rows),
            "age": rng.integers(18, 80, size),
            "sector": rng.choice(["public", "private"], size),
        }
    )
    wage = 0.4 * table["age"] + 8 * (table["sector"] == "private") + rng.normal(0, 3, size)
    promoted = np.where(wage + rng.normal(0, 3, size) > 24, "yes", "no")
    return table.assign(wage=wage, promoted=promoted)


TABLE = people()


@parametrize_with_checks(
    [LdpRegressor(on_refusal="constant"), LdpClassifier(on_refusal="constant")]
)
def test_scikit_learns_own_checks(estimator, check):
    """All of them pass: no failure is expected."""
    check(estimator)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array], ids=["matrix", "array"])
def test_a_sparse_matrix_is_its_dense_one_bit_by_bit(kind):
    rows = np.random.default_rng(0).normal(0, 1, (2000, 3)) * [1, 1, 0]
    model = LdpRegressor(epsilon=8.0, random_state=0)
    dense, thin = (clone(model).fit(each, rows[:, 0]) for each in (rows, kind(rows)))
    assert (thin.predict(kind(rows[:9])) == dense.predict(rows[:9])).all()


def test_sample_weights_are_refused_with_the_ways_that_are_there():
    with pytest.raises(ValueError, match=r"got sample_weight\. All users count .* repeat rows"):
        LdpRegressor().fit(np.ones((9, 1)), np.ones(9), sample_weight=np.ones(9))


# ---------------------------------------------------------------------- the same estimate


def test_the_estimate_is_that_of_simulate_bit_by_bit():
    model = LdpRegressor(WAGE, epsilon=4.0, rows_per_user=4, random_state=5)
    assert model.fit(TABLE, TABLE["wage"], groups="person") is model
    strategy = PrivateRegression(WAGE, epsilon=4.0, rows_per_user=4)
    result = simulate(strategy, WAGE.users(TABLE, groups="person"), seed=5)
    assert np.array_equal(model.result_.coef, result.coef)
    assert np.array_equal(model.predict(TABLE), result.predict(TABLE))
    assert model.score(TABLE, TABLE["wage"]) == r2_score(TABLE["wage"], result.predict(TABLE)) > 0.6
    assert type(model.strategy) is PrivateRegression and model.strategy.schema == WAGE


def test_a_classification_is_that_of_simulate_with_sorted_labels():
    model = LdpClassifier(PROMOTED, epsilon=4.0, random_state=5)
    model.fit(TABLE, TABLE["promoted"], groups="person")
    strategy = PrivateClassification(PROMOTED, epsilon=4.0)
    result = simulate(strategy, PROMOTED.users(TABLE, groups="person"), seed=5)
    assert model.classes_.tolist() == ["no", "yes"]
    own = np.asarray(result.predict_proba(TABLE))  # as declared: yes first
    assert np.array_equal(model.predict_proba(TABLE), own[:, ::-1])
    assert np.array_equal(model.predict(TABLE), np.asarray(result.predict(TABLE)))
    assert model.score(TABLE, TABLE["promoted"]) > 0.7


def test_arrays_have_the_bounds_that_are_given():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (6000, 3))
    y = x @ [2.0, -1.0, 0.0] + rng.normal(0, 0.2, 6000)
    who = np.repeat(np.arange(1500), 4)
    model = LdpRegressor(epsilon=4.0, bounds=(-1, 1), target_bounds=(-4, 4), random_state=1)
    model.fit(x, y, groups=who)
    schema = Schema({f"x{i}": Numeric(-1, 1) for i in range(3)}, "target", Numeric(-4, 4))
    assert model.schema_ == schema
    table = {"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "target": y}
    result = simulate(PrivateRegression(schema, epsilon=4.0), schema.users(table, who), seed=1)
    assert np.array_equal(model.predict(x), result.predict(table))
    each = LdpRegressor(bounds=[(-1, 1), (-2, 2), (0, 3)], on_refusal="constant")
    with pytest.warns(UserWarning, match="public constant"):
        each.fit(x[:50], y[:50])
    assert each.schema_.columns["x2"] == Numeric(0, 3)


# ----------------------------------------------------------------------------- selection


def test_cross_validation_keeps_people_together_and_tells_fit_who_is_who():
    seen = []

    class Watched(LdpRegressor):
        def fit(self, X, y, groups=None):
            seen.append(np.asarray(groups))
            return super().fit(X, y, groups)

    model = Watched(WAGE, epsilon=8.0, rows_per_user=4, random_state=0)
    who = TABLE["person"].to_numpy()
    options = {"cv": GroupKFold(2), "params": {"groups": who}}
    plain = cross_val_score(model, TABLE, TABLE["wage"], groups=who, **options)
    with sklearn.config_context(enable_metadata_routing=True):  # fit asks for groups by default
        routed = cross_validate(model, TABLE, TABLE["wage"], **options)["test_score"]
    assert np.array_equal(plain, routed) and min(plain) > 0.5
    assert [len(np.unique(groups)) for groups in seen] == [500] * 4
    assert not set(seen[0]) & set(seen[1])


def test_searches_and_pipelines_reach_it():
    pipeline = make_pipeline(
        FunctionTransformer(lambda table: table.assign(age=table["age"].clip(18, 80))),
        LdpRegressor(WAGE, rows_per_user=4, random_state=0, on_refusal="constant"),
    )
    grid = {"ldpregressor__epsilon": [0.05, 8.0]}
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(2))
    who = TABLE["person"]
    with pytest.warns(UserWarning, match="public constant"):
        search.fit(TABLE, TABLE["wage"], groups=who, ldpregressor__groups=who)
    assert search.best_params_ == {"ldpregressor__epsilon": 8.0} and search.best_score_ > 0.5


def test_the_area_under_the_curve_is_of_the_right_class():
    """Scorers take the last of classes_ for the positive one, whatever a schema declares."""
    model = LdpClassifier(PROMOTED, epsilon=8.0, random_state=0)
    options = {"cv": GroupKFold(2), "params": {"groups": TABLE["person"]}, "scoring": "roc_auc"}
    scores = cross_val_score(model, TABLE, TABLE["promoted"], groups=TABLE["person"], **options)
    assert min(scores) > 0.75


def test_labels_keep_their_type():
    for labels, declared in (
        ([0, 1], (0, 1)),
        ([False, True], (False, True)),
        ([False, True], (0, 1)),
        ([0, 1], (False, True)),
        ([2.0, 7.0], (7, 2)),
    ):
        y = np.array(labels)[(TABLE["promoted"] == "yes").astype(int)]
        if y.dtype == bool:
            y = pd.array(y, dtype="boolean")  # of which scikit-learn makes numbers
        schema = Schema(COLUMNS, "promoted", Categories(declared))
        model = LdpClassifier(schema, on_refusal="constant", random_state=0)
        with pytest.warns(UserWarning, match="public constant"):
            model.fit(TABLE[:40], [y[0]] * 40)  # the other class is made of what is declared
        assert model.classes_.tolist() == labels
        with pytest.warns(UserWarning, match="public constant"):
            model.fit(TABLE[:40], y[:40])
        kind = np.array(labels).dtype
        assert model.classes_.tolist() == labels and model.classes_.dtype == kind
        assert model.predict(TABLE[:3]).dtype == kind


# ------------------------------------------------------------------------ nothing silent


def test_a_refusal_is_raised_unless_a_constant_will_do():
    few = TABLE[:200]
    with pytest.raises(TooFewReports):
        LdpRegressor(WAGE).fit(few, few["wage"], groups="person")
    model = LdpRegressor(WAGE, on_refusal="constant")
    with pytest.warns(UserWarning, match="predicts a public constant"):
        model.fit(few, few["wage"], groups="person")
    assert model.result_ is None and (model.predict(few) == 30.0).all()  # the middle of the bounds
    classes = LdpClassifier(PROMOTED, on_refusal="constant")
    with pytest.warns(UserWarning, match="predicts a public constant"):
        classes.fit(few, few["promoted"], groups="person")
    assert (classes.predict_proba(few) == 0.5).all()


def test_what_is_beyond_the_bounds_and_what_is_taken_from_labels_is_said(caplog):
    x = np.linspace(0, 100, 60)[:, None]
    LdpRegressor(on_refusal="constant").fit(x, x[:, 0])
    for name in ("x0", "target"):
        numbers = f"58 of 60 numbers in column '{name}' are outside [-3, 3] and count as the bound."
        assert numbers in caplog.text
    with pytest.warns(UserWarning, match=r"The classes \[0, 1\] are taken from y"):
        LdpClassifier(on_refusal="constant", bounds=(0, 100)).fit(x, np.arange(60) % 2)


def test_arguments_without_effect_and_other_targets_are_refused():
    y = TABLE["wage"]
    for wrong, match in (
        (LdpRegressor(WAGE, bounds=(0, 1)), "no bounds with a schema"),
        (LdpRegressor(WAGE, target_bounds=(0, 1)), "no target_bounds with a schema"),
        (LdpClassifier(PROMOTED, classes=["a", "b"]), "no classes with a schema"),
        (LdpRegressor(PROMOTED), "whose target is a number"),
        (LdpClassifier(WAGE), "whose target is Categories"),
        (LdpRegressor(Schema(COLUMNS)), "a schema with a target"),
        (LdpRegressor(WAGE, on_refusal="zero"), "Expected on_refusal in"),
        (LdpRegressor(bounds=(1, 2, 3)), "bounds as"),
    ):
        rows = TABLE if wrong.schema is not None else TABLE[["age"]]
        with pytest.raises(ValueError, match=match):
            wrong.fit(rows, TABLE["promoted"] if isinstance(wrong, LdpClassifier) else y)
    with pytest.raises(ValueError, match=r"Expected labels among \['yes', 'no'\], got \['maybe'\]"):
        LdpClassifier(PROMOTED).fit(TABLE, ["maybe"] * len(TABLE))
    with pytest.raises(ValueError, match="a column 'sector' in the table, got none"):
        LdpRegressor(WAGE).fit(TABLE[["age"]], y)
    for X, groups, match in (
        (TABLE, "who", "a column 'who' in the table, got none"),
        (TABLE[["age", "sector"]].to_numpy(), "person", "with named columns"),
        (TABLE, TABLE["person"].sample(frac=1, random_state=0), "groups with the index"),
        (TABLE[["age", "age", "sector"]], None, "one column 'age' in the table, got 2"),
    ):
        with pytest.raises(ValueError, match=match):
            LdpRegressor(WAGE).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="Expected a Schema, got 'wage'"):
        LdpRegressor("wage").fit(TABLE, y)
    with pytest.raises(ValueError, match="an integer random_state"):
        LdpRegressor(WAGE, random_state=np.random.RandomState(0)).fit(TABLE, y)
    with pytest.raises(ValueError, match=r"2 columns, those of .* without column names, got 1"):
        LdpRegressor(WAGE).fit(np.ones((3, 1)), [1, 2, 3])


def test_what_goes_into_a_server_app_is_there_before_and_after_a_fit():
    assert LdpRegressor(WAGE, epsilon=2.0).strategy.epsilon == 2.0
    with pytest.raises(NotFittedError, match="has no schema"):
        _ = LdpRegressor().strategy
    copy = clone(LdpRegressor(WAGE, epsilon=2.0).set_params(epsilon=3.0, method="auto"))
    assert copy.get_params()["epsilon"] == copy.strategy.epsilon == 3.0
    assert copy.schema is not None and not hasattr(copy, "schema_")


def test_it_says_that_it_simulates():
    page = LdpRegressor(WAGE)._repr_html_()
    assert "nobody is protected yet" in page and "server_app.py" in page
    for kind in (LdpRegressor, LdpClassifier):
        assert "protects no user" in kind.__doc__


@pytest.mark.slow
def test_probabilities_come_out_of_cross_validation_and_stacking():
    """scikit-learn numbers the labels for these; both failed with "Expected labels among"."""
    table = people()
    promoted = table["promoted"].to_numpy()
    model = LdpClassifier(PROMOTED, epsilon=8.0, random_state=0)
    columns = table[["age", "sector"]]
    found = cross_val_predict(model, columns, promoted, method="predict_proba", cv=3)
    assert roc_auc_score(promoted == "yes", found[:, 1]) > 0.8  # "no" comes before "yes"
    ages = LdpClassifier(epsilon=8.0, bounds=(0, 100), classes=["yes", "no"], random_state=0)
    stacked = StackingClassifier([("ages", ages)], LogisticRegression(), cv=3)
    stacked.fit(table[["age"]], promoted)
    assert set(stacked.predict(table[["age"]])) == {"no", "yes"}
    with pytest.raises(ValueError, match="Expected labels among"):
        model.fit(columns, np.zeros(len(table), int))  # labels that are no numbering of all classes


@pytest.mark.slow
def test_tables_of_other_libraries_are_taken_or_refused_by_name():
    pa = pytest.importorskip("pyarrow")
    table = people()
    wage = table["wage"].to_numpy()
    columns = {name: table[name].tolist() for name in ("age", "sector")}
    frame = LdpRegressor(WAGE, epsilon=8.0, random_state=0).fit(pd.DataFrame(columns), wage)
    model = LdpRegressor(WAGE, epsilon=8.0, random_state=0).fit(pa.table(columns), wage)
    np.testing.assert_array_equal(model.result_.coef, frame.result_.coef)
    whole = columns | {"wage": list(wage)}
    of_arrow, of_lists = WAGE.users(pa.table(whole)), WAGE.users(whole)
    np.testing.assert_array_equal(of_arrow.features, of_lists.features)

    class LazyFrame:  # as that of polars
        def collect(self):
            return pa.table(whole)

    class Relation:  # as that of DuckDB
        def to_arrow_table(self):
            return pa.table(whole)

    dataset = pytest.importorskip("pyarrow.dataset").dataset(pa.table(whole))
    for query in (LazyFrame(), Relation(), dataset):
        np.testing.assert_array_equal(WAGE.users(query).features, of_lists.features)
        again = LdpRegressor(WAGE, epsilon=8.0, random_state=0).fit(query, wage)
        np.testing.assert_array_equal(again.result_.coef, frame.result_.coef)
    with pytest.raises(ValueError, match="numbers in column 'sector', got 'p"):
        LdpRegressor(epsilon=8.0).fit(pd.DataFrame(columns), wage)
    with pytest.raises(ValueError, match="a column 'age', one entry a row, got 'forty'"):
        WAGE.users(whole | {"age": "forty"})
