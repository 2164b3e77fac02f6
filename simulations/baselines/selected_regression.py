"""Two- and multi-round sparse regression without privacy, for comparison.

What TwoRoundRegression and MultiRoundRegression compute if reports are not randomised:
the same votes, local fits and gradient steps, and the same division of the users.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def voted_variables(features: Floats, targets: Floats, sparsity: int) -> Integers:
    """Return the variables that most users rank first, by ``|X'y|``.

    Parameters
    ----------
    features : ndarray, shape (users, rows, dim)
        The users' rows.
    targets : ndarray, shape (users, rows)
        Their targets.
    sparsity : int
        Number of variables.
    """
    first = np.argmax(np.abs(np.einsum("urd,ur->ud", features, targets)), axis=1)
    votes = np.bincount(first, minlength=features.shape[2])
    return np.sort(np.argsort(-votes, kind="stable")[:sparsity])


def two_round_regression(features: Floats, targets: Floats, sparsity: int) -> Floats:
    """Return the mean of the second half's least squares on what the first half voted for."""
    half = len(features) // 2
    selected = voted_variables(features[:half], targets[:half], sparsity)
    local = [
        np.linalg.lstsq(x, y, rcond=None)[0]
        for x, y in zip(features[half:, :, selected], targets[half:], strict=True)
    ]
    coef = np.zeros(features.shape[2])
    coef[selected] = np.mean(local, axis=0)
    return coef


def multi_round_regression(
    features: Floats, targets: Floats, sparsity: int, num_steps: int = 5
) -> Floats:
    """Return accelerated mini-batch descent on what the first half voted for."""
    half = len(features) // 2
    selected = voted_variables(features[:half], targets[:half], sparsity)
    x = average = np.zeros(len(selected))
    batches = np.array_split(np.arange(half, len(features)), num_steps)
    for step, batch in enumerate(batches, 1):
        blend, eta = 2 / (step + 1), min(step / 2, 1.0)
        point = blend * x + (1 - blend) * average
        rows = features[batch][:, :, selected].reshape(-1, len(selected))
        gradient = rows.T @ (rows @ point - targets[batch].ravel()) / len(rows)
        x = x - eta * gradient
        average = blend * x + (1 - blend) * average
    coef = np.zeros(features.shape[2])
    coef[selected] = average
    return coef
