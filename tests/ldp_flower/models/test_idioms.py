"""Idioms of networks through ``Network.export``: what is taken, and what a refusal says."""

import pytest
import torch
from networks import check_alone
from torch import nn
from torch.nn import functional as F

from ldp_flower.models import Limits, Network, NetworkError

ROW, SEQUENCE, IMAGE, VOLUME = (7,), (3, 12), (2, 8, 8), (2, 4, 6, 5)


class Idiom(nn.Module):
    """A module or a function, between parameters that train through it."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.scale = inner, nn.Parameter(torch.ones(2))

    def forward(self, x):
        found = self.inner(x * self.scale[0]) * self.scale[1]
        return found.flatten(1)


class First(nn.Module):
    """The outputs of recurrent cells, without their last states."""

    def __init__(self, cells):
        super().__init__()
        self.cells = cells

    def forward(self, x):
        return self.cells(x)[0]


def assigned(x):
    x = x.clone()
    x[:, 0] = 0.0
    return x


# With the shape of a record.
TAKEN = {
    "a slice from the second": (lambda x: x[:, 1:], ROW),
    "every second": (lambda x: x[..., ::2], IMAGE),
    "a slice from the end": (lambda x: x[:, :, -3:, :-2], IMAGE),
    "one place": (lambda x: x[:, 0], IMAGE),
    "a new dimension": (lambda x: x[:, None, ..., None], ROW),
    "listed channels": (lambda x: x[:, [1, 0, 1]], IMAGE),
    "an index_select": (lambda x: x.index_select(2, torch.tensor([3, 1])), IMAGE),
    "a chunk and a cat": (lambda x: torch.cat(x.chunk(2, -1)[::-1], 1), IMAGE),
    "an unbind and a stack": (lambda x: torch.stack(x.unbind(1), 2), IMAGE),
    "a rotation": (lambda x: x.roll((1, -2), (2, 3)), IMAGE),
    "a flip": (lambda x: x.flip(-1), IMAGE),
    "float()": (lambda x: x.float(), ROW),
    "to(float32)": (lambda x: x.double().to(torch.float32), ROW),
    "a mask as numbers": (lambda x: (x > 0).float() * x, ROW),
    "type_as": (lambda x: (x > 0).type_as(x) + x, ROW),
    "one_hot": (lambda x: F.one_hot(x.long().clamp(0, 4), 5) * x[..., None], ROW),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0.5), IMAGE),
    "where": (lambda x: torch.where(x > 0, x, 0.1 * x), IMAGE),
    "max over a dimension": (lambda x: x.max(-1).values, IMAGE),
    "min over a dimension": (lambda x: x.min(2, keepdim=True)[0], IMAGE),
    "a norm": (lambda x: F.normalize(x, dim=1), IMAGE),
    "a cosine": (lambda x: F.cosine_similarity(x, x.flip(2) + 1, dim=1), IMAGE),
    "an einsum": (lambda x: torch.einsum("bchw,bdhw->bcd", x, x), IMAGE),
    "patches": (lambda x: F.unfold(x, 3, stride=2), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2), IMAGE),
    "an InstanceNorm1d": (nn.InstanceNorm1d(3, affine=True), SEQUENCE),
    "an InstanceNorm2d": (nn.InstanceNorm2d(2), IMAGE),
    "an InstanceNorm3d": (nn.InstanceNorm3d(2, affine=True).eval(), VOLUME),
    "a frozen InstanceNorm": (nn.InstanceNorm2d(2, track_running_stats=True).eval(), IMAGE),
    "a GroupNorm of volumes": (nn.GroupNorm(2, 2), VOLUME),
    "an RMSNorm": (nn.RMSNorm(12), SEQUENCE),
    "a Conv3d": (nn.Conv3d(2, 3, 3, padding=1, stride=2), VOLUME),
    "a ConvTranspose3d": (nn.ConvTranspose3d(2, 3, 2, stride=2), VOLUME),
    "a convolution with mirrored edges": (
        nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        IMAGE,
    ),
    "a ReflectionPad3d": (nn.ReflectionPad3d(1), VOLUME),
    "a ReplicationPad1d": (nn.ReplicationPad1d((2, 1)), SEQUENCE),
    "a ReplicationPad3d": (nn.ReplicationPad3d(1), VOLUME),
    "a MaxPool3d": (nn.MaxPool3d(2, ceil_mode=True), VOLUME),
    "an AvgPool3d": (nn.AvgPool3d(3, 2, 1, count_include_pad=False), VOLUME),
    "an AdaptiveAvgPool3d": (nn.AdaptiveAvgPool3d((2, 4, 3)), VOLUME),
    "an AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(5), SEQUENCE),
    "an AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(3), IMAGE),
    "an AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(2), VOLUME),
    "an upsampled sequence": (nn.Upsample(scale_factor=2, mode="linear"), SEQUENCE),
    "an upsampled image": (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "an upsampled volume": (nn.Upsample(scale_factor=2), VOLUME),
    "a smoothly upsampled volume": (nn.Upsample(size=(5, 7, 9), mode="trilinear"), VOLUME),
    "a bidirectional GRU": (
        First(nn.GRU(12, 4, 2, batch_first=True, bidirectional=True)),
        SEQUENCE,
    ),
    "attention": (nn.TransformerEncoderLayer(12, 2, 16, 0.0, batch_first=True), SEQUENCE),
    "a PReLU": (nn.PReLU(2), IMAGE),
    "a frozen BatchNorm": (nn.BatchNorm3d(2).eval(), VOLUME),
}
# With a part of the advice.
REFUSED = {
    "a sort": (lambda x: x.sort(-1).values, "aten.sort.default .* Use max, min"),
    "places of the largest": (lambda x: x * x.max(-1, True)[1], "aten.argmax.default .* Use max"),
    "places that a record chooses": (
        lambda x: x[:, :, x[0, 0, 0].long()],
        "index.Tensor.* indices",
    ),
    "a gather": (lambda x: x.gather(1, (x > 0).long()), "aten.gather.default .* Use Embedding"),
    "an assignment": (assigned, "aten.copy.default .* torch.cat, torch.where or F.pad"),
    "noise": (lambda x: x + torch.randn_like(x), "aten.randn_like.default .* without randomness"),
    "a stopped gradient": (lambda x: x + x.detach(), "aten.alias.default .* use trainable="),
    "half precision": (lambda x: x.half().float(), "got float16: convert"),
    "missing values": (lambda x: x.nan_to_num(), "aten.isnan.default .* Fill missing values"),
    "a product": (lambda x: x.prod(1), "aten.prod.dim_int .* The page models-as-data.md"),
    "a large value": (
        lambda x: x.repeat(1, 600, 10, 10),
        "4194304 numbers .* got 7680000. Make .*",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_idiom_is_taken_and_its_gradients_are_those_of_records_alone(name):
    torch.manual_seed(0)
    inner, shape = TAKEN[name]
    module, rows = Idiom(inner), torch.randn(2, *shape)
    network = Network.export(module, rows[0], "mse")
    targets = torch.randn(2, *network.target().shape)
    check_alone(module, network, rows, targets, F.mse_loss)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_is_not_taken_where_and_what_to_do(name):
    inner, words = REFUSED[name]
    with pytest.raises(NetworkError, match=words) as refused:
        Network.export(Idiom(inner), torch.zeros(IMAGE), "mse")
    assert "It comes from Idiom, test_idioms.py, line " in str(refused.value)


def test_a_refusal_names_the_module():
    for last, words in (
        (nn.Dropout2d(0.1), r"^Dropout2d '1' is refused\. Dropout is random: call eval"),
        (nn.CELU(), r"aten.expm1.* lists the accepted operations\. It comes from CELU '1'$"),
    ):
        with pytest.raises(NetworkError, match=words):
            Network.export(nn.Sequential(nn.Conv2d(2, 4, 1), last), torch.zeros(IMAGE), "mse")
    module = nn.Sequential(nn.Linear(7, 9), nn.Linear(9, 2))
    words = r"Operation \d .*addmm.*: Expected at most 200 floating-point operations, got 252\."
    with pytest.raises(NetworkError, match=words + ".* raise Limits.flops. It comes from Linear"):
        Network.export(module, torch.zeros(ROW), "mse", limits=Limits(flops=200))


def test_a_branch_on_a_record_is_refused_with_advice():
    with pytest.raises(NetworkError, match=r"does not branch on values of a record \(torch.where"):
        Network.export(Idiom(lambda x: x if x.sum() > 0 else -x), torch.zeros(ROW), "mse")
