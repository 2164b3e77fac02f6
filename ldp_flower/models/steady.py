"""Functions whose running time is about the same for all numbers.

PyTorch takes exp, log, square root, sine and cosine from a library that needs 10 to 200 times as
long for some numbers (exp(-100), the root of 0, the sine of infinity). The duration of training
would then reveal something about a record's numbers. The functions of this module therefore
replace slow numbers by quick ones and correct the result. If a result is undefined or infinite, it
is NaN, and a record with a NaN is ignored.
"""

import math

import torch

_MARGIN = 8.0  # least distance of an exponent to those whose exponential is 0 or infinite
_SWING = 1e4  # sines of larger numbers lose half of a float's digits and take five times as long
_FLAT = 6.0  # erf of larger numbers is 1, to 16 digits


def exp(x: torch.Tensor) -> torch.Tensor:
    """Return the exponential, limited to a finite range above 0: 1e-34 to 1e35 in four bytes."""
    x = _floats(x)
    range_of = torch.finfo(x.dtype)
    low, high = math.log(range_of.tiny), math.log(range_of.max)
    return torch.exp(x.clamp(low + _MARGIN, high - _MARGIN))


def log(x: torch.Tensor) -> torch.Tensor:
    """Return the natural logarithm, or NaN if x is not a positive, finite number."""
    x = _floats(x)
    good = (x >= torch.finfo(x.dtype).tiny) & (x < math.inf)
    return torch.log(torch.where(good, x, 1.0)) + _nan_unless(good, x)


def sqrt(x: torch.Tensor) -> torch.Tensor:
    """Return the square root, or NaN if x is negative or not finite."""
    x = _floats(x)
    good = (x >= 0) & (x < math.inf)
    safe = torch.where(good, x, 1.0)
    return safe * safe.clamp(min=torch.finfo(x.dtype).tiny).rsqrt() + _nan_unless(good, x)


def sin(x: torch.Tensor) -> torch.Tensor:
    """Return the sine, or NaN if the absolute value of x is above 10,000."""
    x = _floats(x)
    good = x.abs() <= _SWING
    return torch.sin(torch.where(good, x, 0.0)) + _nan_unless(good, x)


def cos(x: torch.Tensor) -> torch.Tensor:
    """Return the cosine, or NaN if the absolute value of x is above 10,000."""
    x = _floats(x)
    good = x.abs() <= _SWING
    return torch.cos(torch.where(good, x, 0.0)) + _nan_unless(good, x)


def erf(x: torch.Tensor) -> torch.Tensor:
    """Return the error function of x."""
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
    """Return x to the power of ``exponent``."""
    return sqrt(x) if exponent == 0.5 else torch.pow(x, exponent)


def binary_cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return a record's mean binary cross-entropy; ``output`` holds logits."""
    size = output.abs()
    positive = (output + size) / 2  # has slope 1/2 at 0, where the last term has slope 0
    return (positive - output * target + torch.log1p(exp(-size))).mean()


def poisson(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return a record's mean Poisson loss; ``output`` holds logarithms of rates."""
    return (exp(output) - target * output).mean()


def _floats(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() else x.to(torch.float32)


def _nan_unless(good: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).masked_fill(~good, math.nan)
