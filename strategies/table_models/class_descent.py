"""Descent of a classifier: each step follows the mean direction that users propose."""

import math
from collections.abc import Generator

import numpy as np

from ldp_flower.questions import ClassStep
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Run, ask_on
from .class_holdout import ClassHoldOut

# Largest number of steps: the average of the last ones then has a seventh of one step's noise.
_STEPS = 50
# Smallest number of users of a step: a mean of 30 reports is nearly normal, as the step size
# assumes.
_MIN_STEP_USERS = 30
# Largest length of all steps together: a row's logit is then saturated in any direction.
_MAX_PATH = 100.0
# Largest length of one step: it moves the probability of a typical row from one half to .98.
_MAX_STEP = 4.0


def class_descent(
    run: Run, num_users: int, held_out: ClassHoldOut, ridge: float, weighted: bool
) -> Generator[Ask, Estimate, Floats]:
    """Return the coefficients of scores that are high for rows of the class of ``held_out``.

    The coefficients, shape (dim,), are for standardised features. ``num_users`` of the users not
    asked yet answer. The penalty ``ridge`` of their own regressions is in units of a row's squared
    norm. With ``weighted``, users whom the current coefficients fit well send shorter vectors.
    Raise TooFewReports if a step's cohort would be smaller than ``min_reports``.
    """
    schema, place = held_out.schema, float(held_out.place)
    dim = schema.num_features
    cohorts = run.equal_cohorts(num_users, _STEPS, _MIN_STEP_USERS)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    signal = math.sqrt(num_users / mechanism.variance)
    planned = min(_MAX_PATH, signal) / len(cohorts)
    # In units in which a row of features has about norm 1.
    descent = NoisyDescent(np.zeros(dim), [planned] * len(cohorts), _MAX_STEP, fitted=True)
    answered = True
    for cohort in cohorts:
        theta = descent.position / math.sqrt(dim)
        question = ClassStep(theta, ridge, place, len(schema.classes), weighted)
        ask = held_out.columns.applied(Ask(cohort, question, mechanism))
        # Without answers the next cohort gets the question. Twice in a row means lost nodes.
        answer = yield from ask_on(ask, answered)
        answered = answer is not None
        if answered:
            descent.follow(answer.mean, math.sqrt(mechanism.variance / answer.count), answer.mean)
    return np.asarray(descent.estimate / math.sqrt(dim))
