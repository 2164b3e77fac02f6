"""Subset selection and set vote: one item or a set is reported as a larger set of items."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, product
from operator import mul

import numpy as np
from numpy.typing import NDArray

from ...randomness import RandomSource, Words
from ...validation import Floats, Integers, check_integer
from ..base import Reports
from ..two_level import _WORDS, Law, _exp_rounded_down, check_terms, report_type, residue_shares
from .frequency import FrequencyOracle

_CHUNK_ENTRIES = 1 << 19  # number of flags in memory at a time, so that they stay in the cache
# Limits on parameters that a message can set, since a client's work for a report grows with them.
_MOST_IN_SET, _MOST_WORK = 1024, 1 << 26
_VOTING_SHARE = 0.15  # share of users whose sets contain an item that is worth finding
_FOUND_WEIGHT = 0.6  # weight of the spread of this item's votes; other items' votes have weight 1


@dataclass(frozen=True)
class SubsetSelection(FrequencyOracle):
    """Randomiser for an item or a set of items: it reports a random set that likely meets them.

    Two sets meet if they have an item in common. With one item, this oracle has the least variance
    of all known oracles for domains that are not small. With a set of ``set_size`` items it is the
    set vote, which is more informative than a vote for one of the items. A report lists about
    ``domain_size / (exp(epsilon) + 1)`` items for a single item, and fewer for sets.

    Parameters
    ----------
    epsilon, domain_size
        See :class:`FrequencyOracle`.
    set_size : int (default: 1)
        Number of items that a user holds, at most 1,024, and at most
        ``2**26 / domain_size``. A value lists them in any order. A repeated item is invalid, so
        a random item that is not in the set takes its place.

    Notes
    -----
    Source: Ye & Barg (2018), Wang et al. (2016); for sets PrivSet, Wang et al. (2018).
    There are d items; k of them are the user's set T. A report is one of the C(d, w) subsets
    Y of w items, with a probability proportional to exp(epsilon) if Y meets T and to 1
    if not. If Y meets T, let i be the position (from 0) of the first item of T in Y, with T in
    descending order. The other w - 1 items are a uniform subset of the d - 1 - i items
    that are not T's first i + 1, and i has a probability proportional to
    C(d - 1 - i, w - 1). If Y does not meet T, Y is a uniform subset of the d - k other
    items. Uniform subsets are drawn by Floyd's algorithm, with one word per item.

    Guarantee
    ---------
    1. Protected: any two values (sets) of one user, at pure ``epsilon``.
    2. A comparison of one word with the threshold t decides if Y meets T, and a comparison
       of a second word with the integer table ``c`` decides i. The remaining words are taken
       modulo m <= d, and hit any residue with probability 1 / m up to a factor
       1 +- d / 2**64.
       A subset is drawn along disjoint paths of at most w such words, so it has the
       uniform probability up to the factors ``(1 +- d / 2**64)**w``, which differ by a
       factor of at most ``bias = 1 + 4 w d / 2**64`` as w d <= 2**40.
    3. So a report that meets T has at most the probability ``t / 2**64 * max_i c[i] /
       2**64 / C(d - 1 - i, w - 1)``, and a report that does not meet T has at least
       ``(1 - t / 2**64) / C(d - k, w)``, up to the factor ``bias`` between them. t is the
       largest integer for which their ratio times ``bias`` is at most exp(epsilon), in
       rational arithmetic with exp rounded down. The probabilities of reports of one kind
       differ only by the rounding of ``c`` and by ``bias``, far less than exp(epsilon): w is
       such that no c[i] is below 2**64 / (4 k).
    4. T has exactly k distinct items for every value: random items, by separate random
       words, fill up a set with fewer items, and mixing keeps the bound. The guarantee
       therefore holds for every input.
    """

    set_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        most = min(self.domain_size - 1, _MOST_IN_SET, _MOST_WORK // self.domain_size)
        check_integer("set_size", self.set_size, 1, most)

    @cached_property
    def report_items(self) -> int:
        """Number ``w`` of items in a report."""
        return best_report_size(self.epsilon, self.domain_size, self.set_size)

    @cached_property
    def _meeting(self) -> list[Fraction]:
        """Number of subsets whose first item of T is item i, for each i.

        The numbers are multiples of the last one.
        """
        d, w = self.domain_size, self.report_items
        ratios = (Fraction(d - 1 - i, d - w - i) for i in reversed(range(self.set_size - 1)))
        return [*accumulate(ratios, mul, initial=Fraction(1))][::-1]

    @property
    def _missing(self) -> Fraction:
        """Number of subsets without any item of the user's set T, in :attr:`_meeting`'s unit."""
        w = self.report_items
        return Fraction(self.domain_size - self.set_size - w + 1, w)

    @cached_property
    def _ends(self) -> list[int]:
        """Cumulative sums of :attr:`_selected`, by which a random word chooses an item of T."""
        total = sum(self._meeting)
        return [int(_WORDS * below / total) for below in accumulate(self._meeting)]

    @cached_property
    def _selected(self) -> list[int]:
        """Number of 64-bit words that choose each item of T as the report's first item in T."""
        return [end - begin for begin, end in pairwise([0, *self._ends])]

    @cached_property
    def threshold(self) -> int:
        """Number of 64-bit words, out of 2**64, for which the report contains an item of T."""
        pairs = zip(self._selected, self._meeting, strict=True)
        most = max(Fraction(c) / w for c, w in pairs) / _WORDS
        odds = _exp_rounded_down(self.epsilon) / (most * self._missing * self._bias)
        return int(_WORDS * odds / (1 + odds))

    def worst_ratio(self) -> Fraction:
        """Return a bound on the ratio of any report's probabilities for any two sets.

        The bound is exact except for the bias of the draws, see the guarantee.
        """
        meets = Fraction(self.threshold, _WORDS)
        pairs = zip(self._selected, self._meeting, strict=True)
        levels = [meets * c / _WORDS / n for c, n in pairs]
        levels.append((1 - meets) / self._missing)
        return max(levels) / min(levels) * self._bias

    @cached_property
    def _bias(self) -> Fraction:
        """Bound on the ratio by which two subsets' equal probabilities may differ in the draw."""
        return 1 + Fraction(4 * self.report_items * self.domain_size, _WORDS)

    @cached_property
    def _law(self) -> tuple[Fraction, Fraction]:
        """Probability that a report supports a given item of T, and a given other item.

        The numbers are exact except for the bias of the draws, a factor of 1 +- w d / 2**64.
        """
        d, k, w = self.domain_size, self.set_size, self.report_items
        meets = Fraction(self.threshold, _WORDS)
        meeting = sum(self._meeting, Fraction(0))
        hit = meeting / (meeting + self._missing)
        missed = (1 - hit) * Fraction(w, d - k)
        own = meets * Fraction(w, d) / hit
        other = meets * (Fraction(w, d) - missed) / hit + (1 - meets) * Fraction(w, d - k)
        return own, other

    @property
    def own(self) -> Fraction:
        """Probability that a report contains a given item of the user's set."""
        return self._law[0]

    @property
    def other(self) -> Fraction:
        """Probability that a report contains a given item outside the user's set."""
        return self._law[1]

    @property
    def width(self) -> int:
        """Number of coordinates of a value: ``set_size``, since a value lists item numbers."""
        return self.set_size

    @property
    def pairs(self) -> tuple[float, float]:
        """Probabilities that a report contains both items of a pair, as in the base class.

        They are exact if a user holds one item. For sets, they are those of the base class.
        """
        if self.set_size > 1 or self.domain_size < 3:
            return super().pairs
        own, w, rest = float(self.own), self.report_items, self.domain_size - 1
        with_own = own * (w - 1) / rest
        both = own * (w - 1) * (w - 2) + (1 - own) * w * (w - 1)
        return with_own, both / (rest * (rest - 1))

    @property
    def support_size(self) -> int:
        """Number of items that a report supports, which are those that it lists."""
        return self.report_items

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """Smallest unsigned integer type that holds an item."""
        return report_type(self.domain_size)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report, which lists its items in ascending order."""
        return (self.report_items,)

    def _sets(self, values: Floats, words: Words) -> Integers:
        """Return each user's set of distinct items, in descending order.

        Random items, chosen by ``words``, replace repeated and invalid ones.
        """
        sets = np.sort(self._numbered(values), axis=1)
        sets[:, 1:][sets[:, 1:] == sets[:, :-1]] = self.domain_size
        sets.sort(axis=1)
        for column in range(self.set_size):
            # Rank of a random item among the items that are not in the set so far.
            left = np.uint64(self.domain_size - column)
            random = (words[:, column] % left).astype(np.int64)
            for taken in np.sort(sets[:, :column], axis=1).T:
                random += random >= taken
            present = sets[:, column] < self.domain_size
            sets[:, column] = np.where(present, sets[:, column], random)
        return np.sort(sets, axis=1)[:, ::-1]

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        sets = self._sets(values, rng.words(values.shape))
        choice = rng.words((len(sets), 2))
        words = rng.words((len(sets), self.report_items))
        meets = choice[:, 0] < np.uint64(self.threshold)
        first = np.searchsorted(np.array(self._ends[:-1], np.uint64), choice[:, 1], side="right")
        excluded = np.where(meets, first + 1, self.set_size)
        reports = np.empty((len(sets), self.report_items), self.report_dtype)
        rows = max(256, _CHUNK_ENTRIES // self.domain_size)
        for start in range(0, len(sets), rows):
            chunk = slice(start, start + rows)
            reports[chunk] = self._draw(sets[chunk], meets[chunk], excluded[chunk], words[chunk])
        return reports

    def _draw(
        self, sets: Integers, meets: NDArray[np.bool_], excluded: Integers, words: Words
    ) -> Integers:
        """Draw each user's report as positions; the items of T have the last positions.

        T's item i has position d - 1 - i. Without the first items of T, the remaining items are
        therefore a range of positions. The report of a user in ``meets`` also contains the item
        right after that range.
        """
        users, d = len(sets), self.domain_size
        row = np.arange(users) * d
        remaining = d - excluded
        tops = (remaining - self.report_items)[:, None] + np.arange(self.report_items)
        draws = (words % (tops + 1).astype(np.uint64)).astype(np.int64)
        draws[:, 0] = np.where(meets, remaining, draws[:, 0])
        chosen = np.zeros(users * d, np.bool_)
        columns = (np.ascontiguousarray((part + row[:, None]).T) for part in (draws, tops))
        for draw, top in zip(*columns, strict=True):
            # Floyd's algorithm: a position that was drawn before is replaced by the newest one.
            np.copyto(draw, top, where=chosen[draw])
            chosen[draw] = True
        for i in reversed(range(self.set_size)):
            # Since T is in descending order, items of T never displace each other.
            item, last = row + sets[:, i], row + (d - 1 - i)
            chosen[item], chosen[last] = chosen[last], chosen[item]
        return np.flatnonzero(chosen).reshape(users, -1) - row[:, None]

    def law(self, value: Floats, coin: Words) -> Law:
        """Return every possible report for one value, with its probability; ``coin`` is unused."""
        d, k, w = self.domain_size, self.set_size, self.report_items
        num_paths = math.perm(d - k, w) + sum(math.perm(d - 1 - i, w - 1) for i in range(k))
        numbers = self._numbered(value)
        complete = len(np.unique(numbers)) == k and numbers.max() < d
        check_terms(num_paths * (1 if complete else math.perm(d, k)))
        columns = [1 if complete else d - column for column in range(k)]
        words, chances = _residues(columns)
        sets = self._sets(np.tile(value, (len(words), 1)), words)
        law: dict[bytes, Fraction] = defaultdict(Fraction)
        for items, chance in zip(sets, chances, strict=True):
            for reports, path_chances in self._paths(items):
                for report, path_chance in zip(reports, path_chances, strict=True):
                    law[report.tobytes()] += chance * path_chance
        return law

    def _paths(self, items: Integers) -> Iterator[tuple[Reports, list[Fraction]]]:
        """Yield reports with their chances, for the random choices of :meth:`_draw` on one set."""
        w, meets = self.report_items, Fraction(self.threshold, _WORDS)
        kinds = [(i, True, meets * c / _WORDS) for i, c in enumerate(self._selected, 1)]
        for excluded, met, kind in [*kinds, (self.set_size, False, 1 - meets)]:
            moduli = [self.domain_size - excluded - w + step + 1 for step in range(w)]
            words, chances = _residues([1, *moduli[1:]] if met else moduli)
            users = len(words)
            flags, out = np.full(users, met), np.full(users, excluded)
            drawn = self._draw(np.tile(items, (users, 1)), flags, out, words)
            yield drawn.astype(self.report_dtype), [kind * chance for chance in chances]

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        supports = np.zeros((len(reports), self.domain_size), np.bool_)
        np.put_along_axis(supports, reports.astype(np.int64), True, axis=1)
        return supports

    def _support(self, reports: Reports, coins: Words) -> Integers:
        return np.bincount(reports.ravel().astype(np.int64), minlength=self.domain_size)

    def contains(self, reports: Reports) -> bool:
        """Return True if every report lists items in strictly ascending order."""
        items = reports.astype(np.int64)
        return bool((items < self.domain_size).all() and (np.diff(items, axis=-1) > 0).all())


def _residues(moduli: list[int]) -> tuple[Words, list[Fraction]]:
    """Return every combination of one residue per modulus, and the probability of each.

    The combinations have shape (combinations, moduli). The probabilities are exact, for independent
    uniform 64-bit words.
    """
    shares = product(*(enumerate(residue_shares(modulus)) for modulus in moduli))
    residues, chances = zip(*(zip(*path, strict=True) for path in shares), strict=True)
    return np.array(residues, np.uint64), [
        math.prod(chance, start=Fraction(1)) for chance in chances
    ]


@lru_cache(maxsize=256)
def best_report_size(epsilon: float, domain_size: int, set_size: int) -> int:
    """Return the report size that best separates items that users hold from other items.

    For one item, this size minimises the total variance of the counts. For a set, it
    maximises the distance between the support of an item that many users hold and that of an
    item in a random set, in units of the spread of both.
    """
    d, k = domain_size, set_size
    w = np.arange(1, d - k + 1, dtype=np.float64)
    miss, miss_by_rest = np.ones(len(w)), np.ones(len(w))
    for i in range(k):
        miss *= (d - i - w) / (d - i)
        miss_by_rest *= (d - i - w) / (d - i - 1)  # without a given item of the report
    raised = math.exp(epsilon)
    level = 1 / (1 + (1 - miss) * math.expm1(epsilon))
    own = np.minimum(level * raised * w / d, 1.0)
    other = level * w / d * (raised * (1 - miss_by_rest) + miss_by_rest)
    if k == 1:
        score = (own - other) / np.sqrt(own * (1 - own) / d + other * (1 - other) * (1 - 1 / d))
    else:
        share = min(1.0, max(_VOTING_SHARE, 2 * k / d))
        null, found = (f * own + (1 - f) * other for f in (k / d, share))
        spread = np.sqrt(null * (1 - null)) + _FOUND_WEIGHT * np.sqrt(found * (1 - found))
        score = (found - null) / spread
    return int(np.argmax(score)) + 1
