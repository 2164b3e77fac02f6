"""LDP-IHT: sparse linear regression by private gradient steps and hard thresholding."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.expectation import LowerBound, NoPlan, Setting
from ldp_flower.questions import ResidualOctave
from ldp_flower.questions.links import LINKS
from ldp_flower.randomizers import Randomizer, SubsetHypercube, ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, Positive, check_choice, check_integer, check_unused

from ..forecasts import lower_bounds
from ..forecasts.populations import (
    LinearUsers,
    features_of,
    linear_users,
    normals,
    rows_for,
    users_of,
)
from ..runtime import (
    Card,
    FeatureStrategy,
    LinearResult,
    Protocol,
    Run,
    TooFewReports,
    guarantees,
)
from ..runtime.at_node import AtNode
from ..subprotocols.octaves import ask_size, size_askers
from ..sums.sparse import regress_sparsely
from .one_record import OneRecord, users_for_sizes
from .ridge_descent import ridge_descent

_MORE_FOR_CLASSES = 5  # classes need this many times as many users as numerical targets
_PLANNED_SPARSITY = 4  # sparsity in a plan for which no strategy was constructed


@dataclass(kw_only=True, eq=False, repr=False)
class LdpIht(AtNode, FeatureStrategy[LinearResult]):
    """Strategy for linear regression, optionally sparse, from one randomised gradient per user.

    The users are split into disjoint cohorts. Each step sends the current estimate to one cohort,
    averages its randomised gradients, updates the estimate and keeps the largest coefficients. No
    prior knowledge of features and targets is needed with one record per user: the first cohorts
    report on their means and sizes, and each gradient has a flag that says if it was clipped.
    With several records, a user reports the direction of its own ridge step, see
    :func:`~.ridge_descent.ridge_descent`. In that case the sparsity is optional.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    sparsity : int, optional
        Number of coefficients that may differ from zero. By default all may differ, which requires
        several records per user and noise at the user.
    samples_per_user : int (default: 1)
        Typical number of records of a user. It is a public guess; a user may hold any number of
        records. With more than one, features should be roughly centred and of unit scale.
    radius : float, optional
        Bound on the Euclidean norm of the coefficients, for several records per user. By default
        there is no bound.
    target_scale : float, optional
        Root mean square of the (centred) targets, if it is public within a factor of 2, for several
        records per user. By default a small cohort estimates it.
    link : {"identity", "logistic", "cosine"} (default: "identity")
        Model of the target given ``u = <x, coef> + intercept``. ``"identity"``: ``u`` plus noise.
        ``"logistic"``: 1 with probability ``1 / (1 + exp(-u))``, otherwise 0. ``"cosine"``: ``2 u +
        cos(u)`` plus noise. The last two require one record per user.

    Notes
    -----
    For tables with known bounds and categories, use
    :class:`~ldp_flower.strategies.PrivateRegression` and
    :class:`~ldp_flower.strategies.PrivateClassification`.

    Source: Wang & Xu, "On Sparse Linear Regression in the Local Differential Privacy Model", ICML
    2019, Algorithm 1. Changes: the gradient is truncated at the new iterate (line 6 is misprinted);
    cohorts are disjoint and cover all users (line 1 overlaps by one); the randomizer is a codebook
    for a ball, private in any dimension; features are centred, and there is an intercept; gradients
    are clipped at their estimated size instead of the worst case, for which the noise would be too
    large; a linear model is fitted to all steps, and its zero is the estimate; once the support is
    clear, cohorts report on the 2 s most significant coordinates only, where the noise is smaller;
    a twentieth of the users are held out to evaluate the model. The other links are from the
    paper's section 6 and from its non-linear experiments (Yang et al., ICML 2016).

    With one record per user ``std_error`` covers the noise and the uncertainty about scales and
    about the effect of clipping. For a coefficient that is set to zero, it also covers the
    coefficient's estimated size. It is NaN if the model is not better than the targets' mean. With
    several records there are up to 50 steps. Their lengths are fitted to the reported directions,
    and the estimate is the joint zero of all directions. Targets should be centred. Standard errors
    are NaN, since most of the error is bias.

    With noise at the node all users answer every step, and no records need to be centred or scaled,
    see :func:`~..sums.sparse.regress_sparsely`. Standard errors are those of least squares, given
    the support, from a last step by noisy normal equations. Records that are longer than usual
    weigh less in it. The standard error of a coefficient that is left out covers what noise may
    have hidden. R2 is computed on the users whom the model was fitted to.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="sparse linear or logistic regression",
        guarantee="pure epsilon",
        rounds="up to 28; with several records 51, with noise at the node 94",
        report="1-2",
        use_when="few of many features matter",
        fails_when="with fewer than 20 s log(d) d V users, V = 16.7, 4.7, 1.3, 0.42 at epsilon "
        "0.5, 1, 2, 4 (s of d features)",
        page="ldp-iht",
    )

    plans_with = frozenset({"num_features", "rows_per_user", "quality", "variance_between"})

    sparsity: int | None = None
    samples_per_user: Count = 1
    radius: Positive | None = None
    target_scale: Positive | None = None
    link: str = "identity"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_record_each = self.samples_per_user == 1
        if self.sparsity is not None:
            check_integer("sparsity", self.sparsity, 1, self.dim)
        elif self._one_record_each or self.noise != "user":
            raise ValueError(
                "Expected a sparsity with one record per user (samples_per_user=1) and with "
                'noise="node", got None.'
            )
        check_choice("link", self.link, LINKS)
        if self.link != "identity" and not self._one_record_each:
            raise ValueError(
                f"Expected samples_per_user = 1 with the link {self.link}, "
                f"got {self.samples_per_user}."
            )
        if self._one_record_each:
            check_unused(self, "with one record per user", "radius", "target_scale")
        if self.noise != "user":
            names = "radius", "target_scale", "link", "min_reports"
            check_unused(self, 'with noise="node"', *names)
        self._sparsity = self.sparsity or self.dim
        self.randomizer(self.dim)  # raises an error now if epsilon is invalid

    def randomizer(self, dim: int, radius: float = 1.0) -> Randomizer:
        """Return the mechanism for vectors of ``dim`` coordinates in a ball."""
        return ball_codebook(self.epsilon, dim, radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: with one record per user, and several."""
        enough = 2 * users_for_sizes(epsilon) + 3000
        for rows, num_users in ((1, enough), (5, size_askers(epsilon) + 200)):
            users = users_of(np.sign(normals(num_users * rows, dim)), rows)
            for link in LINKS if rows == 1 else ("identity",):
                strategy = cls(dim, sparsity=1, epsilon=epsilon, samples_per_user=rows, link=link)
                yield strategy, users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for at most four non-zero coefficients."""
        dim, rows = features_of(setting, cls), round(setting.rows_per_user)
        sparsity = min(_PLANNED_SPARSITY, dim)
        return cls(dim, epsilon=epsilon, sparsity=sparsity, samples_per_user=rows)

    def synthetic(self, setting: Setting) -> LinearUsers:
        """Return a population for plans: users whose targets follow one linear model."""
        if self.link != "identity":
            raise NoPlan("Only link='identity' of LdpIht has a plan.")
        return linear_users(
            setting, self.dim, self._sparsity, samples_per_user=self.samples_per_user
        )

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the known lower bounds on the error of sparse regression with private rows."""
        if self._one_record_each:
            return lower_bounds.one_row(self.epsilon, rounds=True)
        rows = rows_for(setting, self.samples_per_user)
        return lower_bounds.many_rows(
            self.epsilon, setting.num_users, self.dim, self._sparsity, rows
        )

    def protocol(self, run: Run) -> Protocol:
        """Run the variant for one record or for several records per user."""
        if self.noise != "user":
            given = self.dim, self._sparsity, self.samples_per_user, self.delta
            return (yield from regress_sparsely(run, *given))[0]
        if self._one_record_each:
            self._check_users(run.num_users)
            return (yield from OneRecord(run, self.dim, self._sparsity, self.link).protocol())
        scale = self.target_scale
        if scale is None:
            # A scale that is off by a factor of 2 costs little. So a third of the users who would
            # be needed for an error of 15 % is enough.
            askers = max(math.ceil(size_askers(self.epsilon) / 3), run.min_reports)
            if run.num_users < askers + self.min_reports:  # checked before the first query
                raise TooFewReports(self.too_small(run.num_users))
            (cohort,) = run.cohorts([askers])
            question = ResidualOctave(np.zeros(self.dim), 0.0)
            degrees = float(self.samples_per_user)
            scale = (yield from ask_size(cohort, question, self.epsilon, degrees)).value
        rows, sparsity = self.samples_per_user, self.sparsity
        return (yield from ridge_descent(run, self.dim, rows, scale, sparsity, self.radius))

    def _check_users(self, num_users: int) -> None:
        """Raise TooFewReports if the result would be noise, before the first query.

        The limit is a fifth of the number of users that find the coefficients if these explain
        nearly all of the targets' variance.
        """
        variance = SubsetHypercube(self.epsilon, self.dim, 1.0).variance
        rule = 4 * self._sparsity * math.log(max(self.dim, 2)) * variance
        classes = self.link == "logistic"
        needed = max(rule * (_MORE_FOR_CLASSES if classes else 1), users_for_sizes(self.epsilon))
        if num_users < needed:
            other = "PrivateClassification" if classes else "PrivateRegression"
            raise TooFewReports(
                TooFew(
                    f"{num_users:,} users are too few for {self._sparsity} of {self.dim} features "
                    f"with link={self.link!r} at epsilon {self.epsilon:g}: the result would be "
                    "noise.",
                    "noise",
                    advice=f"{other}(schema, epsilon=...) needs fewer.",
                )
            )
