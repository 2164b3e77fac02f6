"""The noise in a network that silos train by DP-SGD, beside what their records say."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.expectation import Expectation
from ldp_flower.models import Graph, Network
from ldp_flower.models.graph import Operation, Reference, Tensor
from ldp_flower.presentation.words import counted, number
from ldp_flower.randomizers import RecordGaussian
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

#: Of q. Linear models of digits (simulations/studies/silo_records, five splits) lost .02 of their
#: accuracy at most up to .1, .08 to .40 at .15 to .32, and reached .17 at .94 (a guess: .10).
#: On breast cancer means from .26 on are between .73 and .85, with standard deviations up to .20.
WARN_ABOVE, REFUSE_ABOVE = 0.1, 1.0
_RANGE = 1.2816  # standard normal, of 8 runs in 10


@dataclass(frozen=True)
class RecordNoise:
    """What a plan's noise amounts to, for so many silos and records."""

    plan: DpSgdPlan  # noise, sampling rate, steps and rounds
    dim: int  # number of parameters that are trained
    silos: int  # number of silos
    records: float  # number of records of all silos

    @property
    def of_a_sum(self) -> float:
        """A parameter's signal to noise in a silo's sum of a step, if gradients point one way."""
        drawn = self.plan.sampling_rate * self.records / self.silos
        return drawn / (self.plan.noise_multiplier * math.sqrt(self.dim))

    @property
    def of_the_run(self) -> float:
        """Noise to signal q of the mean gradient over silos and steps, by Euclidean length."""
        steps = self.plan.num_rounds * self.plan.steps
        return 1 / (self.of_a_sum * math.sqrt(self.silos * steps))

    def told(self) -> str:
        """Return the rule of thumb in words."""
        return (
            f"Noise to signal q = {self.of_the_run:.2g} for {counted(self.dim, 'parameter')}, "
            f"{counted(self.silos, 'silo')} and {counted(round(self.records), 'record')} in all"
        )

    def refusal(self) -> str:
        """Return why the network would be noise, and what would do; nothing if it would not."""
        if (ratio := self.of_the_run) <= REFUSE_ABOVE:
            return ""
        enough = math.ceil(self.records * ratio / REFUSE_ABOVE)
        fewer = math.floor(self.dim * (REFUSE_ABOVE / ratio) ** 2)
        parameters = f", or {counted(fewer, 'parameter')} (trainable=)" if fewer else ""
        return (
            f"The noise would drown the network: {self.told()}, above {REFUSE_ABOVE:g}. What would "
            f"do: {enough:,} records in all{parameters}, or a larger epsilon; got "
            f"{counted(self.silos, 'silo')} of {number(float(self.records / self.silos))} records."
        )

    def warning(self) -> list[str]:
        """Return a note if noise is to cost accuracy."""
        if self.of_the_run <= WARN_ABOVE:
            return []
        return [
            f"{self.told()}: above {WARN_ABOVE:g}, expect to lose accuracy, the more the larger q."
        ]

    def expectation(self) -> Expectation:
        """Return q, and the accountant's numbers."""
        plan, ratio = self.plan, self.of_the_run
        spread = _RANGE * math.sqrt(0.5 / self.dim)  # of the root of d squared normals, relative
        all_steps = plan.num_rounds * plan.steps
        rounds = sorted({1, -(-plan.num_rounds // 2), plan.num_rounds})
        spent = ", ".join(f"{plan.epsilon_after(each):.3g} after round {each}" for each in rounds)
        return Expectation(
            error="network's noise q, in lengths of the largest mean gradient",
            value=ratio,
            low=ratio * max(1 - spread, 0.0),
            high=ratio * (1 + spread),
            rounds=plan.num_rounds,
            randomizers=(
                RecordGaussian(
                    plan.epsilon, self.dim, plan.max_grad_norm, plan.delta, plan.num_rounds
                ),
            ),
            assumes=(
                f"{counted(self.dim, 'parameter')} are trained, in {all_steps} steps: "
                f"{counted(plan.num_rounds, 'round')} of {plan.steps}, sampling rate "
                f"{plan.sampling_rate:g}.",
                f"Every silo declares {number(float(self.records / self.silos))} records.",
            ),
            notes=(
                f"Noise multiplier {plan.noise_multiplier:.3g}; epsilon at delta {plan.delta:g}: "
                f"{spent}.",
                f"In one silo's sum of one step a parameter has a signal of {self.of_a_sum:.2g} "
                "standard deviations of the noise at most.",
                f"Above q = {WARN_ABOVE:g} expect to lose accuracy. How well it would do without "
                "privacy is not known to a plan.",
            ),
        )


def linear_network(parameters: int) -> Network:
    """Return a network with so many parameters, which is all that a plan reads of one."""
    weight = Tensor("float32", (parameters, 1), True)
    product = Operation("aten.mm.default", (Reference(None), Reference("weight")), {})
    record = Tensor("float32", (parameters,))
    graph = Graph(record, {"weight": weight}, (product,), Reference(0), "mse")
    return Network(graph, {"weight": np.zeros((parameters, 1), np.float32)})
