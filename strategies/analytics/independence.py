"""Test of independence of two columns, and shares that are shrunk towards independence."""

from dataclasses import replace

import numpy as np
from numpy.random import default_rng
from scipy.stats import chi2

from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.validation import Floats

from ..numerics.denoising import project_on_simplex
from ..numerics.sample import sampling
from .cells import ShareEstimates

_TABLES = 24  # number of simulated tables that estimate the noise in the deviations
_TABLES_OF_TEST = 400  # number of simulated tables that estimate the test's null distribution


def _jacobian(shares: Floats) -> Floats:
    """Return the Jacobian of the shares' deviations from those of independent columns."""
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    same_row = np.kron(np.eye(len(rows)), np.ones((len(columns), len(columns))))
    same_column = np.kron(np.ones((len(rows), len(rows))), np.eye(len(columns)))
    return np.asarray(
        np.eye(shares.size)
        - np.tile(columns, len(rows))[:, None] * same_row
        - np.repeat(rows, len(columns))[:, None] * same_column
    )


def independence(found: ShareEstimates, shape: tuple[int, int]) -> tuple[float, float]:
    """Return the test statistic of independence and its p-value.

    The deviations are weighted by the inverse of their covariance under independence. The null
    distribution is a multiple of a chi-squared distribution, with the mean and the variance that
    the statistic has in simulated tables with this noise.
    """
    shares, _ = found.among_answering()
    shown = project_on_simplex(shares).reshape(shape)
    null = np.outer(shown.sum(axis=1), shown.sum(axis=0)).ravel()
    noise = found.covariance - sampling(found.likely, found.users)
    independent = replace(
        found,
        cells=found.answering * null,
        covariance=noise + sampling(found.answering * null, found.users),
    )
    _, among = independent.among_answering()
    jacobian = _jacobian(null.reshape(shape))
    # the deviations of these cells determine all others
    free = np.arange(shares.size).reshape(shape)[:-1, :-1].ravel()
    weights = np.linalg.pinv((jacobian @ among @ jacobian.T)[np.ix_(free, free)], hermitian=True)

    def statistic(shares: Floats) -> Floats:
        """Return the test statistic of each table, for tables of shape (tables, rows, columns)."""
        margins = shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :]
        off = (shares - margins).reshape(len(shares), -1)[:, free]
        return np.asarray(np.einsum("ti,ij,tj->t", off, weights, off))

    rng = default_rng(0)
    rest = max(1 - found.answering, 0.0)
    chances = np.append(found.answering * null, rest)
    drawn = rng.multinomial(found.users, chances / chances.sum(), _TABLES_OF_TEST)[:, :-1]
    values, vectors = np.linalg.eigh(noise)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    cells = drawn / found.users + rng.standard_normal((_TABLES_OF_TEST, len(root))) @ root.T
    cells /= np.maximum(cells.sum(axis=1), 1e-9)[:, None]
    usual = statistic(cells.reshape(-1, *shape))
    own = float(statistic(shares.reshape(1, *shape))[0])
    scale = float(usual.var() / (2 * usual.mean()))
    return own, float(chi2.sf(own / scale, usual.mean() / scale))


def smoothed(shares: Floats, covariance: Floats) -> Floats:
    """Return non-negative shares that are shrunk towards independence.

    Negative shares are removed first. The remaining deviations are compared with the deviations of
    independent columns in simulated tables with this noise.
    """
    shown = project_on_simplex(shares.ravel()).reshape(shares.shape)
    product = np.outer(shown.sum(axis=1), shown.sum(axis=0))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = KeyedRandom(derive(np.arange(_TABLES))).normals((_TABLES, shares.size)) @ root.T
    drawn = [project_on_simplex(product.ravel() + each).reshape(shares.shape) for each in noise]
    expected = float(np.mean([_squares(each) for each in drawn]))
    found = _squares(shown)
    kept: float = max(0.0, 1 - expected / found) if found else 0.0
    return product + kept * (shown - product)


def _squares(shares: Floats) -> float:
    """Return the sum of the squared deviations from the product of the margins."""
    return float(np.square(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())
