"""What is publicly known about the table. Yours goes here."""

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema

#: The column that tells whose a row is.
PERSON = "person"

SCHEMA = Schema(
    {
        "age": Numeric(18, 80),
        "hours": Numeric(0, 80),
        "sector": Categories(["public", "private"]),
    },
    target="wage",
    bounds=Numeric(0, 60),
)


def invented(num_users: int) -> pd.DataFrame:
    """Return a table to try with: three rows of each person."""
    rng = np.random.default_rng(0)
    rows = 3 * num_users
    person = np.repeat(np.arange(num_users), 3)
    age = rng.integers(18, 81, num_users)[person]
    hours = np.clip(rng.normal(35, 10, rows).round(), 0, 80)
    sector = rng.choice(["public", "private"], num_users)[person]
    wage = 8 + 0.25 * (age - 18) + 0.1 * hours + 4 * (sector == "private") + rng.normal(0, 4, rows)
    return pd.DataFrame(
        {PERSON: person, "age": age, "hours": hours, "sector": sector, "wage": wage.clip(0, 60)}
    )


def seed_of(run: Mapping[str, object]) -> int | None:
    """Return the seed of a simulation; a deployment has none."""
    seed = int(str(run["seed"]))
    return None if seed < 0 else seed


if __name__ == "__main__":  # for operators, who need nothing else of this app
    print(json.dumps(SCHEMA.to_dict(), indent=2))
