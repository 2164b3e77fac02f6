"""Noise at the node: domains hold in integers, costs are what plans charge, and sums are right."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.randomizers import BallSum, CellSum, randomizer_from_config
from ldp_flower.randomizers.discrete_gaussian import SIGMA
from ldp_flower.randomizers.sum_budget import plan_rho
from ldp_flower.randomizers.sums import PARTS
from ldp_flower.randomness import KeyedRandom, derive

ANY = st.floats(width=64, allow_nan=True, allow_infinity=True)
BALL, CELLS = BallSum(1.0, dim=5, radius=2.0), CellSum(1.0, dim=5)


@settings(deadline=None, max_examples=300)
@given(values=arrays(np.float64, (4, 5), elements=ANY))
def test_any_two_values_are_as_near_as_the_plan_is_charged_for(values):
    """Whatever they are: the squared distance is checked in integers."""
    for mechanism in (BALL, CELLS):
        with np.errstate(all="ignore"):  # as the client's
            found = mechanism.integers(mechanism._own(values))
        assert found.dtype == np.int64
        most = math.floor(mechanism.diameter**2 * mechanism.one**2 + 0.5)
        for one in found:
            for other in found:
                assert int(((one - other) ** 2).sum()) <= most
        assert (found >= 0).all() or mechanism is BALL


def test_points_at_the_border_stay_within():
    rng = np.random.default_rng(0)
    for dim in (1, 2, 40, 999):
        mechanism = BallSum(2.0, dim=dim)
        unit = rng.standard_normal((500, dim))
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        found = mechanism.integers(np.concatenate([unit, unit * 1e300, np.eye(dim)[:3]]))
        assert ((found * found).sum(axis=1) <= mechanism.one**2).all()
        np.testing.assert_allclose(found[:500] / mechanism.one, unit, atol=1.01 / mechanism.one)
        shares = rng.dirichlet(np.full(dim, 0.3), 500)
        cells = CellSum(2.0, dim=dim)
        found = cells.integers(shares)
        assert (found.sum(axis=1) == cells.one).all() and (found >= 0).all()
        np.testing.assert_allclose(found / cells.one, shares, atol=1.01 / cells.one)


@pytest.mark.parametrize("kind", [BallSum, CellSum])
@pytest.mark.parametrize("parts", [PARTS, 870, 20])
def test_a_report_costs_its_part_of_the_budget_and_no_more(kind, parts):
    mechanism = kind(1.0, 1e-6, 3, parts)
    spent = (mechanism.diameter * mechanism.one) ** 2 / (2 * SIGMA**2)
    allowed = plan_rho(1.0, 1e-6) * parts / PARTS
    assert spent <= allowed
    larger = (mechanism.diameter * (mechanism.one + 1)) ** 2 / (2 * SIGMA**2)
    assert larger > allowed


def test_a_plan_is_paid_once_and_is_worth_its_parts():
    cost = Cost.of(BallSum(1.0, 1e-6, 3, 217), 5)
    assert cost == Cost(1.0, 1e-6, "5 NodeSum 1.0 1e-06", PARTS, 217)
    # Both kinds of sums share one plan; another epsilon is another one.
    assert Cost.of(CellSum(1.0, 1e-6, 9, 10), 5).plan == cost.plan
    assert Cost.of(CellSum(2.0, 1e-6, 9, 10), 5).plan != cost.plan


def test_an_operator_has_to_allow_it():
    mechanism = BallSum(1.0, 1e-6, 3, 5000)
    usual = PrivacyPolicy(2.0, max_delta=1e-5)
    assert "noise is user" in usual.objection(mechanism)
    allowing = PrivacyPolicy(2.0, max_delta=1e-5, noise="node")
    assert allowing.allows(mechanism)
    assert "delta" in PrivacyPolicy(2.0, noise="node").objection(mechanism)
    assert "above max-epsilon" in allowing.objection(BallSum(3.0, 1e-6, 3))
    # A report whose part is tiny costs next to nothing: a server could ask without end.
    assert "min-epsilon" in allowing.objection(BallSum(1.0, 1e-6, 3, 9))
    assert usual.tightened_by(allowing).noise == allowing.tightened_by(usual).noise == "user"
    assert allowing.tightened_by(allowing).noise == "node"
    with pytest.raises(ValueError, match="Expected noise in"):
        PrivacyPolicy(1.0, noise="server")


def test_the_mean_of_nodes_has_the_stated_error():
    """Sixty sums of three nodes: a right error is within 40 % of the spread but for 1 in 10^5."""
    rng = np.random.default_rng(1)
    mechanism = BallSum(1.0, 1e-6, 4, 2500)
    values = rng.uniform(-0.5, 0.5, (300, 4))
    found = []
    for run in range(60):
        sums = [
            mechanism.report(
                mechanism.total(values[node::3]),
                KeyedRandom(derive(run, node, np.arange(1))),
            )
            for node in range(3)
        ]
        found.append(mechanism.of_sums(sum(sums), 300, 3))
    means = np.array([each.mean for each in found])
    assert means.std(axis=0, ddof=1).mean() == pytest.approx(found[0].std_error[0], rel=0.2)
    far = np.abs(means.mean(axis=0) - values.mean(axis=0))
    assert (far < 5 * found[0].std_error / math.sqrt(60) + 1e-6).all()


@pytest.mark.parametrize("mechanism", [BALL, CELLS])
def test_it_crosses_the_wire(mechanism):
    assert randomizer_from_config(mechanism.to_config()) == mechanism


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": 0.0}, "0 < delta < 1"),
        ({"delta": 1e-40}, "delta >= 1e-30"),
        ({"dim": 0}, "dim >= 1"),
        ({"parts": 0}, "1 <= parts <= 10000"),
        ({"parts": PARTS + 1}, "1 <= parts <= 10000"),
        ({"epsilon": 1e-5, "parts": 1}, "Expected a larger epsilon or more parts"),
    ],
)
def test_parameters_are_checked(given, message):
    with pytest.raises(ValueError, match=message):
        BallSum(**{"epsilon": 1.0, **given})


def test_an_operator_who_allows_noise_at_the_node_without_a_delta_is_told():
    with pytest.raises(ValueError, match='Expected max-delta > 0 with noise="node"'):
        PrivacyPolicy.from_node_config({"max-epsilon": 2.0, "noise": "node"})
    allowed = {"max-epsilon": 2.0, "noise": "node", "max-delta": 1e-5}
    assert PrivacyPolicy.from_node_config(allowed).noise == "node"
