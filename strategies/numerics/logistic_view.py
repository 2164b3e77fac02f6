"""Logistic regression seen as a linear one of labels -1 and 1.

With normal features of unit variance, ``E[x label] = beta w(|beta|)`` by Stein's lemma:
linear coefficients point where logistic ones do, and their length, ``h(s) = E[Z tanh(s
Z / 2)]`` for logistic ones of length s, gives theirs. A linear view suits votes, posterior
and weights; only what is subtracted and what is returned is logistic.
"""

import numpy as np

from ldp_flower.validation import Floats

_LENGTHS = np.linspace(0.0, 10.0, 401)  # of logistic coefficients; longer ones are shortened
_Z = np.linspace(-8.0, 8.0, 1601)  # a normal variable: 1e-15 of its mass is beyond
_DENSITY = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()
_TANH = np.tanh(_LENGTHS[:, None] * _Z / 2)
_LINEAR_LENGTHS = _TANH @ (_Z * _DENSITY)  # h
_EXPLAINED = _TANH**2 @ _DENSITY
_SLOPES = np.gradient(_LENGTHS, _LINEAR_LENGTHS)


def _stretch(linear: Floats) -> tuple[float, float, float]:
    """Return the length of linear coefficients, of the logistic ones, and the slope."""
    length = float(np.linalg.norm(linear))
    return (
        length,
        float(np.interp(length, _LINEAR_LENGTHS, _LENGTHS)),
        float(np.interp(length, _LINEAR_LENGTHS, _SLOPES)),
    )


def as_logistic(linear: Floats) -> Floats:
    """Return the logistic coefficients with these linear ones."""
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
    """Return the mean square of what the logistic prediction leaves of the labels."""
    logistic = _stretch(linear)[1]
    return 1 - float(np.interp(logistic, _LENGTHS, _EXPLAINED))
