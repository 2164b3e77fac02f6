"""A codebook beside PrivUnit: randomising the vectors of some users and adding them up."""

import numpy as np

from ldp_flower.randomizers import Randomizer, ball_codebook
from ldp_flower.randomness import KeyedRandom, derive

from .cells import Cell, in_turns
from .privunit import PrivUnit

_EPSILON = 2.0
SIZES = {  # users by dimensions: a cohort, and one user's report of a model
    64: 4_096,
    256: 4_096,
    1_024: 4_096,
    262_144: 1,
    1_000_000: 1,
}


def beside_privunit(cell: Cell) -> dict[str, float]:
    """Measure both halves, the client's and the server's, at the same epsilon."""
    codebook = ball_codebook(_EPSILON, cell.dim).for_cohort(cell.users, coin=1)
    other = PrivUnit(_EPSILON, cell.dim)
    values = np.random.default_rng(0).normal(0, cell.dim**-0.5, (cell.users, cell.dim))
    coins = derive(2, np.arange(cell.users))

    def both(mechanism: Randomizer) -> None:
        keyed = KeyedRandom(derive(3, np.arange(cell.users)))
        mechanism.summarize(mechanism.randomize(values, keyed, coins), coins)

    return in_turns(lambda: both(codebook), lambda: both(other), cell.rounds)
