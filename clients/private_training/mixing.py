"""Functions of PyTorch that mix records under vmap, and a mode that refuses them."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

# Functions that mix records under vmap. They were found by calling the functions of PyTorch 2.13's
# test database under vmap with one record changed, and comparing results bit by bit. All other
# functions raise, or stay within the record.
_MIXING = {
    # An index beyond the end of one record's tensor refers to the next record's tensor.
    torch.index_fill,
    torch.Tensor.index_fill,
    torch.Tensor.index_fill_,
    # All matrices share one workspace, in which the previous matrix leaves data.
    torch.linalg.lstsq,
    # Indices are not checked, so that memory behind a record is read.
    F.ctc_loss,
    torch.ctc_loss,
    torch.segment_reduce,
}
# These also mix records, unless all records share the table: then a wrong index raises an error.
_LOOK_UPS = {F.embedding: 1, torch.embedding: 0}  # position of the table among the arguments


class RefuseMixing(TorchFunctionMode):
    """A mode in which functions that mix records under vmap raise NotImplementedError.

    All records share the parameters and buffers of ``module``.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function; raise NotImplementedError if it mixes records."""
        named = kwargs or {}
        mixes = func in _MIXING
        if (place := _LOOK_UPS.get(func)) is not None:
            table = args[place] if len(args) > place else named["weight"]
            shared = chain(self._module.parameters(), self._module.buffers())
            mixes = not any(table is tensor for tensor in shared)
        if mixes:
            raise NotImplementedError(f"{func.__name__} mixes records under vmap.")
        return func(*args, **named)
