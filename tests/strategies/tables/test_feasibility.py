"""Refusals from public numbers: what they ask for suffices, and nothing less does."""

import re

import pytest

from ldp_flower.strategies import TooFewReports
from ldp_flower.strategies.tables.feasibility import check_enough


class Census:
    """All that the check needs of a strategy."""

    min_reports = 10

    def __init__(self, num_users):
        self.num_users = num_users


def doubts(users, epsilon, num_columns=20, samples_per_user=20):
    return check_enough(Census(users), epsilon, num_columns, samples_per_user)


def refusal(*arguments):
    with pytest.raises(TooFewReports) as caught:
        doubts(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("users", "epsilon", "num_columns"),
    [(40, 8.0, 34), (155, 4.0, 21), (520, 2.0, 14), (3230, 0.5, 153), (676, 4.0, 407), (499, 8, 2)],
)
def test_what_cannot_work_is_refused(users, epsilon, num_columns):
    said = refusal(users, epsilon, num_columns)
    needed = int(re.search(r"At least ([\d,]+) users", said)[1].replace(",", ""))
    doubts(needed, epsilon, num_columns)
    refusal(needed - 1, epsilon, num_columns)


def test_another_epsilon_or_fewer_features_would_do_where_it_says_so():
    assert float(re.search(r"epsilon (\S+)\.$", refusal(520, 2.0))[1]) == 2.41
    doubts(520, 2.41)
    refusal(520, 2.40)
    assert "at most 338 features" in refusal(676, 4.0, 407)
    doubts(676, 4.0, 338)
    assert " or " not in refusal(450, 4.0)


def test_where_it_may_work_there_are_doubts_and_where_it_does_there_are_none():
    assert "8,000 users" in doubts(3000, 1.0)[0]
    assert doubts(7999, 1.0) and not doubts(8000, 1.0)
    assert "a weak signal" in doubts(8000, 1.0, samples_per_user=9)[0]
    assert not doubts(16_000, 1.0, samples_per_user=1)
    assert doubts(781, 8.0) and not doubts(782, 8.0)  # epsilon counts up to 3.2


def test_every_cohort_has_to_find_its_users():
    census = Census(799)
    census.min_reports = 20
    with pytest.raises(TooFewReports, match="At least 800 users are needed"):
        check_enough(census, 4.0, 20, 20)
    assert not check_enough(Census(800), 4.0, 20, 20)
