import math
from dataclasses import replace

import pytest

from ldp_flower import PrivacyPolicy
from ldp_flower.guarantee.budget import Cost
from ldp_flower.randomizers import HybridMechanism, RecordGaussian, RecordPeeling, SubsetHypercube


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_epsilon": 0}, "Expected max_epsilon > 0, got 0"),
        ({"max_epsilon": -1.0}, "Expected max_epsilon > 0, got -1.0"),
        ({"max_epsilon": math.nan}, "Expected max_epsilon > 0, got nan"),
        ({"max_epsilon": True}, "Expected max_epsilon to be a number, got True"),
        ({"max_epsilon": 1, "max_delta": 1}, "Expected 0 <= max_delta < 1, got 1"),
        ({"max_epsilon": 1, "max_delta": math.nan}, "Expected 0 <= max_delta < 1, got nan"),
        ({"max_epsilon": 1, "allow_inexact": "no"}, "Expected allow_inexact true or false"),
        ({"max_epsilon": 1, "max_rows": 0}, "Expected an integer max_rows >= 1, got 0"),
        ({"max_epsilon": 1, "num_records": 0}, "Expected an integer num_records >= 1, got 0"),
        ({"max_epsilon": 1, "features_public": 1}, "Expected features_public true or false"),
        ({"max_epsilon": 1, "unit": "row"}, "Expected unit in .*, got 'row'"),
    ],
)
def test_bad_limits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrivacyPolicy(**arguments)


def test_the_operators_policy_is_read_from_the_node():
    config = {"max-epsilon": 2, "allow-inexact": True, "max-rows": 9, "partition-id": 0}
    assert PrivacyPolicy.from_node_config(config) == PrivacyPolicy(2, 0.0, True, 9)
    assert PrivacyPolicy.from_node_config({"partition-id": 0}) is None
    with pytest.raises(ValueError, match="Expected max-epsilon to be a number, got '2'"):
        PrivacyPolicy.from_node_config({"max-epsilon": "2"})
    with pytest.raises(ValueError, match="Expected max-epsilon finite, got inf"):
        PrivacyPolicy.from_node_config({"max-epsilon": math.inf})
    with pytest.raises(ValueError, match=r"Expected an integer max-rows >= 1, got 2\.0"):
        PrivacyPolicy.from_node_config({"max-epsilon": 2, "max-rows": 2.0})
    for slip in ("max_rows", "Max-Rows", "max_epsilon", "Rehearsal", "ledger_path", "reply_after"):
        with pytest.raises(ValueError, match=f"Expected the key '.*', got '{slip}'"):
            PrivacyPolicy.from_node_config({"max-epsilon": 2, slip: 1})
    with pytest.raises(ValueError, match="Expected max-epsilon > 0, got 0"):
        PrivacyPolicy.from_node_config({"max-epsilon": 0})
    silo = {"max-epsilon": 2.0, "unit": "record"}
    with pytest.raises(ValueError, match="Expected num-records"):
        PrivacyPolicy.from_node_config(silo)
    found = PrivacyPolicy.from_node_config(silo | {"num-records": 800, "features-public": True})
    assert found == PrivacyPolicy(2.0, unit="record", num_records=800, features_public=True)


def test_an_app_can_only_tighten():
    operators = PrivacyPolicy(2.0, 1e-6, allow_inexact=False, max_rows=100)
    loose = PrivacyPolicy(9.0, 1e-3, allow_inexact=True)
    assert operators.tightened_by(loose) == operators
    assert operators.tightened_by(None) == operators
    tight = PrivacyPolicy(1.0, 0.0, allow_inexact=True, max_rows=5)
    assert operators.tightened_by(tight) == PrivacyPolicy(1.0, 0.0, False, 5)
    silo = PrivacyPolicy(2.0, unit="record", num_records=800, features_public=True)
    other = PrivacyPolicy(2.0, unit="record", num_records=7, features_public=True)
    assert silo.tightened_by(other) == silo
    assert silo.tightened_by(operators).unit == "user"
    assert not silo.tightened_by(operators).features_public


