"""Functions that take about as long for one number as for any other.

PyTorch has exp, log, square root, sine and cosine from a library that takes 10 to 200 times as long
for some numbers (exp(-100), the root of 0, the sine of infinity), and a record's numbers would show
in how long training takes. So these are computed of numbers that are quick, and the result is put
right: where there is none, or it is infinite, it is NaN, and a record with it counts nothing.
"""

import math

import torch

_MARGIN = 8.0  # by which exponents stay away from those whose exponential is 0 or infinite
_SWING = 1e4  # a sine of more has lost half of a float's digits, and takes five times as long
_FLAT = 6.0  # from here on erf is 1 to 16 digits


def exp(x: torch.Tensor) -> torch.Tensor:
    """Return the exponential, neither 0 nor infinite: from 1e-34 to 1e35 in four bytes."""
    x = _floats(x)
    range_of = torch.finfo(x.dtype)
    low, high = math.log(range_of.tiny), math.log(range_of.max)
    return torch.exp(x.clamp(low + _MARGIN, high - _MARGIN))


def log(x: torch.Tensor) -> torch.Tensor:
    """Return the natural logarithm; NaN of 0."""
    x = _floats(x)
    good = (x >= torch.finfo(x.dtype).tiny) & (x < math.inf)
    return torch.log(torch.where(good, x, 1.0)) + _none_but(good, x)


def sqrt(x: torch.Tensor) -> torch.Tensor:
    """Return the square root."""
    x = _floats(x)
    good = (x >= 0) & (x < math.inf)
    safe = torch.where(good, x, 1.0)
    return safe * safe.clamp(min=torch.finfo(x.dtype).tiny).rsqrt() + _none_but(good, x)


def sin(x: torch.Tensor) -> torch.Tensor:
    """Return the sine; NaN of numbers beyond 10,000."""
    x = _floats(x)
    good = x.abs() <= _SWING
    return torch.sin(torch.where(good, x, 0.0)) + _none_but(good, x)


def cos(x: torch.Tensor) -> torch.Tensor:
    """Return the cosine; NaN of numbers beyond 10,000."""
    x = _floats(x)
    good = x.abs() <= _SWING
    return torch.cos(torch.where(good, x, 0.0)) + _none_but(good, x)


def erf(x: torch.Tensor) -> torch.Tensor:
    """Return the error function."""
    return torch.erf(_floats(x).clamp(-_FLAT, _FLAT))


def tanh(x: torch.Tensor) -> torch.Tensor:
    """Return the hyperbolic tangent, to some 1e-7 in four bytes."""
    return 2 * torch.sigmoid(2 * _floats(x)) - 1


def elu(
    x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> torch.Tensor:
    """Return the exponential linear unit."""
    below = alpha * (exp((x * input_scale).clamp(max=0.0)) - 1)
    return scale * torch.where(x > 0, x, below)


def power(x: torch.Tensor, exponent: float) -> torch.Tensor:
    """Return a power."""
    return sqrt(x) if exponent == 0.5 else torch.pow(x, exponent)


def binary_cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of logits."""
    size = output.abs()
    positive = (output + size) / 2  # of slope 1/2 at 0, where the last term has none
    return (positive - output * target + torch.log1p(exp(-size))).mean()


def poisson(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of logarithms of rates."""
    return (exp(output) - target * output).mean()


def _floats(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() else x.to(torch.float32)


def _none_but(good: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).masked_fill(~good, math.nan)
