"""A run, as its submitter describes it, and what answers its messages: an app or a file."""

import hashlib
import importlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray


@dataclass(frozen=True)
class Run:
    """What came with a run: names that its submitter chose, and its code as bytes.

    Nothing has looked into ``fab``, the packed app.
    """

    run_id: int
    fab_id: str
    fab_version: str
    fab: bytes = field(repr=False)

    @cached_property
    def fab_hash(self) -> str:
        """SHA-256 of the app's bytes, computed here."""
        return hashlib.sha256(self.fab).hexdigest()


class AppError(Exception):
    """There is no such app."""


def load(reference: str) -> ClientApp:
    """Return the app that ``module:attribute`` names; raise AppError if there is none."""
    module, colon, attribute = reference.partition(":")
    if not (module and colon and attribute):
        raise AppError(f"Expected --app MODULE:ATTRIBUTE, got {reference!r}.")
    try:
        app = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise AppError(
            f"The app {reference!r} cannot be loaded: {type(error).__name__}: {error}. Its module "
            "must be installed, or in a folder of PYTHONPATH."
        ) from error
    if not isinstance(app, ClientApp):
        raise AppError(f"Expected {reference!r} to be a ClientApp, got {type(app).__name__}.")
    return app


RECORDS, TARGETS = "records", "targets"


@dataclass(frozen=True)
class RecordsFile:
    """A file of NumPy's (.npz) with the arrays ``records`` and ``targets``."""

    path: str

    def __call__(self, context: Context | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return records, shape (records, ...), and their targets; ValueError if there are none."""
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
