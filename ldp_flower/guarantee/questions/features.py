"""Questions about features: their means and sizes, and which of them matter most."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from .base import AboutFeatures, Coordinates, OneNumber, PerCoordinate, PerFeature, Prior, Question


@dataclass(frozen=True, eq=False)
class Mean(AboutFeatures):
    """A user's mean row of features minus ``centre``, NaN without rows."""

    stem: ClassVar[str] = "mean"

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class WeightedMean(AboutFeatures):
    """``weights`` times a user's :class:`Mean`, one weight a wanted coordinate."""

    stem: ClassVar[str] = "weighted_mean"

    centre: PerFeature
    weights: PerCoordinate
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class DistanceBin(AboutFeatures, OneNumber):
    """The bin of the length of a user's mean row minus ``centre``.

    Bins are those of :class:`TargetScaleBin`.
    """

    stem: ClassVar[str] = "distance_scale"

    centre: PerFeature
    smallest: float
    per_octave: float
    num_bins: int


class _OfColumns(Question):
    """Base class: all columns are features here, the target the last one."""

    def features(self, num_features: int) -> int:
        """Return num_features + 1: the target counts as a column."""
        return num_features + 1


@dataclass(frozen=True, eq=False)
class ColumnMeans(_OfColumns):
    """:class:`Mean` of all columns: the target counts as the last feature."""

    stem: ClassVar[str] = "column_means"

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnMeanNorm(_OfColumns, OneNumber):
    """``log(norm / prior) / log_range`` of a user's :class:`ColumnMeans`, one number."""

    stem: ClassVar[str] = "column_mean_norm"

    centre: PerFeature
    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnLogSizes(_OfColumns):
    """The logarithm of each column's root mean square over ``prior``.

    Clipped to ``log_range`` in either direction. Users without rows, or with zeros only,
    have zeros.
    """

    stem: ClassVar[str] = "column_log_sizes"

    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class _FeatureSet(Question):
    """Base class: a user's value is ``set_size`` features by their numbers, -1 for a missing one.

    Shape (users, ``set_size``).
    """

    set_size: int

    def width(self, num_features: int) -> int:
        """Return ``set_size`` if there are so many features."""
        return min(self.set_size, num_features)


@dataclass(frozen=True, eq=False)
class OutstandingFeatures(AboutFeatures, _FeatureSet):
    """The features whose means stand out most.

    A mean is compared with the root mean square of the user's own rows, which is drawn
    towards that of all features as if by four more rows.
    """

    stem: ClassVar[str] = "outstanding_features"


@dataclass(frozen=True, eq=False)
class CorrelatedFeatures(_FeatureSet):
    """The features with the largest ``|X'y|``.

    With ``ridge``, those with the largest ridge coefficients, which takes off what is due to
    correlated features.
    """

    stem: ClassVar[str] = "correlated_features"

    ridge: float | None = None


@dataclass(frozen=True, eq=False)
class LassoFeatures(_FeatureSet):
    """The features with the largest Lasso coefficients.

    The penalty is ``penalty`` times the universal ``sqrt(2 log d / m)`` times the root mean
    square of the targets.
    """

    stem: ClassVar[str] = "lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PostLassoFeatures(_FeatureSet):
    """The features with the largest least-squares coefficients of the Lasso's support.

    ``penalty`` as of :class:`LassoFeatures`.
    """

    stem: ClassVar[str] = "post_lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PursuedFeatures(_FeatureSet):
    """The first features of orthogonal matching pursuit."""

    stem: ClassVar[str] = "pursued_features"


#: How users may rank features for a vote, by name: from a set's size to the question.
SELECTORS: Mapping[str, Callable[[int], Question]] = {
    "ridge": partial(CorrelatedFeatures, ridge=3.0),
    "marginal": CorrelatedFeatures,
    "lasso": partial(LassoFeatures, penalty=0.6),
    "post-lasso": partial(PostLassoFeatures, penalty=0.6),
    "pursuit": PursuedFeatures,
}
