"""RecordNoise: the noise-to-signal ratio of a training by RecordDpSgd, and what follows from it."""

import math
from dataclasses import dataclass

from ldp_flower.expectation import Expectation
from ldp_flower.presentation import words
from ldp_flower.presentation.words import counted
from ldp_flower.randomizers import RecordGaussian
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.refusals import TooFew

from ..sums.networks import expectation_of
from .schedule import LONGEST_PATH, LONGEST_STEP

#: Values of q above which a run warns and is refused. Linear models of digits
#: (simulations/studies/silo_records, five splits) lost at most .02 of their accuracy at q up to .1,
#: lost .08 to .40 at q of .15 to .32, and reached .17 at q of .94 (a guess: .10). On breast cancer
#: mean accuracies from q = .26 on are between .73 and .85, with standard deviations up to .20.
WARN_ABOVE, REFUSE_ABOVE = 0.1, 1.0
#: Length of the accumulated noise of all steps with the default learning rate. Chosen on linear
#: models of digits and breast cancer and a small convolutional network of digits, at epsilon 1 and
#: 4, judged on wines and other splits.
_NOISE = 7.0


@dataclass(frozen=True)
class RecordNoise:
    """Noise of a run of RecordDpSgd with a training plan, given the numbers of silos and records.

    A run is refused, warned about and planned by its noise-to-signal ratio, and the default
    learning rate follows from it.
    """

    plan: DpSgdPlan  # noise, sampling rate, steps and rounds
    dim: int  # number of trained parameters
    silos: int  # number of silos
    units: float  # total number of records of all silos, or of users if users are protected

    @property
    def signal_to_noise(self) -> float:
        """Signal-to-noise ratio of a parameter in a silo's sum of one step, at most.

        It is reached if all gradients are the same.
        """
        drawn = self.plan.sampling_rate * self.units / self.silos
        return drawn / (self.plan.noise_multiplier * math.sqrt(self.dim))

    @property
    def noise_to_signal(self) -> float:
        """The rule of thumb q: norm of the noise over the largest norm of the mean gradient.

        The mean is over all silos and all steps.
        """
        steps = self.plan.num_rounds * self.plan.steps
        return 1 / (self.signal_to_noise * math.sqrt(self.silos * steps))

    @property
    def learning_rate(self) -> float:
        """Default learning rate of ``"sgd"``: the accumulated noise has a length of 7 at most."""
        steps = self.plan.num_rounds * self.plan.steps
        path = min(LONGEST_PATH, _NOISE / self.noise_to_signal)
        return min(path / steps, LONGEST_STEP) / self.plan.max_grad_norm

    def sentence(self) -> str:
        """Return a sentence for logs and notes: the noise-to-signal ratio q, and how it is made."""
        return (
            f"Noise to signal q = {self.noise_to_signal:.2g} for {counted(self.dim, 'parameter')}, "
            f"{counted(self.silos, 'silo')} and {counted(round(self.units), self.plan.unit)} in all"
        )

    def refusal(self) -> TooFew | None:
        """Return a TooFew if noise would drown the network (q above 1), or None."""
        if (ratio := self.noise_to_signal) <= REFUSE_ABOVE:
            return None
        enough = math.ceil(self.units * ratio / REFUSE_ABOVE)
        fewer = math.floor(self.dim * (REFUSE_ABOVE / ratio) ** 2)
        parameters = f", or {counted(fewer, 'parameter')} (trainable=)" if fewer else ""
        each = words.number(float(self.units / self.silos))
        return TooFew(
            f"The noise would drown the network: {self.sentence()}, above {REFUSE_ABOVE:g}.",
            "noise",
            advice=f"Enough would be {enough:,} {self.plan.unit}s in all{parameters}, or a larger "
            f"epsilon; got {counted(self.silos, 'silo')} of {each} {self.plan.unit}s. force=True "
            "tries anyway.",
        )

    def warning(self) -> list[str]:
        """Return a list with a note if the noise will cost accuracy, or an empty list."""
        if self.noise_to_signal <= WARN_ABOVE:
            return []
        return [
            f"{self.sentence()}: above {WARN_ABOVE:g}, expect a loss of accuracy, which grows with "
            "q."
        ]

    def expectation(self) -> Expectation:
        """Return the expected noise-to-signal ratio q, computed by the accountant's numbers."""
        plan = self.plan
        all_steps = plan.num_rounds * plan.steps
        rounds = sorted({1, -(-plan.num_rounds // 2), plan.num_rounds})
        spent = ", ".join(f"{plan.epsilon_after(each):.3g} after round {each}" for each in rounds)
        return expectation_of(
            self.noise_to_signal,
            self.dim,
            error="network's noise q, in lengths of the largest mean gradient",
            rounds=plan.num_rounds,
            randomizers=(
                RecordGaussian(  # states the cost and the size of an answer
                    plan.epsilon, self.dim, plan.max_grad_norm, plan.delta, plan.num_rounds
                ),
            ),
            assumes=(
                f"{counted(self.dim, 'parameter')} are trained, in {all_steps} steps: "
                f"{counted(plan.num_rounds, 'round')} of {plan.steps}, sampling rate "
                f"{plan.sampling_rate:g}.",
                f"Every silo has {words.number(float(self.units / self.silos))} {plan.unit}s.",
            ),
            notes=(
                f"Noise multiplier {plan.noise_multiplier:.3g}; epsilon at delta {plan.delta:g}: "
                f"{spent}.",
                "In one silo's sum of one step, the signal of a parameter is at most "
                f"{self.signal_to_noise:.2g} standard deviations of the noise.",
                f"Above q = {WARN_ABOVE:g} expect a loss of accuracy. A plan does not know how "
                "well the network would do without privacy.",
            ),
        )
