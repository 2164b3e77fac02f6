"""What models of tables return has in common."""

import math
from typing import ClassVar

from ldp_flower.schema import Schema

from ..runtime.coefficients import CoefficientResult

_NORMAL = 1.96  # standard errors that 95 % are within


class TableFit(CoefficientResult):
    """A model of a table with a score by users who had no part in it."""

    #: Least score that there is.
    _least: ClassVar[float] = -math.inf

    score: float
    score_std_error: float

    @property
    def score_interval(self) -> tuple[float, float]:
        """What the score lies within in 95 of 100 runs, within the scores that there are."""
        reach = _NORMAL * self.score_std_error
        return max(self.score - reach, self._least), min(self.score + reach, 1.0)

    @property
    def _schema(self) -> Schema:
        if self.schema is None:
            raise ValueError("Expected a result with its schema, got none.")
        return self.schema
