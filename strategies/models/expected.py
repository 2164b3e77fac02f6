"""What to expect of LdpFedAvg: the noise of all mean updates beside their length."""

import math

from ldp_flower.expectation import Expectation

from .schedule import WARN_ABOVE, Reporting, Schedule

_HARMLESS = 0.17
_RANGE = 1.2816  # standard normal, of 8 runs in 10


def expected(schedule: Schedule, reporting: Reporting) -> Expectation:
    """Return q = sqrt(d c / n), the length of the noise if every mean update had length 1.

    The square of the noise of d independent coordinates has a relative deviation of
    sqrt(2 / d), its root half of that.
    """
    ratio = schedule.noise_to_signal
    spread = _RANGE * math.sqrt(0.5 / reporting.dim)
    judged = (
        f"Above {WARN_ABOVE} expect a poor model, below {_HARMLESS} one that is hardly worse than "
        "without privacy."
    )
    return Expectation(
        error="model's noise q, in lengths of an update",
        value=ratio,
        low=ratio * max(1 - spread, 0.0),
        high=ratio * (1 + spread),
        rounds=len(schedule.steps),
        randomizers=(reporting.randomizer,),
        assumes=(f"The model has {reporting.dim:,} parameters, of which all are trained.",),
        notes=(judged, "How well the model would do without privacy is not known to a plan."),
    )
