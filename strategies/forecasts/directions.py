"""What a walk along users' mean directions loses: models of tables, from public numbers.

Every user reports a direction, of length 1. Of its square a share s comes from what all users have
in common, and the rest from the chance of its own few rows: with ``rows`` rows, ``dim`` features
and a model that explains r2 of what varies, ``s = r2 rows / (r2 rows + k (u - r2) dim)``. The mean
of ``users`` reports has noise of ``dim (c + g) / users`` in all, c the mechanism's variance of a
coordinate and g what users differ by. With x, this noise over s, the walk loses about the share
``h = x**a / (1 + x**a)`` of what there is to tell; and steps that are too few leave a share of the
rest. The constants were fitted to runs on made-up tables and judged on others, see
``simulations/studies/planning``.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtr, ndtri


@dataclass(frozen=True)
class Walkers:
    """The constants of one protocol's walk; see above.

    Attributes
    ----------
    noise : float
        What the noise over the signal is multiplied by.
    alone : float
        k, the weight of a user's own few rows.
    unexplained : float
        u, what they vary by beyond a model that explains all; 1 or more.
    differ : float
        g, the variance of users' directions.
    power : float
        a, of the noise over the signal.
    unfinished : float
        The share that too few steps leave of the rest, with few rows.
    """

    noise: float
    alone: float
    unexplained: float
    differ: float
    power: float
    unfinished: float

    def untold(self, users: float, dim: int, rows: float, variance: float, r2: float) -> float:
        """Return x, the noise over the signal, of so many users' reports."""
        signal = r2 * rows / (r2 * rows + self.alone * (self.unexplained - r2) * dim)
        return self.noise * dim * (variance + self.differ) / users / max(signal, _TINY)

    def hidden(self, untold: float) -> float:
        """Return h, the share that noise hides."""
        return 1 / (1 + max(untold, _TINY) ** -self.power)

    def left(self, dim: int, rows: float) -> float:
        """Return the share of the rest that is left."""
        return self.unfinished * dim / (dim + rows)


_TINY = 1e-12
_REGRESSION = Walkers(0.4, 9.0, 1.09, 0.02, 0.76, 0.003)
_OVERSHOOT, _LEVEL = 0.037, 0.211  # R2 lost by slopes that are noise; by a level, times variance
_CLASSIFICATION = Walkers(1.08, 0.543, 5.7, 0.012, 1.1, 0.031)
_SPREAD = 0.6  # standard deviation of the logarithm of x between runs
_REFUSED_BELOW = 0.25  # standard errors of a score, below which shares are returned
_MOST_AUC = 0.9999


def r2_lost(
    users: float, dim: int, rows: float, variance: float, r2: float, level: float = 0.5
) -> float:
    """Return the R2 that PrivateRegression loses.

    Parameters
    ----------
    users : float
        Number of users.
    dim : int
        Number of features, with the intercept.
    rows : float
        Typical number of a user's rows.
    variance : float
        Of a coordinate of one report: ``ball_codebook(epsilon, dim).variance``.
    r2 : float
        What the same model explains without privacy.
    level : float (default: 0.5)
        Share of the runs that lose less.
    """
    untold = _REGRESSION.untold(users, dim, rows, variance, r2) * _luck(level)
    hidden = _REGRESSION.hidden(untold)
    steps = (1 - hidden) * r2 * _REGRESSION.left(dim, rows)
    return (r2 + _OVERSHOOT) * hidden + steps + _LEVEL * variance / users


def auc_lost(
    users: float,
    dim: int,
    rows: float,
    variance: float,
    auc: float,
    score_error: float,
    level: float = 0.5,
) -> float:
    """Return the AUC that PrivateClassification loses.

    Scores of both classes are taken for normal distributions, ``distance`` standard deviations
    apart; noise in the model shrinks that. Of a class's indicator a score explains
    ``distance**2 / (4 + distance**2)``, if classes are of one size. Runs whose judges see
    nothing return the classes' shares, and lose all.

    Parameters
    ----------
    users, dim, rows, variance, level
        As of :func:`r2_lost`.
    auc : float
        What the same model reaches without privacy, .5 at least.
    score_error : float
        Standard error of the AUC that judges tell.
    """
    auc = min(auc, _MOST_AUC)
    distance = math.sqrt(2) * float(ndtri(auc))
    r2 = distance**2 / (4 + distance**2)
    untold = _CLASSIFICATION.untold(users, dim, rows, variance, r2)
    left = _CLASSIFICATION.left(dim, rows)

    def lost(luck: float) -> float:
        kept = (1 - _CLASSIFICATION.hidden(luck * untold)) * (1 - left)
        return auc - float(ndtr(distance * math.sqrt(kept / 2)))

    seen = (auc - 0.5 - lost(1.0)) / score_error
    model = float(ndtr(seen - _REFUSED_BELOW))  # probability that there is one
    return lost(_luck(level / model)) if level < model else auc - 0.5


def _luck(level: float) -> float:
    """Return what x is multiplied by in a run that is worse than this share of them."""
    return math.exp(_SPREAD * float(ndtri(level)))
