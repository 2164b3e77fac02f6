"""A protocol on users in memory, without messages: several times as fast, and of the same law.

The server's code is the protocol's, and so are what clients compute and how they randomise it.
What is left out is how questions and reports travel.
"""

from typing import TypeVar

import numpy as np

from ldp_flower import Users
from ldp_flower.clients.statistics import compute
from ldp_flower.randomizers import Estimate
from ldp_flower.strategies import LdpStrategy, Result
from ldp_flower.strategies.forecasts.dry_run import dry_run
from ldp_flower.strategies.runtime.exchange import Ask

R = TypeVar("R", bound=Result)


def run(strategy: LdpStrategy[R], users: Users, seed: int) -> R:
    """Return what a protocol makes of the users.

    Raises
    ------
    WouldRefuse
        If it refuses so many.
    """
    rng = np.random.default_rng([seed, len(users)])
    order = rng.permutation(len(users))

    def answer(ask: Ask) -> Estimate:
        asked = users.take(np.sort(order[ask.cohort.low : ask.cohort.high]))
        # Public coins of their own for every question: a run that asks all with the same codebooks
        # adds up the same errors.
        mechanism = ask.randomizer.for_cohort(len(asked), int(rng.integers(1 << 63)))
        coins = rng.integers(1 << 64, size=len(asked), dtype=np.uint64)
        reports = mechanism.randomize(compute(asked, ask.question), rng, coins)
        return mechanism.estimate(mechanism.summarize(reports, coins))

    result = dry_run(strategy, len(users), answer).result
    result.schema = getattr(strategy, "schema", None)
    return result
