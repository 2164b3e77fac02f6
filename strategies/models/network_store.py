"""What is kept of a run of RecordDpSgd, so that it goes on and silos do not pay again."""

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from ldp_flower.guarantee.network_round import NetworkRound
from ldp_flower.models import Network


class NetworkStore:
    """The file (.npz) of a run, or none; raise ValueError if it is of another run.

    ``asked`` is a round of the run: what decides it, but for its salt. ``done`` rounds are over,
    and ``arrays`` are all parameters after them.
    """

    def __init__(self, path: str | Path | None, network: Network, asked: NetworkRound) -> None:
        self._file = None if path is None else Path(path)
        self._print = _print_of(network, asked)
        if self._file is not None and self._file.exists():
            with np.load(self._file, allow_pickle=False) as kept:
                if str(kept["print"]) != self._print:
                    raise ValueError(
                        f"Expected a store of this run, got {self._file} of another one."
                    )
                self.salt, self.done = int(kept["salt"]), int(kept["round"])
                arrays = {name: Array(kept[f"array:{name}"]) for name in network.arrays}
                self.arrays = ArrayRecord(arrays)
            return
        self.salt = secrets.randbits(63)
        arrays = {name: Array(np.asarray(array)) for name, array in network.arrays.items()}
        self.keep(0, ArrayRecord(arrays))

    def keep(self, number: int, arrays: ArrayRecord) -> None:
        """Write what is needed to go on after a round, whole or not at all."""
        self.done, self.arrays = number, arrays
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        with new.open("wb") as opened:
            held: dict[str, Any] = {"print": self._print, "salt": self.salt, "round": number}
            held |= {f"array:{name}": array.numpy() for name, array in arrays.items()}
            np.savez(opened, allow_pickle=False, **held)
        new.replace(self._file)


def _print_of(network: Network, asked: NetworkRound) -> str:
    """Return what decides the run: a store of another one is refused."""
    config = {key: value for key, value in asked.to_config().items() if key != "salt"}
    whole = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name in sorted(network.arrays):
        whole.update(np.ascontiguousarray(network.arrays[name]).tobytes())
    return whole.hexdigest()
