"""What a query can make a client hold at a time, and that it changes no estimate."""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.clients import respond
from ldp_flower.strategies import NonInteractiveIht


@pytest.mark.parametrize("entries", [1, 100, 1 << 24])
def test_wide_values_are_held_for_few_users_at_a_time(monkeypatch, entries):
    rng = np.random.default_rng(0)
    users = Users.from_rows(rng.uniform(-1, 1, (3000, 8)), rng.uniform(-1, 1, 3000))
    held = []
    real = respond.values_of

    def values_of(*args):
        values = real(*args)
        held.append(values.size)
        return values

    strategy = NonInteractiveIht(8, sparsity=1, epsilon=4.0)
    expected = simulate(strategy, users, seed=0).coef
    monkeypatch.setattr(respond, "ENTRIES", entries)
    monkeypatch.setattr(respond, "values_of", values_of)
    found = simulate(strategy, users, seed=0).coef
    np.testing.assert_allclose(found, expected, rtol=1e-9)  # sums of squares in another order
    assert max(held) <= max(entries, 9)  # a user has a feature more: a constant
