"""Functions that take the same time: equal to PyTorch's where these are quick, else put right."""

import math

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from ldp_flower.models import steady
from ldp_flower.models.losses import LOSSES

ORDINARY = torch.tensor([-50.0, -7.0, -1.5, -0.1, -1e-3, 1e-3, 0.1, 1.5, 7.0, 50.0])
AWAY = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 200.0, -200.0, math.inf, -math.inf, math.nan]
PAIRS = [
    (steady.exp, torch.exp),
    (steady.log, torch.log),
    (steady.sqrt, torch.sqrt),
    (steady.sin, torch.sin),
    (steady.cos, torch.cos),
    (steady.erf, torch.erf),
    (steady.tanh, torch.tanh),
    (steady.elu, torch.nn.functional.elu),
    (lambda x: steady.power(x, 0.5), torch.sqrt),
    (lambda x: steady.power(x, 2.5), lambda x: torch.pow(x, 2.5)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("own", "known"), PAIRS)
def test_ordinary_numbers_have_the_usual_value_and_slope(own, known, dtype):
    x = ORDINARY.to(dtype)
    close = 1e-6 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(own(x), known(x), rtol=close, atol=close, equal_nan=True)
    x = x[known(x).isfinite()]
    mine, other = vmap(grad(own))(x), vmap(grad(known))(x)
    torch.testing.assert_close(mine, other, rtol=close, atol=close)


@pytest.mark.parametrize(("own", "known"), PAIRS[:8])
def test_what_has_no_finite_value_is_large_or_no_number(own, known):
    """Infinite results are 1e34 and more, or NaN: then the record's gradient counts as 0."""
    x = torch.tensor(AWAY)
    mine, other = own(x), known(x)
    finite = other.isfinite() & (x.abs() < 1e4) & (x.abs() != torch.tensor(1e-40))
    torch.testing.assert_close(mine[finite], other[finite], rtol=1e-5, atol=1e-6)
    assert (mine.isnan() | (mine.abs() > 1e34))[~other.isfinite()].all()


def test_integers_and_truths_have_values_too():
    for own, known in PAIRS[:7]:
        for x in (torch.tensor([1, 2, 3]), torch.tensor([True, False])):
            if known is torch.log:
                x = x | 1
            torch.testing.assert_close(own(x), known(x))


# What the library that PyTorch takes them from is slow for: 10 to 200 times, measured.
SLOW = {
    "exp": (math.inf, -math.inf, -88.0, 89.0),
    "log": (0.0, -1.0, 1e-40, math.inf, math.nan),
    "sqrt": (0.0, -1.0, 1e-40, math.inf),
    "sin": (math.inf, math.nan, 1e30),
    "cos": (math.inf, math.nan, 1e30),
}


@pytest.mark.parametrize("name", SLOW)
def test_the_library_never_sees_a_number_that_it_is_slow_for(monkeypatch, name):
    seen = []
    honest = getattr(torch, name)
    monkeypatch.setattr(torch, name, lambda x: (seen.append(x.clone()), honest(x))[1])
    monkeypatch.setattr(torch.Tensor, name, lambda x: (seen.append(x.clone()), honest(x))[1])
    getattr(steady, name)(torch.tensor([*SLOW[name], *AWAY]))
    numbers = np.concatenate([x.numpy() for x in seen]) if seen else np.ones(1)
    slow = np.float32(SLOW[name])
    assert not np.isin(numbers, slow[~np.isnan(slow)]).any()
    if name in ("log", "sin", "cos"):
        assert not np.isnan(numbers).any()


@pytest.mark.parametrize("loss", ["binary_cross_entropy", "poisson"])
def test_losses_are_those_of_pytorch(loss):
    known = {
        "binary_cross_entropy": torch.nn.functional.binary_cross_entropy_with_logits,
        "poisson": torch.nn.functional.poisson_nll_loss,
    }[loss]
    output, target = torch.linspace(-20, 20, 41)[None], torch.linspace(0, 1, 41)
    own = LOSSES[loss]
    torch.testing.assert_close(own(output, target), known(output, target[None]))
    mine, other = grad(own)(output, target), grad(known)(output, target[None])
    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)
