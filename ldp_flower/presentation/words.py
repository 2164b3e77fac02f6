"""Numbers as people read them, and what a privacy parameter means."""

import math
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

_MISSING = "–"
_SPAN = 1e3  # of numbers that are shown with as many decimals
_SURE = 0.999  # chance of a right guess from where on it is not stated more exactly


def number(value: object) -> str:
    """Return a number in four digits, an integer in all of them, anything else as text."""
    if isinstance(value, bool | np.bool_) or value is None:
        return _MISSING if value is None else ("no", "yes")[bool(value)]
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return _MISSING
        return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.4g}"
    return str(value)


def counted(count: int, noun: str) -> str:
    """Return a number of things, such as ``1 byte`` or ``2,000 bytes``."""
    return f"{number(count)} {noun}" + "s" * (count != 1)


def numbers(values: Sequence[object]) -> list[str]:
    """Return a column of numbers, with as many decimals each unless they differ too much."""
    floats = [float(value) for value in values if isinstance(value, float | np.floating)]
    sizes = [abs(value) for value in floats if math.isfinite(value) and value]
    if not sizes or len(floats) < len(values) or max(sizes) > _SPAN * min(sizes):
        return [number(value) for value in values]
    decimals = min(max(3 - math.floor(math.log10(max(sizes))), 0), 9)
    return [_MISSING if math.isnan(value) else f"{value:,.{decimals}f}" for value in floats]


def to_error(value: float, error: float) -> str:
    """Return a number to the second digit of its error; in four digits where it has none."""
    if math.isnan(value) or not 0 < error < math.inf:
        return number(float(value))
    decimals = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    return f"{round(float(value), decimals):,.{max(decimals, 0)}f}"


def with_error(value: float, error: float, gap: str = " ") -> str:
    """Return a number and its error, both to the second digit of the error."""
    if math.isnan(value) or not 0 < error < math.inf:
        return number(float(value))
    return f"{to_error(value, error)}{gap}±{gap}{to_error(error, error)}"


def by_error(values: Sequence[float], errors: Sequence[float]) -> list[str]:
    """Return a column of numbers, each to the second digit of its error."""
    return [to_error(value, error) for value, error in zip(values, errors, strict=True)]


def share(value: float) -> str:
    """Return a share in percent, in three digits."""
    return _MISSING if math.isnan(value) else f"{100 * value:.3g} %"


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def guarantee(epsilon: float, delta: float, unit: str, part: str = "") -> str:
    """Return what a privacy parameter promises, in words.

    Epsilon and delta are of all that is reported about one unit: who is protected, such as
    ``"user"``. If not all of its data is, the part that is, such as ``"labels"``.

    Someone who holds two possibilities for equally likely and sees reports that are (epsilon,
    delta)-indistinguishable guesses right with probability at most ``(e**epsilon + delta) /
    (1 + e**epsilon)``, the best of any test between them.
    """
    only = f" ({part} only)" if part else ""
    # Written so that it does not overflow.
    right = (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    chance = f"is right at most {share(right)} of the time, where a coin has 50 %"
    if right > _SURE:
        chance = "may be right nearly always: an epsilon so large promises little"
    spent = f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")
    return (
        f"Each {unit}{only} is protected with {spent}: someone who guesses between two versions of "
        f"one {unit}'s {part or 'data'}, from all that was reported, {chance}."
    )


def what_lacks(module: str) -> str:
    """Return what is wrong where a module is not found that an app imports."""
    if module.split(".")[0] != "flwr":
        return "Install it beside ldp-flower: this command installs nothing."
    flower = ".".join(version("flwr").split(".")[:2])
    return f"flwr {flower} has no {module}: the app was written for an older Flower."
