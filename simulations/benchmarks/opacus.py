"""What a step of DP-SGD on a network that comes as data takes, beside Opacus' own on its module."""

from collections.abc import Callable

import torch
from opacus.layers import DPLSTM
from rich.progress import track
from torch import nn
from torch.nn import functional as F

from ..baselines.opacus_steps import seconds, steps_of
from ..harness.command import Command, one_thread_each
from ..harness.tables import Table

_CLASSES = 10
_WORDS, _LENGTH = 100, 16


class UNet(nn.Module):
    """One level of a U-Net with group norms: images of 32 x 32, a class for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = _block(1, 16), _block(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.last, self.out = _block(32, 16), nn.Conv2d(16, _CLASSES, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits of each pixel."""
        first = self.down(images)
        below = self.up(self.middle(F.max_pool2d(first, 2)))
        return self.out(self.last(torch.cat([first, below], 1)))


class Sequences(nn.Module):
    """Words, a recurrent layer, and a class of its last output."""

    def __init__(self, cells: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.table, self.cells = nn.Embedding(_WORDS, 16), cells(16, 32, batch_first=True)
        self.head = nn.Linear(32, _CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.cells(self.table(words))[0][:, -1])


def _block(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.GroupNorm(4, out), nn.ReLU())


def _lenet() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, _CLASSES)),
    )


# Module, the same for Opacus, shape of a record, of a target.
_Made = Callable[[], nn.Module]
KINDS: dict[str, tuple[_Made, _Made, tuple[int, ...], tuple[int, ...]]] = {
    "LeNet": (_lenet, _lenet, (1, 28, 28), ()),
    "U-Net": (UNet, UNet, (1, 32, 32), (32, 32)),
    "LSTM": (Sequences, lambda: Sequences(DPLSTM), (_LENGTH,), ()),
}


def steps_on(kind: str, batch: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that take some steps on a batch: ours, and Opacus'."""
    ours, theirs, shape, target = KINDS[kind]
    torch.manual_seed(0)
    records = torch.randn(batch, *shape)
    if kind == "LSTM":
        records = torch.randint(_WORDS, (batch, *shape))
    targets = torch.randint(_CLASSES, (batch, *target))
    return steps_of(ours(), theirs(), records, targets, "cross_entropy")


def main(arguments: list[str] | None = None) -> None:
    """Print seconds a step, and their ratio."""
    command = Command("simulations.benchmarks.opacus", __doc__)
    command.choose("--models", KINDS)
    command.add_argument("--batches", nargs="+", type=int, default=[64, 256])
    command.add_argument("--rounds", type=int, default=5, help="in turns (default: 5)")
    options = command.parse_args(arguments)
    one_thread_each()
    torch.set_num_threads(1)
    lines = []
    for kind in options.models:
        for batch in track(options.batches, kind, transient=True):
            ours, theirs = seconds(steps_on(kind, batch), options.rounds)
            numbers = (1000 * ours, 1000 * theirs, ours / theirs)
            lines.append([kind, f"{batch}", *(f"{each:.3g}" for each in numbers)])
    head = ["model", "batch", "ms a step", "Opacus", "ratio"]
    Table("A step of DP-SGD", head, lines, ["model"]).show()


if __name__ == "__main__":
    main()
