"""Links: models of a target's mean, given the linear predictor ``u = <x, theta>``.

The registry is closed: a query contains the name of a link, and no code crosses the wire.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..randomizers.elementwise import cos_and_sin
from ..validation import Floats


@dataclass(frozen=True)
class Link:
    """A model of the target's mean, and the loss to fit it with.

    ``mean`` is the function ``u -> mean of the target``. ``target`` converts the users' targets to
    numbers on this scale, such as a class to 0 or 1. ``loss`` is the function ``(u, y) -> loss`` of
    a record, and ``score`` its derivative in u. A record's gradient is the score times its row.
    ``curvature`` is a typical second derivative of the loss in u. Its inverse is a good step size
    for features of unit variance. For the squared and the logistic loss it is the largest second
    derivative. ``largest_score`` bounds the score's magnitude for all targets that the link allows;
    it is infinity if there is no bound.
    """

    mean: Callable[[Floats], Floats]
    loss: Callable[[Floats, Floats], Floats]
    score: Callable[[Floats, Floats], Floats]
    curvature: float
    largest_score: float
    target: Callable[[Floats], Floats] = np.asarray

    def residual(self, u: Floats, y: Floats) -> Floats:
        """Return the targets minus their means under the model."""
        return np.asarray(self.target(y) - self.mean(u))


def _class(y: Floats) -> Floats:
    """Return 1 for the label of class 1, 0 for class 0 (coded as 0 or -1), NaN if it is missing."""
    return np.where(np.isnan(y), np.nan, np.where(np.greater(y, 0), 1.0, 0.0))


def _logistic_loss(u: Floats, y: Floats) -> Floats:
    return np.asarray(np.logaddexp(0, u) - _class(y) * u)


def _cosine(u: Floats) -> Floats:
    return 2 * u + cos_and_sin(u)[0]


def _cosine_score(u: Floats, y: Floats) -> Floats:
    cosine, sine = cos_and_sin(u)
    return (2 * u + cosine - y) * (2 - sine)


#: ``identity``: y = u + noise, squared loss. ``logistic``: y is 1 with probability
#: 1 / (1 + exp(-u)), otherwise 0 or -1, which mean the same; logistic loss.
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
