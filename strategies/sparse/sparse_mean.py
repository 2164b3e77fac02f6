"""SparseMean: a strategy that estimates a mean with mostly zero coordinates."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.questions import DistanceBin, OutstandingFeatures, Question, WeightedMean
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats, Positive

from ..forecasts.populations import MeanUsers, features_of, normal_users
from ..numerics.spike_and_slab import Posterior
from ..runtime import Ask, Card, Run, guarantees
from ..subprotocols.scales import TargetScale, estimate_target_scale, scale_cohorts
from .base import Integers, SparseWaves

_TYPICAL_COORDINATE = 1.75  # assumed size of a coordinate, in standard deviations of a user's mean
_PLANNED_SPARSITY, _PLANNED = 8, 2.0  # number of coordinates in a plan, and their size
# Factor on the estimated scale: an estimate from bins may be off by up to a tenth.
_HEADROOM = 1.15
_MOST_AT_ONCE = 48  # largest number of coordinates without a vote


@dataclass(kw_only=True, eq=False, repr=False)
class SparseMean(SparseWaves):
    """Strategy that estimates the mean over users of their mean rows, if it is sparse.

    If ``scale`` is not given, a small cohort estimates it. With more than 48 features another
    cohort then votes: each user names the features whose means are largest relative to their root
    mean square in its own rows. The strategy chooses how many features a user names. The other
    users answer in waves. They report the difference between their mean row and the current
    estimate, on the coordinates that are still uncertain. The weight of a coordinate grows with the
    information that reports can add about it. The server keeps one posterior over all coordinates
    and returns its mean. The number of nonzero coordinates and their sizes need not be known.

    Other parameters are those of :class:`~.base.SparseWaves`.

    Parameters
    ----------
    dim : int
        Number of features. They should be on comparable scales, and most of their means should be
        zero: subtract public typical values.
    scale : float, optional
        Root mean square norm of a user's mean row, if it is public within some 10 %. By default a
        small cohort estimates it: 11 users at epsilon 4, 52 at 2 and 237 at 1, and sometimes twice
        as many.

    Notes
    -----
    A user's mean row is one observation of every coordinate. The number of its rows and the
    variance between users need not be known, since both are reflected in the norm of the mean row,
    which is estimated. This norm bounds every coordinate and is the unit of the posterior. In other
    respects the protocol is that of :class:`SparseRegression`.

    Source: the problem is that of Ma, Jia & Yang, "Better Locally Private Sparse
    Estimation Given Multiple Samples Per User", ICML 2024; the protocol is not.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="mean of a long vector most of which is zero",
        guarantee="pure epsilon",
        rounds="7 or 8",
        report="1; votes some bytes",
        use_when="sparsity and sizes are not known",
        fails_when="for coordinates below some 1.4 standard deviations of users' means: there 400 "
        "users at epsilon 4 miss one in ten",
        page="sparse-regression",
    )

    plans_with = frozenset({"num_features"})

    _scale_argument = "scale"

    scale: Positive | None = None

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: with a scale, a vote and two waves."""
        yield cls(dim, epsilon=epsilon, num_waves=2), normal_users(dim, 2)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for the setting's number of features."""
        return cls(features_of(setting, cls), epsilon=epsilon)

    def synthetic(self, setting: Setting) -> MeanUsers:
        """Return a population for plans: users whose mean is large relative to their spread."""
        sparsity = min(_PLANNED_SPARSITY, self.dim)
        # Standard deviation of each coordinate of one user's mean row, which has the norm scale.
        each = (self.scale or 1.0) / math.sqrt(self.dim + sparsity * _PLANNED**2)
        length = _PLANNED * each * math.sqrt(sparsity)
        return MeanUsers(
            error="distance of the mean from the truth, over its length",
            dim=self.dim,
            sparsity=sparsity,
            length=length,
            spread=each * math.sqrt(self.dim),
            unit=length,
            assumes=(
                f"{sparsity} coordinates of one size differ from zero, each {_PLANNED:g} standard "
                "deviations of a user's mean, which are alike for all coordinates.",
            ),
        )

    def _typical(self) -> tuple[int, float, bool]:
        return self.dim, _TYPICAL_COORDINATE, self.dim <= _MOST_AT_ONCE

    def _learn_scale(self, run: Run) -> Generator[Ask, Estimate, TargetScale]:
        if self.scale is not None:
            return TargetScale(self.scale, 0.0)
        estimated = yield from estimate_target_scale(
            scale_cohorts(run, self.epsilon, self._scale_argument),
            self.epsilon,
            self.dim,
            partial(DistanceBin, np.zeros(self.dim)),
        )
        # Reports are in the units of the data. The prior has no coordinate above the scale.
        return replace(estimated, value=_HEADROOM * estimated.value, variance=0.0)

    def _selection(self, set_size: int) -> Question:
        return OutstandingFeatures(set_size)

    def _difference(
        self, centre: Floats, rest: float, active: Integers, weights: Floats, scale: TargetScale
    ) -> Question:
        unit = scale.value * math.sqrt(rest)
        return WeightedMean(scale.value * centre, weights / unit, active)

    def _moments(self, num_active: int) -> tuple[float, float]:
        return 1.0, 1.0

    def _coefficients(self, belief: Posterior, scale: TargetScale) -> tuple[Floats, Floats]:
        return scale.value * belief.mean, scale.value * belief.deviation

    def _showing(self) -> tuple[str, str, float]:
        return "coordinate", "A coordinate of twice the standard deviation of users' means", 2.0
