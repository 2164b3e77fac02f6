"""One round's training on one node, as the mod and the steps share it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class Training:
    """One round's training on one node, as the mod wants it of :func:`dp_sgd`.

    Of ``num_records``, if they are declared, the first are used. ``blind`` is a rehearsal, in which
    nobody is drawn. Afterwards ``trained`` is what has been trained, and nothing else can leave;
    ``count`` is the number of records by which gradients were divided.
    """

    plan: DpSgdPlan
    sent: Arrays
    num_records: int | None
    randomness: RandomSource
    blind: bool
    started: bool = False
    trained: Arrays | None = None
    count: int = 0
