"""Networks as data: what is exported, saved and run is the module, and gradients are Opacus'."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from networks import KINDS, check_alone, data_of, gradients, module_of, network_of
from opacus import GradSampleModule
from opacus.layers import DPLSTM
from torch import nn
from torch.nn import functional as F

from ldp_flower.clients.private_training import network_gradients
from ldp_flower.clients.private_training.network_gradients import NetworkGradients
from ldp_flower.models import Limits, Network, NetworkError
from ldp_flower.models.graph import CLASS_LOSSES, Tensor
from ldp_flower.models.losses import LOSSES
from ldp_flower.models.parsing import parsed


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_computes_what_its_module_does(kind):
    rows, _ = data_of(kind, 4)
    expected = module_of(kind)(rows).detach().numpy()
    np.testing.assert_allclose(network_of(kind).run(rows), expected, rtol=1e-5, atol=1e-6)


def with_opacus_cells(module):
    """Return a module whose LSTM is the one that Opacus knows, and its names of parameters."""
    if not hasattr(module, "cells"):
        return module, {}
    copy = type(module)(DPLSTM)
    names = {
        f"cells.l0.{gate}.{what}": f"cells.{what}_{gate}_l0"
        for gate in ("ih", "hh")
        for what in ("weight", "bias")
    }
    own = module.state_dict()
    with torch.no_grad():
        for name, parameter in copy.named_parameters():
            parameter.copy_(own[names.get(name, name)])
    return copy, names


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Transformer"}))
def test_gradients_are_those_of_opacus(kind):
    """Of the Transformer's attention Opacus knows no gradients of records; see below."""
    rows, targets = data_of(kind, 8)
    found, used = gradients(network_of(kind), rows, targets, np.arange(8), 11)
    assert used.tolist() == [True] * 8 + [False] * 3
    own, names = with_opacus_cells(module_of(kind))
    module = GradSampleModule(own, loss_reduction="sum")
    each = F.cross_entropy(module(rows), targets, reduction="none").flatten(1 - (targets.dim() < 2))
    (each.mean(1) if each.dim() > 1 else each).sum().backward()
    expected = {
        names.get(name := n.removeprefix("_module."), name): p.grad_sample
        for n, p in module.named_parameters()
    }
    assert set(found) == set(expected)
    for name, gradient in found.items():
        assert float((gradient[:8] - expected[name]).abs().max()) <= 1e-5, name
    module.remove_hooks()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_records_alone(kind):
    rows, targets = data_of(kind, 3)
    check_alone(module_of(kind), network_of(kind), rows, targets)


