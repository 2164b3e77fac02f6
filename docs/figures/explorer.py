"""Computes what docs/explorer.md shows. Run ``python docs/figures/explorer.py`` (ten minutes).

Every number that its sliders can choose has an error of its own, by the rules of the plans, so that
the page computes nothing but what epsilon means.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ldp_flower import strategies
from ldp_flower.planning import Setting, WouldRefuse, expectation
from ldp_flower.planning.in_memory import Simulations
from ldp_flower.strategies.forecasts.populations import USUAL_R2
from ldp_flower.strategies.models.schedule import WARN_ABOVE

GRID = Path(__file__).with_suffix(".json")
AXES = {
    "users": (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "epsilon": (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    "features": (2, 5, 10, 20, 50),
    "rows": (1, 3, 10),
}
# Between these numbers a simulated error is a power of the number, as in plans.
SIMULATED = {"features": (2, 10, 50), "rows": (1, 10)}
QUESTIONS = {
    "means": "Means",
    "shares": "Counts",
    "regression": "PrivateRegression",
    "model": "LdpFedAvg",
}
# A model's R2 without privacy in these plans, and the noise q up to which one is of use.
LIMITS = {"explained": USUAL_R2, "useful": WARN_ABOVE}
# As plans do: many simulated runs with the middle numbers, few and typical ones with all others.
RUNS, MIDDLE, FEW_RUNS = 24, {"users": 10_000, "epsilon": 2.0}, 4


def error(protocol: Any, place: dict[str, float], simulations: Simulations, runs: int) -> float:
    """Return the error that a plan expects; NaN if it would refuse."""
    setting = Setting(
        num_users=int(place["users"]),
        num_features=int(place["features"]),
        rows_per_user=place["rows"],
    )
    strategy = protocol.planned_for(setting, place["epsilon"])
    try:
        return expectation(strategy, setting, runs, simulations).value
    except WouldRefuse:
        return float("nan")


def errors(question: str) -> np.ndarray:
    """Return the expected errors of a question, users first; rows only where they matter."""
    protocol: Any = getattr(strategies, QUESTIONS[question])
    simulated = question == "regression"
    features, rows = ((SIMULATED if simulated else AXES)[name] for name in ("features", "rows"))
    if "rows_per_user" not in protocol.plans_with:
        rows = (1,)
    found = np.stack(
        [np.stack([curves(protocol, d, n) for n in rows], axis=-1) for d in features], axis=-2
    )
    found = no_worse(found)
    if simulated:
        for axis, name in ((2, "features"), (3, "rows")):
            found = between(found, axis, SIMULATED[name], AXES[name])
    return three_digits(found)


def between(found: np.ndarray, axis: int, known: tuple[int, ...], all_: tuple[int, ...]) -> Any:
    """Return errors at more places of an axis; NaN beside a refusal."""
    places = np.interp(np.log(all_), np.log(known), np.arange(len(known)))
    low = np.floor(places).astype(int)
    share = np.expand_dims(places - low, [i for i in range(4) if i != axis])
    high = np.ceil(places).astype(int)
    below, above = (np.log(found.take(at, axis)) for at in (low, high))
    return np.exp((1 - share) * below + share * above)


def three_digits(found: np.ndarray) -> np.ndarray:
    """Return errors in three digits."""
    return np.vectorize(lambda value: float(f"{value:.3g}"))(found)


def curves(protocol: Any, features: int, rows: int) -> np.ndarray:
    """Return the errors at all numbers of users and epsilons, simulated on the same users."""
    simulations, rest = Simulations(), {"features": features, "rows": rows}
    error(protocol, MIDDLE | rest, simulations, RUNS)
    return np.array(
        [
            [
                error(protocol, {"users": users, "epsilon": epsilon} | rest, simulations, FEW_RUNS)
                for epsilon in AXES["epsilon"]
            ]
            for users in AXES["users"]
        ]
    )


def no_worse(found: np.ndarray) -> np.ndarray:
    """Return errors that more users and epsilon do not increase, by the rule of plans."""
    least = found
    for axis in (0, 1):
        least = np.fmin.accumulate(least, axis)
    return np.where(np.isnan(found), np.nan, least)


def main() -> None:
    """Write the grid."""
    grid = {
        name: np.where(np.isnan(table := errors(name)), None, table).tolist() for name in QUESTIONS
    }
    made = {"axes": AXES, "limits": LIMITS, "errors": grid}
    GRID.write_text(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
