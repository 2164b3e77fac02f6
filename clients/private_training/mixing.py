"""Functions of PyTorch by which one record reaches another under ``vmap``."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

# Found by calling the functions of PyTorch 2.13's own test database under vmap with one record
# changed, bit by bit. All others raise, or stay within the record.
_MIXING = {
    # An index beyond the end of one record's tensor is one of the next record's.
    torch.index_fill,
    torch.Tensor.index_fill,
    torch.Tensor.index_fill_,
    # One workspace, which the matrix before has left something in.
    torch.linalg.lstsq,
    # No index is checked: what lies behind a record in memory is read.
    F.ctc_loss,
    torch.ctc_loss,
    torch.segment_reduce,
}
# These as well, but of a table that all records share they raise.
_LOOK_UPS = {F.embedding: 1, torch.embedding: 0}  # place of the table among the arguments


class RefuseMixing(TorchFunctionMode):
    """Within it, a function that mixes the records of a block raises NotImplementedError.

    Parameters
    ----------
    module : torch.nn.Module
        Module whose parameters and buffers all records share.
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
        """Call a function, unless it mixes records."""
        named = kwargs or {}
        mixes = func in _MIXING
        if (place := _LOOK_UPS.get(func)) is not None:
            table = args[place] if len(args) > place else named["weight"]
            shared = chain(self._module.parameters(), self._module.buffers())
            mixes = not any(table is tensor for tensor in shared)
        if mixes:
            raise NotImplementedError(f"{func.__name__} mixes records under vmap.")
        return func(*args, **named)
