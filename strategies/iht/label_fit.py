"""Sparse least-squares regression of noisy labels on public features."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from ldp_flower.questions.sparse import iht, keep_largest
from ldp_flower.validation import Floats

from ..numerics.denoising import keep_above

# Significance threshold of chi-squared with one or two degrees of freedom: one in 400 exceeds it.
_MOST_CHI_SQUARED = 12.0
_CORRECTION_ERROR = 0.1  # relative error of the correction for clipping if residuals are not normal
_MOST_LOST = 0.99  # largest share that clipping is assumed to remove
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class NoisyLabels:
    """Rows of public features with noisy labels, to which Label-LDP-IHT fits its model.

    A label is estimated from a report, without bias or clipped. A row is narrow if its residual was
    clipped below the residuals' root mean square, and wide otherwise.
    """

    features: Floats  # (rows, dim): the features as the nodes sent them
    labels: Floats  # (rows,): estimates of the labels
    variance: Floats  # (rows,): variance of the estimates' noise
    beyond: Floats  # (rows,): uncorrected share of the residuals' total size that clipping removed
    narrow: NDArray[np.bool_]  # (rows,): True if the row is narrow
    corrected: NDArray[np.bool_]  # (rows,): True if clipping was corrected, at any bound

    @classmethod
    def none(cls, dim: int) -> "NoisyLabels":
        """Return labels of no rows, to which the reports of rounds are added."""
        numbers, truths = np.zeros(0), np.zeros(0, bool)
        return cls(np.zeros((0, dim)), numbers, numbers, numbers, truths, truths)

    def plus(self, other: "NoisyLabels") -> "NoisyLabels":
        """Return the rows of both: these, followed by those of ``other``."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return NoisyLabels(*map(np.concatenate, both))

    def uncorrected(self) -> "NoisyLabels":
        """Return the rows whose clipping was not corrected, for residuals that are not around 0."""
        return NoisyLabels(*(values[~self.corrected] for values in vars(self).values()))

    def on_one_scale(self, scale: float) -> "NoisyLabels":
        """Return the rows with the labels and the noise of wide rows multiplied by ``scale``.

        The factor is that of :class:`LabelFit`, with which wide rows agree with narrow ones.
        """
        scales = np.where(self.narrow, 1.0, scale)
        return replace(self, labels=scales * self.labels, variance=scales**2 * self.variance)

    def fit(self, sparsity: int, solver: str, residual: float, *, centred: bool) -> "LabelFit":
        """Return the weighted least-squares fit with the significant coefficients.

        The weight of a row is the inverse of its variance, the sum of its noise variance and of
        ``residual ** 2``. ``residual`` is the root mean square of the residuals of labels without
        noise. ``solver`` is "iht" or "lasso". If ``centred``, the fit has two intercepts, one for
        narrow rows and one for wide rows.
        """
        units = typical_sizes(self.features)
        x = self.features / units
        of_rows = row_weights(x)
        weights = of_rows / np.sqrt(self.variance + residual**2)
        x, y = weights[:, None] * x, weights * self.labels
        groups = [~self.narrow, self.narrow] if centred else []
        for group in groups:
            own = weights[group] / max(float(np.linalg.norm(weights[group])), _TINY)
            x[group] -= np.outer(own, own @ x[group])
            y[group] -= own * (own @ y[group])
        clears = math.sqrt(2 * math.log(max(x.shape[1], 2)))
        if solver == "iht":
            coef = iht(x, y, sparsity)
        else:
            size = clears / math.sqrt(len(y))
            penalty = size * float(np.std(y)) * math.sqrt(float(np.mean(x**2)))
            model = Lasso(alpha=penalty, fit_intercept=False, precompute=False).fit(x, y)
            coef = _least_squares(x, y, keep_largest(model.coef_, sparsity))
        coef = _least_squares(x, y, keep_above(coef, clears * _errors(x, y, coef)))
        left = self.labels - self.features @ (coef / units)
        square = float(np.mean((y - x @ coef) ** 2))
        precisions, fitted = weights**2, x @ coef

        def line(group: NDArray[np.bool_]) -> _Line | None:
            precision, along = float(precisions[group].sum()), float(fitted[group] @ fitted[group])
            if not precision:
                return None
            intercept = float(precisions[group] @ left[group]) / precision
            slope = float(fitted[group] @ y[group]) / along if along else 1.0
            return _Line(intercept, slope, square / precision, square / along if along else 0.0)

        lines = [line(group) for group in groups]
        found = [each for each in lines if each]
        shares = [1 / max(each.of_intercept, _TINY) for each in found]
        intercepts = [each.intercept for each in found]
        intercept = float(np.average(intercepts, weights=shares)) if found else 0.0
        for group, each in zip(groups, lines, strict=True):
            left[group] -= each.intercept if each else 0.0
        whole = not self.corrected[~self.narrow].any()
        bends, parts = _bends(lines, whole), np.mean(self.narrow)
        lost = float(np.average(self.beyond, weights=weights**2))
        lost /= 1 - min(lost, _MOST_LOST)  # relative to the clipped coefficients
        return LabelFit(
            coef / units,
            np.hypot(_errors(x, y, coef), math.hypot(lost, parts * bends.slope) * coef) / units,
            intercept,
            bends.score > _MOST_CHI_SQUARED,
            bends.scale,
            self._residual(left, coef, of_rows),
            of_unusual_rows(of_rows),
        )

    def _residual(self, left: Floats, coef: Floats, weights: Floats) -> float:
        """Return an upper estimate of the root mean square of new labels' residuals.

        The next round clips residuals at a multiple of it. The reports' noise is not included.
        ``left`` are the residuals of the fit ``coef``. The weight of a row is the square of its
        weight in ``weights`` over its noise variance: about the precision of a squared report. Two
        terms are added to the mean square: one standard error, and ``s (1 + 2 log(d / s))`` over
        the rows' precision, since fitted residuals are smaller than new ones.
        """
        shares = (weights / self.variance) ** 2
        shares /= shares.sum()
        squares = left**2 - self.variance
        mean = float(shares @ squares)
        std_error = float(np.sqrt(np.sum((shares * (squares - mean)) ** 2)))
        s = int(np.count_nonzero(coef))
        own = s * (1 + 2 * math.log(len(coef) / max(s, 1))) / np.sum(1 / self.variance)
        return math.sqrt(max(mean, 0.0) + std_error + float(own))


