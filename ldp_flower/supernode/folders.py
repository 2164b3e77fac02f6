"""Records of a folder for ``--loader``: its index, and a function that reads one file.

The index is the file ``index.csv`` in the folder, with the columns ``file``, ``target`` and,
optionally, ``owner``: the name of the user whom the record is about.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Read = Callable[[Path], NDArray[Any]]
FolderArrays = tuple[NDArray[Any], NDArray[Any]] | tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

_OWN_MODES = ("L", "I;16", "RGB")  # whose numbers are brightness; others are converted


def records_in(folder: str | Path, read: Read) -> FolderArrays:
    """Return the records of a folder with their targets and, if the index has them, owners.

    Parameters
    ----------
    folder : str or Path
        The folder with ``index.csv``, which has the columns ``file`` and ``target``, and may have
        ``owner``.
    read : callable
        Function from the path of a file to a record, such as the pixels of an image. All records
        have one shape.

    Raises
    ------
    ValueError
        If there is no index, if it lacks a column, or if a file has another shape than the first.
    """
    folder = Path(folder)
    with open(folder / "index.csv", newline="", encoding="utf-8-sig") as opened:
        rows = list(csv.DictReader(opened))
    if not rows or not {"file", "target"} <= set(rows[0]):
        raise ValueError("Expected index.csv with rows and the columns file and target.")
    records = [np.asarray(read(folder / row["file"])) for row in rows]
    for row, record in zip(rows, records, strict=True):
        if record.shape != records[0].shape:
            raise ValueError(
                f"Expected files of one shape, got {list(records[0].shape)} in {rows[0]['file']} "
                f"and {list(record.shape)} in {row['file']}."
            )
    found = np.stack(records), np.array([float(row["target"]) for row in rows])
    if "owner" not in rows[0]:
        return found
    return *found, np.array([row["owner"] for row in rows])


def images(folder: str | Path) -> FolderArrays:
    """Return the images of a folder: numbers from 0 to 1, shape (channels, height, width) each."""
    return records_in(folder, _pixels)


def _pixels(file: Path) -> NDArray[np.float32]:
    from PIL import Image

    with Image.open(file) as image:
        plain = image if image.mode in _OWN_MODES else image.convert("RGB")
        pixels = np.asarray(plain)
    bright = (pixels / np.iinfo(pixels.dtype).max).astype(np.float32)
    return np.moveaxis(np.atleast_3d(bright), -1, 0)
