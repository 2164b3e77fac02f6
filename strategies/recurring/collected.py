"""What a series keeps of each collection, which is the next one, and the levels behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.validation import Floats, check_integer

from ..runtime.base import LdpStrategy
from ..runtime.plain import from_plain, made, to_plain
from ..runtime.result import Estimates, PrivacySpent, Result, Step
from ..runtime.run_store import RunStore
from ..subprotocols.permanent import Bits, PermanentForm, change_of, level_of
from .local_level import local_level

# Collections of which the noise is averaged. With 192 reports each, levels of shares of .02 to .15
# missed their bands by 9 % with none, 1 % with 8; many more are too slow for a share that grows.
_WINDOW = 8


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One collection, with its ``number`` from 1.

    ``num_users`` are in the census, ``asked`` in the panel; ``reports`` and ``no_budget`` are those
    of the panel who reported, or had no budget left. ``std_errors`` are for the population, and
    ``privacy`` is what one of these users spent at most. ``change`` is, of permanent answers, by
    how much the estimates changed since the collection before.
    """

    number: int
    names: list[str]
    values: Floats
    std_errors: Floats
    num_users: int
    asked: int
    reports: int
    no_budget: int
    steps: list[Step]
    notes: list[str]
    privacy: PrivacySpent
    change: Floats | None = None
    change_std_error: Floats | None = None


def has_estimates(kind: type[LdpStrategy[Any]]) -> bool:
    """Whether the result of a strategy says what a series follows."""
    bases = [base for each in kind.__mro__ for base in getattr(each, "__orig_bases__", ())]
    results = [argument for base in bases for argument in getattr(base, "__args__", ())]
    return any(
        isinstance(each, type)
        and issubclass(each, Result)
        and each.estimates is not Result.estimates
        for each in results
    )


def begun(kept: RunStore) -> int:
    """Return the number of the last collection that has begun; 0 before the first."""
    return int(kept.get("begun") or 0)


def complete(kept: RunStore, number: int) -> bool:
    """Whether the collection with this number is complete."""
    return kept.part(number).get("collected") is not None


def all_complete(kept: RunStore) -> list[Collected]:
    """Return all collections that are complete; raise ValueError if none is."""
    found = (kept.part(number).get("collected") for number in range(1, 1 + begun(kept)))
    collected = [made(Collected, each) for each in found if each is not None]
    if not collected:
        raise ValueError("Expected a complete collection, got none: call start.")
    return collected


def chosen(kept: RunStore, collection: int | None, collections: int) -> int:
    """Return the number of the collection to run: ``collection``, or by default the next one.

    The default is the last collection that has begun if it is not complete, and otherwise the one
    after it. A given ``collection`` may also be complete already; then there is nothing to ask.
    ValueError if no collection is left, or ``collection`` is out of range, or it is not complete
    and a later one has begun.
    """
    last = begun(kept)
    if collection is None:
        collection = last + 1 if not last or complete(kept, last) else last
        if collection > collections:
            raise ValueError(
                f"Expected at most {collections} collections: all are over. "
                "result() returns the levels."
            )
        return collection
    check_integer("collection", collection, 1, collections)
    if collection < last and not complete(kept, collection):
        raise ValueError(
            f"Expected a collection from {last} on, got {collection}: a later one has begun."
        )
    return collection


_LEVELS = ("raw", "raw_std_error", "filtered", "filtered_std_error", "level", "std_error")


def levels_of(collected: Sequence[Collected]) -> dict[str, Any]:
    """Return the levels from the first to the last collection; those left out are missing.

    By the names of a :class:`SeriesResult`, shape (collections, names). Permanent answers have the
    same noise at all of them, so that their own estimates are the levels.
    """
    shape = collected[-1].number, len(collected[0].names)
    raw, errors = np.full(shape, np.nan), np.full(shape, np.inf)
    for each in collected:
        raw[each.number - 1], errors[each.number - 1] = each.values, each.std_errors
    errors[~np.isfinite(raw)] = np.inf
    if collected[-1].change is not None:
        return dict(zip(_LEVELS, (raw, errors) * 3, strict=True))
    reports = np.zeros((shape[0], 1))
    reports[[each.number - 1 for each in collected], 0] = [each.reports for each in collected]
    noise = _steadied(errors, reports)
    columns = [local_level(*pair) for pair in zip(raw.T, noise.T, strict=True)]
    found = {
        name: np.stack([getattr(column, name) for column in columns], axis=1)
        for name in _LEVELS[2:]
    }
    return {"raw": raw, "raw_std_error": errors, **found}


def _steadied(errors: Floats, reports: Floats) -> Floats:
    """Return standard errors from a variance per report that is averaged over collections.

    The average is over a collection and those before it, ``_WINDOW`` in all. The standard error of
    a single collection with few reports is correlated with the estimate: if a share is
    underestimated, then so is its standard error, and the estimate would get too much weight.
    """
    known = np.isfinite(errors)
    of_one = np.where(known, errors, 0.0) ** 2 * reports
    total, number = np.cumsum(of_one, axis=0), np.cumsum(known, axis=0)
    total[_WINDOW:] -= total[:-_WINDOW].copy()
    number[_WINDOW:] -= number[:-_WINDOW].copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        steadied = np.sqrt(total / number / reports)
    return np.where(known, steadied, np.inf)


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
