"""Denormal numbers, next to zero, with which arithmetic takes up to a hundred times as long."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def flushed() -> Iterator[None]:
    """Treat denormal numbers as zero inside this context, if the processor can.

    This holds in the current thread and in the threads that it starts. PyTorch starts its threads
    with its first large operation. For functions such as exp, see :mod:`ldp_flower.models.steady`.
    """
    import torch

    before = bool(torch.tensor(1e-310, dtype=torch.float64) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
