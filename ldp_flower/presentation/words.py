"""Texts for people: formatted numbers, and the meaning of privacy parameters in words.

Numbers are formatted with ``z``, which shows a negative number that rounds to zero as zero.
"""

import math
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

_MISSING = "–"
_SPAN = 1e3  # largest ratio of numbers that are shown with the same number of decimals
_MOST_DECIMALS = 9  # largest number of decimals in a column; smaller numbers have exponents
_SMALLEST_P = 0.0001  # smallest p-value in a text; null distributions are not known that far out
_NEARLY_CERTAIN = 0.999  # chances of a right guess above this one are described as nearly certain

#: Whom a user trusts, by the place where noise is added.
TRUSTS = {
    "user": "Nobody has to trust the server for this: clients randomise before they send.",
    "node": "Noise is added once to the sum over all users of a node. So a user trusts the node "
    "that holds its rows, and neither the server nor any other node.",
    "shared": "Nodes add a part of the noise each, and only the sum over all can be seen. So "
    "a user trusts the node that holds its rows, and that at most as many other nodes collude with "
    "the server as the node's operator tolerates.",
}


def number(value: object) -> str:
    """Return a float with four digits, an integer with all digits, and anything else as text."""
    if isinstance(value, bool | np.bool_) or value is None:
        return _MISSING if value is None else ("no", "yes")[bool(value)]
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return _MISSING
        return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:z.4g}"
    return str(value)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 byte`` or ``2,000 bytes``."""
    return f"{number(count)} {noun}" + "s" * (count != 1)


def numbers(values: Sequence[object]) -> list[str]:
    """Return the texts of a column of numbers, with equal decimals unless sizes differ too much."""
    floats = [float(value) for value in values if isinstance(value, float | np.floating)]
    sizes = [abs(value) for value in floats if math.isfinite(value) and value]
    if not sizes or len(floats) < len(values) or max(sizes) > _SPAN * min(sizes):
        return [number(value) for value in values]
    decimals = max(3 - math.floor(math.log10(max(sizes))), 0)
    if decimals > _MOST_DECIMALS:
        return [number(value) for value in values]
    return [_MISSING if math.isnan(value) else f"{value:z,.{decimals}f}" for value in floats]


def to_error(value: float, error: float) -> str:
    """Return the text of a number, rounded to the second digit of its standard error.

    The text has four digits if there is no error.
    """
    if math.isnan(value) or not 0 < error < math.inf:
        return number(float(value))
    decimals = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    return f"{round(float(value), decimals):z,.{max(decimals, 0)}f}"


def with_error(value: float, error: float, gap: str = " ") -> str:
    """Return the text of a number and of its error, both to the second digit of the error."""
    if math.isnan(value) or not 0 < error < math.inf:
        return number(float(value))
    return f"{to_error(value, error)}{gap}±{gap}{to_error(error, error)}"


def with_ends(value: float, lower: float, upper: float) -> tuple[str, str, str]:
    """Return the texts of an estimate and of both ends of its 95 % interval.

    They are rounded to the second digit of the standard error, some quarter of the interval.
    """
    estimate, low, high = by_error((value, lower, upper), [(upper - lower) / 4] * 3)
    return estimate, low, high


def by_error(values: Sequence[float], errors: Sequence[float]) -> list[str]:
    """Return the texts of numbers, each rounded to the second digit of its standard error."""
    return [to_error(value, error) for value, error in zip(values, errors, strict=True)]


def p_value_text(value: float) -> str:
    """Return the text of a p-value, which is a bound if the p-value is tiny."""
    return f"p = {value:.2g}" if value >= _SMALLEST_P else f"p < {_SMALLEST_P}"


def percentage(value: float) -> str:
    """Return a share in percent, with three digits."""
    return _MISSING if math.isnan(value) else f"{100 * value:z.3g} %"


def printable(text: str) -> str:
    """Return a text without control characters that a terminal would interpret."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def guarantee(epsilon: float, delta: float, unit: str, part: str = "") -> str:
    """Return the meaning of a privacy guarantee in words.

    Epsilon and delta are for all reports about one ``unit``, such as ``"user"``. If only a part of
    the unit's data is protected, ``part`` names it, such as ``"labels"``.

    Assume that a guesser considers two versions of the data equally likely, and sees reports that
    are (epsilon, delta)-indistinguishable. The guess is right with a probability of at most
    ``(e**epsilon + delta) / (1 + e**epsilon)``, the best of any test between the versions.
    """
    only = f" ({part} only)" if part else ""
    # This form of the formula does not overflow.
    right = (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    chance = f"is right at most {percentage(right)} of the time, where a coin has 50 %"
    if right > _NEARLY_CERTAIN:
        chance = "may be right nearly always: an epsilon so large promises little"
    spent = f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")
    return (
        f"Each {unit}{only} is protected with {spent}: someone who guesses between two versions of "
        f"one {unit}'s {part or 'data'}, from all that was reported, {chance}."
    )


def advice_on_missing(module: str) -> str:
    """Return advice on a module that an audited app imports and that is not installed."""
    if module.split(".")[0] != "flwr":
        return "Install it beside ldp-flower: this command installs nothing."
    flower = ".".join(version("flwr").split(".")[:2])
    return f"flwr {flower} has no {module}: the app was written for an older Flower."
