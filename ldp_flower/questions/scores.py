"""Questions for noise at the node about a classifier's scores: their histogram and their ranking.

The score of a row is ``<x, theta>``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from .base import AboutFeatures
from .classes import ClassQuestion, NumClasses
from .fields import Marks, MessageError, PerFeature, Signed, check_marks


@dataclass(frozen=True, eq=False)
class ScoreShares(AboutFeatures):
    """The share of the user's rows whose score is in each cell, shape (users, edges + 1).

    The ``edges`` between the cells increase. A score on an edge is in the cell below it. The value
    is zero without rows.
    """

    stem: ClassVar[str] = "score_shares"

    theta: PerFeature
    edges: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_marks("edges", self.edges, increasing=True)

    def width(self, num_features: int) -> int:
        """Return the number of cells."""
        return len(self.edges) + 1


#: Largest number of thresholds that a message can request: each takes numbers of all rows.
MOST_THRESHOLDS = 64
#: Weight of the signs in :class:`RankingCurve`, over the largest number that a row counts.
SIGNS = 0.5


@dataclass(frozen=True, eq=False)
class RankingCurve(ClassQuestion):
    """The ranking of one class against the others at k thresholds, shape (users, 2 k).

    The sign of a row at a threshold is that of its score less the threshold. The first k numbers
    are those of :class:`~.classes.Ranking`: a row of the class with index ``place`` counts
    ``1 - share``, another row ``-share``, and this is multiplied by the sign. The others are the
    signs, times :attr:`weight`. All numbers are means over the user's rows, in which rows of
    unknown classes count 0. The value is zero without rows. Its Euclidean length is at most
    :attr:`radius`.
    """

    stem: ClassVar[str] = "ranking_curve"

    theta: PerFeature
    place: Signed
    share: float
    thresholds: Marks
    num_classes: NumClasses

    def __post_init__(self) -> None:
        super().__post_init__()
        check_marks("thresholds", self.thresholds)
        if len(self.thresholds) > MOST_THRESHOLDS:
            raise MessageError(f"Expected at most {MOST_THRESHOLDS} thresholds.")

    @property
    def _largest(self) -> float:
        """Largest absolute value of a row's count: that of a row of the class, or of another."""
        return max(self.share, abs(1 - self.share))

    @property
    def weight(self) -> float:
        """Number by which the signs in the second half of a value are multiplied.

        It divides the noise between the two halves, which have one radius together.
        """
        return SIGNS * self._largest

    @property
    def radius(self) -> float:
        """Largest Euclidean length of a user's value."""
        return math.sqrt(len(self.thresholds)) * math.hypot(self._largest, self.weight)

    def width(self, num_features: int) -> int:
        """Return twice the number of thresholds."""
        return 2 * len(self.thresholds)
