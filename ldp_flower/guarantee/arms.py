"""Arms of an experiment: a public coin for each user, which depends on none of its data.

The coin is the hash by which a run cuts its users into cohorts, with a salt that follows from the
experiment's name. So a user's device and the server compute the same arm, and neither chooses it.
"""

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import check_fraction, plain_arguments
from .messages import HASH_END, NodeKeys


def salt_of(experiment: str) -> int:
    """Return the salt of an experiment's hashes, in ``[0, 2**63)``.

    Devices and server compute it from the public name, so that they agree on the arms.
    """
    content = b"ldp-flower experiment\0" + experiment.encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) % HASH_END


def end_of_first(allocation: float) -> int:
    """Return the bound of the hashes of the first arm, in which a share ``allocation`` of users is.

    A user is in the first arm if its hash is below the bound.
    """
    return int(allocation * HASH_END)


@plain_arguments
def assigned_arms(
    experiment: str, numbers: ArrayLike, allocation: float = 0.5
) -> NDArray[np.int64]:
    """Return the arm of an experiment that each user is in: 0 for the first, 1 for the second.

    The arm is a hash of the user's number and of the experiment's name, so that neither
    the user nor the server chooses it.
    :class:`~ldp_flower.strategies.Difference` with ``assigned=True`` asks the users of these arms.

    Parameters
    ----------
    experiment : str
        Name of the experiment, which is the column ``by`` of the strategy. Two experiments with
        different names have independent arms.
    numbers : array_like of int
        Numbers of the users. In a simulation they are ``range(num_users)``. In a deployment they
        follow from the ledger, and ``ldp-flower ledger arms`` prints the arms.
    allocation : float (default: 0.5)
        Share of the users in the first arm.

    Returns
    -------
    ndarray of int64, shape (users,)
        The arms.

    Raises
    ------
    ValueError
        If the numbers are not integers from 0 to 2**63 - 1, or the allocation is not between 0
        and 1.
    """
    check_fraction("allocation", allocation)
    given = np.atleast_1d(np.asarray(numbers))
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given < 0).any():
        raise ValueError(f"Expected numbers as integers from 0, got {numbers!r}.")
    keys = NodeKeys(0, 0, len(given), given.astype(np.uint64))
    second = keys.hashes(salt_of(experiment)) >= np.uint64(end_of_first(allocation))
    return second.astype(np.int64)
