"""Words that people use, and the words that the server can think of."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

PERSON, WORD = "person", "word"

#: What the server tries on the numbers that it gets back. Others are shown as numbers.
CANDIDATES = [
    *("the", "and", "you", "that", "have", "for", "not", "with", "this", "but"),
    *("his", "from", "they", "say", "her", "she", "will", "one", "all", "would"),
    *("there", "their", "what", "out", "about", "who", "get", "which", "when", "make"),
]


def invented(num_users: int) -> pd.DataFrame:
    """Return words to try with: three of each person, the k-th most frequent k^1.5 times rarer."""
    rng = np.random.default_rng(0)
    words = np.array([*CANDIDATES, *(f"rare-{number}" for number in range(970))])
    frequency = np.arange(1, len(words) + 1) ** -1.5
    said = rng.choice(words, 3 * num_users, p=frequency / frequency.sum())
    return pd.DataFrame({PERSON: np.repeat(np.arange(num_users), 3), WORD: said})


def seed_of(run: Mapping[str, object]) -> int | None:
    """Return the seed of a simulation; a deployment has none."""
    seed = int(str(run["seed"]))
    return None if seed < 0 else seed
