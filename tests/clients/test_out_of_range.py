"""A node's operator reads in its log that data are in other units than a question expects."""

import logging

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.questions import Gradient
from ldp_flower.randomizers import SubsetHypercube
from ldp_flower.strategies import NonInteractiveIht

DIM, SLOTS = 2, np.arange(100)


def told(scale, caplog, question, share=1.0):
    features = np.random.default_rng(0).choice([-1.0, 1.0], (len(SLOTS), DIM))
    features[: int(share * len(SLOTS))] *= scale
    users = Users.from_rows(features, features[:, 0])
    query = Query(question, SubsetHypercube(2.0, DIM), 0, 0, HASH_END, 1)
    with caplog.at_level(logging.INFO):
        values_of(users.take, SLOTS, query)
    return [(record.levelname, record.message) for record in caplog.records]


BOUNDED = Gradient(np.zeros(DIM), feature_bound=1.0, residual_bound=1.0)
PLAIN = Gradient(np.zeros(DIM))


@pytest.mark.parametrize(("question", "what"), [(BOUNDED, "rows"), (PLAIN, "users' values")])
def test_raw_columns_are_warned_of(question, what, caplog):
    ((level, text),) = told(1000.0, caplog, question)
    assert level == "WARNING" and f"100 of 100 {what} are more than 10 times beyond" in text
    assert "gradient" in text and "Schema" in text


def test_a_tail_is_counted_and_no_reason_to_warn(caplog):
    ((level, text),) = told(1000.0, caplog, BOUNDED, share=0.2)
    assert level == "INFO" and text.startswith("20 of 100 rows are beyond")


def test_data_that_fit_are_no_word_worth(caplog):
    assert not told(1.0, caplog, BOUNDED)


def test_the_log_is_all_that_differs(caplog):
    """Reports are those of the clipped rows, bit by bit."""
    rng = np.random.default_rng(0)
    clipped = rng.choice([-1.0, 1.0], (600, DIM))
    raw = clipped * 1000
    found = [
        simulate(
            NonInteractiveIht(DIM, sparsity=1, epsilon=4.0),
            Users.from_rows(x, clipped[:, 0]),
            seed=0,
        )
        for x in (clipped, raw)
    ]
    np.testing.assert_array_equal(found[0].coef, found[1].coef)
    assert "rows are more than 10 times" in caplog.text
