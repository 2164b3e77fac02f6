"""A site's own head: what it minimises, which parameters it moves, and what it refuses."""

import numpy as np
import pytest
import torch
from torch import nn

from ldp_flower.models import Network, NetworkError, personal_head

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4)).astype(np.float32)
CLASSES = (ROWS[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)


def exported(module, loss="cross_entropy", **arguments):
    return Network.export(module, ROWS[0], loss, **arguments)


def changed(one, other):
    return {name for name in one.arrays if not np.array_equal(one.arrays[name], other.arrays[name])}


@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_it_is_ridge_regression_towards_the_common_head(penalty):
    torch.manual_seed(0)
    network = exported(nn.Linear(4, 1), "mse")
    targets = ROWS @ [1.0, -2.0, 0.0, 0.5] + 3
    own = personal_head(network, ROWS, targets, penalty=penalty)
    x = np.column_stack([ROWS, np.ones(60)])
    common = np.r_[network.arrays["weight"][0], network.arrays["bias"]]
    lhs = 2 * x.T @ x + penalty * np.eye(5)
    expected = np.linalg.solve(lhs, 2 * x.T @ targets + penalty * common)
    found = np.r_[own.arrays["weight"][0], own.arrays["bias"]]
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("trainable", "head", "moved"),
    [
        (["*"], (), {"2.weight", "2.bias"}),
        (["*.weight"], (), {"2.weight"}),
        (["0.*"], (), {"0.weight", "0.bias"}),
        (["*"], ["2.bias"], {"2.bias"}),
        (["0.*"], ["2.*"], {"2.weight", "2.bias"}),
    ],
)
def test_the_last_trained_layer_moves_and_no_other(trainable, head, moved):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    network = exported(body, trainable=trainable)
    own = personal_head(network, ROWS, CLASSES, head)
    assert changed(network, own) == moved and own.graph == network.graph
    before, after = (np.mean(each.run(ROWS).argmax(1) == CLASSES) for each in (network, own))
    assert after > max(before, 0.7 if len(moved) > 1 else 0)


def test_a_large_penalty_keeps_the_common_head():
    network = exported(nn.Linear(4, 2))
    own = personal_head(network, ROWS, CLASSES, penalty=1e6)
    for name, array in network.arrays.items():
        np.testing.assert_allclose(own.arrays[name], array, atol=1e-4)


def test_what_does_not_fit_is_refused():
    network = exported(nn.Linear(4, 2))
    for records, targets, given, words in (
        (ROWS[:, :3], CLASSES, {}, r"records that are finite, of shape \[4\] each"),
        (np.full_like(ROWS, np.nan), CLASSES, {}, "records that are finite"),
        (ROWS[:0], CLASSES[:0], {}, "records that are finite"),
        (ROWS, CLASSES[:, None], {}, r"targets that are finite, of shape \[\] each"),
        (ROWS, CLASSES[:9], {}, "a target for each of 60 records, got 9"),
        (ROWS, CLASSES, {"head": ["head.*"]}, r"head to name some of .*, got 'head\.\*'"),
        (ROWS, CLASSES, {"head": "bias"}, "head to be a list of names"),
    ):
        with pytest.raises(NetworkError, match=words):
            personal_head(network, records, targets, **given)
    with pytest.raises(ValueError, match="penalty > 0"):
        personal_head(network, ROWS, CLASSES, penalty=0.0)
