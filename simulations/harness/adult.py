"""The rows of Adult as a9a has them: 14 attributes, numbers of them cut into five bins."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_svmlight_file

A9A_FILE = "adult_a9a_tick.trn.svm.bz2"
A9A_ROWS = 32_561  # of Adult's training file; 26,049 of them are four fifths


def a9a(folder: Path | None) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return the 123 indicators of each row, and whether it earns more than 50,000 dollars.

    Parameters
    ----------
    folder : Path or None
        Where the file is; without one OpenML is asked.
    """
    if folder is not None:
        x, y = load_svmlight_file(folder / A9A_FILE, n_features=123)
    else:
        x, y = fetch_openml("a9a", version=1, as_frame=False, return_X_y=True)
        x, y = x[:A9A_ROWS], np.asarray(y[:A9A_ROWS], np.float64)
    return np.asarray(x.toarray() > 0), (y > 0).astype(np.int64)
