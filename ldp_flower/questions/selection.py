"""Questions that select features: votes of users for a few of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from .base import AboutFeatures, Question


@dataclass(frozen=True, eq=False)
class _FeatureSet(Question):
    """Base class of questions whose value is a set of ``set_size`` features, by their indices.

    The value has shape (users, ``set_size``). The index -1 stands for a missing feature.
    """

    set_size: int

    def width(self, num_features: int) -> int:
        """Return ``set_size``, or ``num_features`` if that is smaller."""
        return min(self.set_size, num_features)


@dataclass(frozen=True, eq=False)
class OutstandingFeatures(AboutFeatures, _FeatureSet):
    """The features with the largest absolute means, relative to their root mean square.

    Both are computed from the user's own rows. The root mean square of a feature is shrunk towards
    that of all features, which has the weight of four additional rows.
    """

    stem: ClassVar[str] = "outstanding_features"


@dataclass(frozen=True, eq=False)
class CorrelatedFeatures(_FeatureSet):
    """The features with the largest ``|X'y|`` in a user's rows X with targets y.

    If ``ridge`` is given, they are the features with the largest ridge coefficients, which account
    for the effects of correlated features.
    """

    stem: ClassVar[str] = "correlated_features"

    ridge: float | None = None


@dataclass(frozen=True, eq=False)
class LassoFeatures(_FeatureSet):
    """The features with the largest Lasso coefficients.

    The penalty is ``penalty`` times ``sqrt(2 log d / m)``, for d features and m rows, times the
    root mean square of the targets.
    """

    stem: ClassVar[str] = "lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PostLassoFeatures(_FeatureSet):
    """The features of the Lasso's support with the largest least-squares coefficients.

    ``penalty`` is as in :class:`LassoFeatures`.
    """

    stem: ClassVar[str] = "post_lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PursuedFeatures(_FeatureSet):
    """The features that orthogonal matching pursuit selects first in a user's rows."""

    stem: ClassVar[str] = "pursued_features"


#: Ways in which users can rank features for a vote: functions of the set's size that return the
#: question, by name.
SELECTORS: Mapping[str, Callable[[int], Question]] = {
    "ridge": partial(CorrelatedFeatures, ridge=3.0),
    "marginal": CorrelatedFeatures,
    "lasso": partial(LassoFeatures, penalty=0.6),
    "post-lasso": partial(PostLassoFeatures, penalty=0.6),
    "pursuit": PursuedFeatures,
}