def test_what_a_policy_allows():
    policy = PrivacyPolicy(2.0)
    assert policy.allows(SubsetHypercube(2.0, 4))
    assert not policy.allows(SubsetHypercube(2.0000001, 4))
    assert not policy.allows(HybridMechanism(1.0))
    assert PrivacyPolicy(2.0, allow_inexact=True).allows(HybridMechanism(1.0))


def test_protecting_records_only_must_be_allowed():
    mechanism = RecordGaussian(2.0, 4, delta=1e-3)
    policy = PrivacyPolicy(2.0, 1e-3, allow_inexact=True)
    assert not policy.allows(mechanism)
    assert replace(policy, unit="record").allows(mechanism)
    assert replace(policy, unit="record").allows(HybridMechanism(1.0))  # protects more


def test_each_report_of_a_plan_must_have_its_share_of_epsilon():
    policy = PrivacyPolicy(2.0, 1e-3, allow_inexact=True, unit="record", min_epsilon=0.01)
    assert policy.allows(RecordGaussian(2.0, 4, delta=1e-3, steps=200))
    assert not policy.allows(RecordGaussian(2.0, 4, delta=1e-3, steps=201))


def test_the_cost_of_a_plan_is_that_of_all_its_steps():
    mechanism = RecordGaussian(2.0, 4, delta=1e-3, steps=50)
    cost = Cost.of(mechanism, salt=7)
    assert (cost.epsilon, cost.delta, cost.steps) == (2.0, 1e-3, 50)
    assert cost.plan == Cost.of(replace(mechanism, radius=3.0, dim=9), salt=7).plan
    for other in (
        Cost.of(mechanism, salt=8),
        Cost.of(replace(mechanism, epsilon=1.0), salt=7),
        Cost.of(replace(mechanism, delta=1e-4), salt=7),
        Cost.of(replace(mechanism, steps=51), salt=7),
        Cost.of(RecordPeeling(2.0, 4, 1.0, 1e-3, 50), salt=7),
    ):
        assert other.plan != cost.plan


@pytest.mark.parametrize("cost", [(math.inf, 0), (math.nan, 0), (-1, 0), (1, 1), (1, math.nan)])
def test_a_cost_that_is_not_finite_is_refused(cost):
    with pytest.raises(ValueError, match="Expected a finite privacy cost"):
        Cost(*cost)


@pytest.mark.parametrize(
    ("policy", "mechanism", "objection"),
    [
        (PrivacyPolicy(1.5), SubsetHypercube(2.0, 4), "epsilon 2.0 is above max-epsilon 1.5"),
        (PrivacyPolicy(2.0), HybridMechanism(1.0), "it is inexact, and allow-inexact is false"),
        (
            PrivacyPolicy(2.0, min_epsilon=0.5),
            SubsetHypercube(0.25, 4),
            "epsilon 0.25 is below min-epsilon 0.5",
        ),
        (
            PrivacyPolicy(2.0, max_width=3),
            SubsetHypercube(1.0, 4),
            "its 4 coordinates are more than max-width 3",
        ),
        (
            PrivacyPolicy(2.0, unit="record", allow_inexact=True),
            RecordGaussian(2.0, 4, delta=1e-3),
            "delta 0.001 is above max-delta 0.0",
        ),
        (
            PrivacyPolicy(2.0, max_delta=0.5, allow_inexact=True),
            RecordGaussian(2.0, 4, delta=1e-3),
            "it protects records, and unit is user",
        ),
        (PrivacyPolicy(2.0), SubsetHypercube(2.0, 4), None),
    ],
)
def test_what_a_policy_has_against_a_mechanism_is_said(policy, mechanism, objection):
    assert policy.objection(mechanism) == objection


def test_keys_that_look_like_misspelt_settings_are_found():
    slips = {"reherasal": "rehearsal", "max-rowz": "max-rows", "max-epsilom": "max-epsilon"}
    own = ["data-path", "partition-id", "num-partitions", "city", "max-rows", "path"]
    assert PrivacyPolicy.nearly_settings([*slips, *own]) == slips
