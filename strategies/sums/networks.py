"""DP-SGD by noisy sums: a network that follows the mean of users' clipped gradients.

Every user answers every step. The budget is split evenly over the steps. The lengths of the steps
and the clip follow from the noise, by the rules below.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from ldp_flower.expectation import Expectation
from ldp_flower.models import Limits, Network
from ldp_flower.models.parsing import parsed
from ldp_flower.presentation.words import counted
from ldp_flower.questions import NetworkGradient
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Run, TooFewReports
from ..runtime.result import HALF_WIDTH_80
from .budget import Budget

STEPS = 30  # default number of steps
# Measured on linear models, a perceptron and a convolutional network of digits, on Adult and on
# breast cancer.
_NOISE = 20.0  # length of the noise of all planned steps, in clips; fitted steps begin with half
_LONGEST = 4.0  # longest step in clips: longer ones throw a network out of its first layers
_FIRST_CLIP = 0.01  # first clip, in units of the gradients
# Smallest and largest wanted share of users whose gradients are clipped. With a larger share, all
# people with one row each have the same influence, and a model predicts the larger class only.
_CLIPPED = (0.05, 0.5)
_CLIPPED_BY_NOISE = 40.0  # the wanted share times the signal-to-noise ratio, within its limits
_PACE, _FASTEST = 0.2, 0.3  # rate of change of the clip's logarithm, and largest change in a step
_TOLD = 0.25  # size of the coordinate that says whether a gradient was clipped, over the clip
_RADIUS = math.hypot(1, _TOLD)  # length of an answer in clips, at most


@dataclass(frozen=True)
class NetworkFit:
    """A network trained by sums over nodes, with the size of its noise beside that of its path.

    Lengths are in units of the clip, the largest length of a user's gradient.
    """

    arrays: ArrayRecord
    path_length: float  # sum of the lengths of the steps if all gradients had the clip's length
    noise: float  # standard deviation of the accumulated noise of a parameter


def arrays_of(network: Network) -> ArrayRecord:
    """Return a network's parameters as Flower's ArrayRecord, for :func:`network_of`."""
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in network.arrays.items()})


def network_of(text: str, arrays: ArrayRecord) -> Network:
    """Return a network with all parameters in a record of :func:`arrays_of`."""
    known = {name: array.numpy() for name, array in arrays.items()}
    return Network(parsed(text, Limits.none()), known)


def noise_to_signal(budget: Budget, dim: int) -> float:
    """Return q, the noise-to-signal ratio by which plans and refusals judge a training.

    It is the length of the noise in all steps' mean gradient, over that of a clipped gradient.
    """
    return 2 * _RADIUS * math.sqrt(dim) / budget.signal(1.0)


def too_few(budget: Budget, dim: int, most: float) -> TooFew | None:
    """Return a TooFew if users are too few for a noise-to-signal q up to ``most``, or None."""
    ratio = noise_to_signal(budget, dim)
    what = f"train {counted(dim, 'parameter')}: noise to signal q = {ratio:.2g}, above {most:g}"
    return budget.too_few(what, math.ceil(budget.users * ratio / most))


def expectation_of(ratio: float, dim: int, **others: Any) -> Expectation:
    """Return the Expectation whose error is the noise-to-signal ratio ``ratio``.

    The ratio is the length of the noise over that of a clipped gradient (:func:`noise_to_signal`).
    Its 80 % range follows from the spread of the length of ``dim`` normal numbers. ``others`` are
    the other arguments of :class:`~ldp_flower.expectation.Expectation`.
    """
    spread = HALF_WIDTH_80 * math.sqrt(0.5 / dim)  # relative spread of the norm of d normals
    low, high = ratio * max(1 - spread, 0.0), ratio * (1 + spread)
    return Expectation(value=ratio, low=low, high=high, **others)


def expected(budget: Budget, dim: int) -> Expectation:
    """Return the expected error of a plan: the noise-to-signal ratio q."""
    return expectation_of(
        noise_to_signal(budget, dim),
        dim,
        error="model's noise q, in lengths of a clipped gradient",
        rounds=STEPS,
        randomizers=(budget.ball(dim + 1, _RADIUS, 1.0, STEPS),),
        assumes=(f"The model has {dim:,} parameters, of which all are trained.",),
        notes=(
            "A linear model of digits had accuracies of .42, .64, .83, .91 at q = .8, .4, .2, .1.",
            "A plan does not know how well the network would do without privacy.",
        ),
    )


def train(
    run: Run, budget: Budget, network: Network, steps: int = STEPS
) -> Generator[Ask, Any, NetworkFit]:
    """Ask all users for their gradients in each step, and return the trained network.

    A step with too few reports is skipped. Raise TooFewReports if the first step has too few.
    """
    run.planned_steps = steps
    clipped = min(max(_CLIPPED_BY_NOISE / budget.signal(1.0), _CLIPPED[0]), _CLIPPED[1])
    graph = network.graph
    trained = np.concatenate([np.full(t.size, t.trainable) for t in graph.parameters.values()])
    planned = [_NOISE / noise_to_signal(budget, network.num_trainable) / steps] * steps
    descent, clip = NoisyDescent(network.vector, planned, _LONGEST, fitted=True), _FIRST_CLIP
    for step in range(steps):
        now = Network.of_vector(graph, descent.position)
        question = NetworkGradient.of(now, clip, _TOLD * clip)
        mechanism = budget.ball(network.num_trainable + 1, _RADIUS * clip, 1.0, steps)
        try:
            found: Estimate = yield budget.ask(question, mechanism)
        except TooFewReports:
            if not step:
                raise
            continue
        move = np.zeros(len(trained))
        move[trained] = -found.mean[:-1] / clip
        descent.follow(move, float(found.std_error[0]) / clip, move)
        arrays = run.estimate = arrays_of(Network.of_vector(graph, descent.estimate))
        beyond = (1 - found.mean[-1] / (_TOLD * clip)) / 2
        clip *= math.exp(min(max(_PACE * (beyond / clipped - 1), -_FASTEST), _FASTEST))
    return NetworkFit(arrays, sum(descent.steps), descent.noise)
