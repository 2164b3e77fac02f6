"""UserLevelMean: the mean of users' mean rows, from one report of each."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import numpy as np
from scipy.special import chdtri, digamma

from ldp_flower.expectation import Setting
from ldp_flower.guarantee.questions import DistanceBin, Mean
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers import Estimate, Randomizer, ball_codebook
from ldp_flower.validation import Count, Floats, Positive, check_unused

from ..forecasts.populations import MeanUsers, features_of, normal_users, rows_of
from ..numerics.denoising import shortened_slope, shrink
from ..runtime import (
    Ask,
    Card,
    Cohort,
    FeatureStrategy,
    LinearResult,
    Protocol,
    Run,
    TooFewReports,
    guarantees,
)
from ..runtime.coefficients import METHODS, Method
from ..subprotocols.coordinate_mean import CoordinateMean
from ..subprotocols.one_number import estimate_target_scale, scale_cohorts

_NUM_WAVES = 8  # by default
_COARSE = 0.15  # share of the users whose reports are not re-centred
# Least radius of a wave, over the root mean square of what its users report; .25 + 8 / d if larger.
# Where lengths concentrate clipping hard gains most; with fewer coordinates skewed users are biased
# by it (d = 4, epsilon 4, radius .75: .022 against .010, mean squared z 8).
_CLIP = 0.75
_BEYOND = 0.05  # share of normal users whose vectors are shortened with clip="wide"
_MIN_SPREAD = 0.25  # share of the mean square distance that always counts as the users'
_FALSE_NOTE = 0.001  # probability of the note below where users are alike
_UNLIKE = (
    "The first cohort's mean, whose users are not re-centred, differs from the result by more than "
    "noise: users may differ strongly in spread, and the result may be off by that difference. "
    "Use clip='wide' or declare a larger spread."
)
_GUESSED = (
    "The users' spread was not estimated, for which they are too few, but taken for that of users "
    "who are alike; if they differ more, the mean is drawn to the first cohort's. Declare spread."
)
_UNCERTAIN = (
    "The users' spread is not certain: the likeliest was taken, or that of users "
    "who are alike if this is larger; if they differ more, the mean is drawn to the first "
    "cohort's. Declare spread."
)


@dataclass(frozen=True)
class _Wave:
    """One cohort's estimate and the variance of its coordinates without the users' spread."""

    mean: Floats
    std_error: Floats
    noise: float
    count: int


@dataclass(kw_only=True, eq=False, repr=False)
class UserLevelMean(FeatureStrategy[LinearResult]):
    """The mean over users of each user's mean row of features; one report per user.

    With ``method="auto"`` a first cohort reports its vectors in the ball of the declared
    radius, through :class:`Codebook`. The following cohorts report what differs from the
    estimate so far, in a ball whose radius is that of the users' spread and of the
    estimate's known error, and all estimates are averaged by their precision. With
    ``method="paper"`` every user reports one rotated coordinate, some as the bin of a
    histogram that gives the range, the others as a number within it.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy`.

    Parameters
    ----------
    samples_per_user : int, optional
        Typical number of records of a user, a public guess; a user may hold any number. Needed
        unless ``spread`` is declared.
    bound : float
        Public bound: on the Euclidean length of users' means with ``method="auto"``, on
        each of their coordinates with ``method="paper"``. What is beyond is clipped.
    method : str (default: "auto")
        ``"auto"`` or ``"paper"``.
    spread : float, optional
        Root mean square distance of a user's mean from that of all, if it is public. By default it
        is estimated (``"auto"``; about 30 users at epsilon 4, 150 at 2, 700 at 1), or, if that is
        more than 13 % of the users and with ``"paper"``, taken for what records within ``bound``
        allow at most if users are alike: ``bound / sqrt(samples_per_user)`` (in each coordinate
        with ``"paper"``). An estimate that is uncertain counts where it is larger than that.
    num_waves : int, optional
        Re-centred cohorts after the first one with ``"auto"``, by default 8; fewer if users are
        few.
    clip : {"hard", "wide"} (default: "hard")
        How far vectors are shortened with ``"auto"``. ``"wide"`` is for users who differ strongly
        in spread and whose means go with it.
    min_reports : int (default: 10)
        Fewest reports with which a step goes on.

    Notes
    -----
    ``coef`` of the result is the mean; ``std_error`` comes from the spread of the reports, users'
    differences included: it is the error as an estimate of the mean of the population that the
    users were drawn from. The mean of these very users is closer than that, since all of them
    answer: hardly at epsilon 2, two to four times where epsilon is 8 and users differ much. With d
    features and V the variance of the estimate so far, per coordinate, the root mean square length
    of what a wave's users report is ``r = sqrt(spread**2 + d V)``. With ``clip="wide"`` the wave's
    radius is r times z, the 95 % quantile of the length of a normal vector over its root mean
    square; with ``clip="hard"`` it is r times ``min(z, max(.75, .25 + 8 / d))``. The wave's mean is
    divided by what that leaves of the mean of normal vectors
    (:func:`~..numerics.denoising.shortened_slope`). A radius is never more than ``bound``, with
    which a wave is not re-centred. The centre is the estimate after James and Stein (1961).

    Source of ``method="paper"``: Ma, Jia & Yang, "Better Locally Private Sparse Estimation
    Given Multiple Samples Per User", ICML 2024, ULDPMean; see
    :class:`~..subprotocols.coordinate_mean.CoordinateMean` for what was changed.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="mean of a vector",
        guarantee="pure epsilon",
        rounds="up to 12; paper: 2",
        report="1",
        use_when="a bound on the mean's length is public",
        fails_when="with few users for its length: at epsilon 0.5 the error of 2,000 users and 64 "
        "features is 1.8 times the mean",
        page="user-level-mean",
    )

    plans_with = frozenset({"num_features", "rows_per_user", "variance_between"})

    samples_per_user: Count | None = None
    bound: Positive
    method: Method = "auto"
    spread: Positive | None = None
    num_waves: Count | None = None
    clip: Literal["hard", "wide"] = "hard"
    min_reports: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spread is not None:
            check_unused(self, "with a declared spread", "samples_per_user")
        elif self.samples_per_user is None:
            raise ValueError("Expected samples_per_user or spread, got neither.")
        self._samples_per_user = self.samples_per_user or 1
        if self.method == "paper":
            check_unused(self, "with method='paper'", "num_waves", "clip")
        self._num_waves = self.num_waves or _NUM_WAVES
        self._clip = math.sqrt(chdtri(self.dim, _BEYOND) / self.dim)
        if self.clip == "hard":
            self._clip = min(self._clip, max(_CLIP, 0.25 + 8 / self.dim))
        self._slope = shortened_slope(self.dim, self._clip)
        self.randomizer(1.0)  # refuses a bad epsilon now

    def randomizer(self, radius: float) -> Randomizer:
        """Return the mechanism for vectors in a ball."""
        return ball_codebook(self.epsilon, self.dim, radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield both methods."""
        for method in METHODS:
            strategy = cls(dim, epsilon=epsilon, bound=4.0, spread=0.2, method=method)
            yield strategy, normal_users(dim, 5)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the default method for a mean within a ball of radius 1."""
        rows = round(setting.rows_per_user)
        return cls(features_of(setting, cls), epsilon=epsilon, samples_per_user=rows, bound=1.0)

    def synthetic(self, setting: Setting) -> MeanUsers:
        """Return users around a mean of half the bound's length."""
        rows, between = rows_of(setting, self._samples_per_user), setting.variance_between or 0.0
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
                f"A mean of half the bound's length, and users' means that lie {spread:.2g} from "
                "it (root mean square): as far as the means of rows within the bound do at most, "
                f"if {between:.0%} of their variance is between users and no spread is declared.",
            ),
        )

    def protocol(self, run: Run) -> Protocol:
        """Run the chosen method."""
        if self.method == "paper":
            return (yield from self._by_coordinates(run))
        return (yield from self._by_waves(run))

    def _by_coordinates(self, run: Run) -> Protocol:
        root = math.sqrt(self.dim)
        spread = self.spread or self.bound * root / math.sqrt(self._samples_per_user)
        estimator = CoordinateMean(self.epsilon, self.dim, self.bound * root, spread)
        cohorts = run.cohorts(estimator.sizes(run.num_users))
        question = Mean(np.zeros(self.dim))
        found = yield from estimator.estimate(cohorts, question, run.salt)
        doubts = estimator.doubts(run.num_users)
        return LinearResult(coef=found.mean, std_error=found.std_error, notes=doubts)

    def _by_waves(self, run: Run) -> Protocol:
        (cohort,) = run.cohorts([max(int(_COARSE * run.num_users), self.min_reports)])
        waves = [(yield from self._wave(cohort, np.zeros(self.dim), self.bound, 1.0))]
        notes: list[str] = []
        spread = self.spread or (yield from self._estimate_spread(run, waves, notes))
        num_waves = min(self._num_waves, max(1, run.num_unasked // self.min_reports))
        for left in range(num_waves, 0, -1):
            (cohort,) = run.cohorts([run.num_unasked // left])
            mean, variance = self._combined(waves, spread)[:2]
            typical = math.sqrt(spread**2 + self.dim * variance)
            centre, radius, slope = shrink(mean, variance), self._clip * typical, self._slope
            if radius >= self.bound:
                centre, radius, slope = np.zeros(self.dim), self.bound, 1.0
            try:
                waves.append((yield from self._wave(cohort, centre, radius, slope)))
            except TooFewReports:
                break  # with the first wave there is a mean
        mean, _, std_error = self._combined(waves, spread)
        if self._differs(waves[0], mean, spread):
            notes.append(_UNLIKE)
        return LinearResult(coef=mean, std_error=std_error, notes=notes)

    def _wave(
        self, cohort: Cohort, centre: Floats, radius: float, slope: float
    ) -> Generator[Ask, Estimate, _Wave]:
        mechanism = self.randomizer(radius)
        answer = yield Ask(cohort, Mean(centre), mechanism)
        noise = mechanism.variance / slope**2 / answer.count
        return _Wave(centre + answer.mean / slope, answer.std_error / slope, noise, answer.count)

    def _differs(self, first: _Wave, mean: Floats, spread: float) -> bool:
        """Whether the first cohort, which is not shortened, contradicts the final mean."""
        variance = first.noise + spread**2 / self.dim / first.count
        square = float(np.sum((first.mean - mean) ** 2)) / variance
        return square > float(chdtri(self.dim, _FALSE_NOTE))

    def _combined(self, waves: list[_Wave], spread: float) -> tuple[Floats, float, Floats]:
        """Average by precision; return also the known variance and the standard errors."""
        precisions = np.array([1 / (w.noise + spread**2 / self.dim / w.count) for w in waves])
        shares = precisions / precisions.sum()
        mean = sum(share * wave.mean for share, wave in zip(shares, waves, strict=True))
        squares = [(s * wave.std_error) ** 2 for s, wave in zip(shares, waves, strict=True)]
        std_error = np.sqrt(np.sum(squares, axis=0))
        return np.asarray(mean), 1 / float(precisions.sum()), std_error

    def _estimate_spread(
        self, run: Run, waves: list[_Wave], notes: list[str]
    ) -> Generator[Ask, Estimate, float]:
        """Ask for users' distances from the estimate so far, and take its own error off."""
        try:
            cohorts = scale_cohorts(run, self.epsilon)
        except TooFewReports:
            notes.append(_GUESSED)
            return self._alike
        mean, variance, _ = self._combined(waves, 0.0)
        question = partial(DistanceBin, shrink(mean, variance))
        scale = yield from estimate_target_scale(cohorts, self.epsilon, self.dim, question)
        # One standard error too much is cheaper than too little, which clips. What is estimated
        # is the mean logarithm, for few features far below that of the root mean square.
        log_mean_square = 2 * (math.log(scale.value) + math.sqrt(scale.variance))
        square = math.exp(log_mean_square - digamma(self.dim / 2)) * self.dim / 2
        spread = math.sqrt(max(square - self.dim * variance, _MIN_SPREAD * square))
        if scale.is_certain:
            return spread
        # More users than those who are too few to be asked must not make the answer worse.
        notes.append(_UNCERTAIN)
        return min(max(spread, self._alike), self.bound)

    @property
    def _alike(self) -> float:
        """The users' spread if they are alike, at most, for records within the bound."""
        return self.bound / math.sqrt(self._samples_per_user)
