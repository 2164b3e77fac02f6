"""The data of both experiments of Wang & Xu (ICML 2019)."""

import logging
from functools import lru_cache
from pathlib import Path
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import fetch_covtype

from ...harness.paper_data import COVERTYPE

Floats = NDArray[np.float64]

LABEL_NOISE = 0.05  # C: labels are <x, theta> + U[-C, C]
COVERTYPE_ROWS, _LODGEPOLE = 581_012, 2


def labelled(rows: int, dim: int, sparsity: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return features of signs, labels, and the ``sparsity`` coefficients from U[0, 1]."""
    rng = np.random.default_rng(seed)
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.uniform(0, 1, sparsity)
    x = rng.choice([-1.0, 1.0], (rows, dim))
    return x, x @ theta + rng.uniform(-LABEL_NOISE, LABEL_NOISE, rows), theta


@lru_cache(maxsize=1)
def covertype(file: Path | None) -> tuple[Floats, Floats, str]:
    """Return normalised features, the class "lodgepole pine or not", and where they are from.

    Columns are brought to mean 0 and variance 1 (by the data: what is compared are errors on
    these data, not privacy end to end), rows to length 1. Without a file scikit-learn fetches
    Covertype; where it cannot, a synthetic stand-in of the same width takes its place, see
    :func:`stand_in`.
    """
    if file is not None:
        features, classes = COVERTYPE.load(file)
        return _normalised(features.toarray()), (classes == _LODGEPOLE).astype(float), "Covertype"
    try:
        data, target = fetch_covtype(return_X_y=True, n_retries=1, delay=0.1)
    except (URLError, OSError) as error:
        logging.getLogger(__name__).warning("Covertype cannot be fetched: %s", error)
        return *stand_in(COVERTYPE_ROWS // 4), "stand-in"
    return _normalised(data), (target == _LODGEPOLE).astype(float), "Covertype"


def stand_in(rows: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return data like Covertype's: 10 correlated numbers, 4 areas, 40 soils, two classes.

    Numbers are normal with five common factors; a row lies in one of 4 areas and has one of
    40 soils, of frequencies 1 / rank. Ten coefficients decide a logistic class, with which
    the smallest loss (with the experiment's ridge) is about 0.5.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, 10))
    numbers += rng.standard_normal((rows, 10))
    frequencies = 1 / np.arange(1, 41)
    area = np.eye(4)[rng.integers(0, 4, rows)]
    soil = np.eye(40)[rng.choice(40, rows, p=frequencies / frequencies.sum())]
    x = _normalised(np.concatenate([numbers, area, soil], axis=1))
    theta = np.zeros(COVERTYPE.num_features)
    chosen = [*rng.choice(10, 5, replace=False), *rng.choice(np.arange(10, 34), 5, replace=False)]
    theta[chosen] = 5 * rng.choice([-1.0, 1.0], 10)
    return x, (rng.random(rows) < expit(x @ theta)).astype(float)


def _normalised(data: Floats) -> Floats:
    centred = data - data.mean(axis=0)
    scaled = centred / np.maximum(centred.std(axis=0), 1e-12)
    # The soils that nobody has would be the longest features of those who have them.
    clipped = np.clip(scaled, -3, 3)
    return np.asarray(clipped / np.maximum(np.linalg.norm(clipped, axis=1, keepdims=True), 1e-12))
