"""Collections of a series in its store: their estimates, and the bits of permanent answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from flwr.app import ArrayRecord

from ldp_flower.validation import Floats, check_integer

from ..runtime import Estimates, LdpStrategy, Result
from ..runtime.facts import PrivacySpent, Step
from ..runtime.plain import from_plain, made, to_plain
from ..runtime.run_store import RunStore
from ..subprotocols.permanent import Bits


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Record of one complete collection.

    ``number`` counts from 1. ``num_users`` is the number of users in the census, and ``asked`` the
    number in the panel. ``reports`` and ``no_budget`` are the numbers of users in the panel who
    reported, or who could not afford the report. ``std_errors`` are for the population. ``privacy``
    is the largest privacy cost of a user in the panel. ``change``, for permanent answers only, is
    the change of the estimates since the previous collection. ``users_std_errors``, with noise at
    the node only, are the errors among the users, who are the same in all collections.
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
    users_std_errors: Floats | None = None


def has_estimates(kind: type[LdpStrategy[Any]]) -> bool:
    """Return True if the strategy's results have estimates, which a series can follow."""
    bases = [base for each in kind.__mro__ for base in getattr(each, "__orig_bases__", ())]
    stated = [argument for base in bases for argument in get_args(base)]
    results = [each for one in stated for each in get_args(one) or (one,)]
    return any(
        isinstance(each, type)
        and issubclass(each, Result)
        and each.estimates is not Result.estimates
        for each in results
    )


def complete(kept: RunStore, number: int) -> bool:
    """Return True if the store has the result of the collection with this number."""
    return kept.part(number).get("collected") is not None


def all_complete(kept: RunStore) -> list[Collected]:
    """Return the list of all complete collections, in order; raise ValueError if there is none."""
    found = (
        kept.part(number).get("collected") for number in range(1, 1 + int(kept.get("begun") or 0))
    )
    collected = [made(Collected, each) for each in found if each is not None]
    if not collected:
        raise ValueError("Expected a complete collection, got none: call start before result.")
    return collected


def collection_to_run(kept: RunStore, collection: int | None, collections: int) -> int:
    """Return the number of the collection to run: ``collection``, or by default the next one.

    The default is the last collection that has begun if it is not complete, and otherwise the one
    after it. A given ``collection`` may already be complete; then no query is needed. Raise
    ValueError if no collection is left, if ``collection`` is out of range, or if it is not complete
    and a later one has begun.
    """
    last = int(kept.get("begun") or 0)
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


@dataclass(repr=False, kw_only=True)
class BitsResult(Result):
    """Result of one collection of permanent answers.

    It keeps the users' reported bits, from which the next collection estimates the change.
    """

    names: list[str]
    values: Floats
    std_errors: Floats
    change: Floats
    change_std_error: Floats
    bits: list[Bits]

    def estimates(self) -> Estimates:
        """Return the values and their standard errors, which a series of collections follows."""
        return Estimates(self.names, self.values, self.std_errors)


def keep_bits(store: RunStore, bits: Sequence[Bits]) -> None:
    """Store the bits that users reported in one collection, from which changes are estimated."""
    arrays = [array for each in bits for array in (each.coins, each.reports)]
    store.put("bits", to_plain(ArrayRecord(arrays)))


def kept_bits(store: RunStore) -> list[Bits]:
    """Return the bits that :func:`keep_bits` has put into a collection's part of the store."""
    arrays: Any = from_plain(ArrayRecord, store.get("bits")).to_numpy_ndarrays()
    return [Bits(*pair) for pair in zip(arrays[::2], arrays[1::2], strict=True)]
