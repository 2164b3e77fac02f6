"""The three questions."""

from pathlib import Path

import pandas as pd

from ldp_flower import simulate
from ldp_flower.strategies import Counts, Describe, Means, Quantiles, QuantilesResult, Series

from .data import CARRIERS, SCHEMA, fleet, users_of

LEVELS = (0.1, 0.5, 0.9)
WEEKS = 26


def describe(epsilon: float) -> Describe:
    """Return what is asked first."""
    return Describe(SCHEMA, ["arr_delay", "distance", "origin"], epsilon=epsilon)


def delays(epsilon: float) -> Quantiles:
    """Return what is asked of delays."""
    return Quantiles(SCHEMA, "arr_delay", LEVELS, epsilon=epsilon)


def destinations(epsilon: float) -> Counts:
    """Return what is asked of destinations."""
    return Counts(SCHEMA, "dest", epsilon=epsilon)


def weekly_delays(epsilon: float, store: Path) -> Series:
    """Return what is asked week by week, for half a year, at one epsilon for all of it."""
    return Series(Means(SCHEMA, "arr_delay", epsilon=epsilon), collections=WEEKS, store=store)


def delays_by_carrier(rows: pd.DataFrame, epsilon: float, seed: int) -> dict[str, QuantilesResult]:
    """Let every airline ask its own aircraft, each in a run of its own in this process."""
    return {
        carrier: simulate(delays(epsilon), users_of(fleet(rows, carrier)), seed=seed)
        for carrier in CARRIERS
    }
