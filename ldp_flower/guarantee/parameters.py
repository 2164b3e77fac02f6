"""A model's parameters as one vector: what client and server agree on.

Parameters are the arrays of floats in an ArrayRecord, whatever their shapes, those
without dimensions included, in the order of their names. Everything else in it
(counters, masks) is no parameter. A question may be about some of them only.
"""

from collections.abc import Sequence

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from ..validation import Floats

Parameters = dict[str, NDArray[np.floating]]


def parameters_of(record: ArrayRecord) -> Parameters:
    """Return the arrays of floats in a record by name, in the order of their names."""
    arrays = {name: record[name].numpy() for name in sorted(record)}
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def flattened(parameters: Parameters) -> Floats:
    """Return parameters as one vector."""
    flat = [array.astype(np.float64).ravel() for array in parameters.values()]
    return np.concatenate([np.empty(0), *flat])


def with_parameters(
    record: ArrayRecord, vector: Floats, names: Sequence[str] | None = None
) -> ArrayRecord:
    """Return a copy of a record with the parameters of these names (all) taken from a vector.

    Everything else is the record's own, unchanged; parameters keep their types.
    """
    replaced: dict[str, Array] = dict(record.items())
    position = 0
    for name in parameters_of(record) if names is None else names:
        array = record[name].numpy()
        part = vector[position : position + array.size]
        replaced[name] = Array(part.reshape(array.shape).astype(array.dtype))
        position += array.size
    return ArrayRecord(replaced)
