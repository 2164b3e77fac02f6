"""Check of declared bounds: a few users report octaves of sizes, which show what clipping loses."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ldp_flower.questions import Octave
from ldp_flower.randomizers import Estimate

from ..runtime import Ask, LinearResult, Run, TooFewReports
from .laws_of_size import ask_law
from .octaves import size_askers

Linear = TypeVar("Linear", bound=LinearResult)

_ASKED_SHARE = 0.05  # share of the users who are asked about bounds
_OCTAVE_MARGIN = 1.25  # multiple of a bound beyond which sizes count, since octaves are imprecise
# A note is made if more than this share of the sizes' sum is beyond a bound, with this probability.
_NOTED_SHARE, _NOTED_PROBABILITY = 0.05, 0.95
_UNKNOWN_SHARE = 0.5  # share of the sizes' sum beyond bounds from which coefficients are unknown
_BEYOND = (
    "According to the reports of {} users, clipping at {} = {:g} takes away some {:.0%} of the "
    "values' total size, and coefficients are wrong by about this share. The values' root mean "
    "square is about {:.2g}. Declare another bound."
)


@dataclass(frozen=True)
class DeclaredBound:
    """A declared bound, and the question for the sizes of the values that it clips."""

    bound: float
    question: Octave


def bound_askers(run: Run, bounds: Mapping[str, DeclaredBound]) -> int:
    """Return the number of users to ask about each bound.

    It is 0 if a twentieth of the users, divided among the bounds, is too few.
    """
    each = int(_ASKED_SHARE * run.num_users) // max(len(bounds), 1)
    enough = max(size_askers(run.epsilon) // 2, run.min_reports)
    return min(each, 2 * size_askers(run.epsilon)) if each >= enough else 0


def ask_beyond(
    run: Run, bounds: Mapping[str, DeclaredBound], result: Linear
) -> Generator[Ask, Estimate, Linear]:
    """Ask the users who are left for the sizes of the values that declared bounds clip.

    Return the result with standard errors that include the estimated loss by clipping, and with a
    note for each bound that clips too much. If clipping removes more than half of the total size,
    the standard errors are NaN. A bound with too few reports is skipped.
    """
    notes, left = [*result.notes], 1.0
    number = run.num_unasked // max(len(bounds), 1)
    for name, declared in bounds.items() if number else ():
        (cohort,) = run.cohorts([number])
        try:
            law = yield from ask_law(cohort, declared.question, run.epsilon)
        except TooFewReports:
            continue
        lost, surely = law.excess(_OCTAVE_MARGIN * declared.bound, _NOTED_PROBABILITY)
        left *= 1 - lost
        if surely > _NOTED_SHARE:
            rms = law.root_mean_square
            notes.append(_BEYOND.format(cohort.size, name, declared.bound, lost, rms))
    if left < 1 - _UNKNOWN_SHARE:
        unknown = np.full(len(result.std_error), np.nan)
        return replace(result, std_error=unknown, notes=notes)
    errors = np.hypot(result.std_error, (1 / left - 1) * np.abs(result.coef))
    return replace(result, std_error=errors, notes=notes)
