"""State of one round's training on one node, shared by the mod and the training steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class RecordTraining:
    """One round's training on one node, which the mod hands to :func:`dp_sgd`.

    If ``num_records`` is declared, only the first ``num_records`` records are used. With ``blind``,
    as in a rehearsal, no record is drawn. Afterwards ``trained`` holds the trained arrays. No
    other arrays leave the node. ``count`` is the number of records by which gradients were divided.
    """

    plan: DpSgdPlan
    sent: Arrays
    num_records: int | None
    randomness: RandomSource
    blind: bool
    started: bool = False
    trained: Arrays | None = None
    count: int = 0
