"""Real tables with users: where they are read, and how they are split."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower import Users

from ...flights.flights import data as flights_data
from ...flights.flights import design
from .schemas import DECLARED, Declared

Floats = NDArray[np.float64]

HELD_OUT = 0.2  # share of the users that models are judged on
_WINES_PER_USER = 10


@dataclass(frozen=True)
class Table:
    """Rows as numbers, and the user of each.

    Attributes
    ----------
    declared : Declared
        What is publicly known.
    features, targets : ndarray
        As the schema standardises them: by its bounds, for none declares more.
    raw : ndarray
        The targets in their own units, not clipped.
    user : ndarray
        Who each row belongs to, numbered from 0.
    """

    declared: Declared
    features: NDArray[np.float32]
    targets: Floats
    raw: Floats
    user: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """The rows of the users who take part, and of those held out."""

    declared: Declared
    users: Users
    training: Table
    held_out: Table

    def mean_squared_error(self, coef: Floats) -> float:
        """Return that of a model of the standardised features, on held-out users' rows."""
        predicted = self.declared.schema.in_units(self.held_out.features @ coef)
        return float(np.mean((self.held_out.raw - predicted) ** 2))

    @property
    def mean_predictor(self) -> float:
        """Mean squared error of the mean of all training rows, which nobody told privately."""
        return float(np.mean((self.held_out.raw - self.training.raw.mean()) ** 2))


@lru_cache(maxsize=1)
def split(name: str, folder: Path | None, seed: int) -> Split:
    """Return a random division of a data set's users."""
    whole = table(name, folder)
    users = np.random.default_rng(seed).permutation(whole.user.max() + 1)
    judged = np.isin(whole.user, users[: round(HELD_OUT * len(users))])
    training, held_out = _rows(whole, ~judged), _rows(whole, judged)
    collected = Users.from_rows(training.features, training.targets, training.user)
    return Split(whole.declared, collected, training, held_out)


def _rows(whole: Table, chosen: NDArray[np.bool_]) -> Table:
    parts = (whole.features, whole.targets, whole.raw, whole.user)
    return Table(whole.declared, *(part[chosen] for part in parts))


@lru_cache(maxsize=1)
def table(name: str, folder: Path | None) -> Table:
    """Return a data set.

    Raises
    ------
    FileNotFoundError
        If it comes as a file and there is no folder with it.
    """
    declared, frame = DECLARED[name], READERS[name](folder)
    schema = declared.schema
    frame = frame.dropna(subset=[schema.target, declared.user])
    return Table(
        declared,
        schema.features(frame).astype(np.float32),
        schema.targets(frame),
        frame[schema.target].to_numpy(np.float64),
        pd.factorize(frame[declared.user], sort=True)[0].astype(np.int64),
    )


def _flights(folder: Path | None) -> pd.DataFrame:
    return design.columns(flights_data.flights())


def _file(name: str) -> Callable[[Path | None], pd.DataFrame]:
    def read(folder: Path | None) -> pd.DataFrame:
        if folder is None:
            raise FileNotFoundError(f"{name} is not installed: give its folder with --data.")
        return pd.read_csv(folder / f"{name}.csv.gz")

    return read


def _murders(folder: Path | None) -> pd.DataFrame:
    frame = _file("countymurders")(folder)
    return frame.assign(log_density=np.log(np.maximum(frame["density"], 0.01)))


def _wine(folder: Path | None) -> pd.DataFrame:
    # The file is sorted: red before white, by quality. Users are ten wines at random.
    frame = _file("winequality")(folder).sample(frac=1, random_state=0)
    return frame.assign(user=np.arange(len(frame)) // _WINES_PER_USER)


def _taxi(folder: Path | None) -> pd.DataFrame:
    frame = _file("taxi_nyc2019_seaborn")(folder)
    pickup, dropoff = pd.to_datetime(frame["pickup"]), pd.to_datetime(frame["dropoff"])
    return frame.assign(
        minutes=(dropoff - pickup).dt.total_seconds() / 60,
        hour=pickup.dt.hour + pickup.dt.minute / 60,
        weekday=pickup.dt.day_of_week,
    )


def _synthetic(folder: Path | None) -> pd.DataFrame:
    """Return 1,500 people of four to eight rows, for a first try and for tests."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(1500), rng.integers(4, 9, 1500))
    size = len(person)
    age, hours = rng.uniform(20, 65, 1500)[person], rng.normal(38, 8, size)
    wage = 2 + 0.2 * age + 0.3 * hours + rng.normal(0, 2, size) + rng.normal(0, 1, 1500)[person]
    sector = rng.choice(["public", "private", "none"], size)
    return pd.DataFrame(
        {"person": person, "age": age, "hours": hours, "sector": sector, "wage": wage}
    )


READERS: dict[str, Callable[[Path | None], pd.DataFrame]] = {
    "flights": _flights,
    "nlswork": _file("nlswork"),
    "murders": _murders,
    "wine": _wine,
    "taxi": _taxi,
    "loan": _file("loan_lendingclub_modeldata"),
    "helpfull": _file("helpfull"),
    "synthetic": _synthetic,
}
