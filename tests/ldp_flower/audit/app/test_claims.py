"""What is claimed of a run by this library's own clients."""

import numpy as np
import pytest

from ldp_flower import Numeric, Schema, Users, simulate
from ldp_flower.audit.app.claims import Claims, Paid, per_user
from ldp_flower.guarantee.budget import Cost
from ldp_flower.strategies import Describe


def test_a_user_pays_for_the_questions_that_address_it():
    apart = [Paid(Cost(4.0, 1e-6), 7, low, low + 10) for low in (0, 10, 20)]
    assert per_user(apart) == Cost(4.0, 1e-6)
    assert per_user([*apart, Paid(Cost(1.0), 7, 15, 30)]).epsilon == 5.0
    # With another salt the same user may lie anywhere.
    assert per_user([*apart, Paid(Cost(1.0), 8, 0, 5)]).epsilon == 5.0


def test_a_plan_is_paid_once():
    steps = [Paid(Cost(3.0, 1e-6, "7 plan", 2), 7, 0, 10)] * 2
    assert per_user([*steps, Paid(Cost(1.0), 7, 0, 10)]) == Cost(4.0, 1e-6)


def test_a_run_of_disjoint_cohorts_claims_what_the_run_tells():
    schema = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)})
    users = Users.from_rows(np.full((6000, 3), 0.5), np.zeros(6000))
    claims = Claims()
    with claims.listening():
        result = simulate(Describe(schema, epsilon=2.0), users, seed=0)
    assert len(claims.own) > 1
    assert claims.of_run()[0] == pytest.approx(result.privacy.epsilon) == 2.0
