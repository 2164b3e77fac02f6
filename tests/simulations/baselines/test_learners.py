"""The study trains many users at once as PyTorch and Opacus train each of them."""

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")

USERS, ROWS, DIM = 3, 8, 5


def problem(kind):
    from simulations.baselines.learners import Linear, Net

    if kind == "net":
        learner = Net(DIM, 4, 3, rate=0.5)
    else:
        learner = Linear(DIM, 3 if kind == "softmax" else 1, kind, rate=0.5)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((USERS, ROWS, DIM))
    if kind == "squares":
        return learner, x, rng.standard_normal((USERS, ROWS))
    return learner, x, rng.integers(0, learner.classes + (kind == "logistic"), (USERS, ROWS))


def in_pytorch(kind, learner):
    """Return the same model as a module, and its mean loss."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    if kind == "net":
        module = nn.Sequential(nn.Linear(DIM, 4), nn.ReLU(), nn.Linear(4, 3))
    else:
        module = nn.Linear(DIM, learner.classes, bias=False)
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), learner.initial(), strict=True):
            parameter.copy_(torch.from_numpy(array))
    if kind in ("net", "softmax"):
        return module, nn.functional.cross_entropy
    if kind == "squares":
        return module, lambda outputs, y: ((outputs[:, 0] - y) ** 2).mean() / 2
    logistic = nn.functional.binary_cross_entropy_with_logits
    return module, lambda outputs, y: logistic(outputs[:, 0], y.float())


def parameters(module):
    return [parameter.detach().numpy() for parameter in module.parameters()]


KINDS = ["logistic", "softmax", "squares", "net"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_pytorchs(kind):
    torch = pytest.importorskip("torch")
    from simulations.baselines.learners import descend

    learner, x, y = problem(kind)
    together = descend(learner, learner.initial(), x, y, 3)
    for user in range(USERS):
        module, loss = in_pytorch(kind, learner)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            outputs = module(torch.from_numpy(x[user].astype(np.float32)))
            loss(outputs, torch.from_numpy(y[user])).backward()
            optimizer.step()
        for ours, theirs in zip(together, parameters(module), strict=True):
            np.testing.assert_allclose(ours[user], theirs, atol=1e-5)
        outputs = learner.outputs([array[user] for array in together], x[user])
        theirs = module(torch.from_numpy(x[user].astype(np.float32))).detach().numpy()
        np.testing.assert_allclose(outputs, theirs, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dp_sgd_is_opacus(kind):
    """Without noise, and with a clip that most gradients of records exceed."""
    pytest.importorskip("opacus")
    import torch
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    from simulations.baselines.learners import DpSgd, descend

    learner, x, y = problem(kind)
    private = DpSgd(0.5, 0.0, 0.3, np.random.default_rng(0))
    together = descend(learner, learner.initial(), x, y, 3, private)
    for user in range(USERS):
        module, loss = in_pytorch(kind, learner)
        wrapped = GradSampleModule(module)
        optimizer = DPOptimizer(
            torch.optim.SGD(wrapped.parameters(), lr=0.3),
            noise_multiplier=0.0,
            max_grad_norm=0.5,
            expected_batch_size=ROWS,
        )
        for _ in range(3):
            optimizer.zero_grad()
            outputs = wrapped(torch.from_numpy(x[user].astype(np.float32)))
            loss(outputs, torch.from_numpy(y[user])).backward()
            optimizer.step()
        for ours, theirs in zip(together, parameters(module), strict=True):
            np.testing.assert_allclose(ours[user], theirs, atol=1e-5)
    plain = descend(learner, learner.initial(), x, y, 3)
    assert max(np.abs(a - b).max() for a, b in zip(plain, together, strict=True)) > 0.01


def test_dp_sgd_adds_the_noise_that_is_charged():
    """1,500 coordinates: the standard deviation is known within 1.8 % of itself."""
    from simulations.baselines.learners import DpSgd, Linear, descend

    learner = Linear(1500, 1, "logistic", rate=5.0)
    x = np.zeros((1, 4, 1500))
    x[..., 0] = 1e6  # its gradient is clipped to 1
    private = DpSgd(1.0, 3.0, 1.0, np.random.default_rng(0))
    (weights,) = descend(learner, learner.initial(), x, np.ones((1, 4)), 1, private)
    assert np.std(weights[0, 0, 1:]) == pytest.approx(3.0 / 4, rel=0.09)
    assert abs(weights[0, 0, 0] - 1) < 4 * 3 / 4


def test_users_with_different_numbers_of_rows_are_trained_as_alone():
    from simulations.baselines.federated import Descent, Problem
    from simulations.baselines.learners import Linear

    rng = np.random.default_rng(0)
    counts = np.array([3, 0, 5, 3, 1])
    offsets = np.r_[0, counts.cumsum()]
    x, y = rng.standard_normal((12, DIM)), rng.standard_normal(12)
    learner = Linear(DIM, 1, "squares", rate=0.1)
    users = Problem(x, y, offsets, learner, lambda model: 0.0, 3)
    model, nodes = rng.standard_normal(DIM), np.array([4, 2, 1, 0])
    found = np.concatenate([*Descent(users).updates(model, nodes, 1)])
    alone = [users.train(int(user), [model[None]])[0][0] - model for user in nodes]
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(alone, axis=0), atol=1e-12)
