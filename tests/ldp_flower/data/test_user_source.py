"""What clients and simulations take for the users of a node."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import GeneratedUsers, Users, simulate
from ldp_flower.data.users import UserSource
from ldp_flower.strategies import NonInteractiveIht

DIM = 4


def rows(number=300):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (number, DIM))
    return Users.from_rows(x, x[:, 0])


class Borrowed:
    """Users of another class that answer as :class:`Users` do."""

    def __init__(self, users):
        self._users = users
        self.ids, self.first = users.ids, users.first
        self.has_targets, self.num_features = users.has_targets, users.num_features

    def __len__(self):
        return len(self._users)

    def take(self, users, max_rows=None):
        return self._users.take(users, max_rows)

    def partition(self, index, num_partitions):
        return type(self)(self._users.partition(index, num_partitions))


def test_users_at_hand_and_generated_ones_are_sources():
    everyone = rows()
    generated = GeneratedUsers(300, DIM, everyone.take)
    for source in (everyone, generated, Borrowed(everyone)):
        assert isinstance(source, UserSource)
    strategy = NonInteractiveIht(DIM, sparsity=1, epsilon=4.0)
    coefs = [
        simulate(strategy, source, seed=1, num_nodes=2).coef
        for source in (everyone, generated, Borrowed(everyone))
    ]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    np.testing.assert_array_equal(coefs[0], coefs[2])


@pytest.mark.parametrize("other", [[], np.zeros((3, DIM)), pd.DataFrame({"x": [1.0]}), None, {}])
def test_tables_are_none(other):
    assert not isinstance(other, UserSource)
    with pytest.raises(ValueError, match=r"see Users\.from_rows|make them by schema\.users"):
        simulate(NonInteractiveIht(DIM, sparsity=1, epsilon=4.0), other, seed=1)
