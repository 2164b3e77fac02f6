"""SIGM: the conditions of its proof, numerically, and how fast it converges (T11)."""

import numpy as np
import pytest

from ldp_flower.questions.sparse import project_on_ball
from ldp_flower.strategies.numerics.first_order import damping, sigm


@pytest.mark.parametrize(("smoothness", "noise"), [(1.0, 1.0), (20.0, 0.01), (0.01, 50.0)])
def test_step_sizes_satisfy_the_conditions(smoothness, noise):
    """Those on the weights hold with equality, as all are 1 / sqrt(2)."""
    beta = np.array([damping(k, smoothness, noise, 2.0) for k in range(10_001)])
    alpha = share = 1 / np.sqrt(2)
    total = alpha * np.arange(1, 10_002)
    slack = 1 + 1e-12
    assert alpha <= 1 and (beta > smoothness).all() and (np.diff(beta) >= 0).all()
    assert (alpha**2 * beta <= share * np.append(beta[0], beta[:-1]) * slack)[1:].all()
    assert (share <= total * slack).all()


def quadratic(noise, num_steps, seed):
    """Return the excess loss on |diag(h) w - 1|**2 / 2 in the unit ball, 8 coordinates."""
    rng = np.random.default_rng(seed)
    curvature = np.linspace(0.1, 1, 8)
    wanted = np.full(8, 0.25)

    def gradients():
        for _ in range(num_steps):
            error = noise * rng.standard_normal(8) / np.sqrt(8)
            yield lambda w, error=error: curvature * (w - wanted) + error

    found = sigm(
        gradients(),
        lambda w: project_on_ball(w, 1.0),
        np.zeros(8),
        smoothness=1.0,
        noise=max(noise, 1e-6),
        radius=1.0,
    )
    return curvature @ (found - wanted) ** 2 / 2


def test_without_noise_it_converges_as_fast_as_its_order():
    few, many = (quadratic(0.0, steps, 0) for steps in (30, 300))
    assert many < 0.02 / 30 and np.log10(many / few) < -0.9


def test_with_noise_its_excess_falls_at_least_like_the_root_of_the_steps():
    """Means over 8 seeds: 100 times the steps give a tenth or less (here .017 and .0005)."""
    few, many = (np.mean([quadratic(1.0, k, s) for s in range(8)]) for k in (100, 10_000))
    assert few < 0.05 and many < few / 10


def test_bad_constants_are_refused():
    with pytest.raises(ValueError, match="Expected noise > 0"):
        sigm(iter([]), lambda w: w, np.zeros(1), smoothness=1.0, noise=0.0, radius=1.0)
