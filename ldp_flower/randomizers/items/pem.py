"""Prefix extending: an item of a huge domain, as a noisy bucket of one of its prefixes."""

from dataclasses import dataclass

from ...validation import check_integer
from .prefix import PrefixTree

_MAX_FIRST_BITS = 20
_MAX_STEP_BITS = 12


@dataclass(frozen=True)
class PrefixExtending(PrefixTree):
    """Randomiser for one item of a huge domain: local hashing of a prefix.

    Few levels, so that each has many users; one or two bytes a report. Prefer it to
    :class:`TreeHist` unless a report must be a single bit, and prefer a
    :class:`FrequencyOracle` wherever the whole domain can be counted.

    Parameters
    ----------
    epsilon, num_bits
        As of :class:`PrefixTree`.
    first_bits : int (default: 12)
        Length of the shortest prefix, 1 to 20 (or ``num_bits``, if that is less).
    step_bits : int (default: 8)
        Largest number of bits by which one length exceeds the one before, 1 to 12.

    Notes
    -----
    Source: Wang, Li & Jha (2021), PEM, with the buckets of
    :class:`OptimizedLocalHashing`. Longer steps mean fewer levels, hence less noise,
    and ``2**step_bits`` candidates for each surviving prefix; reading takes time
    proportional to users times candidates. The hash of two prefixes whose difference is
    a multiple of 2**s is pairwise independent up to ``2**(s - 64)`` or 2**-32,
    whichever is more: 2**-25 at 40 bits.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin. The
       user sends one report, of one prefix, and no other randomised view of it.
    2. For a given coin, length and hash function are fixed and the bucket of the
       item's prefix is a function of the item. It is reported by :class:`TwoLevel` with
       one likely output, so the probabilities of any report for any two items
       differ by at most exp(epsilon), rounding included.
    3. A value that is no item (missing, a fraction, out of range) becomes a uniformly
       random one, by a random word that is drawn for every value, and mixing keeps
       the bound. The guarantee therefore holds for every input.
    """

    first_bits: int = 12
    step_bits: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("first_bits", self.first_bits, 1, _MAX_FIRST_BITS)
        check_integer("step_bits", self.step_bits, 1, _MAX_STEP_BITS)

    @property
    def lengths(self) -> tuple[int, ...]:
        """``first_bits`` and then equal steps of at most ``step_bits``, up to ``num_bits``."""
        first = min(self.first_bits, self.num_bits)
        rest = self.num_bits - first
        steps = -(-rest // self.step_bits)
        return (first, *(first - (-rest * i // steps) for i in range(1, steps + 1)))
