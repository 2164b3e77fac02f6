"""A collection of permanent answers: its level, and its change since the one before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.validation import Floats

from ..runtime.plain import from_plain, to_plain
from ..runtime.result import Estimates, Result
from ..runtime.run_store import RunStore
from ..subprotocols.permanent import Bits, PermanentForm, change_of, level_of


@dataclass(repr=False, kw_only=True)
class BitsResult(Result):
    """What one collection of permanent answers has found, with the bits for the next one."""

    names: list[str]
    values: Floats
    std_errors: Floats
    change: Floats
    change_std_error: Floats
    bits: list[Bits]

    def estimates(self) -> Estimates:
        """Return the values, for a series of collections."""
        return Estimates(self.names, self.values, self.std_errors)


def found_in(
    form: PermanentForm, bits: Sequence[Bits], before: Sequence[Bits] | None
) -> BitsResult:
    """Return what a collection's bits say, with those of the one before if there was any."""
    values, errors = level_of(form, bits)
    change, of_change = np.full(len(values), np.nan), np.full(len(values), np.inf)
    if before is not None:
        change, of_change = change_of(form, bits, before)
    return BitsResult(
        names=form.names,
        values=values,
        std_errors=errors,
        change=change,
        change_std_error=of_change,
        bits=list(bits),
    )


def keep_bits(store: RunStore, bits: Sequence[Bits]) -> None:
    """Keep the bits of a collection."""
    arrays = [array for each in bits for array in (each.coins, each.reports)]
    store.put("bits", to_plain(ArrayRecord(arrays)))


def kept_bits(store: RunStore) -> list[Bits]:
    """Return the bits that were kept of a collection."""
    arrays: Any = from_plain(ArrayRecord, store.get("bits")).to_numpy_ndarrays()
    return [Bits(*pair) for pair in zip(arrays[::2], arrays[1::2], strict=True)]
