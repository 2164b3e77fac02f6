"""What is found about items: the frequent ones, and how many users hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.presentation import charts
from ldp_flower.validation import Floats
from ldp_flower.values.entries import hash_items

from ..runtime.result import Result, frame
from .item_mechanism import MAX_DIRECT, fits_direct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Integers = NDArray[np.int64]

_SHOWN = 10  # items in a result's text ...
_DRAWN = 20  # ... and in its chart


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
        Estimates of how many of the users who answered hold each item. They are unbiased for an
        item fixed in advance; those just above the cut-off are high because they were selected.
    std_error : ndarray of float64, shape (found,)
        Standard errors of the counts in the population that the users are drawn from, scaled to
        as many users; the draw of an item from a user's rows is included.
    users_std_error : ndarray of float64, shape (found,)
        The narrower ones for these users and the items that they drew: of randomisation alone.
    cutoff : float
        The estimate that an item had to exceed to be returned.
    all_counts : ndarray of float64, shape (domain_size,), or None
        The estimates for all items, unbiased, where they were counted directly.
    """

    _derived = ("frequencies",)

    domain_size: int
    items: Integers
    counts: Floats
    std_error: Floats
    users_std_error: Floats
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

    def table(self) -> "DataFrame":
        """Return the items, the most frequent first.

        Returns
        -------
        DataFrame
            ``item``, ``users`` who hold it of those who answered, its ``standard error`` for the
            population that these are a sample of, the narrower one ``of these users``, and their
            ``share``, a fraction.
        """
        return frame(
            {
                "item": self.items.astype(np.str_),
                "users": self.counts,
                "standard error": self.std_error,
                "of these users": self.users_std_error,
                "share": self.frequencies,
            }
        )

    @property
    def _height(self) -> float:
        return charts.height_of(min(_DRAWN, len(self.items)))

    def _draw(self, axes: "Axes") -> None:
        shown = slice(min(_DRAWN, len(self.items)))
        charts.intervals(
            axes, self.items[shown].tolist(), self.counts[shown], self.std_error[shown]
        )
        axes.axvline(self.cutoff, color=charts.GREY, ls="--", lw=1, label="cut-off")
        axes.legend()
        axes.set_xlabel("users who hold the item, with 95 % intervals")

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
