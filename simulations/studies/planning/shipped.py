"""What is declared of real tables: where each is, who is a user, bounds and categories.

Bounds are what somebody writes down who knows the subject.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

Bounds = tuple[float, float]


def _same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@dataclass(frozen=True)
class Shipped:
    """A table, its target, its columns of numbers and of categories.

    Attributes
    ----------
    user : str or int
        The column that says who a row belongs to, or how many rows at random a user has.
    bounds : tuple of float or None
        Of the target; None: it is one of two classes.
    """

    package: str
    item: str
    user: str | int
    target: str
    bounds: Bounds | None
    numbers: dict[str, Bounds] = field(default_factory=dict)
    words: str = ""
    made: Callable[[pd.DataFrame], pd.DataFrame] = _same
