"""The operator's choices when starting a node: an app, a table or records to answer from."""

import importlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from ..clients import LdpClientApp, NetworkClientApp
from ..data.names import MissingIds
from ..data.schema import Schema, TableLoader
from ..guarantee.peers import KeyFiles
from ..models import Limits


class AppError(Exception):
    """Error of an app that cannot be loaded."""


@dataclass(frozen=True)
class OwnApp:
    """The operator's ClientApp, given as ``module:attribute``."""

    reference: str

    def client_app(self) -> ClientApp:
        """Return the app; raise AppError if it cannot be loaded."""
        app = _imported("app", self.reference)
        if not isinstance(app, ClientApp):
            kind = type(app).__name__
            raise AppError(f"Expected {self.reference!r} to be a ClientApp, got {kind}.")
        return app


def _imported(option: str, reference: str) -> Any:
    """Return the operator's object at ``module:attribute``; raise AppError if there is none."""
    module, colon, attribute = reference.partition(":")
    if not (module and colon and attribute):
        raise AppError(f"Expected --{option} MODULE:ATTRIBUTE, got {reference!r}.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise AppError(
            f"The {option} {reference!r} cannot be loaded: {type(error).__name__}: {error}. "
            "Its module must be installed, or in a folder of PYTHONPATH."
        ) from error


RECORDS, TARGETS, OWNERS = "records", "targets", "owners"

#: Records, targets and, if they are known, the owner of each record.
RecordArrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


@dataclass(frozen=True)
class OwnRecords:
    """Records on which networks are trained: a NumPy file, or what the operator's loader makes.

    Without a loader, ``path`` is a file (.npz) with ``records`` and ``targets``. The array
    ``owners``, if there is one, has the name of the user whom each record is about. A ``loader``,
    given as ``module:function``, returns these two or three arrays for ``path``, such as a folder.
    ``max_frozen`` is the largest number of a network's parameters that are not trained.
    """

    path: str
    max_frozen: int = Limits().frozen
    loader: str | None = None

    @property
    def limits(self) -> Limits:
        """Limits on the networks that are trained on these records."""
        return Limits(frozen=self.max_frozen)

    def client_app(self) -> ClientApp:
        """Return the app that trains the networks in a server's messages on these records."""
        return NetworkClientApp(self, limits=self.limits)

    def __call__(self, context: Context | None = None) -> RecordArrays:
        """Return records, shape (records, ...), targets, and owners or None.

        The app that trains on the records calls this for each message. Raise ValueError for a bad
        file and for an error of the loader.
        """
        if self.loader is None:
            expected = (
                f"Expected --records to be a file of numpy.savez({RECORDS}=, {TARGETS}=), "
                f"got {Path(self.path).name}"
            )
            records, targets, owners = self._read(expected)
        else:
            expected = (
                f"Expected --loader {self.loader} to return records, targets and perhaps owners "
                f"for {Path(self.path).name}"
            )
            records, targets, owners = self._made(self.loader, expected)
        if not records.ndim or targets.shape[:1] != records.shape[:1]:
            raise ValueError(
                f"{expected}, with one target a record: it has records of shape "
                f"{list(records.shape)} and targets of shape {list(targets.shape)}."
            )
        return records, targets, owners

    def _read(self, expected: str) -> RecordArrays:
        try:
            with np.load(self.path, allow_pickle=False) as found:
                arrays = {name: found[name] for name in (RECORDS, TARGETS)}
                owners = found.get(OWNERS)
        except OSError as error:
            raise ValueError(f"{expected}: {error.strerror or error}.") from error
        except Exception as error:  # NumPy's reader fails in many ways
            raise ValueError(f"{expected}, which has no such arrays of numbers.") from error
        return arrays[RECORDS], arrays[TARGETS], owners

    def _made(self, loader: str, expected: str) -> RecordArrays:
        try:
            arrays = [np.asarray(each) for each in _imported("loader", loader)(self.path)]
        except Exception as error:  # the loader is the operator's own code
            raise ValueError(f"{expected}: {type(error).__name__}: {error}") from error
        if len(arrays) not in (2, 3):
            raise ValueError(f"{expected}, got {len(arrays)} arrays.")
        return arrays[0], arrays[1], arrays[2] if len(arrays) == 3 else None


@dataclass(frozen=True)
class OwnTable:
    """A table on disk to answer from, without code of the operator.

    ``path`` is a CSV or Parquet file, and ``schema`` is the JSON file of ``Schema.to_dict``.
    ``user_column`` is the column with the user of each row, and ``ids`` is a text file with all
    users' names, one per line. ``quoted`` is True if fields of a CSV file may be in quotes.
    ``missing_ids`` is the treatment of rows without the name of a user.
    """

    path: str
    schema: str
    user_column: str
    ids: str | None = None
    quoted: bool = True
    missing_ids: MissingIds = "raise"

    def client_app(self) -> ClientApp:
        """Return the app that answers from the table; raise AppError for an invalid schema."""
        expected = f"Expected --schema to be a JSON file of Schema.to_dict, got {self.schema}"
        try:
            plain = json.loads(Path(self.schema).read_text("utf-8-sig"))
        except OSError as error:
            raise AppError(f"{expected}: {error.strerror}.") from error
        except ValueError as error:
            raise AppError(f"{expected}, which is no JSON.") from error
        try:
            schema = Schema.from_dict(plain)
            return LdpClientApp(
                TableLoader(
                    schema, self.path, self.user_column, self.ids, self.quoted, self.missing_ids
                )
            )
        except (OSError, ValueError) as error:
            raise AppError(f"The schema {self.schema} cannot be used: {error}") from error


#: An operator's choice of what the node answers from.
Source = OwnApp | OwnTable | OwnRecords


@dataclass(frozen=True)
class Settings:
    """The operator's choices, which no run can see or change.

    ``path`` is the operator's PATH. It is restored for the operator's app, since Flower's programs
    run with another PATH. ``files`` are the key and the peers of a node that shares its noise.
    """

    source: Source
    path: str
    files: KeyFiles | None = None

    @property
    def name(self) -> str:
        """Name of the app or file in the log."""
        return self.source.reference if isinstance(self.source, OwnApp) else self.source.path

    def write(self, file: Path) -> None:
        """Write the settings into a new file that other accounts cannot read."""
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
            json.dump({"kind": type(self.source).__name__, **asdict(self)}, opened)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the settings from a file of :meth:`write`."""
        plain = json.loads(file.read_text())
        kind = {each.__name__: each for each in get_args(Source)}[plain["kind"]]
        files = plain["files"]
        return cls(kind(**plain["source"]), plain["path"], files and KeyFiles(*files))
