"""Regression with public features: users report their residuals from a model."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold

from ldp_flower.data.schema import Schema
from ldp_flower.questions import DrawnLabels
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run
from ..runtime.result import HALF_WIDTH_95
from ..runtime.units import contrasts
from ..subprotocols.number_mean import Number
from ..subprotocols.scales import number_randomizer
from ..subprotocols.size_histogram import SizeHistogram
from . import holdout
from .holdout import HoldOut

#: Hold-out cohorts, in the form of :data:`.holdout.COHORTS`.
COHORTS = {name: holdout.COHORTS[name] for name in ("place", "place again", "sizes")} | {
    "model's sizes": (0.02, 0.05, 2.0, 0.1),
    "left": (0.1, 0.1, 2.0, 0.1),
    "spread": (0.1, 0.1, 2.0, 0.1),
}
#: Share of the users whose reports make the first model; the others report residuals from it.
_FIRST_SHARE = 0.3
_FOLDS = 5  # number of folds of users in cross-validation
_MAX_UNIDENTIFIED = 1e-6  # largest share of a known contrast that the rows do not identify


@dataclass(frozen=True)
class NoisyTargets:
    """Public rows of users, and estimates of their targets from noisy reports."""

    rows: Floats  # (users, num_features), the constant column first
    targets: Floats  # (users,)
    variances: Floats  # (users,): variances of the reports' noise plus the model's residuals
    cut: float  # possible bias of the mean by clipping

    def plus(self, other: "NoisyTargets") -> "NoisyTargets":
        """Return the users of both; the bias is that of ``other``, which is the smaller one."""
        return NoisyTargets(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.variances, other.variances]),
            other.cut,
        )

    def fit(self) -> Floats:
        """Return the coefficients of the ridge regression whose penalty is most likely."""
        ridge = BayesianRidge().fit(self.rows[:, 1:], self.targets, 1 / self.variances)
        return np.concatenate([[ridge.intercept_], ridge.coef_])

    def gain(self) -> Number:
        """Return the cross-validated reduction of squared errors, compared with the mean.

        Each fold, a fifth of the users, evaluates the fit of the others.
        """
        gains = np.zeros(len(self.targets))
        for others, own in KFold(_FOLDS, shuffle=True, random_state=0).split(self.rows):
            parts = self.rows[others], self.targets[others], self.variances[others]
            mean = np.average(parts[1], weights=1 / parts[2])
            moved = self.rows[own] @ NoisyTargets(*parts, self.cut).fit() - mean
            gains[own] = (2 * (self.targets[own] - mean) - moved) * moved
        return _weighted_mean(gains, 1 / self.variances)

    def interval(self, schema: Schema) -> Floats:
        """Return 95 % intervals of the least squares coefficients, shape (num_features, 2).

        An interval is NaN if the rows do not identify the coefficient. Standard errors are HC3,
        valid for any distribution of the reports, and include the possible bias of clipping.
        """
        weights = 1 / self.variances
        weighted = self.rows.T * weights
        gram = weighted @ self.rows
        inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
        theta = inverse @ (weighted @ self.targets)
        leverage = weights * np.einsum("ij,jk,ik->i", self.rows, inverse, self.rows)
        left = (self.targets - self.rows @ theta) / np.maximum(1 - leverage, 0.1)
        turn = contrasts(schema, np.eye(len(theta))).T @ inverse
        errors = np.sqrt(((turn @ (weighted * left)) ** 2).sum(axis=1))
        unseen = contrasts(schema, np.eye(len(theta)) - gram @ inverse)
        # Targets beyond the bounds may be on one side, and more frequent in some rows than others.
        spread = np.sqrt(len(left) * ((turn @ weighted) ** 2).sum(axis=1))
        errors = np.hypot(errors, holdout.ONE_SIDED * self.cut * spread)
        reach = HALF_WIDTH_95 * errors
        reach[np.abs(unseen).max(axis=0) > _MAX_UNIDENTIFIED] = np.nan
        found = contrasts(schema, theta)
        return np.column_stack([found - reach, found + reach])

    def mean(self) -> Number:
        """Return the users' mean target; its error includes the possible bias by clipping."""
        found = _weighted_mean(self.targets, 1 / self.variances)
        return Number(found.value, math.hypot(found.std_error, self.cut))


