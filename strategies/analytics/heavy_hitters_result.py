"""Result of HeavyHitters: the most frequent items, with their counts and errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.data.items import hash_items
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import with_error
from ldp_flower.validation import Floats

from ..runtime.result import Result, first_of, frame
from .item_mechanism import MAX_DIRECT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Integers = NDArray[np.int64]

_SHOWN = 10  # number of items in a result's text
_DRAWN = 20  # number of items in a result's chart


@dataclass(repr=False, kw_only=True)
class HeavyHittersResult(Result):
    """The most frequent items among the users who answered.

    Attributes
    ----------
    domain_size : int
        Number of possible items.
    items : ndarray of int64, shape (found,)
        The items above the cut-off, the most frequent first.
    counts : ndarray of float64, shape (found,)
        Estimated number of the users who answered that hold each item. The estimate is unbiased
        for an item fixed in advance. Counts just above the cut-off are too high on average,
        because they were selected.
    std_error : ndarray of float64, shape (found,)
        Standard errors of the counts in the population that the users are drawn from, scaled to
        the same number of users. They include the random choice of an item from a user's rows.
    users_std_error : ndarray of float64, shape (found,)
        Standard errors for these users and the items that they drew. They are smaller, since they
        cover the randomisation only. With direct counts they are sqrt(n (f p (1-p) + (1-f) q
        (1-q))) / (p - q), where f is the estimated frequency, and a report supports the user's
        item with probability p and any other item with probability q. With prefixes, the random
        assignment of users to levels is added.
    cutoff : float
        Estimated count that an item must exceed to be returned.
    all_counts : ndarray of float64, shape (domain_size,), or None
        Unbiased estimates for all items; None unless the items were counted directly.
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
        """The frequencies of all items, shape (domain_size,); zero for items that were not found.

        Raises
        ------
        ValueError
            If the domain has more than 2**20 items.
        """
        if self.domain_size > MAX_DIRECT:
            raise ValueError(f"Expected at most {MAX_DIRECT} items, got {self.domain_size}.")
        whole = np.zeros(self.domain_size)
        whole[self.items] = self.frequencies
        return whole

    def named(self, vocabulary: Sequence[str]) -> dict[str, float]:
        """Return the counts by string, for items that are hashes of strings.

        Parameters
        ----------
        vocabulary : sequence of str
            Candidate strings. Strings with the same hash share an entry. An item that is the hash
            of none of them is named by its number.

        Raises
        ------
        ValueError
            If ``domain_size`` is not a power of two, so that items cannot be hashes.
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
            ``item``; ``users``, the number of the users who answered that hold it; its ``standard
            error`` for the population; the smaller standard error ``of these users``; the
            ``share`` of the users, a fraction.
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
            f"  {item}: {with_error(count, error)} users ({share:.1%})"
            for item, count, error, share in rows
        ]
        return [
            f"{len(self.items)} of {self.domain_size} items above the cut-off of "
            f"{self.cutoff:.0f} users",
            *first_of(lines, _SHOWN),
        ]
