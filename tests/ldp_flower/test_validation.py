"""Arguments that are no numbers, or NumPy's, wherever numbers are taken."""

from dataclasses import fields
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import numpy as np
import pytest

from ldp_flower import Numeric, PrivacyPolicy, Users, plan, simulate
from ldp_flower.accounting import (
    GaussianEvent,
    RandomizedResponseEvent,
    noise_multiplier_epsilon,
    total_epsilon,
)
from ldp_flower.randomizers import Codebook, SubsetHypercube, randomizer_from_config
from ldp_flower.strategies import HeavyHitters, LabelLdpIht, LdpFedAvg, LdpIht, UserLevelMean
from ldp_flower.validation import check_fraction, check_integer, check_positive, plain

NO_NUMBERS = ["2.0", None, True, np.True_, [1, 2], Fraction(2), Decimal(2), 2j]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    "construct",
    [
        lambda epsilon: LdpIht(8, sparsity=2, epsilon=epsilon),
        lambda epsilon: LdpFedAvg(epsilon=epsilon),
        lambda epsilon: LabelLdpIht(8, sparsity=2, epsilon=epsilon),
        lambda epsilon: HeavyHitters(100, epsilon=epsilon),
        lambda epsilon: SubsetHypercube(epsilon, 8),
        lambda epsilon: PrivacyPolicy(max_epsilon=epsilon),
    ],
)
def test_an_epsilon_that_is_no_number_is_refused_by_name(construct, value):
    with pytest.raises(ValueError, match=r"Expected (max_)?epsilon to be a number, got"):
        construct(value)


@pytest.mark.parametrize(
    ("construct", "message"),
    [
        (lambda: LdpIht(8.0, sparsity=2, epsilon=2.0), r"an integer dim >= 1, got 8\.0"),
        (lambda: LdpIht(8, sparsity=2.0, epsilon=2.0), r"an integer 1 <= sparsity <= 8, got 2\.0"),
        (lambda: LdpIht("8", epsilon=2.0), r"an integer dim >= 1, got '8'"),
        (
            lambda: HeavyHitters("100", epsilon=2.0),
            "an integer 2 <= domain_size <= 1099511627776, got '100'",
        ),
        (
            lambda: UserLevelMean(8, epsilon=2.0, bound="3"),
            r"bound to be a number, got '3'",
        ),
        (lambda: SubsetHypercube(2.0, 8.0), r"an integer dim >= 1, got 8\.0"),
        (lambda: PrivacyPolicy(1.0, max_delta="0"), r"max_delta to be a number, got '0'"),
        (lambda: PrivacyPolicy(1.0, max_rows=2.0), r"an integer max_rows >= 1, got 2\.0"),
        (lambda: check_positive("scale", "1"), r"scale to be a number, got '1'"),
        (lambda: check_fraction("delta", "0.1"), r"delta to be a number, got '0\.1'"),
        (lambda: check_integer("count", True, 1), r"an integer count >= 1, got True"),
    ],
)
def test_what_is_no_number_or_no_integer_is_refused_by_name(construct, message):
    with pytest.raises(ValueError, match=message):
        construct()


@pytest.mark.parametrize(
    "kind", [np.int8, np.int64, np.uint8, np.float16, np.float32, np.longdouble]
)
def test_numpy_scalars_count_as_the_numbers_that_they_are(kind):
    def strategy(number, integer):
        return LdpIht(
            integer(8), sparsity=integer(2), epsilon=number(2), samples_per_user=integer(1)
        )

    given, plain = strategy(kind, np.int8), strategy(int, int)
    for field in fields(given):
        assert getattr(given, field.name) == getattr(plain, field.name)
    assert type(given.epsilon) in (int, float) and type(given.dim) is int
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (2000, 8))
    users = Users.from_rows(x, x[:, 0] / 2)
    assert (
        simulate(given, users, seed=np.int64(0)).coef == simulate(plain, users, seed=0).coef
    ).all()


def test_a_randomizer_of_numpy_scalars_is_one_of_plain_numbers():
    mechanism = Codebook(np.float32(2), np.uint16(8), num_codewords=np.int64(16), radius=np.int8(1))
    for field in fields(mechanism):
        assert type(getattr(mechanism, field.name)) in (int, float)
    assert mechanism == randomizer_from_config(mechanism.to_config())
    assert PrivacyPolicy(np.float32(2), max_rows=np.int64(3)) == PrivacyPolicy(2.0, max_rows=3)


@pytest.mark.parametrize("value", [np.float64(2), np.int64(2), True, "2.0"], ids=repr)
@pytest.mark.parametrize("name", ["epsilon", "dim"])
def test_a_message_still_brings_plain_numbers_only(name, value):
    config = SubsetHypercube(2.0, 2).to_config() | {name: value}
    if isinstance(value, float) and name == "epsilon":  # is a Python float
        assert type(randomizer_from_config(config).epsilon) is float
        return
    with pytest.raises(ValueError, match=f"Expected a number for SubsetHypercube {name}"):
        randomizer_from_config(config)


def test_a_duration_is_no_integer():
    """To NumPy it is."""
    with pytest.raises(ValueError, match="Expected an integer n >= 0"):
        check_integer("n", np.timedelta64(5, "ns"), 0)


class OddFloat(float):
    def __add__(self, *other):
        return 99.0

    __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __float__ = __add__


class OddInt(int):
    def __add__(self, *other):
        return 99

    __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __int__ = __index__ = __add__


class Size(IntEnum):
    TWO = 2


@pytest.mark.parametrize("two", [OddFloat(2), OddInt(2), Size.TWO], ids=["float", "int", "enum"])
def test_a_number_of_a_derived_class_counts_as_its_value(two):
    """Before, its own arithmetic decided what a column is, and what reports cost."""
    column = Numeric(0, two)
    assert column == Numeric(0, 2) and type(column.high) is float
    assert column.restore([1.0]).tolist() == Numeric(0, 2).restore([1.0]).tolist()
    events = [RandomizedResponseEvent(two), GaussianEvent(two)]
    assert type(events[0].epsilon) is type(events[1].mu) is float
    expected = total_epsilon([RandomizedResponseEvent(2), GaussianEvent(2)], 1e-6)
    assert total_epsilon(events, 1e-6) == expected
    for noises in ([two], iter([two])):
        assert noise_multiplier_epsilon(noises, 1e-6) == noise_multiplier_epsilon([2], 1e-6)
    if isinstance(two, int):
        assert type(RandomizedResponseEvent(1.0, two).count) is int


def test_a_member_of_an_enumeration_stays_one_where_no_number_is_wanted():
    assert plain(Size.TWO) is Size.TWO and plain(True) is True


def test_an_argument_too_many_is_refused_by_the_functions_name():
    with pytest.raises(TypeError, match=r"plan\(\) takes 1 positional argument"):
        plan(LdpIht(8, sparsity=2, epsilon=1.0), 1000)
    with pytest.raises(TypeError, match=r"plan\(\) missing .* 'num_users'"):
        plan(LdpIht(8, sparsity=2, epsilon=1.0))
