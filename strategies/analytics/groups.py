"""Groups of users by the categories of one or more columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from scipy.stats import chi2

from ldp_flower.data.schema import Schema
from ldp_flower.validation import Floats

from .base import categories_of, columns_of
from .cells import MOST_CELLS

_LEVEL = 0.05  # chance that groups with the same mean are said to differ
_MOST = MOST_CELLS // 2 - 1  # limit on the number of groups, each of which has two cells or more


@dataclass(frozen=True)
class Groups:
    """All combinations of the categories of some columns; a single group without columns."""

    keys: dict[str, list[str]]  # the category that each group has in a column, by the column's name

    @classmethod
    def of(cls, schema: Schema, by: str | Sequence[str] | None) -> Self:
        """Return the groups by one column, or several; raise ValueError if they are too many."""
        names = [] if by is None else columns_of(schema, "by", by)
        categories = [categories_of(schema, "by", name) for name in names]
        groups = list(product(*categories))
        if len(groups) > _MOST:
            raise ValueError(
                f"Expected at most {_MOST:,} groups by {', '.join(names)}, got {len(groups):,}."
            )
        return cls({name: [group[i] for group in groups] for i, name in enumerate(names)})

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.keys)

    @property
    def by(self) -> str | None:
        """Names of the columns in one text; None without columns."""
        return ", ".join(self.keys) or None

    @property
    def names(self) -> list[str]:
        """Names of the groups; a single empty name without columns."""
        return [", ".join(group) for group in zip(*self.keys.values(), strict=True)] or [""]


def differ(means: Floats, std_errors: Floats) -> bool:
    """Return True if the means of groups differ significantly, by Cochran's test Q.

    A result has a note if they do not.
    """
    weights = std_errors**-2.0
    excess = float(weights @ np.square(means - np.average(means, weights=weights)))
    return bool(excess > chi2.isf(_LEVEL, len(means) - 1))
