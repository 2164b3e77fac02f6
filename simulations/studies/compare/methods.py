"""The methods that are compared, by name, each with what it promises and what it costs."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.accounting import gaussian_noise_multiplier
from ldp_flower.compare import methods
from ldp_flower.compare.methods import Guarantee, JointTraining, Trained
from ldp_flower.compare.nodes import Nodes
from ldp_flower.simulation.grid import silenced
from ldp_flower.strategies import LdpFedAvg

from ...baselines.adaptive_clip import dp_fedavg_adaptive
from ...baselines.federated import LOCAL_STEPS, Descent, Problem, training_of
from ...baselines.learners import DpSgd
from ...baselines.local_model import median_score

DELTA = 1e-5  # of all methods that are not pure: below one over the number of users
#: Up to so many users DP-FedAvg asks everybody in every round, as it should; above, each
#: once, which costs it little there and saves nineteen rounds of simulation in twenty.
_EVERYBODY = 5_000
_GRADIENT_CLIP = 1.0  # DP-SGD's: the longest of a logistic loss and rows of length 1
_ONE_ROW_CLIP = 0.5  # of users with one row, whose normalised update would lose how sure it is


@dataclass(frozen=True)
class Outcome:
    """What a method reached.

    Attributes
    ----------
    score : float
        What its model is worth; NaN if it refused to train one.
    guarantee : Guarantee
        What it cost.
    rounds : int
        Messages that one run exchanges with a cohort, one after the other.
    bytes_per_user : int
        What a user sends in all, without Flower's envelopes.
    """

    score: float
    guarantee: Guarantee
    rounds: int
    bytes_per_user: int


@dataclass(frozen=True)
class Method:
    """A method, whether its result depends on an epsilon, and what it is for if not for all."""

    run: Callable[[Problem, float, int], Outcome]
    private: bool = True
    problems: tuple[str, ...] = ()

    def handles(self, problem: str) -> bool:
        """Whether it can be run on the problem of this name."""
        return not self.problems or problem in self.problems


def _training(
    problem: Problem, seed: int, everybody: bool, nodes: Nodes | None = None
) -> JointTraining:
    return training_of(problem, seed, delta=DELTA, everybody=everybody, nodes=nodes)


def _judged(problem: Problem, training: JointTraining, trained: Trained) -> Outcome:
    model, guarantee = trained
    size = sum(array.nbytes for array in problem.learner.initial()) * training.answers
    score = problem.score(problem.shaped(model))
    return Outcome(score, guarantee, training.rounds, size)


def ldp_fedavg(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """LdpFedAvg and LdpUpdateMod with their defaults, one report a user."""
    strategy = LdpFedAvg(
        epsilon=epsilon,
        model="net" if problem.is_net else "linear",
        clip=_ONE_ROW_CLIP if problem.records == 1 else None,
        path_length=problem.path,
    )
    initial = ArrayRecord(problem.learner.initial())
    with silenced("flwr", below=logging.ERROR):
        found = methods.train_ldp_fedavg(
            strategy, problem.app(), initial, problem.num_users, seed=seed
        )
    score = math.nan if found.model is None else problem.score(problem.shaped(found.model))
    return Outcome(score, found.guarantee, found.rounds or problem.rounds, found.bytes_per_node)


def protocol(name: str, *problems: str) -> Method:
    """Return a protocol of ldp-flower that is made for the problem."""

    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        score, result = problem.protocols[name](epsilon, seed)
        assert result.privacy is not None
        spent = Guarantee("user", "nobody", result.privacy.epsilon, result.privacy.delta)
        size = max(step.report_bytes for step in result.steps)
        return Outcome(score, spent, len(result.steps) - 1, size)

    return Method(run, problems=problems)


def _central(train: Callable[[JointTraining, float], Trained]) -> Method:
    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        training = _training(problem, seed, problem.num_users <= _EVERYBODY)
        return _judged(problem, training, train(training, epsilon))

    return Method(run)


def _local(nominal: bool) -> Method:
    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        training = _training(problem, seed, everybody=False)
        return _judged(problem, training, methods.train_local_dp(training, epsilon, nominal))

    return Method(run)


def dp_sgd(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """DP-SGD in every client, which takes part once; protects records.

    Its rate is that at which the noise of a logit is about 1, or that of the other methods.
    """
    noise = gaussian_noise_multiplier(epsilon, DELTA, LOCAL_STEPS)
    cohort = problem.num_users // problem.rounds
    of_a_step = _GRADIENT_CLIP * noise / (problem.records * math.sqrt(cohort))
    rate = min(problem.learner.rate, 1 / (of_a_step * math.sqrt(LOCAL_STEPS * problem.rounds)))
    private = DpSgd(_GRADIENT_CLIP, noise, rate, np.random.default_rng(seed))
    training = _training(problem, seed, everybody=False, nodes=Descent(problem, private))
    model, _ = methods.train_fedavg(training)
    return _judged(problem, training, (model, Guarantee("record", "nobody", epsilon, DELTA)))


def no_privacy(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """FedAvg as it is; every update is seen."""
    training = _training(problem, seed, problem.num_users <= _EVERYBODY)
    return _judged(problem, training, methods.train_fedavg(training))


def alone(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """No federation: the mean over users who train on their own rows."""
    score = median_score(
        problem.train, problem.learner.initial(), problem.score, problem.num_users, seed
    )
    return Outcome(score, Guarantee("user", "nobody", 0.0), 0, 0)


METHODS: dict[str, Method] = {
    "LdpFedAvg": Method(ldp_fedavg),
    "SparseRegression": protocol("SparseRegression", "flights", "sparse regression"),
    "LDP-IHT": protocol("LDP-IHT", "flights"),
    "LocalDpMod, calibrated": _local(nominal=False),
    "LocalDpMod, nominal": _local(nominal=True),
    "DP-SGD in clients": Method(dp_sgd),
    "DP-FedAvg": _central(methods.train_dp_fedavg),
    "DP-FedAvg, adaptive": _central(dp_fedavg_adaptive),
    "FedAvg": Method(no_privacy, private=False),
    "local model": Method(alone, private=False),
}
