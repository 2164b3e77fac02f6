import math

import numpy as np
import pytest

from ldp_flower.randomizers.elementwise import cos_and_sin, log, log2, tanh

EXPECTED = {
    "log": (log, math.log),
    "log2": (log2, math.log2),
    "tanh": (tanh, math.tanh),
    "cosine": (lambda x: cos_and_sin(x)[0], math.cos),
    "sine": (lambda x: cos_and_sin(x)[1], math.sin),
}
each = pytest.mark.parametrize("name", EXPECTED)


def numbers():
    rng = np.random.default_rng(0)
    return np.exp(4 * rng.standard_normal(70))


@each
def test_they_are_what_they_are_called(name):
    function, expected = EXPECTED[name]
    x = numbers()
    exact = [expected(number) for number in x]
    np.testing.assert_allclose(function(x), exact, rtol=4e-16, atol=4e-16)


@each
@pytest.mark.parametrize("beside", [0.0, 5e-324, 1e9, 1.7e308, np.inf, -np.inf, np.nan, -1.0])
def test_no_number_moves_a_bit_of_another(name, beside):
    function, _ = EXPECTED[name]
    x = numbers()
    with np.errstate(all="ignore"):
        alone = np.concatenate([function(x[i : i + 1]) for i in range(len(x))])
        for width in range(1, 18):
            block = np.full((len(x), width), beside)
            for column in {0, width // 2, width - 1}:
                block[:] = beside
                block[:, column] = x
                np.testing.assert_array_equal(function(block)[:, column], alone)


def test_powers_of_two_have_whole_logarithms():
    exponents = np.arange(-1074, 1024)
    np.testing.assert_array_equal(log2(np.ldexp(1.0, exponents)), exponents)


def test_what_has_no_logarithm():
    with np.errstate(all="ignore"):
        for function in (log, log2):
            np.testing.assert_array_equal(
                function(np.array([0.0, np.inf, np.nan, -1.0])), [-np.inf, np.inf, np.nan, np.nan]
            )
