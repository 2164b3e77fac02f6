"""Questions to real data for the protocols that collect once: flights from New York, and a census.

The census is UCI's Adult in LIBSVM's form, 32,561 rows of 123 indicators. Without it the logistic
model is tried on scikit-learn's breast cancer set, whose 569 rows are too few.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_svmlight_file
from sklearn.linear_model import LinearRegression, LogisticRegression

from ldp_flower import Users, simulate
from ldp_flower.strategies import ConstrainedRegression, KernelRidgeRegression, SmoothGlm

from ...flights.flights import data, design

Floats = NDArray[np.float64]

_COLUMNS = 1 + len(design.NUMERIC)  # intercept and numbers, no categories
_HOURS = np.arange(5.5, 24)
_DELAY = 60.0  # minutes, beyond which a departure delay counts as such


@dataclass(frozen=True)
class Question:
    """What is asked of real data.

    Attributes
    ----------
    measure : str
        What the numbers are.
    users : str
        Who is protected.
    baseline, best : float
        The measure of a constant prediction and of a fit without privacy.
    run : callable
        Function from epsilon, seed and method to the measure.
    """

    measure: str
    users: str
    baseline: float
    best: float
    run: Callable[[float, int, str], float]


# ------------------------------------------------------------------------- regression


def regression(aircraft: bool) -> Question:
    """Return the arrival delay by 12 numbers, judged on the flights of other aircraft."""
    rows, _ = data.split(0)
    x, y = design.features(rows)[:, :_COLUMNS], design.targets(rows)
    judged, minutes = data.judged(0, declared=True)
    judged = judged[:, :_COLUMNS]

    def explained(predicted: Floats) -> float:
        errors = minutes - design.minutes(predicted)
        return 1 - float(np.mean(errors**2) / np.var(minutes))

    users = Users.from_rows(x, y, rows["tailnum"] if aircraft else None)

    def run(epsilon: float, seed: int, method: str) -> float:
        strategy = ConstrainedRegression(
            _COLUMNS,
            epsilon=epsilon,
            feature_bound=4.0,
            target_bound=2.0,
            l1_bound=2.0,
            method=method,
        )
        return explained(simulate(strategy, users, seed=seed).predict(judged))

    best = explained(LinearRegression(fit_intercept=False).fit(x, y).predict(judged))
    who = f"{len(users):,} {'aircraft' if aircraft else 'flights'}"
    return Question("R2", who, 0.0, best, run)


# ----------------------------------------------------------------------------- kernel


@lru_cache(maxsize=1)
def departures() -> pd.DataFrame:
    """Return the hours and clipped departure delays of all flights."""
    every = data.flights()
    clock = every["sched_dep_time"]
    delay = np.clip(every["dep_delay"], -_DELAY, _DELAY)
    return pd.DataFrame(
        {"hour": clock // 100 + clock % 100 / 60, "delay": delay, "tailnum": every["tailnum"]}
    )


def kernel_fit(epsilon: float, seed: int, method: str, aircraft: bool) -> Any:
    """Return the delay by the time of day."""
    flights = departures()
    groups = flights["tailnum"] if aircraft else None
    users = Users.from_rows(flights[["hour"]].to_numpy(), flights["delay"].to_numpy(), groups)
    strategy = KernelRidgeRegression(
        1, epsilon=epsilon, length_scale=5.0, target_bound=_DELAY, method=method
    )
    return simulate(strategy, users, seed=seed)


def hourly() -> pd.DataFrame:
    """Return the mean delay of every hour and its number of flights."""
    flights = departures()
    grouped = flights.groupby(np.floor(flights["hour"]) + 0.5)["delay"]
    found = pd.DataFrame({"delay": grouped.mean(), "flights": grouped.size()})
    return found.reindex(_HOURS).dropna()


def kernel(aircraft: bool) -> Question:
    """Return how much of the hourly means' variance the private curve explains."""
    means = hourly()
    weights = means["flights"] / means["flights"].sum()
    centre = float(weights @ means["delay"])
    variance = float(weights @ (means["delay"] - centre) ** 2)

    def run(epsilon: float, seed: int, method: str) -> float:
        fit = kernel_fit(epsilon, seed, method, aircraft)
        errors = means["delay"] - fit.predict(means.index.to_numpy()[:, None])
        return 1 - float(weights @ errors**2) / variance

    who = f"{departures()['tailnum'].nunique():,} aircraft"
    if not aircraft:
        who = f"{len(departures()):,} flights"
    return Question("R2 of hourly means", who, 0.0, 1.0, run)


