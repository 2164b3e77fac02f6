"""Lower bounds from papers on the error of any protocol for sparse regression.

Rates are as printed in the papers. No paper states the constant of its rate, so these functions
return texts, not numbers.
"""

import math

from ldp_flower.expectation import LowerBound

_WANG_XU = "Wang & Xu (ICML 2019)"
_MA_JIA_YANG = "Ma, Jia & Yang (ICML 2024)"
_ROUNDS = "of pure epsilon that asks everybody once, in any number of rounds,"
_ONE_ROUND = "of pure epsilon that asks everybody once and at the same time"
_SIGNS = "one coefficient, features that are signs, noise within 2 and epsilon up to 1/2"
_SIGNAL = "n epsilon^2"
_MANY_ROWS = "d features, s coefficients and n users of m rows"


def one_row(epsilon: float, delta: float = 0.0, *, rounds: bool) -> tuple[LowerBound, ...]:
    """Return the lower bound on the error of protocols that protect each user's only row.

    ``rounds`` is True if they may ask in rounds.
    """
    return (
        LowerBound(
            source=f"{_WANG_XU}, Theorem {2 if rounds else 1}",
            among=_ROUNDS if rounds else _ONE_ROUND,
            rate=f"min(1, {'p' if rounds else 'p log(p)'} / (n epsilon^2))",
            symbols="p features and n users of one row",
            holds_for=_SIGNS,
            outside=(*_beyond("delta", delta, 0.0), *_beyond("epsilon", epsilon, 0.5)),
        ),
    )


def labels(epsilon: float, delta: float, *, rounds: bool) -> tuple[LowerBound, ...]:
    """Return the lower bound on the error of protocols that protect labels, not features."""
    return (
        LowerBound(
            source=f"{_WANG_XU}, Theorem 6",
            among=f"{_ONE_ROUND} and protects labels only",
            rate="min(1, C^2 s log(p / s) / (n epsilon^2))",
            symbols="p features, s coefficients, noise within C and n users of one row",
            holds_for="features that are signs and nearly uncorrelated, coefficients of length up "
            "to 1 and epsilon up to 1/2",
            outside=(
                *(("it asks in several rounds",) * rounds),
                *_beyond("delta", delta, 0.0),
                *_beyond("epsilon", epsilon, 0.5),
            ),
        ),
    )


def many_rows(
    epsilon: float, num_users: int, dim: int, sparsity: int, rows: float
) -> tuple[LowerBound, ...]:
    """Return the lower bounds on the error of protocols that protect all rows of a user."""
    signal, beyond = num_users * epsilon**2, _beyond("epsilon", epsilon, 1.0)
    if rows == 1:
        return (
            LowerBound(
                source=f"{_MA_JIA_YANG}, Proposition 2.2",
                among=_ROUNDS,
                rate="d s / (n epsilon^2)",
                symbols="d features, s coefficients and n users of one row",
                holds_for="sub-Gaussian features, coefficients up to 1 and epsilon up to 1",
                outside=beyond,
            ),
        )
    found = [
        LowerBound(
            source=f"{_MA_JIA_YANG}, Theorem 2.4",
            among=_ROUNDS,
            rate="s^2 / (n m epsilon^2)",
            symbols=_MANY_ROWS,
            holds_for="sub-Gaussian features, coefficients of at least sqrt(s / m), m up to d, "
            "n epsilon^2 from s^2 to d, and epsilon up to 1",
            outside=(
                *beyond,
                *_above(rows, dim, "m", "d"),
                *_above(sparsity**2, signal, "s^2", _SIGNAL),
                *_above(signal, dim, _SIGNAL, "d"),
            ),
        )
    ]
    if rows <= sparsity * math.log(dim):
        found.append(
            LowerBound(
                source=f"{_MA_JIA_YANG}, Proposition 2.3",
                among=_ROUNDS,
                rate="1 / s",
                symbols=_MANY_ROWS,
                holds_for="sub-Gaussian features, m up to s log(d), n epsilon^2 from s^2 to about "
                "sqrt(d), and epsilon up to 1",
                outside=(
                    *beyond,
                    *_above(sparsity**2, signal, "s^2", _SIGNAL),
                    *_above(signal, math.sqrt(dim), _SIGNAL, "sqrt(d)"),
                ),
            )
        )
    return tuple(found)


def _beyond(name: str, value: float, most: float) -> tuple[str, ...]:
    return (f"{name} is {value:g}",) if value > most else ()


def _above(number: float, most: float, name: str, limit: str) -> tuple[str, ...]:
    return (f"{name} = {number:,.0f} is above {limit} = {most:,.0f}",) if number > most else ()
