"""Numbers next to zero, with which arithmetic takes up to a hundred times as long."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def flushed() -> Iterator[None]:
    """Take numbers next to zero for zero, where the processor can.

    In this thread and those that it starts: PyTorch's are started by its first large operation.
    For functions such as exp see :mod:`ldp_flower.models.steady`.
    """
    import torch

    before = bool(torch.tensor(1e-310, dtype=torch.float64) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
