"""Selection of a model's arrays that are trained. All other arrays keep their initial values.

The arrays that do not change cannot be learnt privately, and every trained array costs noise.
Therefore the selection is declared.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.guarantee.training import Parameters, flattened, parameters_of

# Names of the running statistics of batch normalisation in PyTorch and Keras.
_STATISTICS = re.compile(
    r"(.*[./])?(running_mean|running_var|num_batches_tracked|moving_mean|moving_variance)"
)
_MOST_NAMES = 20  # largest number of names that a message shows

_OF_BYTES = (
    " The model is bytes (trees?): noise cannot be added to it. For a table take "
    "PrivateClassification or PrivateRegression."
)
_LEFT = (
    "Not trained: {}, running statistics of normalisation layers, which keep the values of "
    'initial_arrays (trainable=["*"] trains them, too). A net that is evaluated with them needs '
    "good values from the start, or layers without running statistics, such as GroupNorm."
)


@dataclass(frozen=True)
class Trained:
    """The arrays of a model that are trained, and their initial values as one vector."""

    names: list[str]  # names of the arrays, in order
    start: NDArray[np.float64]  # (parameters,): their initial values, as one vector
    # Indices of these arrays among all arrays of floats, which clients get with the question, or
    # None if all are trained
    among: NDArray[np.int64] | None
    notes: list[str]  # note about running statistics that are left out by default

    @classmethod
    def of(cls, initial_arrays: ArrayRecord, trainable: Sequence[str] | None) -> Self:
        """Return the arrays that ``trainable`` names; by default all but running statistics.

        Raise ValueError if there is nothing to train, if a name matches no array of floats, or if
        an array to train is not finite.
        """
        try:
            model = parameters_of(initial_arrays)
        except Exception as error:  # arrays of another library raise various errors
            raise ValueError(
                f"Expected initial_arrays of NumPy arrays, got some that cannot be read: {error}"
            ) from error
        kinds = {name: array.dtype for name, array in initial_arrays.items()}
        if not len(flattened(model)):
            raise ValueError(
                "Expected initial_arrays to be an ArrayRecord with at least one array of floats, "
                f"got {_listed(f'{name} ({kind})' for name, kind in kinds.items())}."
                + _OF_BYTES
                * ("uint8" in kinds.values())
            )
        notes: list[str] = []
        if trainable is None:
            left = [name for name in model if _STATISTICS.fullmatch(name)]
            names = [name for name in model if name not in left]
            if left:
                notes.append(_LEFT.format(_listed(left)))
        else:
            names = _named(trainable, model, kinds)
        chosen = {name: model[name] for name in names}
        start = flattened(chosen)
        if not len(start):
            raise ValueError(
                "Expected initial_arrays with parameters to train, got only "
                f"{_listed(names or model)}: trainable names the arrays to train."
            )
        for name, array in chosen.items():
            if not np.isfinite(array).all():
                raise ValueError(
                    f"Expected finite initial_arrays, got {name} with NaN or infinity."
                )
        every = names == list(model)
        among = None if every else np.array([list(model).index(name) for name in names], np.int64)
        return cls(names, start, among, notes)


def trainable_of(module: Any) -> tuple[str, ...]:
    """Return the names of the parameters of a PyTorch module that require gradients.

    Use it as ``LdpFedAvg(trainable=trainable_of(net))``, with ``ArrayRecord(net.state_dict())`` as
    initial arrays. Frozen layers and all buffers (running statistics, counters) do not change.

    Parameters
    ----------
    module : torch.nn.Module
        The module. A parameter with several names is listed under each name, as in ``state_dict``.

    Returns
    -------
    tuple of str
        The names, as in ``state_dict``.

    Raises
    ------
    ValueError
        If ``module`` is not a module, or if none of its parameters requires gradients.
    """
    if not callable(getattr(module, "named_parameters", None)):
        raise ValueError(f"Expected module to be a torch.nn.Module, got {module!r}.")
    parameters = dict(module.named_parameters(remove_duplicate=False))
    names = tuple(name for name, parameter in parameters.items() if parameter.requires_grad)
    if not names:
        raise ValueError(
            "Expected module to have parameters that require gradients, got "
            f"{len(parameters)} parameters that do not."
        )
    return names


def check_trainable(trainable: object) -> tuple[str, ...]:
    """Return names and patterns as a tuple; raise ValueError if they are invalid."""
    expected = "Expected trainable to be a list of names or patterns of arrays"
    if isinstance(trainable, str) or not isinstance(trainable, Iterable):
        raise ValueError(f"{expected}, got {trainable!r}.")
    names = tuple(trainable)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{expected}, got {list(names)!r}.")
    return names


def _named(trainable: Sequence[str], model: Parameters, kinds: dict[str, str]) -> list[str]:
    """Return the names of the model's arrays that a pattern in ``trainable`` matches, in order."""
    chosen: set[str] = set()
    for pattern in trainable:
        found = {name for name in kinds if name == pattern or fnmatchcase(name, pattern)}
        if not found & set(model):
            wrong = "which matches no array"
            if found:
                wrong = f"which is an array of {kinds[min(found)]}"
            raise ValueError(
                f"Expected trainable to name arrays of floats of initial_arrays, got {pattern!r}, "
                f"{wrong}: there are {_listed(model)}."
            )
        chosen |= found
    return [name for name in model if name in chosen]


def _listed(names: Iterable[str]) -> str:
    """Return the names separated by commas, at most 20 of them."""
    known = list(names)
    more = len(known) - _MOST_NAMES
    shown = ", ".join(known[:_MOST_NAMES]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
