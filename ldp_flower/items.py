"""Items by name: a public hash, so that users and server agree on the number of a string."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .validation import check_integer

_PERSON = b"ldp-flower items"


def hash_items(strings: Sequence[str] | NDArray[np.str_], num_bits: int = 40) -> NDArray[np.int64]:
    """Return the item number of every string: the first bits of its BLAKE2b hash.

    Parameters
    ----------
    strings : sequence of str, or ndarray of str, shape (rows,)
        The strings, told apart by their UTF-8 bytes: case, spaces and accents count.
    num_bits : int (default: 40)
        Numbers lie in ``[0, 2**num_bits)``, 1 to 40 bits.

    Returns
    -------
    ndarray of int64, shape (rows,)
        The same for the same string, on any machine.

    Raises
    ------
    ValueError
        If ``num_bits`` is out of range.

    Notes
    -----
    Strings with the same number are one item. Among V strings chosen without regard to
    the hash, a given one shares its number with another one with a probability of at
    most ``V / 2**num_bits``, any two do with at most ``V**2 / 2**(num_bits + 1)``: 1e-6
    and 0.45 for a million strings and 40 bits. The hash is public and hides nothing;
    what protects a user is the randomizer.
    """
    check_integer("num_bits", num_bits, 1, 40)
    names, which = np.unique(np.asarray(strings, np.str_), return_inverse=True)
    digests = b"".join(
        blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=_PERSON).digest()
        for name in names.tolist()
    )
    numbers = np.frombuffer(digests, ">u8").astype(np.uint64) >> np.uint64(64 - num_bits)
    return numbers.astype(np.int64)[which]
