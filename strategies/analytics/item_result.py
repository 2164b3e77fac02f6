"""What is found about items: the frequent ones, and how many users hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.values.items import hash_items

from ..runtime.result import Floats, Result
from .item_mechanism import MAX_DIRECT, fits_direct

Integers = NDArray[np.int64]

_SHOWN = 10  # items in a result's text


@dataclass(repr=False, kw_only=True)
class HeavyHittersResult(Result):
    """The most frequent items of those who answered.

    Attributes
    ----------
    domain_size : int
        Number of items there are.
    items : ndarray of int64, shape (found,)
        The items above the cut-off, the most frequent first.
    counts : ndarray of float64, shape (found,)
        Estimates of how many of the users who answered hold each item. They are
        unbiased for an item fixed in advance; those just above the cut-off are high
        because they were selected.
    std_error : ndarray of float64, shape (found,)
        Standard errors of the counts: the randomisation, the items that users drew or chose
        from their rows being fixed.
    cutoff : float
        The estimate that an item had to exceed to be returned.
    all_counts : ndarray of float64, shape (domain_size,), or None
        The estimates for all items, unbiased, where they were counted directly.
    """

    domain_size: int
    items: Integers
    counts: Floats
    std_error: Floats
    cutoff: float
    all_counts: Floats | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.items, self.counts])

    @property
    def frequencies(self) -> Floats:
        """The counts as shares of the users who answered."""
        return self.counts / max(1, self.num_reports)

    @property
    def distribution(self) -> Floats:
        """The frequencies of all items, zero for those that were not found.

        Raises
        ------
        ValueError
            If the domain is too large for it, more than 2**20 items.
        """
        if not fits_direct(self.domain_size):
            raise ValueError(f"Expected at most {MAX_DIRECT} items, got {self.domain_size}.")
        whole = np.zeros(self.domain_size)
        whole[self.items] = self.frequencies
        return whole

    def named(self, vocabulary: Sequence[str]) -> dict[str, float]:
        """Return the counts by name, for items that are hashes of strings.

        Parameters
        ----------
        vocabulary : sequence of str
            Strings that the items may be. Those with the same hash share an item; an
            item that is none of them is shown as its number.

        Raises
        ------
        ValueError
            If the domain is not one of hashes, that is, not a power of two.
        """
        num_bits = self.domain_size.bit_length() - 1
        if self.domain_size != 1 << num_bits:
            raise ValueError(f"Expected a power of two as domain_size, got {self.domain_size}.")
        names: dict[int, list[str]] = {}
        words = sorted(set(vocabulary))
        for word, number in zip(words, hash_items(words, num_bits).tolist(), strict=True):
            names.setdefault(number, []).append(word)
        return {
            " or ".join(names.get(item, [f"{item}"])): count
            for item, count in zip(self.items.tolist(), self.counts.tolist(), strict=True)
        }

    def _findings(self) -> list[str]:
        rows = zip(self.items, self.counts, self.std_error, self.frequencies, strict=True)
        lines = [
            f"  {item}: {count:.0f} ± {error:.0f} ({share:.1%})"
            for item, count, error, share in list(rows)[:_SHOWN]
        ]
        more = len(self.items) - len(lines)
        return [
            f"{len(self.items)} of {self.domain_size} items above the cut-off of "
            f"{self.cutoff:.0f} users",
            *lines,
            *([f"  and {more} more"] if more else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but ``all_counts`` as plain values, for JSON."""
        return {
            "domain_size": self.domain_size,
            "items": self.items.tolist(),
            "counts": self.counts.tolist(),
            "frequencies": self.frequencies.tolist(),
            "std_error": self.std_error.tolist(),
            "cutoff": self.cutoff,
            **super().to_dict(),
        }
