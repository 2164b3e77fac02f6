"""UserLevelMean: a strategy that estimates the mean of the users' mean rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.questions import Mean
from ldp_flower.randomizers import Randomizer, ball_codebook
from ldp_flower.validation import Count, Positive, check_unused

from ..forecasts.populations import MeanUsers, features_of, normal_users, rows_for
from ..runtime import (
    Card,
    FeatureStrategy,
    LinearResult,
    Protocol,
    Run,
    guarantees,
)
from ..runtime.at_node import AtNode
from ..runtime.coefficients import METHODS, Method
from ..subprotocols.coordinate_mean import CoordinateMean
from ..subprotocols.waves import mean_by_waves
from ..sums.budget import Budget
from ..sums.vectors import ask_mean_vector

_NUM_WAVES = 12  # default for the largest number of waves
# A note is made if the share of shortened vectors exceeds this share by two standard errors.
_MAX_SHORTENED, _Z = 0.01, 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class UserLevelMean(AtNode, FeatureStrategy[LinearResult]):
    """Strategy that estimates the mean over users of their mean rows, from one report per user.

    With ``method="auto"`` the users of a first cohort report their vectors, clipped to the ball of
    the declared radius, through :class:`Codebook`. A flag says whether the vector was clipped. The
    following cohorts report the difference from the current estimate. They clip it at a radius that
    follows from the estimate's known error and from the spread between users. The spread is
    estimated from the shares of vectors that were clipped so far. All estimates are averaged,
    weighted by their precision. With ``method="paper"`` every user reports one rotated coordinate.
    Some users report its bin in a histogram, which determines a range, and the others report a
    number within this range.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy` and
    :class:`~..runtime.at_node.AtNode`. With noise at the node, all users answer once, and
    ``method``, ``spread`` and ``num_waves`` have no effect.

    Parameters
    ----------
    bound : float
        Public bound at which users' means are clipped: on their Euclidean norm with
        ``method="auto"``, on each coordinate with ``method="paper"``.
    method : str (default: "auto")
        ``"auto"`` or ``"paper"``.
    samples_per_user : int, optional
        Typical number of records of a user, for ``"paper"``, which requires it or ``spread``. It is
        a public guess; a user may hold any number of records.
    spread : float, optional
        Root mean square distance of a user's mean from the overall mean, if it is public within a
        quarter or so. With ``"auto"`` it halves the error if there are few users, and reports may
        correct it. With ``"paper"`` the default is the largest value for records within ``bound``
        if users do not differ: ``bound / sqrt(samples_per_user)`` in each coordinate.
    num_waves : int, optional
        Number of cohorts after the first one, for ``"auto"``. By default there are at most 12. With
        few users there are fewer.
    min_reports : int (default: 10)
        Smallest number of reports with which a step goes on.

    Notes
    -----
    ``coef`` of the result is the mean. ``std_error`` is computed from the spread of the reports,
    which includes the differences between users. So it is the standard error for the mean of the
    population that the users were drawn from. The estimate is closer to the mean of these users,
    since all of them answer: hardly closer at epsilon 2, and two to four times as close if epsilon
    is 8 and users differ much. ``std_error`` also covers the bias of clipping if users' vectors are
    skewed. See :mod:`~..subprotocols.waves` for radii and weights.

    Source of ``method="paper"``: Ma, Jia & Yang, "Better Locally Private Sparse Estimation
    Given Multiple Samples Per User", ICML 2024, ULDPMean; see
    :class:`~..subprotocols.coordinate_mean.CoordinateMean` for what was changed.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="mean of a vector",
        guarantee="pure epsilon",
        rounds="up to 13; paper: 2",
        report="1",
        use_when="a bound on the mean's length is public",
        fails_when="with few users for its length: at epsilon 0.5 the error of 2,000 users and 64 "
        "features is 1.9 times the mean",
        page="user-level-mean",
    )

    plans_with = frozenset({"num_features", "rows_per_user", "variance_between"})

    samples_per_user: Count | None = None
    bound: Positive
    method: Method = "auto"
    spread: Positive | None = None
    num_waves: Count | None = None
    min_reports: Count = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != "user":
            check_unused(self, "with noise='node'", "method", "spread", "num_waves")
        if self.method == "auto":
            check_unused(self, "with method='auto'", "samples_per_user")
        else:
            check_unused(self, "with method='paper'", "num_waves")
            if self.spread is not None:
                check_unused(self, "with a declared spread", "samples_per_user")
            elif self.samples_per_user is None:
                raise ValueError("Expected samples_per_user or spread with method='paper'.")
        self._samples_per_user = self.samples_per_user or 1
        self._num_waves = self.num_waves or _NUM_WAVES
        self.randomizer(1.0)  # raises an error now if epsilon is invalid

    def randomizer(self, radius: float) -> Randomizer:
        """Return the mechanism for vectors of Euclidean length ``radius`` at most."""
        return ball_codebook(self.epsilon, self.dim, radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: one for each method."""
        for method in METHODS:
            strategy = cls(dim, epsilon=epsilon, bound=4.0, method=method, spread=0.2)
            yield strategy, normal_users(dim, 5)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for a mean within a ball of radius 1."""
        return cls(features_of(setting, cls), epsilon=epsilon, bound=1.0)

    def synthetic(self, setting: Setting) -> MeanUsers:
        """Return a population for plans: users around a mean of half the bound's norm."""
        rows, between = rows_for(setting, self._samples_per_user), setting.variance_between or 0.0
        spread = self.spread or self.bound * math.sqrt(between + (1 - between) / rows)
        return MeanUsers(
            error="distance of the mean from the truth, over the bound",
            dim=self.dim,
            sparsity=self.dim,
            length=self.bound / 2,
            spread=spread,
            unit=self.bound,
            radius=self.bound,
            assumes=(
                "The mean has half the bound's length. Users' means have a root mean square "
                f"distance of {spread:.2g} from it: the declared spread, or else the largest "
                f"distance for rows within the bound if {between:.0%} of the rows' variance is "
                "between users.",
            ),
        )

    def protocol(self, run: Run) -> Protocol:
        """Ask by the chosen method, and return the mean."""
        if self.noise != "user":
            return (yield from self._at_node(run))
        if self.method == "paper":
            return (yield from self._by_coordinates(run))
        found = yield from mean_by_waves(
            run, Mean, self.dim, self.bound, self._num_waves, is_bound=True, expected=self.spread
        )
        return LinearResult(coef=found.mean, std_error=found.std_error)

    def _at_node(self, run: Run) -> Protocol:
        budget = Budget.of(run, self.delta)
        found = yield from ask_mean_vector(budget, self.dim, self.bound)
        notes = []
        if found.shortened - _Z * found.shortened_error > _MAX_SHORTENED:
            notes = [
                f"The means of about {found.shortened:.0%} of the users are longer than the bound "
                f"{self.bound:g} and count as if they had this length: take a larger bound."
            ]
        return LinearResult(coef=found.mean, std_error=found.std_error, notes=notes)

    def _by_coordinates(self, run: Run) -> Protocol:
        root = math.sqrt(self.dim)
        spread = self.spread or self.bound * root / math.sqrt(self._samples_per_user)
        estimator = CoordinateMean(self.epsilon, self.dim, self.bound * root, spread)
        question = Mean(np.zeros(self.dim))
        found = yield from estimator.estimate(run, run.num_users, question)
        notes = estimator.notes(run.num_users)
        return LinearResult(coef=found.mean, std_error=found.std_error, notes=notes)
