"""Sparse least squares of noisy labels on public features."""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import Lasso

from ldp_flower.iht import iht, keep_largest
from ldp_flower.validation import Floats

from ..numerics.denoising import keep_above


@dataclass(frozen=True)
class NoisyLabels:
    """Rows of public features with estimates of their labels."""

    features: Floats  # (rows, dim): the features as nodes sent them
    labels: Floats  # (rows,): unbiased estimates of the labels
    variance: Floats  # (rows,): variance of their noise

    def plus(self, other: "NoisyLabels") -> "NoisyLabels":
        """Return both together."""
        return NoisyLabels(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.variance, other.variance]),
        )

    def fit(self, sparsity: int, solver: str, residual: float) -> "LabelFit":
        """Return weighted least squares on the coefficients that clear the noise.

        A row counts by the inverse of its variance, that of noise and of the residual together: the
        root mean square of what the coefficients leave of labels without noise.
        """
        units = typical_sizes(self.features)
        x = self.features / units
        of_rows = row_weights(x)
        weights = of_rows / np.sqrt(self.variance + residual**2)
        x, y = weights[:, None] * x, weights * self.labels
        clears = math.sqrt(2 * math.log(max(x.shape[1], 2)))
        if solver == "iht":
            coef = iht(x, y, sparsity)
        else:
            size = clears / math.sqrt(max(len(y), 1))
            penalty = size * float(np.std(y)) * math.sqrt(float(np.mean(x**2)))
            model = Lasso(alpha=penalty, fit_intercept=False, precompute=False).fit(x, y)
            coef = _least_squares(x, y, keep_largest(model.coef_, sparsity))
        coef = _least_squares(x, y, keep_above(coef, clears * _errors(x, y, coef)))
        return LabelFit(
            coef / units,
            _errors(x, y, coef) / units,
            self._residual(coef / units, of_rows),
            of_unusual_rows(of_rows),
        )

    def _residual(self, coef: Floats, weights: Floats) -> float:
        """Return the root mean square to expect of new labels' residuals, rather too large.

        Without the reports' noise. Rows are weighted by the inverse square of its variance, about
        the precision of a squared report, and by their own weights. Added are one standard error
        and the coefficients' own ``s (1 + 2 log(d / s))`` over the rows' precision: fitted
        residuals are smaller.
        """
        if not len(self.labels):
            return 0.0
        shares = (weights / self.variance) ** 2
        shares /= shares.sum()
        squares = (self.labels - self.features @ coef) ** 2 - self.variance
        mean = float(shares @ squares)
        std_error = float(np.sqrt(np.sum((shares * (squares - mean)) ** 2)))
        s = int(np.count_nonzero(coef))
        own = s * (1 + 2 * math.log(len(coef) / max(s, 1))) / np.sum(1 / self.variance)
        return math.sqrt(max(mean, 0.0) + std_error + float(own))


@dataclass(frozen=True)
class LabelFit:
    """A fit to noisy labels."""

    # (dim,): the coefficients and their standard errors
    coef: Floats
    std_error: Floats
    residual: float  # root mean square of what they are expected to leave of other labels
    notes: list[str]  # about rows that hardly count


def _least_squares(x: Floats, y: Floats, selected: Floats) -> Floats:
    """Return the least squares coefficients on the support of ``selected``."""
    coef, support = np.zeros(len(selected)), np.flatnonzero(selected)
    coef[support] = np.linalg.lstsq(x[:, support], y, rcond=None)[0]
    return coef


def _errors(x: Floats, y: Floats, coef: Floats) -> Floats:
    """Return the standard errors of least squares on the support of ``coef``."""
    errors, support = np.zeros(len(coef)), np.flatnonzero(coef)
    square = np.sum((y - x @ coef) ** 2) / max(len(y) - len(support), 1)
    covariance = np.linalg.pinv(x[:, support].T @ x[:, support])
    errors[support] = np.sqrt(square * np.diag(covariance))
    return errors


_FULL_WEIGHT_SHARE = 0.9  # share of the rows that count in full, if the others are forged or not
_MAX_TIMES_MEDIAN = 2.0  # times the median: the most that counts, however many are forged
_SUSPECT = 0.1  # a row of which no more than this counts is named in a note


def typical_sizes(x: Floats) -> Floats:
    """Return the median size of each column's entries that are not zero, 1 if there are none."""
    sizes = np.ones(x.shape[1])
    for j, column in enumerate(x.T):
        if len(held := np.abs(column[column != 0])):
            sizes[j] = np.median(held)
    return sizes


def row_weights(z: Floats) -> Floats:
    """Return what to multiply rows by, features (in typical sizes) and target alike, at most 1.

    A row times its weight has no larger entry, and is no longer, than the largest of nine rows in
    ten, and than twice the median row. Since weights depend on features only, a linear model of
    weighted rows, of which none counts much more than others, has the same coefficients.
    """
    weights = np.ones(len(z))
    if len(z):
        for sizes in (np.abs(z).max(axis=1), np.linalg.norm(z, axis=1)):
            most = min(np.quantile(sizes, _FULL_WEIGHT_SHARE), _MAX_TIMES_MEDIAN * np.median(sizes))
            weights = np.minimum(weights, most / np.maximum(sizes, most))
    return weights


def of_unusual_rows(weights: Floats) -> list[str]:
    """Return a note if rows are so large that they hardly count."""
    if not (unusual := int(np.sum(weights < _SUSPECT))):
        return []
    return [
        f"The features of {unusual} of {len(weights)} rows are more than ten times as large as "
        "usual: forged, or on another scale. These rows count as much as others, not more."
    ]