def test_a_network_is_saved_and_loaded(tmp_path):
    network = network_of("LeNet")
    network.save(tmp_path / "net.json")
    loaded = Network.load(tmp_path / "net.json")
    assert loaded.graph == network.graph and set(loaded.arrays) == set(network.arrays)
    rows, _ = data_of("LeNet", 3)
    assert np.array_equal(loaded.run(rows), network.run(rows))
    fresh = KINDS["LeNet"][0]()
    moved = loaded.with_arrays({"0.bias": np.ones(6, np.float32)})
    moved.to_torch(fresh)
    np.testing.assert_allclose(moved.run(rows), fresh(rows).detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(NetworkError, match=r"Expected a module with \['0.bias'"):
        moved.to_torch(nn.Linear(3, 3))


class Deep(nn.Module):
    """The usual U-Net: two convolutions at each of four sizes, down and up."""

    def __init__(self, widths=(32, 64, 128, 272)):
        super().__init__()

        def block(into, out):
            layers = []
            for width in (into, out):
                layers += [nn.Conv2d(width, out, 3, padding=1), nn.GroupNorm(8, out), nn.ReLU()]
            return nn.Sequential(*layers)

        self.down = nn.ModuleList(map(block, (1, *widths), widths))
        self.up, self.join = nn.ModuleList(), nn.ModuleList()
        for narrow, wide in pairwise(widths):
            self.up.append(nn.ConvTranspose2d(wide, narrow, 2, stride=2))
            self.join.append(block(2 * narrow, narrow))
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        passed = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            passed.append(x)
        for up, join, side in zip(self.up[::-1], self.join[::-1], passed[-2::-1], strict=True):
            x = join(torch.cat([side, up(x)], 1))
        return self.out(x)


@pytest.mark.slow
def test_the_limits_take_a_unet_of_two_million_parameters():
    network = Network.export(Deep(), torch.zeros(1, 128, 128), "cross_entropy")
    assert network.num_trainable > 2_000_000
    assert network.target() == Tensor("int64", (128, 128))


def test_a_public_body_has_a_limit_of_its_own():
    """A body of 7 million parameters with a trained head is within the default limits."""
    body = nn.Conv2d(256, 3072, 3, padding=1)
    module = nn.Sequential(body, nn.Flatten(), nn.Linear(3072, 2))
    example = torch.zeros(256, 1, 1)
    network = Network.export(module, example, "cross_entropy", ["2.*"])
    assert sum(array.size for array in network.arrays.values()) > 7_000_000
    assert network.num_trainable == 2 * 3073
    with pytest.raises(NetworkError, match="at most 4194304 trained parameters, got 7087106"):
        Network.export(module, example, "cross_entropy")
    with pytest.raises(NetworkError, match=r"got 7080960\. .* raise Limits\.frozen"):
        Network.export(module, example, "cross_entropy", ["2.*"], Limits(frozen=1 << 22))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)), "Dropout is random: call eval()"),
        (
            nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)),
            "BatchNorm1d '1' is refused.*Group",
        ),
        (
            nn.Sequential(nn.Linear(4, 2), nn.RReLU()),
            "Operation aten.* It is not on the list",
        ),
        (nn.Sequential(nn.Linear(5, 2)), "Expected a module that torch.export takes"),
        (nn.ReLU(), "Expected trainable to name parameters in"),
    ],
)
def test_modules_that_cannot_be_kept_apart_are_refused(module, words):
    with pytest.raises(NetworkError, match=words):
        Network.export(module, torch.zeros(4), "mse")


def test_arguments_are_checked():
    for arguments, words in (
        ({"loss": "hinge"}, "Expected a loss in"),
        ({"trainable": "*"}, "Expected trainable to be a list of names"),
        ({"trainable": ["head.*"]}, "Expected trainable to name parameters in"),
    ):
        with pytest.raises(NetworkError, match=words):
            Network.export(nn.Linear(4, 2), torch.zeros(4), **{"loss": "mse", **arguments})
    with pytest.raises(NetworkError, match="Expected parameters without NaN"):
        broken = nn.Linear(4, 2)
        nn.init.constant_(broken.weight, torch.nan)
        Network.export(broken, torch.zeros(4), "mse")


