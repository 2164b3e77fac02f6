"""Seasonal effects of a series: the deviation from the level at each position in a period.

Source: the classical decomposition by moving averages over a whole period, in which seasonal
effects add up to 0; see Hyndman & Athanasopoulos, Forecasting: Principles and Practice, section
3.4.
"""

from dataclasses import replace

import numpy as np

from ldp_flower.validation import Floats

from .local_level import LocalLevel, local_level

#: Number of periods before seasonal effects are estimated.
PERIODS = 3


def seasonal_level(estimates: Floats, std_errors: Floats, period: int) -> LocalLevel:
    """Return the levels of :func:`local_level`, with a season of ``period`` collections.

    Filtered levels use the seasonal effects from the estimates up to their collection.
    """
    collections = len(estimates)
    then = np.zeros((2, collections))
    for last in range(collections):
        effects, spread = season_of(estimates[: last + 1], period)
        then[:, last] = effects[last % period], spread[last % period]
    effects, spread = season_of(estimates, period)
    places = np.arange(collections) % period
    known = local_level(estimates - then[0], std_errors)
    past = local_level(estimates - effects[places], std_errors)
    return replace(
        past,
        filtered=known.filtered + then[0],
        filtered_std_error=np.hypot(known.filtered_std_error, then[1]),
        level=past.level + effects[places],
        std_error=np.hypot(past.std_error, spread[places]),
    )


def season_of(estimates: Floats, period: int) -> tuple[Floats, Floats]:
    """Return the seasonal effect of each position in a period, and the standard errors.

    All are 0 if there are too few periods. Effects are shrunk according to their spread, since
    without a season they are only noise.
    """
    nothing = np.zeros(period), np.zeros(period)
    collections = len(estimates)
    if collections < PERIODS * period:
        return nothing
    window = np.ones(period) / period if period % 2 else np.ones(period + 1) / period
    if not period % 2:
        window[[0, -1]] /= 2  # makes the window symmetric around a collection
    half = len(window) // 2
    off = estimates[half : collections - half] - np.convolve(estimates, window, mode="valid")
    places = (np.arange(len(off)) + half) % period
    seen = np.isfinite(off)
    number = np.bincount(places[seen], minlength=period)
    if number.min() < PERIODS - 1:
        return nothing
    effects = np.bincount(places[seen], off[seen], minlength=period) / number
    rest = off[seen] - effects[places[seen]]
    variance = float(rest @ rest) / (len(rest) - period) / number
    effects -= effects.mean()
    between = max(float(np.mean(effects**2 - variance)), 0.0)
    if not between:
        return nothing
    trust = between / (between + variance)
    return trust * effects, np.sqrt(trust * variance)
