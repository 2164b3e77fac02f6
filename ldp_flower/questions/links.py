"""Links: how a target depends on the linear predictor ``u = <x, theta>``.

The registry is closed: a query names a link, and no code crosses the wire.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..randomizers.elementwise import cos_and_sin
from ..validation import Floats


@dataclass(frozen=True)
class Link:
    """A model of the target's mean, and the loss that it is fitted by.

    ``mean`` is the function ``u -> mean of the target``, where ``target`` makes a number of what
    users hold: 0 or 1 of a class. ``loss`` is the function ``(u, y) -> loss``
    of a record, and ``score`` its derivative in u: a record's gradient is the score times its row.
    ``curvature`` is a usual second derivative of the loss in u, the inverse of a good step size for
    features of unit variance; for the squared and the logistic loss it is the largest.
    ``largest_score`` bounds the score's magnitude for targets that the link can have, infinity
    where nothing does.
    """

    mean: Callable[[Floats], Floats]
    loss: Callable[[Floats, Floats], Floats]
    score: Callable[[Floats, Floats], Floats]
    curvature: float
    largest_score: float
    target: Callable[[Floats], Floats] = np.asarray

    def residual(self, u: Floats, y: Floats) -> Floats:
        """Return how far targets are above their means."""
        return np.asarray(self.target(y) - self.mean(u))


def _class(y: Floats) -> Floats:
    """Return 1 for class 1, 0 for class 0, which may be coded -1, and NaN for none."""
    return np.where(np.isnan(y), np.nan, np.where(np.greater(y, 0), 1.0, 0.0))


def _logistic_loss(u: Floats, y: Floats) -> Floats:
    return np.asarray(np.logaddexp(0, u) - _class(y) * u)


def _cosine(u: Floats) -> Floats:
    return 2 * u + cos_and_sin(u)[0]


def _cosine_score(u: Floats, y: Floats) -> Floats:
    cosine, sine = cos_and_sin(u)
    return (2 * u + cosine - y) * (2 - sine)


#: ``identity``: y = u + noise, squared loss. ``logistic``: y is 1 with probability
#: 1 / (1 + exp(-u)), otherwise 0, or -1, which means the same; logistic loss.
#: ``cosine``: y = 2 u + cos(u) + noise, squared loss.
LINKS: Mapping[str, Link] = {
    "identity": Link(lambda u: u, lambda u, y: (u - y) ** 2 / 2, lambda u, y: u - y, 1.0, np.inf),
    "logistic": Link(
        lambda u: np.asarray(expit(u)),
        _logistic_loss,
        lambda u, y: np.asarray(expit(u) - _class(y)),
        0.25,
        1.0,
        _class,
    ),
    "cosine": Link(
        _cosine,
        lambda u, y: (_cosine(u) - y) ** 2 / 2,
        _cosine_score,
        4.5,
        np.inf,
    ),
}