class Masked(nn.Module):
    """Frozen statistics, a mask of infinities and constants of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.register_buffer("mask", torch.full((4,), -torch.inf).index_fill(0, torch.tensor(1), 0))

    def forward(self, x):
        x = self.head(self.norm(x)) * torch.arange(4) + 0.5
        return x.masked_fill(torch.tensor([True, False, False, True]), -torch.inf).softmax(1) + (
            (x + self.mask).softmax(1)
        )


def test_frozen_statistics_masks_and_constants_are_exported():
    module = Masked().eval()
    nn.init.normal_(module.norm.running_mean)
    network = Network.export(module, torch.zeros(4), "mse", ["head.*"])
    rows = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    expected = module(rows).detach()
    np.testing.assert_allclose(network.run(rows), expected, rtol=1e-5, atol=1e-6)
    assert network.graph.trainable == ["head.weight", "head.bias"]


def encoder(trainable=("head.*",)):
    torch.manual_seed(3)
    module = nn.Sequential()
    module.add_module("encoder", nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16)))
    module.add_module("head", nn.Linear(16, 3))
    return Network.export(module, torch.zeros(6), "cross_entropy", trainable)


def test_a_frozen_encoder_runs_once_for_each_record(monkeypatch):
    """Gradients are those without it, and of the whole network."""
    rows = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    rows[4] = torch.nan
    targets, drawn = torch.arange(9) % 3, np.array([7, 2, 4, 8])
    network, whole = encoder(), encoder(("*",))
    kept, used = gradients(network, rows, targets, drawn, 6)
    every, _ = gradients(whole, rows, targets, drawn, 6)
    assert used.tolist() == [True] * 4 + [False] * 2
    assert set(kept) == {"head.weight", "head.bias"} < set(every)
    monkeypatch.setattr(network_gradients, "_MAX_KEPT", 0)
    again, _ = gradients(network, rows, targets, drawn, 6)
    for name, gradient in kept.items():
        for other in (every[name], again[name]):
            torch.testing.assert_close(
                gradient[:4], other[:4], rtol=1e-5, atol=1e-7, equal_nan=True
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_an_encoder_makes_of_records_is_counted_in_bytes(monkeypatch, dtype):
    """Room for the numbers of 9 records in four bytes is not enough for those in eight."""
    monkeypatch.setattr(network_gradients, "_MAX_KEPT", 9 * 16 * 4)
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 3)).to(dtype)
    network = Network.export(module, torch.zeros(6, dtype=dtype), "cross_entropy", ["1.*"])
    rows, targets = torch.ones(9, 6, dtype=dtype), torch.arange(9) % 3
    of = NetworkGradients(network, rows, targets, 9, 4)
    assert bool(of._known) == (dtype == torch.float32)


def test_a_part_of_a_slice_to_the_end_is_exported():
    class Differences(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x):
            return self.head(x[:, 1:, 0] - x[:, :-1, 0])

    module = Differences()
    rows = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    network = Network.export(module, rows[0], "mse")
    np.testing.assert_allclose(network.run(rows), module(rows).detach(), rtol=1e-5, atol=1e-6)


def focal(output, target):
    chosen = output.softmax(1).gather(1, target[:, None])[:, 0]
    return (-((1 - chosen) ** 2) * chosen.log()).mean()


def dice(output, target):
    """Return 1 minus twice the overlap over both sizes, of each class, smoothed as in MONAI."""
    shares = output.softmax(1).flatten(2) if output.dim() > 2 else output.softmax(1)[..., None]
    true = F.one_hot(target.reshape(len(target), -1), output.shape[1]).transpose(1, 2)
    overlap, sizes = (shares * true).sum(2), shares.sum(2) + true.sum(2)
    return (1 - (2 * overlap + 1e-5) / (sizes + 1e-5)).mean()


TARGETS = {
    "cross_entropy": (torch.tensor([1, 0]), F.cross_entropy),
    "focal": (torch.tensor([1, 0]), focal),
    "dice": (torch.tensor([1, 0]), dice),
    "binary_cross_entropy": (
        torch.tensor([[1.0, 0, 1], [0, 0, 1]]),
        F.binary_cross_entropy_with_logits,
    ),
    "mse": (torch.tensor([[1.0, -2, 3], [0, 0, 1]]), F.mse_loss),
    "huber": (torch.tensor([[1.0, -2, 3], [0, 0, 1]]), F.huber_loss),
    "poisson": (torch.tensor([[1.0, 2, 3], [0, 0, 1]]), F.poisson_nll_loss),
}


@pytest.mark.parametrize("loss", TARGETS)
def test_losses_are_pytorchs(loss):
    outputs = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    targets, reference = TARGETS[loss]
    for output, target in zip(outputs, targets, strict=True):
        found = LOSSES[loss](output[None], target)
        torch.testing.assert_close(found, reference(output[None], target[None]), rtol=2e-5, atol=0)


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_a_class_out_of_range_counts_nothing(loss):
    output = torch.randn(1, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[0, 2], [-100, 1]])
    found = LOSSES[loss](output, target)
    known = output.flatten(2)[:, :, [0, 1, 3]]
    expected = TARGETS[loss][1](known, torch.tensor([[0, 2, 1]]))
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=0)
    output.requires_grad_()
    nothing = LOSSES[loss](output, torch.full((2, 2), 3))
    nothing.backward()
    assert nothing == 0 and not output.grad.any()


def test_weights_multiply_the_losses_of_classes():
    output = torch.randn(1, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    target = torch.randint(3, (4, 5), generator=torch.Generator().manual_seed(1))
    weights = torch.tensor([0.0, 1.0, 2.5])
    each = F.cross_entropy(output, target[None], reduction="none")[0]
    factors = weights[target]
    for loss, expected in {
        "cross_entropy": (factors * each).mean(),
        "focal": (factors * (1 - (-each).exp()) ** 2 * each).mean(),
    }.items():
        torch.testing.assert_close(LOSSES[loss](output, target, weights), expected)
    parts = [LOSSES["dice"](output, target, torch.eye(3)[i]) for i in range(3)]
    torch.testing.assert_close(sum(parts), LOSSES["dice"](output, target))
    weighted = weights @ torch.stack(parts)
    torch.testing.assert_close(LOSSES["dice"](output, target, weights), weighted)


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_a_network_trains_by_weighted_losses(loss):
    module, weights = module_of("U-Net"), [1.0, 3.0]
    rows, targets = data_of("U-Net", 3)
    network = Network.export(module, rows[0], loss, class_weights=weights)
    assert parsed(network.graph.to_text()) == network.graph
    assert network.graph.class_weights == (1.0, 3.0)

    def one(output, target):
        return LOSSES[loss](output, target[0], torch.tensor(weights))

    check_alone(module, network, rows, targets, one)


@pytest.mark.slow
def test_weights_are_checked():
    module, row = nn.Linear(4, 2), torch.zeros(4)
    for loss, weights, words in (
        ("mse", [1, 1], "class_weights of 0 classes for mse, got 2"),
        ("focal", [1, 1, 1], "class_weights of 2 classes for focal, got 3"),
        ("dice", [0, 0], "and one above 0, got"),
        ("dice", [-1, 2], "each a number of 0 to"),
        ("cross_entropy", [1, 1e39], "each a number of 0 to"),
        ("cross_entropy", [1.0] * 257, "a list of at most 256"),
    ):
        with pytest.raises(NetworkError, match=words):
            Network.export(module, row, loss, class_weights=weights)


def test_the_library_does_not_import_pytorch_for_it():
    code = "import sys, ldp_flower.models, ldp_flower.models.network; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


class Table(nn.Module):
    """Columns of codes that are embedded, beside columns of numbers."""

    def __init__(self):
        super().__init__()
        self.codes = nn.ModuleList([nn.Embedding(5, 3), nn.Embedding(9, 4)])
        self.head = nn.Linear(3 + 4 + 2 + 4, 3)

    def forward(self, x):
        codes = [table(x[:, i].long()) for i, table in enumerate(self.codes)]
        shares = F.one_hot(x[:, 2].to(torch.int64), 2).float()
        return self.head(torch.cat([*codes, shares, x[:, 3:].to(torch.float32)], 1))


def test_a_table_of_codes_and_numbers_is_exported():
    """Checks of types, which torch.export adds to casts, are left out."""
    torch.manual_seed(0)
    module = Table()
    generator = torch.Generator().manual_seed(1)
    codes = [torch.randint(most, (6, 1), generator=generator) for most in (5, 9, 2)]
    rows = torch.cat([*codes, torch.randn(6, 4, generator=generator)], 1)
    network = Network.export(module, rows[0], "cross_entropy")
    check_alone(module, network, rows, torch.arange(6) % 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.bool_])
def test_examples_of_integers_are_exported(dtype):
    module = nn.Sequential(Scaled(), nn.Flatten(), nn.Linear(8, 3))
    rows = np.arange(16).reshape(2, 2, 4).astype(dtype)
    network = Network.export(module, rows[0], "cross_entropy")
    assert network.graph.record.dtype == ("bool" if dtype is np.bool_ else "int64")
    expected = module(torch.from_numpy(rows)).detach()
    np.testing.assert_allclose(network.run(rows), expected, rtol=1e-5, atol=1e-6)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.tensor([3], dtype=torch.int32))

    def forward(self, x):
        return (x.int() + self.shift).to(torch.float32) / 255


def test_a_tuple_is_an_example_if_it_holds_one_array():
    row, module = torch.zeros(4), nn.Linear(4, 2)
    graphs = [Network.export(module, each, "mse").graph for each in (row, (row,), (0.0,) * 4)]
    assert graphs[0] == graphs[1] == graphs[2]
    for example in ((row, 1), (row, row)):
        with pytest.raises(NetworkError, match="Leave out the target"):
            Network.export(module, example, "mse")
    with pytest.raises(NetworkError, match="got float16: convert them"):
        Network.export(module, row.half(), "mse")
