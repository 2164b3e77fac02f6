"""Columns of known shapes, one entry a user."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Numeric

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

_INCOMES = Numeric(0, 250_000)


def _incomes(rng: np.random.Generator, users: int) -> Floats:
    return np.clip(np.exp(rng.normal(np.log(40_000), 0.7, users)), 0, 250_000)


#: Bounds, and how entries are drawn.
SHAPES: dict[str, tuple[Numeric, Draw]] = {
    "uniform": (Numeric(0, 1), lambda rng, users: rng.uniform(0, 1, users)),
    "beta": (Numeric(0, 1), lambda rng, users: rng.beta(2, 5, users)),
    "income": (_INCOMES, _incomes),
    "rounded": (_INCOMES, lambda rng, users: np.round(_incomes(rng, users) / 5000) * 5000),
}
