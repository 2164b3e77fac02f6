"""What is measured beside what, and how: in turns, in one process, the fastest of each."""

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from ldp_flower.strategies import Result

TIMES = ("seconds", "cpu_seconds", "reference_seconds", "reference_cpu_seconds")


@dataclass(frozen=True)
class Cell:
    """What is measured, and its size.

    Attributes
    ----------
    place : str
        ``"generated"``: in process, data included. ``"arrays"``: in process, the data lie in
        memory. ``"grid"``: in process, a user a node. ``"engine"``: Flower's engine.
        ``"variates"``, ``"codebook"``: a randomizer alone.
    name : str
        The protocol, or the randomizer and its epsilon.
    users, dim, rows, nodes : int
        The size.
    rounds : int
        How often each is run.
    """

    place: str
    name: str
    users: int
    dim: int
    rows: int = 1
    nodes: int = 1
    rounds: int = 3

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row of the file from others."""
        return tuple(str(value) for value in astuple(self))

    @property
    def label(self) -> str:
        """What to show while it runs."""
        return f"{self.name}, {self.place}: n {self.users:,}, m {self.rows}, d {self.dim}"


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def in_turns(
    ours: Callable[[], object], other: Callable[[], object], rounds: int
) -> dict[str, float]:
    """Return the least seconds and seconds of the processor of both."""
    times = [(*_timed(ours), *_timed(other)) for _ in range(rounds)]
    return dict(zip(TIMES, np.min(times, axis=0).tolist(), strict=True))


def messages(result: Result, nodes: int) -> list[int]:
    """Return how many messages each step has sent, the census first.

    A node of one user is asked once more in all or, as a silo, in every step.
    """
    return [nodes, *(min(nodes, step.asked) for step in result.steps[1:])]
