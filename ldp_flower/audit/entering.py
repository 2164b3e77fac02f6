"""What enters a mechanism: values before they are rounded, or the sums over a silo's records."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..randomizers import Randomizer, RecordMechanism
from .replacing import replaced

Floats = NDArray[np.float64]


@contextmanager
def entering(mechanism: Randomizer) -> Iterator[list[tuple[Floats, object]]]:
    """Note every block that mechanisms of this type randomise, and what it comes with.

    Of a mechanism for records it comes with the numbers of records, of others with the
    block's layout and type.
    """
    kind: Any = type(mechanism)
    name = "report" if isinstance(mechanism, RecordMechanism) else "_randomize"
    honest = getattr(kind, name)
    noted: list[tuple[Floats, object]] = []

    def noting(self: Randomizer, values: Floats, *rest: Any, **named: Any) -> Any:
        if isinstance(self, RecordMechanism):
            about: object = np.asarray(rest[0]).tolist()
        else:
            about = (values.dtype.str, values.flags.c_contiguous)
        noted.append((np.array(values, np.float64), about))
        return honest(self, values, *rest, **named)

    with replaced(kind, **{name: noting}):
        yield noted
