"""A file of records that a silo trains networks on, without any code of the operator's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

RECORDS, TARGETS = "records", "targets"


@dataclass(frozen=True)
class RecordsFile:
    """A file of NumPy's (.npz) with the arrays ``records`` and ``targets``.

    Attributes
    ----------
    path : str
        Where it is.
    """

    path: str

    def __call__(self, context: Context | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return records, shape (records, ...), and their targets.

        Raises
        ------
        ValueError
            If the file cannot be read, or does not hold them.
        """
        expected = (
            f"Expected --records to be a file of numpy.savez({RECORDS}=, {TARGETS}=), "
            f"got {Path(self.path).name}"
        )
        try:
            with np.load(self.path, allow_pickle=False) as found:
                arrays = {name: found[name] for name in (RECORDS, TARGETS)}
        except OSError as error:
            raise ValueError(f"{expected}: {error.strerror or error}.") from error
        except Exception as error:  # NumPy's reader fails in many ways
            raise ValueError(f"{expected}, which has no such arrays of numbers.") from error
        records, targets = arrays[RECORDS], arrays[TARGETS]
        if not records.ndim or targets.shape[:1] != records.shape[:1]:
            raise ValueError(
                f"{expected} with records of shape {list(records.shape)} and targets of "
                f"{list(targets.shape)}."
            )
        return records, targets
