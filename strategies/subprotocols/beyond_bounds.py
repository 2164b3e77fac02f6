"""What declared bounds take away, by users who tell the octave of a size and nothing else."""

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

_SHARE = 0.05  # of the users
_NEAR = 1.25  # times a bound: a size is told no better
_NOTED, _SURE = 0.05, 0.95  # share of the sizes' sum beyond a bound that is said; how surely
_UNKNOWN = 0.5  # such a share, from which nothing is known of coefficients
_BEYOND = (
    "By {} users who told how large theirs are, clipping at {} = {:g} takes away some {:.0%} of "
    "what they hold, whose root mean square is about {:.2g}: coefficients are as wrong. Declare "
    "another bound."
)


@dataclass(frozen=True)
class DeclaredBound:
    """A bound, and the question how large what it clips is."""

    bound: float
    question: Octave


def num_askers(run: Run, bounds: Mapping[str, DeclaredBound]) -> int:
    """Return how many users tell of each bound; nobody, if a twentieth is too few to tell."""
    each = int(_SHARE * run.num_users) // max(len(bounds), 1)
    enough = max(size_askers(run.epsilon) // 2, run.min_reports)
    return min(each, 2 * size_askers(run.epsilon)) if each >= enough else 0


def ask_beyond(
    run: Run, bounds: Mapping[str, DeclaredBound], result: Linear
) -> Generator[Ask, Estimate, Linear]:
    """Ask all who are left what is beyond each bound; return a result whose errors contain it."""
    notes, left = [*result.notes], 1.0
    number = run.num_unasked // max(len(bounds), 1)
    for name, declared in bounds.items() if number else ():
        (cohort,) = run.cohorts([number])
        try:
            law = yield from ask_law(cohort, declared.question, run.epsilon)
        except TooFewReports:
            continue
        lost, surely = law.excess(_NEAR * declared.bound, _SURE)
        left *= 1 - lost
        if surely > _NOTED:
            rms = law.root_mean_square
            notes.append(_BEYOND.format(cohort.size, name, declared.bound, lost, rms))
    if left < 1 - _UNKNOWN:
        unknown = np.full(len(result.std_error), np.nan)
        return replace(result, std_error=unknown, notes=notes)
    errors = np.hypot(result.std_error, (1 / left - 1) * np.abs(result.coef))
    return replace(result, std_error=errors, notes=notes)