@dataclass(frozen=True)
class LabelFit:
    """A sparse linear model that was fitted to noisy labels, and what the next round needs."""

    coef: Floats  # (dim,)
    std_error: Floats  # (dim,): standard errors of the coefficients
    intercept: float
    is_askew: bool  # True if narrow rows contradict wide ones: residuals are not around 0
    scale: float  # factor for the labels of wide rows, by comparison with narrow ones
    residual: float  # root mean square of the residuals expected of new labels
    notes: list[str]  # about rows with very small weights


@dataclass(frozen=True)
class _Line:
    """Regression line of labels on the predictions of the joint fit, within one group of rows.

    :func:`_bends` compares the lines of narrow rows and of wide rows.
    """

    intercept: float
    slope: float
    of_intercept: float  # variance of the intercept
    of_slope: float  # variance of the slope


@dataclass(frozen=True)
class _Bends:
    """Differences between the regression lines of narrow rows and of the others."""

    # Test statistic of intercepts and slopes: chi-squared with two degrees of freedom under noise.
    score: float
    slope: float  # difference of the slopes, after subtraction of the noise
    # Shrunken ratio of the slope of narrow rows to that of the others, if the others' clipping was
    # corrected.
    scale: float = 1.0


def _bends(lines: list[_Line | None], whole: bool) -> _Bends:
    """Return the differences between the lines of wide rows (first) and narrow rows (second).

    Slopes enter the test only if ``whole`` is True: the clipping of wide rows was not corrected.
    """
    wide, narrow = lines or (None, None)
    if wide is None or narrow is None:
        return _Bends(0.0, 0.0)
    of_intercepts = (narrow.intercept - wide.intercept) ** 2
    score = of_intercepts / (narrow.of_intercept + wide.of_intercept)
    variance = narrow.of_slope + wide.of_slope
    if not (variance and min(wide.slope, narrow.slope) > 0):
        return _Bends(score, 0.0)
    if not whole:
        believed = _CORRECTION_ERROR**2 / (_CORRECTION_ERROR**2 + variance)
        return _Bends(score, 0.0, (narrow.slope / wide.slope) ** believed)
    of_slopes = (narrow.slope - wide.slope) ** 2
    return _Bends(score + of_slopes / variance, math.sqrt(max(of_slopes - variance, 0.0)))


def _least_squares(x: Floats, y: Floats, selected: Floats) -> Floats:
    """Return the least-squares coefficients of the columns in the support of ``selected``."""
    coef, support = np.zeros(len(selected)), np.flatnonzero(selected)
    coef[support] = np.linalg.lstsq(x[:, support], y, rcond=None)[0]
    return coef


def _errors(x: Floats, y: Floats, coef: Floats) -> Floats:
    """Return the standard errors of the least-squares coefficients in the support of ``coef``."""
    errors, support = np.zeros(len(coef)), np.flatnonzero(coef)
    square = np.sum((y - x @ coef) ** 2) / max(len(y) - len(support), 1)
    covariance = np.linalg.pinv(x[:, support].T @ x[:, support])
    errors[support] = np.sqrt(square * np.diag(covariance))
    return errors


_FULL_WEIGHT_SHARE = 0.9  # share of the rows with full weight, even if the other rows are forged
_MAX_TIMES_MEDIAN = 2.0  # largest influence over the median's, however many rows are forged
_SUSPECT = 0.1  # weight below which rows are counted in a note


def typical_sizes(x: Floats) -> Floats:
    """Return each column's median absolute value, over entries that are not zero; 1 if none are."""
    sizes = np.ones(x.shape[1])
    for j, column in enumerate(x.T):
        if len(held := np.abs(column[column != 0])):
            sizes[j] = np.median(held)
    return sizes


def row_weights(z: Floats) -> Floats:
    """Return the rows' weights, at most 1, by which features and target are multiplied.

    ``z`` are features in units of their typical sizes. After weighting, the largest entry and the
    norm of a row are at most those of the largest of nine rows in ten, and at most twice those of
    the median row. Hence no row has much more influence than others. Since weights depend on
    features only, a linear model of the weighted rows has the same coefficients.
    """
    weights = np.ones(len(z))
    for sizes in (np.abs(z).max(axis=1), np.linalg.norm(z, axis=1)):
        most = min(np.quantile(sizes, _FULL_WEIGHT_SHARE), _MAX_TIMES_MEDIAN * np.median(sizes))
        weights = np.minimum(weights, most / np.maximum(sizes, most))
    return weights


def of_unusual_rows(weights: Floats) -> list[str]:
    """Return a list with a note if rows have very small weights, or an empty list."""
    if not (unusual := int(np.sum(weights < _SUSPECT))):
        return []
    return [
        f"The features of {unusual} of {len(weights)} rows are more than ten times as large as "
        "usual: forged, or on another scale. These rows count as much as others, not more."
    ]
