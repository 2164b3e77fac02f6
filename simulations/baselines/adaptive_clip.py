"""DP-FedAvg with the adaptive clip as Flower's wrapper has it, for information.

Flower moves the clip away from the wanted quantile: it counts clipped updates where Andrew
et al. (2021) count unclipped ones, so the clip grows or shrinks without end. And the noise
is for the clip after that move, the updates for the one before: a shrinking clip costs
more than it was calibrated for. Tests compare the model with the wrapper's.
"""

import math
from itertools import pairwise

import numpy as np

from ldp_flower.accounting import gaussian_noise_multiplier, noise_multiplier_epsilon
from ldp_flower.compare.methods import Floats, Guarantee, JointTraining, Trained, clip_updates

_RATE, _QUANTILE = 0.2, 0.5  # Flower's defaults


def dp_fedavg_adaptive(training: JointTraining, epsilon: float) -> Trained:
    """Train by it, calibrated to ``epsilon`` as for a fixed clip; return what it really cost."""
    noise = gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    count_spread = training.reports / 20
    if noise >= 2 * count_spread:
        raise ValueError(f"Expected more than {10 * noise:.0f} users, got {training.reports}.")
    # What is left of the noise once the count has had its share (Andrew et al., Theorem 1).
    left = (noise**-2 - (2 * count_spread) ** -2) ** -0.5
    rng = np.random.default_rng(training.seed)
    clips, clipped = [training.clip(noise)], 0
    model = training.initial.copy()

    def clip(updates: Floats) -> Floats:
        nonlocal clipped
        clipped += int((np.linalg.norm(updates, axis=1) > clips[-1]).sum())
        return clip_updates(updates, clips[-1])

    for mean, count in training.means(model, clip):
        fraction = rng.normal(clipped, count_spread) / count
        clips.append(clips[-1] * math.exp(-_RATE * (fraction - _QUANTILE)))
        mean += rng.normal(0, left * clips[-1] / training.reports, len(mean))
        clipped = 0
    # Each round also releases how many were clipped, which one user moves by 1.
    releases = [[2 * count_spread, left * after / before] for before, after in pairwise(clips)]
    if training.everybody:
        releases = [[each for both in releases for each in both]]
    spent = max(noise_multiplier_epsilon(each, training.delta) for each in releases)
    return model, Guarantee("user", "server", spent, training.delta)