def _weighted_mean(values: Floats, weights: Floats) -> Number:
    mean = float(np.average(values, weights=weights))
    error = math.sqrt(float(weights**2 @ (values - mean) ** 2)) / float(weights.sum())
    return Number(mean, error)


def mean_drawn_residual(
    cohort: Cohort, epsilon: float, theta: Floats, radius: float
) -> Generator[Ask, Any, Number]:
    """Ask for residuals of rows drawn at random, which are public; return their mean.

    It stands for :func:`.holdout.mean_residual`.
    """
    question, randomizer = DrawnLabels(1, radius, theta), number_randomizer(epsilon, radius)
    answers = yield Ask(cohort, question, randomizer, public=(1, len(theta)))
    return _weighted_mean(answers.values[:, 0], np.ones(answers.count))


def ask_residuals(
    cohort: Cohort, held_out: HoldOut, theta: Floats, law: SizeHistogram, directions: int
) -> Generator[Ask, Any, NoisyTargets]:
    """Return a cohort's rows and targets, from reports of a model's residuals.

    Residuals, of distribution ``law``, are clipped at the bound that minimises bias and the noise
    in ``directions`` directions together. ``held_out`` knows the share of users who have a row.
    """
    epsilon, present = held_out.epsilon, held_out.present
    noise = number_randomizer(epsilon, 1.0).variance / present.value**2
    clip = law.clip(noise * directions / cohort.size, most=2 * holdout.MAX_TARGET)
    randomizer = number_randomizer(epsilon, clip.bound)
    question = DrawnLabels(1, clip.bound, theta)
    answers = yield Ask(cohort, question, randomizer, public=(1, len(theta)))
    rows = answers.public[:, 0].astype(np.float64)
    known = np.isfinite(rows).all(axis=1) & (rows[:, 0] > 0)  # a user without rows has zeros
    rows = rows[known]
    left = answers.values[known, 0] / present.value
    variance = noise * clip.bound**2 + law.root_mean_square**2
    cut = math.hypot(clip.cut, clip.spread)
    return NoisyTargets(rows, rows @ theta + left, np.full(len(left), variance), cut)


def ask_targets(
    run: Run, held_out: HoldOut, start: Floats, law: SizeHistogram
) -> Generator[Ask, Any, tuple[NoisyTargets, SizeHistogram]]:
    """Ask all users not asked yet for residuals; return their targets, and the last residuals' law.

    The first users report residuals from the model ``start``, whose distribution is ``law``, the
    others from the model that is fitted to the first users.
    """
    users = run.num_unasked
    first = round(_FIRST_SHARE * users)
    cohorts = run.cohorts([first, users - first])
    known = yield from ask_residuals(cohorts[0], held_out, start, law, len(start))
    theta = known.fit()
    of_model = yield from held_out.sizes("model's sizes", theta, law.root_mean_square)
    others = yield from ask_residuals(cohorts[1], held_out, theta, of_model, len(start))
    return known.plus(others), of_model


def ask_drawn_gain(
    held_out: HoldOut, theta: Floats, mean: float, law: SizeHistogram
) -> Generator[Ask, Any, Number]:
    """Return the reduction of squared errors by a model, compared with the mean.

    It is computed from a cohort's reports of the model's residuals, of distribution ``law``. It
    stands for :meth:`.holdout.HoldOut.gain`.
    """
    held = yield from ask_residuals(held_out.cohorts["left"], held_out, theta, law, 1)
    moved = held.rows @ theta - mean
    gains = (2 * (held.targets - mean) - moved) * moved
    found = _weighted_mean(gains, np.ones(len(gains)))
    reach = 2 * float(np.sqrt(np.mean(moved**2)))
    return Number(found.value, math.hypot(found.std_error, reach * held.cut))
