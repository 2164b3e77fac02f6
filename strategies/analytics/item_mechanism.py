"""Choice of the mechanism that finds frequent items: the least noisy one that is affordable."""

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

MAX_DIRECT = 1 << 20  # largest number of items that are counted directly
_MAX_WORK = 1 << 33  # limit on reports times items, some 20 s of one core
# Largest size of a report in bytes. Longer ones reduce the variance of local hashing by some 1 %.
MAX_REPORT_BYTES = 64


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
    ``"prefix"`` searches with :class:`~ldp_flower.randomizers.PrefixExtending`, ``"tree"`` with
    :class:`~ldp_flower.randomizers.TreeHist`. ``"auto"`` counts directly if ``num_users *
    domain_size`` is at most 2**33, or if users report sets, which no other mechanism accepts.
    Otherwise it uses the least noisy of prefix extension and of two oracles that decode quickly.
    A direct oracle has ``set_size`` more items than the domain, if the limit of 2**20 permits.
    They stand for the items that a user lacks, so that these users do not add to the count of any
    item.
    """
    num_bits = max(1, (domain_size - 1).bit_length())
    if backend == "tree":
        return TreeHist(epsilon, num_bits)
    numbers = min(domain_size + set_size, MAX_DIRECT)
    counted = domain_size <= MAX_DIRECT
    cheap = num_users * numbers <= _MAX_WORK or set_size > 1
    if backend == "direct" or (backend == "auto" and counted and cheap):
        oracle = best_frequency_oracle(epsilon, numbers, num_users, set_size)
        short = oracle.report_bytes <= MAX_REPORT_BYTES or set_size > 1
        return oracle if short else OptimizedLocalHashing(epsilon, numbers)
    options: list[Mechanism] = [_prefix_extending(epsilon, num_bits, num_users, max_items)]
    if backend == "auto" and counted:
        options += [HadamardResponse(epsilon, numbers), KRandomizedResponse(epsilon, numbers)]
    return min(options, key=lambda mechanism: mechanism.variance)


def _prefix_extending(
    epsilon: float, num_bits: int, num_users: int, max_items: int
) -> PrefixExtending:
    """Return the mechanism with the fewest prefix lengths that a server can decode in time."""

    def effort(ladder: PrefixExtending) -> tuple[bool, int, int]:
        longer = [b - a for a, b in itertools.pairwise(ladder.lengths)]
        candidates = 2 ** ladder.lengths[0] + sum(2 * max_items * 2**bits for bits in longer)
        cost = num_users * candidates // len(ladder.lengths)
        return cost > _MAX_WORK, len(ladder.lengths) if cost <= _MAX_WORK else 0, cost

    # bits of the first prefix, and bits that each level adds
    ladders = itertools.product(range(8, 21), range(4, 13))
    return min((PrefixExtending(epsilon, num_bits, *each) for each in ladders), key=effort)
