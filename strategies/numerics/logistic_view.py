"""Logistic regression, treated as linear regression of labels -1 and 1.

With normal features of unit variance, E[x label] = beta w(|beta|) by Stein's lemma. So the linear
coefficients have the direction of the logistic ones. Their norm is h(s) = E[Z tanh(s Z / 2)] if the
logistic ones have the norm s, which determines s.
"""

import numpy as np

from ldp_flower.validation import Floats

_LENGTHS = np.linspace(0.0, 10.0, 401)  # norms of logistic coefficients; larger ones are clipped
_Z = np.linspace(-8.0, 8.0, 1601)  # values of a normal variable; 1e-15 of its mass is outside
_DENSITY = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()
_TANH = np.tanh(_LENGTHS[:, None] * _Z / 2)
_LINEAR_LENGTHS = _TANH @ (_Z * _DENSITY)  # h
_EXPLAINED = _TANH**2 @ _DENSITY
_SLOPES = np.gradient(_LENGTHS, _LINEAR_LENGTHS)


def _stretch(linear: Floats) -> tuple[float, float, float]:
    """Return the norms of the linear and of the logistic coefficients.

    The third value is the derivative of the logistic norm by the linear norm.
    """
    length = float(np.linalg.norm(linear))
    return (
        length,
        float(np.interp(length, _LINEAR_LENGTHS, _LENGTHS)),
        float(np.interp(length, _LINEAR_LENGTHS, _SLOPES)),
    )


def as_logistic(linear: Floats) -> Floats:
    """Return the logistic model's coefficients that correspond to those of a linear model."""
    length, logistic, _ = _stretch(linear)
    return linear * (logistic / length if length else _SLOPES[0])


def logistic_std_error(linear: Floats, variance: Floats) -> Floats:
    """Return the standard errors of :func:`as_logistic`, given the linear ones' variances.

    The derivative of ``as_logistic`` is ``a I + b u u'`` with ``u = linear / |linear|``.
    """
    length, logistic, slope = _stretch(linear)
    if not length:
        return np.asarray(_SLOPES[0] * np.sqrt(variance))
    across = logistic / length
    squares = (linear / length) ** 2
    along = slope - across
    total = along**2 * squares * float(squares @ variance)
    return np.sqrt(across * (across + 2 * along * squares) * variance + total)


def logistic_unexplained(linear: Floats) -> float:
    """Return the mean square of the labels' residuals under the logistic prediction."""
    logistic = _stretch(linear)[1]
    return 1 - float(np.interp(logistic, _LENGTHS, _EXPLAINED))
