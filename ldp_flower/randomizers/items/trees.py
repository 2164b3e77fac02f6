"""An item of a huge domain, as a noisy bucket of a prefix (PEM) or as one bit (TreeHist)."""

from dataclasses import dataclass

from ...validation import check_integer
from .prefix import PrefixTree


@dataclass(frozen=True)
class TreeHist(PrefixTree):
    """Randomiser for one item of a huge domain: one noisy sign of one of its prefixes.

    One bit per user, sent as a byte, and two candidates for each surviving prefix.
    Every prefix length has its own users, so there is more noise than with
    :class:`PrefixExtending`, which is the better choice otherwise.

    Notes
    -----
    Source: Bassily, Nissim, Stemmer & Thakurta (2020). There, a user's public coin is
    its level, one of a few hash functions with signs, and a row of a Hadamard
    matrix; sign times entry is a pairwise independent sign of the prefix. Here each
    user has a function of its own, so that the three are one such sign, the upper
    bit of the hash (exactly pairwise independent up to 40 bits), and collisions under
    shared functions do not add to the noise. The variance is ``num_bits
    ((e^eps + 1) / (e^eps - 1))**2``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. For a given coin, level and sign function are fixed and the sign of the item's
       prefix is a function of the item: one bit. It is kept or flipped once, by
       :class:`TwoLevel` with one likely and one unlikely output, so the probabilities
       of either report for any two items differ by at most exp(epsilon), rounding
       included. The server's candidates are compared with that bit; nothing is
       randomised for a candidate.
    3. A value that is no item (missing, a fraction, out of range) becomes a uniformly
       random one, by a random word that is drawn for every value, and mixing keeps
       the bound. The guarantee therefore holds for every input.
    """

    @property
    def num_buckets(self) -> int:
        """Two: a bit."""
        return 2

    @property
    def lengths(self) -> tuple[int, ...]:
        """Every length from 1 to ``num_bits``."""
        return tuple(range(1, self.num_bits + 1))


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
