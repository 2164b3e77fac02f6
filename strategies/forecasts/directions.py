"""What a walk along users' mean directions loses: models of tables, from public numbers.

Every user reports a direction, of length 1. Of its square a share s comes from what all users have
in common, and the rest from the chance of its own few rows. The mean of n users' directions has a
noise of ``dim (c + g) / n`` in all, c the mechanism's variance of a coordinate and g what users
differ by. With x, this noise over s, the walk loses about the share ``h = x**a / (1 + x**a)`` of
what there is to tell. The constants of s, g, a and the rest were fitted to 240 and 183 runs on
made-up tables, each of its own numbers of users (350 to 12,000), features (3 to 50), rows (1 to
40), epsilon (.5 to 8) and quality, and judged on others: see ``simulations/studies/planning``.
"""

import math

from scipy.special import ndtr, ndtri

_SPREAD = 0.9  # standard deviation of the logarithm of x between runs of the same numbers
_TINY = 1e-9
_MOST_AUC = 0.9999
_REFUSED_BELOW = 0.25  # standard errors of a score, below which shares are returned


def r2_lost(
    users: float, dim: float, rows: float, variance: float, r2: float, level: float = 0.5
) -> float:
    """Return the R2 that PrivateRegression loses.

    The better a model explains a user's own rows, the more of its direction is signal; of a
    single row less than of a tenth of ten. Slopes that are noise alone cost more than all that
    there is, and a level what judges' noise does.

    Parameters
    ----------
    users : float
        Number of users.
    dim : float
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
    own, common = 19.6 * (1.03 - r2) * dim**0.676, r2 * (rows - 0.394)
    signal = max(common / (common + own), _TINY)
    noise = 0.907 * dim * (variance + 0.0285) / users / signal * _luck(level)
    return (r2 + 0.016) * _hidden(noise, 0.888) + 0.419 * variance / users


def auc_lost(
    users: float,
    dim: float,
    rows: float,
    variance: float,
    auc: float,
    score_error: float,
    level: float = 0.5,
) -> float:
    """Return the AUC that PrivateClassification loses.

    Scores of both classes are taken for normal distributions, ``distance`` standard deviations
    apart, and noise in the model shrinks that. Of a class's indicator a score explains
    ``distance**2 / (4 + distance**2)``, if classes are of one size. Steps that are too few leave
    a little, the more the fewer rows a user has. Runs whose judges see nothing return the
    classes' shares, and lose all.

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
    explained = (distance**2 / (4 + distance**2)) ** 0.402
    signal = max(explained * rows / (explained * rows + 10.75 * dim), _TINY)
    noise = 0.936 * dim * (variance + 0.0192) / users / signal
    walked = 1 - 0.0183 * dim / (dim + rows)

    def lost(luck: float) -> float:
        kept = walked * (1 - _hidden(luck * noise, 1.0))
        return auc - float(ndtr(distance * math.sqrt(kept / 2)))

    seen = (auc - 0.5 - lost(1.0)) / score_error
    model = float(ndtr(seen - _REFUSED_BELOW))  # probability that there is one
    return lost(_luck(level / model)) if level < model else auc - 0.5


def _hidden(noise: float, power: float) -> float:
    """Return the share that so much noise hides, in units of the signal."""
    return 1 - 1 / (1 + math.pow(noise, power))


def _luck(level: float) -> float:
    """Return what noise is multiplied by in a run that is worse than this share of them."""
    return math.exp(_SPREAD * float(ndtri(level)))
