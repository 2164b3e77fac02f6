"""Choose how to find frequent items: the least noise that is decoded within the time limit."""

import itertools
from typing import Literal

from ldp_flower.randomizers import (
    FrequencyOracle,
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    PrefixExtending,
    TreeHist,
    best_frequency_oracle,
)
from ldp_flower.randomizers.items.prefix import PrefixTree

Backend = Literal["auto", "direct", "prefix", "tree"]
Mechanism = FrequencyOracle | PrefixTree

MAX_DIRECT = 1 << 20  # items whose counts are held at once
_AFFORDABLE = 1 << 33  # pairs of a report and an item: some 20 s of one core
_SHORT = 64  # bytes of a report; longer ones gain some 1 % of the variance on local hashing


def choose_mechanism(
    epsilon: float,
    domain_size: int,
    num_users: int,
    *,
    set_size: int = 1,
    max_items: int = 64,
    backend: Backend = "auto",
) -> Mechanism:
    """Return the mechanism with which users report their items.

    ``"direct"`` counts all items with the best frequency oracle whose reports are short,
    ``"prefix"`` descends by :class:`~ldp_flower.randomizers.PrefixExtending`, ``"tree"`` by
    :class:`~ldp_flower.randomizers.TreeHist`. ``"auto"`` is direct where ``num_users *
    domain_size`` is at most 2**33 (or for sets, which nothing else takes), and otherwise the least
    noisy of the prefixes and of two oracles that are read in no time. A direct oracle has
    ``set_size`` more items than the domain, if there is room: they stand for what users lack, so
    that no item gets the counts of those who have none.
    """
    num_bits = max(1, (domain_size - 1).bit_length())
    if backend == "tree":
        return TreeHist(epsilon, num_bits)
    numbers = min(domain_size + set_size, MAX_DIRECT)
    counted = domain_size <= MAX_DIRECT
    cheap = num_users * numbers <= _AFFORDABLE or set_size > 1
    if backend == "direct" or (backend == "auto" and counted and cheap):
        oracle = best_frequency_oracle(epsilon, numbers, num_users, set_size)
        short = oracle.report_bytes <= _SHORT or set_size > 1
        return oracle if short else OptimizedLocalHashing(epsilon, numbers)
    options: list[Mechanism] = [_prefix_extending(epsilon, num_bits, num_users, max_items)]
    if backend == "auto" and counted:
        options += [HadamardResponse(epsilon, numbers), KRandomizedResponse(epsilon, numbers)]
    return min(options, key=lambda mechanism: mechanism.variance)


def _prefix_extending(
    epsilon: float, num_bits: int, num_users: int, max_items: int
) -> PrefixExtending:
    """Return the fewest prefix levels that are decoded within the time limit."""

    def effort(ladder: PrefixExtending) -> tuple[bool, int, int]:
        longer = [b - a for a, b in itertools.pairwise(ladder.lengths)]
        candidates = 2 ** ladder.lengths[0] + sum(2 * max_items * 2**bits for bits in longer)
        cost = num_users * candidates // len(ladder.lengths)
        return cost > _AFFORDABLE, len(ladder.lengths) if cost <= _AFFORDABLE else 0, cost

    ladders = itertools.product(range(8, 21), range(4, 13))  # the first bits, and a step's
    return min((PrefixExtending(epsilon, num_bits, *each) for each in ladders), key=effort)
