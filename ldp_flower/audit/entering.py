"""What enters a mechanism, and what leaves it: values before they are rounded, and reports.

Of a mechanism for silos the sums over their records enter.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..randomizers import Randomizer, RecordMechanism
from ..validation import Floats

#: A block of values, what it comes with, and the reports that it becomes.
Block = tuple[Floats, object, NDArray[Any]]


@contextmanager
def replaced(owner: type | ModuleType, **methods: Callable[..., Any]) -> Iterator[None]:
    """Give a class or a module these functions for as long as the block runs."""
    own = {name: vars(owner)[name] for name in methods if name in vars(owner)}
    for name, method in methods.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for name in methods:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)


@contextmanager
def entering(mechanism: Randomizer) -> Iterator[list[Block]]:
    """Note every block that mechanisms of this type randomise, what it comes with and becomes.

    Of a mechanism for records it comes with the numbers of records, of others with the
    block's layout and type.
    """
    kind: Any = type(mechanism)
    name = "report" if isinstance(mechanism, RecordMechanism) else "_randomize"
    honest = getattr(kind, name)
    noted: list[Block] = []

    def noting(self: Randomizer, values: Floats, *rest: Any, **named: Any) -> Any:
        if isinstance(self, RecordMechanism):
            about: object = np.asarray(rest[0]).tolist()
        else:
            about = (values.dtype.str, values.flags.c_contiguous)
        block = np.array(values, np.float64)  # as it comes
        reports = honest(self, values, *rest, **named)
        noted.append((block, about, np.array(reports)))
        return reports

    with replaced(kind, **{name: noting}):
        yield noted
