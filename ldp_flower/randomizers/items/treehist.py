"""TreeHist: an item of a huge domain, as one bit."""

from dataclasses import dataclass

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
