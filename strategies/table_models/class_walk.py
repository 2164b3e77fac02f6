"""The descent of a classifier: each step is the mean direction of users' own logistic steps."""

import math
from collections.abc import Generator

import numpy as np

from ldp_flower.guarantee.questions import ClassStep
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.walk import Walk
from ..runtime.exchange import Ask
from ..runtime.run import Run, TooFewReports
from ..tables.standardisation import Standardisation

_STEPS = 50  # at most: the average of the last ones then has a seventh of one step's noise
_FEWEST = 30  # users of a step: a mean of 30 reports is all but normal, as the step size assumes
FARTHEST = 100.0  # of all steps together: a row's logit is then saturated in any direction
LONGEST = 4.0  # of one step: it moves the logit of a typical row from one half to .98
FEW_ROWS = 6  # up to which a user's rows show little of where its step ends
SURE = 2.0  # standard errors of an estimate that exceed chance in 39 of 40 runs


def class_walk(
    run: Run,
    num_users: int,
    standardisation: Standardisation,
    place: int,
    num_classes: int,
    ridge: float,
    weighted: bool,
) -> Generator[Ask, Estimate, Floats]:
    """Return scores that are high for rows of a class: coefficients of standardised features.

    Parameters
    ----------
    run : Run
        Whose users are asked, each with the strategy's ``epsilon``.
    num_users : int
        How many of those not asked yet.
    standardisation : Standardisation
        Of the features.
    place, num_classes : int
        Of the class, and how many there are.
    ridge : float
        Penalty of users' own regressions, in units of a row's squared norm.
    weighted : bool
        Whether users whom the current coefficients serve well say less.

    Raises
    ------
    TooFewReports
        If a step's cohort would be smaller than the strategy's ``min_reports``.
    """
    dim = len(standardisation.means) - 1
    steps = num_steps(num_users, run.min_reports)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    signal = math.sqrt(num_users / mechanism.variance)
    planned = min(FARTHEST, signal) / steps
    # In units in which a row of features has about norm 1.
    walk = Walk(np.zeros(dim), [planned] * steps, LONGEST, fitted=True)
    sizes = [num_users // steps + (i < num_users % steps) for i in range(steps)]
    unanswered = False
    for cohort in run.cohorts(sizes):
        theta = walk.position / math.sqrt(dim)
        question = ClassStep(theta, ridge, float(place), num_classes, weighted)
        try:
            answer = yield standardisation.applied(Ask(cohort, question, mechanism))
        except TooFewReports:
            if unanswered:  # twice in a row: nodes are lost, and the run can be started again
                raise
            unanswered = True
            continue  # the next cohort gets the question
        unanswered = False
        walk.follow(answer.mean, math.sqrt(mechanism.variance / answer.count), answer.mean)
    return np.asarray(walk.estimate / math.sqrt(dim))


def num_steps(num_users: int, min_reports: int) -> int:
    """Return how many steps so many users make."""
    return max(1, min(_STEPS, num_users // max(_FEWEST, min_reports)))
