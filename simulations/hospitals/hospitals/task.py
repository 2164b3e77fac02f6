"""What is publicly known about the hospitals' tables, and tables to try with."""

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema

#: The column that tells whose a row is.
PATIENT = "patient"

SCHEMA = Schema(
    {
        "age": Numeric(18, 100),
        "ward": Categories(["surgery", "medicine", "maternity"]),
        "emergency": Categories(["no", "yes"]),
        "diagnoses": Numeric(0, 20),
    },
    target="days",
    bounds=Numeric(0, 30),
)


def invented(num_users: int, hospital: int, num_hospitals: int) -> pd.DataFrame:
    """Return one hospital's stays. Hospitals have unlike sizes, wards and ages."""
    sizes = np.arange(num_hospitals) + 1.0
    ends = np.round(num_users * np.cumsum(sizes) / sizes.sum()).astype(int)
    number = int(ends[hospital] - (ends[hospital - 1] if hospital else 0))
    rng = np.random.default_rng(hospital)
    stays = 1 + rng.poisson(0.5, number)
    patient = np.repeat(np.arange(number), stays)
    rows = len(patient)
    age = np.clip(rng.normal(45 + 3 * (hospital % 5), 18, number), 18, 100).round()[patient]
    wards = rng.dirichlet([4.0, 4.0, 2.0])
    ward = rng.choice(["surgery", "medicine", "maternity"], rows, p=wards)
    emergency = rng.choice(["no", "yes"], rows, p=[0.7, 0.3])
    diagnoses = np.minimum(rng.poisson(1 + 0.05 * (age - 18)), 20)
    days = 1 + 0.04 * (age - 18) + 0.9 * diagnoses + 2.5 * (emergency == "yes")
    days += 1.5 * (ward == "surgery") + rng.normal(0, 2, rows)
    stay = {"age": age, "ward": ward, "emergency": emergency, "diagnoses": diagnoses}
    names = np.char.add(f"h{hospital}p", patient.astype(str))
    return pd.DataFrame({PATIENT: names, **stay, "days": np.clip(days, 0, 30).round(1)})


def seed_of(run: Mapping[str, object]) -> int | None:
    """Return the seed of a simulation that is to be repeated; a deployment has none."""
    seed = int(str(run.get("seed", -1)))
    return None if seed < 0 else seed


if __name__ == "__main__":  # for operators, who need nothing else of this app
    print(json.dumps(SCHEMA.to_dict(), indent=2))
