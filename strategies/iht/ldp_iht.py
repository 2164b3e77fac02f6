"""LDP-IHT: linear regression by private gradient steps, sparse by hard thresholding."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.expectation import LowerBound, NoPlan, Setting
from ldp_flower.guarantee.questions import Gradient, RidgeStep
from ldp_flower.guarantee.users import Users
from ldp_flower.iht import keep_largest, project_on_ball
from ldp_flower.randomizers import Estimate, Randomizer, SubsetHypercube, ball_codebook
from ldp_flower.validation import Count, Floats, Positive, check_choice, check_integer, check_unused
from ldp_flower.values.links import LINKS

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    USUAL_R2,
    LinearUsers,
    features_of,
    linear_users,
    noise_of,
    normals,
    planned_length,
    rows_of,
    users_of,
)
from ..numerics.denoising import kept
from ..numerics.walk import Walk
from ..runtime import (
    Ask,
    Card,
    FeatureStrategy,
    LinearResult,
    Protocol,
    Run,
    TooFewReports,
    ask_on,
    guarantees,
)
from ..subprotocols.one_number import checked, estimate_label_scale, norm_askers

# Of 5 to 15 steps, of which a quarter to two fifths ask about few coefficients, in 19 settings.
_STEPS, _LAST = 12, 4  # number of steps; one of so many asks about the largest only
_NOISE_SCALE = 0.04  # by default
_MORE_FOR_CLASSES = 5  # times the users that numbers take
_CLASSES = 0.6  # bound on the residuals of classes, after the first step
_PLANNED_SPARSITY = 4  # of a plan that is made without the protocol
_STANDS_OUT = 3.0  # standard errors


@dataclass(kw_only=True, eq=False, repr=False)
class LdpIht(FeatureStrategy[LinearResult]):
    """Linear regression, sparse if wanted, from one randomised gradient per user.

    Users are cut into disjoint cohorts. Every step sends the current estimate to
    one cohort, averages its randomised gradients and updates the estimate. With one record
    per user a gradient is the clipped residual times the record, reported as one or two
    bytes through :class:`SubsetHypercube`, and the estimate is hard-thresholded. With
    several, a user reports the direction of its own ridge step through :class:`Codebook`, see
    :func:`ridge_descent`; a sparsity is then optional.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy`.

    Parameters
    ----------
    sparsity : int, optional
        Number of coefficients that may differ from zero. By default all may, which takes
        several records per user.
    samples_per_user : int (default: 1)
        Typical number of records of a user, a public guess; a user may hold any
        number. Features are expected (and clipped) in [-1, 1] if it is 1, else to be roughly
        centred and of unit scale.
    radius : float, optional
        Bound on the Euclidean norm of the coefficients, by default 1 with a sparsity and
        none without.
    noise_scale : float, optional
        Guessed standard deviation of the targets given the features, by default 0.04, which
        stops the residual clip from shrinking below the noise (one record per user, whose
        targets are no classes).
    feature_variance : float, optional
        Mean square of a feature: 1, the default, for signs, 1/3 for uniform features (one
        record per user). The step size is its inverse.
    target_scale : float, optional
        Root mean square of the (centred) targets, if it is public within a factor of 2 (several
        records per user). By default it is estimated from a small cohort.
    link : {"identity", "logistic", "cosine"} (default: "identity")
        How targets depend on ``u = <x, coef>``: as ``u`` plus noise, as 0 or 1 with
        probability 1 / (1 + exp(-u)) of the latter, or as ``2 u + cos(u)`` plus noise.
        Others than the first are for one record per user.

    Notes
    -----
    For tables of which only bounds and categories are known there are
    :class:`~ldp_flower.strategies.PrivateRegression` and
    :class:`~ldp_flower.strategies.PrivateClassification`.

    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy Model", ICML
    2019, Algorithm 1. Changes: the gradient is truncated at the new iterate (line 6 is misprinted);
    cohorts are disjoint and cover everyone (line 1 overlaps by one); the randomizer is one that is
    private for even dimensions too; the residual is clipped at a bound that shrinks with the
    a-priori error instead of the worst case, without which the noise drowns everything; the
    estimates of all steps are pooled, late ones above all; the last quarter of the cohorts is asked
    about the 2 s largest coordinates only, where noise is smaller.

    Other links are the paper's section 6 and its non-linear measurements (Yang et al.,
    ICML 2016): the same client with another scalar in front of the record, clipped alike.

    With several records there are up to 50 steps, which are fitted: their lengths follow from the
    directions themselves, and the estimate is where all of them, taken together, are zero.
    Targets are expected centred. Standard errors are not a number: most of the error is bias.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="sparse linear or logistic regression",
        guarantee="pure epsilon",
        rounds="up to 13; with several records 51",
        report="1-2",
        use_when="features are of about unit scale",
        fails_when="with fewer than 4 s log(d) d V users, V = 16.7, 4.7, 1.3, 0.42 at epsilon 0.5, "
        "1, 2, 4 (s of d features)",
        page="ldp-iht",
    )

    plans_with = frozenset({"num_features", "rows_per_user", "quality", "variance_between"})

    sparsity: int | None = None
    samples_per_user: Count = 1
    radius: Positive | None = None
    noise_scale: Positive | None = None
    feature_variance: Positive | None = None
    target_scale: Positive | None = None
    link: str = "identity"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_record_each = self.samples_per_user == 1
        if self.sparsity is not None:
            check_integer("sparsity", self.sparsity, 1, self.dim)
        elif self._one_record_each:
            raise ValueError(
                "Expected a sparsity with one record per user (samples_per_user=1), got None."
            )
        check_choice("link", self.link, LINKS)
        if self.link != "identity" and not self._one_record_each:
            raise ValueError(
                f"Expected samples_per_user = 1 with the link {self.link}, "
                f"got {self.samples_per_user}."
            )
        if not self._one_record_each:
            check_unused(self, "with several records per user", "noise_scale", "feature_variance")
        else:
            check_unused(self, "with one record per user", "target_scale")
        if LINKS[self.link].largest_score < math.inf:
            check_unused(self, f"with link={self.link!r}", "noise_scale")
        # What the variant for one record per user works with, where all are always given.
        self._sparsity, self._radius = self.sparsity or self.dim, self.radius or 1.0
        self._noise_scale = self.noise_scale or _NOISE_SCALE
        self._feature_variance = self.feature_variance or 1.0
        self.randomizer(self.dim)  # refuses a bad epsilon now

    def randomizer(self, dim: int, bound: float = 1.0) -> Randomizer:
        """Return the mechanism for vectors of ``dim`` coordinates within ``bound``."""
        if self._one_record_each:
            return SubsetHypercube(self.epsilon, dim, bound)
        return ball_codebook(self.epsilon, dim, bound)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield one record per user, with all links, and several."""
        for rows, num_users in ((1, 3000), (5, 100)):  # of whom a step takes 20
            users = users_of(np.sign(normals(num_users * rows, dim)), rows)
            for link in LINKS if rows == 1 else ("identity",):
                strategy = cls(dim, sparsity=1, epsilon=epsilon, samples_per_user=rows, link=link)
                yield strategy, users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for four coefficients of length 1; for one of one half."""
        dim, rows = features_of(setting, cls), round(setting.rows_per_user)
        return cls(
            dim,
            epsilon=epsilon,
            sparsity=min(_PLANNED_SPARSITY, dim),
            samples_per_user=rows,
            noise_scale=noise_of(setting.quality or USUAL_R2, planned_length(1.0, dim))
            if rows == 1
            else None,
        )

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return users who obey one linear model, with coefficients as long as the radius."""
        if self.link != "identity":
            raise NoPlan("Only link='identity' of LdpIht has a plan.")
        rows = rows_of(setting, self.samples_per_user)
        length, size = planned_length(self._radius, self.dim), math.sqrt(self._feature_variance)
        quality = setting.quality
        if quality is None:
            known = self._one_record_each and self.noise_scale is not None
            signal = (length * size) ** 2
            quality = signal / (signal + self._noise_scale**2) if known else USUAL_R2
        return linear_users(
            self.dim,
            self._sparsity,
            quality,
            length,
            rows=rows,
            variance_between=setting.variance_between or 0.0,
            feature_size=size if self._one_record_each else None,
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved of sparse regressions whose rows are protected."""
        if self._one_record_each:
            return lower_bounds.one_row(self.epsilon, rounds=True)
        rows = rows_of(setting, self.samples_per_user)
        return lower_bounds.many_rows(
            self.epsilon, setting.num_users, self.dim, self._sparsity, rows
        )

    def protocol(self, run: Run) -> Protocol:
        """Run the variant for one record or for several records per user."""
        if self._one_record_each:
            found = self._one_record(run)
            numbers = self.link == "identity"
            return (yield from checked(run, self.epsilon, found) if numbers else found)
        notes, scale = [], self.target_scale
        if scale is None:
            askers = norm_askers(run, self.epsilon)
            if run.num_users < askers + self.min_reports:  # before anybody is asked
                sizes = [askers, run.num_users - askers]
                raise TooFewReports(self._too_small(sizes, run.num_users))
            (cohort,) = run.cohorts([askers])
            estimated = yield from estimate_label_scale(cohort, self.epsilon, self.samples_per_user)
            notes, scale = estimated.doubts("target_scale"), estimated.value
        radius = 1.0 if self.radius is None and self.sparsity is not None else self.radius
        result = yield from ridge_descent(
            run, self.dim, self.samples_per_user, scale, self.sparsity, radius
        )
        result.notes += notes
        return result

    # ------------------------------------------------------------ one record per user

    def _one_record(self, run: Run) -> Protocol:
        if self.link == "logistic":
            self._check_classes(run.num_users)
        theta, error = np.zeros(self.dim), self._radius
        asked, pooled = np.arange(self.dim), PooledSteps(self.dim)
        cohorts = run.equal_cohorts(run.num_unasked, _STEPS)
        run.planned_steps = steps = len(cohorts)
        for step, cohort in enumerate(cohorts):
            bound, slope = self._clip(error, step == 0)
            randomizer = self.randomizer(len(asked), bound)
            question = Gradient(
                theta,
                None if len(asked) == self.dim else asked,
                feature_bound=1.0,
                residual_bound=bound,
                link=self.link,
            )
            gradient = yield from ask_on(Ask(cohort, question, randomizer), step > 0)
            if gradient is None:
                break
            length = 1 / (self._curvature * slope)
            variance = length**2 * randomizer.variance / gradient.count
            estimate = theta[asked] - length * gradient.mean
            pooled.add(asked, estimate, variance, error / math.sqrt(self._sparsity))
            theta = project_on_ball(keep_largest(pooled.mean, self._sparsity), self._radius)
            # The error is as small as planned only if the support is right: what stands out
            # where theta is zero says that it is not.
            noise = pooled.std_error[asked]
            if not (
                np.abs(pooled.mean[asked])[theta[asked] == 0] > _STANDS_OUT * noise.max()
            ).any():
                # What a step leaves of the error at best: more where slopes vary.
                least = error / (4.0 if self.link == "identity" else 2.0)
                error = min(error, max(self._error(float(noise.max())), least))
            if step + 1 == steps - steps // _LAST:
                asked = np.flatnonzero(keep_largest(pooled.mean, min(2 * self._sparsity, self.dim)))
        std_error = np.where(theta != 0, pooled.std_error, 0.0)
        return LinearResult(coef=theta, std_error=std_error).doubted()

    def _error(self, noise: float) -> float:
        """A-priori error of the largest coefficients if each has this noise."""
        return noise * math.sqrt(2 * self._sparsity * math.log(max(self.dim, 2)))

    def _check_classes(self, num_users: int) -> None:
        """Refuse classes from too few users, before anybody is asked: they would give noise."""
        rule = 4 * self._sparsity * math.log(max(self.dim, 2)) * self.randomizer(self.dim).variance
        needed = math.ceil(_MORE_FOR_CLASSES * rule)
        if num_users < needed:
            raise TooFewReports(
                f"{num_users:,} users are too few for {self._sparsity} of {self.dim} "
                f"features with link='logistic' at epsilon {self.epsilon:g}: a class says less "
                "than a number, and the result would be noise. "
                "PrivateClassification(schema, epsilon=...) takes fewer."
            )

    @property
    def _curvature(self) -> float:
        """Usual curvature of the loss in each coefficient."""
        return LINKS[self.link].curvature * self._feature_variance

    def _clip(self, error: float, first: bool) -> tuple[float, float]:
        """Return where scores are clipped, and how much of the gradient that leaves.

        At their typical size, given a bound on the coefficients' error: half of it but for the
        first.
        """
        link = LINKS[self.link]
        if link.largest_score < math.inf:
            # All residuals of classes are 1/2 at zero, and their size hardly changes after.
            return link.largest_score * (0.5 if first else _CLASSES), 1.0
        typical = math.sqrt(self._curvature) * error
        bound = max(typical, 2 * self._noise_scale + 0.02)
        return math.sqrt(link.curvature) * bound, kept(bound / typical * (1 if first else 2))


Integers = NDArray[np.intp]

# Of .6, .8 and 1, and of .01 to 1, best or nearly so in 19 settings with one record each.
_MEMORY = 0.8  # what earlier steps weigh, after each: their errors are larger than is believed
_LEFT = 0.01  # of the squared error, is what a step with clipped scores leaves of it


class PooledSteps:
    """Estimates of many gradient steps as one, weighted by how far each is believed to be off."""

    def __init__(self, dim: int) -> None:
        self._weights, self._weighted, self._noise = np.zeros((3, dim))
        self.mean = np.zeros(dim)  # 0 where the last step has not asked

    def add(self, asked: Integers, estimate: Floats, variance: float, error: float) -> None:
        """Add estimates of some coordinates, their variance, and how far off the start was."""
        weight = 1 / (variance + _LEFT * error**2)
        self._weights[asked] = _MEMORY * self._weights[asked] + weight
        self._weighted[asked] = _MEMORY * self._weighted[asked] + weight * estimate
        self._noise[asked] = _MEMORY**2 * self._noise[asked] + weight**2 * variance
        self.mean = np.zeros(len(self.mean))
        self.mean[asked] = self._weighted[asked] / self._weights[asked]

    @property
    def std_error(self) -> Floats:
        """Standard deviation of the pooled estimates, of noise alone."""
        return np.asarray(np.sqrt(self._noise) / self._weights)


# Of 20, 35 and 50 steps, planned lengths of 1 to 2 signals, penalties of .3 and 1 and clips of 1 to
# 4, no other was better throughout (7 designs, epsilon 1 to 4); a scale off by 2 costs little.
_RIDGE_STEPS = 50  # at most
_RIDGE_CLIP = 2.0  # of residuals, in units of the targets' scale
_LONGEST = 4.0  # of one step, in units in which a row of features has about length 1

# Errors are .9 to 1.5 times the noise of the steps at epsilon 1 and .2 to .6 times at 4, and 1.2 to
# 4.9 times that of the zero: most of them are bias (three designs, six runs each).
_NO_STANDARD_ERRORS = (
    "Standard errors are not known with several records per user: coefficients are too small, by "
    "steps that end too early and by clipping, more than noise changes them."
)


def ridge_descent(
    run: Run, dim: int, rows: int, scale: float, sparsity: int | None, radius: float | None
) -> Generator[Ask, Estimate, LinearResult]:
    """Follow the mean direction, of length 1, in which users' own ridge regressions point.

    The steps are fitted, see :class:`~..numerics.walk.Walk`: directions have no scale that would
    have to be known, and curvature none that would have to be asked for. The estimate is where the
    mean directions, as a linear function of the positions that they were asked at, are zero. With a
    given sparsity its largest coefficients are kept. Standard errors are not a number, for most of
    the error is bias. Raise TooFewReports if the first cohort does not answer.
    """
    users = run.num_unasked
    cohorts = run.equal_cohorts(users, _RIDGE_STEPS)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    planned = min(_LONGEST, math.sqrt(users / mechanism.variance) / len(cohorts))
    walk = Walk(np.zeros(dim), [planned] * len(cohorts), _LONGEST, fitted=True)
    unit = math.sqrt(dim)  # length of a row of features
    positions: list[Floats] = []
    directions: list[Floats] = []
    counts: list[int] = []
    unanswered = False
    for cohort in cohorts:
        question = RidgeStep(walk.position / unit, unit**2, _RIDGE_CLIP, 0.0, scale, rows)
        try:
            answer = yield Ask(cohort, question, mechanism)
        except TooFewReports:
            if not counts:
                raise
            if unanswered:  # twice in a row: nodes are lost
                break
            unanswered = True
            continue  # the next cohort gets the question
        unanswered = False
        positions.append(walk.position)
        directions.append(answer.mean)
        counts.append(answer.count)
        walk.follow(answer.mean, math.sqrt(mechanism.variance / answer.count), answer.mean)
    estimate = _zero_of(
        np.array(positions), np.array(directions), np.array(counts), sum(walk.steps)
    )
    coef = scale / unit * estimate
    if sparsity is not None:
        coef = keep_largest(coef, sparsity)
    noise = np.where(coef != 0, scale / unit * walk.noise, 0.0)
    if radius is not None:
        coef = project_on_ball(coef, radius)
    result = LinearResult(coef=coef, std_error=noise).doubted()
    return replace(
        result, std_error=np.full(dim, np.nan), notes=[*result.notes, _NO_STANDARD_ERRORS]
    )


def _zero_of(
    positions: Floats, directions: Floats, counts: NDArray[np.int64], longest: float
) -> Floats:
    """Return where mean directions, shape (steps, dim), are zero, by least squares.

    They are taken for ``slope * (zero - position)`` plus noise. Later ones count more, in
    proportion to their number: where little is left to explain, slopes are steeper and residuals
    clipped less. The ``longest`` multiple of a direction is gone along at most.
    """
    weights = counts * np.arange(1, len(counts) + 1)
    weights = weights / weights.sum()
    centre, direction = weights @ positions, weights @ directions
    moved = positions - centre
    turned = -float(weights @ np.sum(moved * directions, axis=1))
    square = float(weights @ np.sum(moved**2, axis=1))
    reach = min(square / turned, longest) if turned > 0 else longest
    return np.asarray(centre + reach * direction)
