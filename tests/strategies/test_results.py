"""Every public result tells a table, a picture, a page and plain values that make it again."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, MetricRecord
from matplotlib.figure import Figure

from ldp_flower import Categories, Numeric, Schema, simulate
from ldp_flower.strategies import (
    FedAvgResult,
    LdpStrategy,
    LinearResult,
    NetworkEvaluationResult,
    PrivacySpent,
    RecordDpSgdResult,
    Result,
    SparseResult,
)
from ldp_flower.strategies.catalogue import PROTOCOLS, PUBLIC
from ldp_flower.strategies.table_models.network_evaluation import SiteScore

# Whose runs take seconds; their results are of the same classes as others'.
SLOW = {"SparseMean", "SparseRegression", "MultiRoundRegression"}
RESULTS = {each for each in PUBLIC.values() if isinstance(each, type) and issubclass(each, Result)}
SCHEMA = Schema(
    {"age": Numeric(0, 100), "city": Categories(["Rome", "<b>$Oslo$</b>"])},
    "income",
    Numeric(0, 1000, centre=300, scale=100),
)


def made_by_hand():
    """Return results of classes of which no quick run is."""
    numbers = np.array([1.0, 0.2, 0.0])
    yield SparseResult(coef=numbers, std_error=numbers / 5, inclusion=np.array([1.0, 0.9, 0.1]))
    weights = np.ones((2, 3), np.float32), np.array(7), np.zeros(0)
    model = ArrayRecord(list(weights))
    yield FedAvgResult(model=model, noise_to_signal=0.2, path_length=3.0, noise=float("nan"))
    sites = [SiteScore(1, 40, 0.8, 0.05), SiteScore(2, 9, float("nan"), 0.3)]
    errors = {"std_error": 0.04, "users_std_error": 0.02}
    yield NetworkEvaluationResult(metric="accuracy", value=0.8, clip=1.0, sites=sites, **errors)
    rounds = {1: MetricRecord({"nodes": 2, "records": 60.0, "epsilon-spent": 0.7})}
    yield RecordDpSgdResult(arrays=model, train_metrics_clientapp=rounds, planned_rounds=1)
    yield Result(arrays=ArrayRecord({"weights": ArrayRecord(list(weights))["0"]}))


def runs():
    for name, protocol in PROTOCOLS.items():
        if name not in SLOW and issubclass(protocol, LdpStrategy):
            for strategy, users in list(protocol.audit_runs(4, 4.0))[:1]:
                yield name, simulate(strategy, users, seed=0)
    *_, (strategy, users) = PROTOCOLS["Distribution"].audit_runs(4, 4.0)  # of groups
    yield "Distribution by", simulate(strategy, users, seed=0)
    for result in made_by_hand():
        yield type(result).__name__, result


@pytest.fixture(scope="module")
def found():
    return dict(runs())


@pytest.mark.slow
def test_all_public_results_are_looked_at(found):
    assert {type(result) for result in found.values()} == RESULTS


def test_every_round_tells_what_was_spent_so_far(found):
    for name, result in found.items():
        if result.privacy is not None and name != "Series":  # which is of several runs
            rounds = list(result.train_metrics_clientapp.values())
            spent = [metrics["epsilon-spent"] for metrics in rounds]
            assert len(spent) == len(result.steps) - 1 and spent == sorted(spent), name
            assert spent[-1] == result.privacy.epsilon, name


def test_a_result_is_made_again_from_what_json_keeps(found):
    for name, result in found.items():
        again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
        assert type(again) is type(result), name
        np.testing.assert_equal(again.to_dict(), result.to_dict())
        np.testing.assert_equal(
            [array.numpy() for array in again.arrays.values()],
            [array.numpy() for array in result.arrays.values()],
        )
        assert repr(again) == repr(result)
        assert type(result).from_dict(result.to_dict()).privacy == result.privacy


def test_a_result_has_a_table_of_names_and_numbers(found):
    for name, result in found.items():
        table = result.table()
        assert len(table) and len(table.columns) > 1, name
        assert all(isinstance(entry, str) for entry in table.iloc[:, 0]), name
        assert "number" in {"number" if kind.kind in "iuf" else "" for kind in table.dtypes}, name


def test_a_result_is_drawn_where_it_is_told_to(found):
    for name, result in found.items():
        axes = Figure().subplots()
        assert result.plot(axes) is axes
        drawn = [axes, *axes.child_axes]
        assert any(each.has_data() for each in drawn), name
        assert any(each.get_xlabel() for each in drawn), name


def test_a_page_tells_the_question_the_guarantee_and_who_answered(found):
    for name in ("LabelLdpIht", "HeavyHitters", "PrivateEvaluation", "PeelingTransfer"):
        result = found[name]
        text = result.to_html()
        question = PROTOCOLS[name].card.question
        assert question[:1].upper() + question[1:] in text and result.question == question
        assert f"Estimated by {name}" in text and text.count("<svg") == 1
        part = f" ({result.privacy.part} only)" if name == "LabelLdpIht" else ""
        assert f"Each {result.privacy.unit}{part} is protected with epsilon 4" in text
        assert "known seed, which protects nobody" in text
        assert all(step.mechanism in text for step in result.steps)
        assert result._repr_html_() in text


def test_a_page_explains_its_columns(found):
    for name, result in {type(result): (name, result) for name, result in found.items()}.values():
        assert ("share" in result.table()) == (
            "Share: the estimated part of the users" in result.to_html()
        ), name
    assert "share" in found["Counts"].table() and "share" not in found["LdpIht"].table()


def test_a_representation_is_no_address(found):
    for result in found.values():
        assert not re.search("0x[0-9a-f]{6}|<ldp_flower", repr(result))


def fit(**given):
    coef = np.array([0.5, 0.25, 0.1, -0.1])
    return LinearResult(coef=coef, std_error=coef**2, schema=SCHEMA, **given)


def test_a_table_with_a_schema_is_in_its_units():
    """Age has the scale 25 and the centre 50, income 100 and 300."""
    table = fit().table()
    assert list(table["name"]) == SCHEMA.names
    first, *others = table["unit"]
    assert first == "income at the columns' centres"
    assert others == ["income / age", "income", "income"]
    np.testing.assert_allclose(table["coefficient"], [350, 1, 10, -10])
    np.testing.assert_allclose(table["standard error"], [25, 0.25, 1, 1])
    rows = {"age": [50, 51, 50], "city": [None, None, "Rome"]}
    predicted = SCHEMA.in_units(SCHEMA.features(rows) @ fit().coef)
    both = 10 / 2 + 10 / 2  # Rome is one and Oslo is not, where either would be a half
    np.testing.assert_allclose(predicted, [350, 351, 350 + both])


def test_a_coefficient_that_is_left_out_has_no_error():
    coef = np.array([0.5, 0.0])
    table = LinearResult(coef=coef, std_error=coef / 10).table()
    assert np.isnan(table.loc[1, ["standard error", "95 % from", "95 % to"]].astype(float)).all()
    assert table.loc[1, "coefficient"] == 0


def test_names_of_a_table_are_text_on_a_page():
    text = fit(notes=["1 < 2 & <i>"]).to_html()
    assert "<b>" not in text and "<i>" not in text
    assert "city=&lt;b&gt;$Oslo$&lt;/b&gt;" in text and "1 &lt; 2 &amp; &lt;i&gt;" in text
    assert "the target is income" in text


def test_many_coefficients_are_shown_by_size():
    coef = np.zeros(500)
    coef[[7, 400]] = 1.0, -2.0
    result = LinearResult(coef=coef, std_error=np.abs(coef) / 9)
    shown = re.findall(r">feature (\d+)<", result.to_html())
    assert shown[:2] == ["400", "7"] and "and 460 rows more" in result.to_html()
    assert len(result.plot().get_yticks()) == 2


PLAIN = fit(privacy=PrivacySpent(1.0, 0.0, "user", True, False)).to_dict()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "Popen"}, "got kind 'Popen'"),
        ({"kind": ["LinearResult"]}, "got kind"),
        ({"coef": "import os"}, "coef: Expected a list of numbers, got 'import os'"),
        ({"coef": [["a"]]}, "coef: Expected numbers"),
        ({"coef": [[1.0], [1.0, 2.0]]}, "coef: Expected rows of one length"),
        ({"num_users": 1.5}, "num_users: Expected a value of type int, got 1.5"),
        ({"num_users": True}, "num_users: Expected a value of type int, got True"),
        ({"notes": [1]}, "notes: Expected a value of type str"),
        ({"notes": "text"}, "notes: Expected a list"),
        ({"privacy": {"epsilon": "1"}}, "privacy: epsilon: Expected a number"),
        ({"privacy": {"epsilon": 1.0}}, "without .*'delta'"),
        ({"schema": {"columns": {"x": {"low": "a"}}}}, "schema: "),
        ({"schema": {"columns": {"x": {"low": 0, "high": 1, "__class__": 1}}}}, "schema: "),
        ({"steps": [{"number": 1}]}, "steps: Expected the values of a Step"),
        ({"train_metrics_clientapp": {"one": {}}}, "Expected keys of type int"),
        ({"arrays": {}}, "got 'arrays' as well|arrays"),
        ({"surplus": 1}, "got 'surplus' as well"),
    ],
)
def test_what_is_no_result_is_refused_with_a_sentence(change, told):
    if change == {"arrays": {}}:
        assert Result.from_dict(PLAIN | change).arrays  # made of the coefficients, as ever
        return
    with pytest.raises(ValueError, match=told) as refused:
        Result.from_dict(PLAIN | change)
    assert str(refused.value).startswith("Expected a ")


@pytest.mark.parametrize("plain", [None, [], "text", {}, 7])
def test_what_is_no_dict_of_a_result_is_refused(plain):
    with pytest.raises(ValueError, match="Expected a result as to_dict gives it"):
        Result.from_dict(plain)


def test_another_class_does_not_take_it():
    with pytest.raises(ValueError, match="got kind 'LinearResult'"):
        SparseResult.from_dict(PLAIN)
    short = {key: value for key, value in PLAIN.items() if key != "coef"}
    with pytest.raises(ValueError, match=r"without \['coef'\]"):
        Result.from_dict(short)


@dataclass(repr=False, kw_only=True)
class MedianResult(Result):
    median: float
    rounds: int = 8
    pairs: tuple[tuple[str, float], ...] = ()
    shares: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = field(default_factory=dict)


def test_a_class_of_an_apps_own_needs_nothing_but_its_fields():
    found = MedianResult(median=2.5, pairs=(("a", 1.0),), shares={"x": np.array([[0.5, 0.5]])})
    assert found.table().to_dict("list") == {"name": ["median", "rounds"], "value": [2.5, 8]}
    assert "median" in found.to_html() and found.to_html().count("<svg") == 1
    again = Result.from_dict(json.loads(json.dumps(found.to_dict())))
    assert type(again) is MedianResult and again.pairs == found.pairs
    np.testing.assert_array_equal(again.shares["x"], found.shares["x"])
    assert Result().to_html()


@pytest.mark.parametrize("dtype", ["|O", "O", "nonsense", "<U4", "V8"])
def test_an_array_of_objects_is_refused(dtype):
    plain = next(r for r in made_by_hand() if type(r) is FedAvgResult).to_dict()
    plain["model"]["0"]["dtype"] = dtype
    with pytest.raises(ValueError, match="model: Expected an array's type, shape and bytes"):
        Result.from_dict(plain)


def test_what_cannot_be_told_in_plain_values_says_so():
    with pytest.raises(TypeError, match="with a object in it"):
        Result(notes=[object()]).to_dict()
