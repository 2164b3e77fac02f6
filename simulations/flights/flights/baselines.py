"""What a reader would use without privacy, fitted on all training rows."""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LassoCV

from .design import Floats


def least_squares(x: NDArray[np.float32], y: Floats) -> Floats:
    """Return the least-squares coefficients (of least norm: indicators are collinear)."""
    x = x.astype(np.float64)
    return np.linalg.pinv(x.T @ x, rcond=1e-10) @ (x.T @ y)


def iterative_hard_thresholding(
    x: NDArray[np.float32], y: Floats, sparsity: int, num_steps: int = 200
) -> Floats:
    """Return plain IHT's coefficients, to convergence, at a step of 1 / largest eigenvalue."""
    x = x.astype(np.float64)
    second_moment, moment = x.T @ x / len(x), x.T @ y / len(x)
    step = 1 / np.linalg.eigvalsh(second_moment)[-1]
    theta = np.zeros(x.shape[1])
    for _ in range(num_steps):
        theta = theta - step * (second_moment @ theta - moment)
        theta[np.argsort(-np.abs(theta), kind="stable")[sparsity:]] = 0.0
    return theta


def lasso(x: NDArray[np.float32], y: Floats) -> Floats:
    """Return the Lasso's coefficients, its penalty chosen by cross-validation."""
    # Column 0 is the intercept, which a Lasso must not shrink.
    fit = LassoCV(alphas=20, cv=3, precompute=True).fit(x[:, 1:].astype(np.float64), y)
    return np.concatenate([[fit.intercept_], fit.coef_])
