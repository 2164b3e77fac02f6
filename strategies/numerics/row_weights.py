"""How much rows of public features may count, whoever sent them."""

import numpy as np

from ldp_flower.validation import Floats

_FULL_WEIGHT_SHARE = 0.9  # share of the rows that count in full, if the others are forged or not
_MAX_TIMES_MEDIAN = 2.0  # times the median: the most that counts, however many are forged
_SUSPECT = 0.1  # a row of which no more than this counts is told of


def typical_sizes(x: Floats) -> Floats:
    """Return the median size of each column's entries that are not zero, 1 if there are none."""
    sizes = np.ones(x.shape[1])
    for j, column in enumerate(x.T):
        if len(held := np.abs(column[column != 0])):
            sizes[j] = np.median(held)
    return sizes


def row_weights(z: Floats) -> Floats:
    """Return what to multiply rows by, features and target alike, at most 1.

    A row times its weight has no larger entry, and is no longer, than the largest of nine
    rows in ten, and than twice the median row. So a linear model is fitted to rows of which none
    counts much more than others. Since weights depend on features only, it has the same
    coefficients.

    Parameters
    ----------
    z : ndarray of float64, shape (rows, dim)
        Features in units of their columns' typical sizes; no row is all zero.
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