# --------------------------------------------------------------------------- logistic


def census(path: Path) -> tuple[Floats, Floats]:
    """Return eight public codings of the census records, and whether income is high (+-1)."""
    rows, labels = load_svmlight_file(str(path), n_features=123)
    table = rows.toarray()

    def rank(first: int) -> Floats:  # a number in fifths
        return np.asarray((table[:, first - 1 : first + 4] @ np.arange(5) - 2) / np.sqrt(2))

    def sign(column: int) -> Floats:
        return np.asarray(2 * table[:, column - 1] - 1)

    # age, education, hours; married, male, capital gain, capital loss
    columns = [rank(1), rank(35), rank(78), sign(40), sign(73), sign(75), sign(77)]
    return np.stack([np.ones(len(table)), *columns], axis=1), labels


def breast_cancer() -> tuple[Floats, Floats]:
    """Return the first five measurements, roughly standardised by round numbers."""
    rows, labels = load_breast_cancer(return_X_y=True)
    typical, spread = np.array([14, 19, 92, 655, 0.1]), np.array([3.5, 4.3, 24, 350, 0.014])
    return np.column_stack([np.ones(len(rows)), (rows[:, :5] - typical) / spread]), 2.0 * labels - 1


def logistic(adult: Path | None) -> Question:
    """Return the accuracy of a logistic model on a fifth of the rows."""
    x, y = breast_cancer() if adult is None else census(adult)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[len(y) // 5 :], order[: len(y) // 5]
    users = Users.from_rows(x[train], y[train])

    def accuracy(decisions: Floats) -> float:
        return float(np.mean(np.sign(decisions) == y[test]))

    def run(epsilon: float, seed: int, method: str) -> float:
        strategy = SmoothGlm(
            x.shape[1],
            epsilon=epsilon,
            feature_bound=3.0,
            radius=2.5,
            method=method,
        )
        return accuracy(simulate(strategy, users, seed=seed).decision_function(x[test]))

    model = LogisticRegression(C=1e4, fit_intercept=False, max_iter=1000).fit(x[train], y[train])
    majority = max(np.mean(y[test] > 0), np.mean(y[test] < 0))
    best = accuracy(model.decision_function(x[test]))
    return Question("accuracy", f"{len(users):,} people", float(majority), best, run)


# ----------------------------------------------------------------------------- by title

_CENSUS, _CANCER = "High income (Adult)", "Breast cancer"
_QUESTIONS: dict[str, Callable[[Path | None], Question]] = {
    "Arrival delay, a user an aircraft": lambda _: regression(aircraft=True),
    "Arrival delay, a user a flight": lambda _: regression(aircraft=False),
    "Delay by time of day, a user an aircraft": lambda _: kernel(aircraft=True),
    "Delay by time of day, a user a flight": lambda _: kernel(aircraft=False),
    _CENSUS: logistic,
    _CANCER: logistic,
}


def titles(adult: Path | None) -> list[str]:
    """Return the titles of the questions that can be asked with or without the census."""
    left_out = _CENSUS if adult is None else _CANCER
    return [title for title in _QUESTIONS if title != left_out]


@lru_cache(maxsize=1)
def question(title: str, adult: Path | None) -> Question:
    """Return a question, with its data."""
    return _QUESTIONS[title](adult)
