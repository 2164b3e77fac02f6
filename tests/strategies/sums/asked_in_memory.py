"""Answers of nodes in memory: exact means of users' values, plus noise of the stated size."""

import math

import numpy as np

from ldp_flower.clients.statistics import compute
from ldp_flower.randomizers import Estimate


def answered(steps, users, nodes, rng):
    """Return what a generator of questions returns if all users answer, on so many nodes."""
    answer = None
    while True:
        try:
            ask = steps.send(answer)
        except StopIteration as done:
            return done.value
        error = math.sqrt(nodes * ask.randomizer.variance) / len(users)
        values = compute(users, ask.question)
        noise = error * rng.standard_normal(values.shape[1])
        answer = Estimate(values.mean(axis=0) + noise, np.full(len(noise), error), len(users))
