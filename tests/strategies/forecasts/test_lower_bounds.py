"""Lower bounds are the papers', and say which plans they do not cover."""

import re

import pytest

from ldp_flower.expectation import Setting
from ldp_flower.strategies import (
    LabelLdpIht,
    LdpIht,
    NonInteractiveIht,
    SparseRegression,
    TwoRoundRegression,
    UserLevelMean,
)


def bounds(strategy, num_users, rows=1):
    return strategy.lower_bounds(Setting(num_users=num_users, rows_per_user=rows))


@pytest.mark.parametrize(
    ("strategy", "source", "rate"),
    [
        (LdpIht(64, sparsity=2, epsilon=0.5), "Theorem 2", "min(1, p / (n epsilon^2))"),
        (
            NonInteractiveIht(64, sparsity=2, epsilon=0.5),
            "Theorem 1",
            "min(1, p log(p) / (n epsilon^2))",
        ),
        (
            LabelLdpIht(64, sparsity=2, epsilon=0.5, method="paper"),
            "Theorem 6",
            "min(1, C^2 s log(p / s) / (n epsilon^2))",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_the_rates_of_wang_and_xu_hold_up_to_one_half(strategy, source, rate):
    (bound,) = bounds(strategy, 60_000)
    assert bound.source == f"Wang & Xu (ICML 2019), {source}"
    assert bound.rate == rate and bound.outside == ()
    larger = type(strategy)(64, sparsity=2, epsilon=0.6)
    assert "epsilon is 0.6" in bounds(larger, 60_000)[0].outside


def test_a_theorem_about_pure_epsilon_or_one_round_does_not_cover_others():
    (rounds,) = bounds(LabelLdpIht(64, sparsity=2, epsilon=2.0), 60_000)
    assert rounds.outside == ("it asks in several rounds", "epsilon is 2")
    gauss = NonInteractiveIht(64, sparsity=2, epsilon=0.5, method="paper", delta=1e-5)
    assert bounds(gauss, 60_000)[0].outside == ("delta is 1e-05",)


@pytest.mark.parametrize("protocol", [SparseRegression, TwoRoundRegression])
def test_the_bounds_of_ma_jia_and_yang_say_which_numbers_are_beyond_them(protocol):
    """Theorem 2.4: s^2 <= n epsilon^2 <= d, m <= d; Proposition 2.3: m <= s log(d) only."""

    def of(epsilon, users, dim, rows):
        told = {"sparsity": 8} if protocol is TwoRoundRegression else {}
        strategy = protocol(dim, epsilon=epsilon, samples_per_user=rows, **told)
        return bounds(strategy, users, rows)

    (covered,) = of(0.5, 400, 256, 100)  # n epsilon^2 is 100, s^2 is 64, s log(d) is 44
    assert covered.source.endswith("Theorem 2.4") and covered.rate == "s^2 / (n m epsilon^2)"
    assert covered.outside == ()
    (paper,) = of(4.0, 400, 256, 100)  # the paper's own experiment
    assert paper.outside == ("epsilon is 4", "n epsilon^2 = 6,400 is above d = 256")
    assert of(0.5, 200, 256, 300)[0].outside == (
        "m = 300 is above d = 256",
        "s^2 = 64 is above n epsilon^2 = 50",
    )
    few = of(0.5, 400, 256, 20)
    assert [bound.rate for bound in few] == ["s^2 / (n m epsilon^2)", "1 / s"]
    assert few[1].outside == ("n epsilon^2 = 100 is above sqrt(d) = 16",)
    (one,) = of(1.0, 400, 256, 1)
    assert one.source.endswith("Proposition 2.2") and one.rate == "d s / (n epsilon^2)"
    assert one.outside == ()


def test_a_bound_without_a_constant_shows_no_number_as_an_error():
    """Beside those of the theorem itself, and of what it does not cover."""
    (bound,) = bounds(LdpIht(64, sparsity=2, epsilon=2.0), 60_000)
    text = str(bound)
    assert "does not state the constant, so that no number follows" in text
    assert "It does not cover this plan: epsilon is 2." in text
    assert set(re.findall(r"\d[\d.,]*", text)) <= {"2019", "2", "1", "2.", "1,", "2019,", "2,"}


def test_means_have_none():
    mean = UserLevelMean(4, epsilon=1.0, bound=1.0)
    assert bounds(mean, 1000, 10) == ()
