"""What the operator has chosen when starting a node, for the processes that answer."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from .pinned import Pinned, load
from .run import Operator


@dataclass(frozen=True)
class Settings:
    """The operator's choices; no run can see or change them.

    Attributes
    ----------
    app : str
        ``module:attribute`` of the operator's ClientApp.
    path : str
        The operator's own PATH, which its app finds again; Flower's parts have another.
    """

    app: str
    path: str

    def operator(self) -> Operator:
        """Return what answers messages."""
        return Pinned(self.app, load(self.app))

    def write(self, file: Path) -> None:
        """Write the settings into a new file that nobody else can read."""
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
            json.dump(asdict(self), opened)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the settings that were written."""
        return cls(**json.loads(file.read_text()))
