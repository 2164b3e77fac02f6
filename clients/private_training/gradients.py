"""Gradients of single records, each computed as if there were no other."""

import logging
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import default_collate

Tensors = dict[str, torch.Tensor]
Loss = Callable[[torch.nn.Module, Any], torch.Tensor]
_Leaves = list[torch.Tensor]  # of a record, as a batch of one
_Rows = dict[int, _Leaves]  # by place in a block
_T = TypeVar("_T")


class Gradients:
    """The gradients of single records by some of a model's parameters; all else stays as it is now.

    Parameters
    ----------
    loss : callable
        The app's function from the model and one record, as a batch of one, to a number.
    dataset : sequence
        The records.
    block : int
        Number of records that are computed at once; public.
    seeds : torch.Generator
        Source of seeds for PyTorch's generator, which drop-out and augmentation draw from.

    Raises
    ------
    ValueError
        If the loss fails for a record of zeros, of the first one's form.

    Notes
    -----
    A block has one shape and runs the same kernels, whatever its records hold. A dummy, a
    record of zeros that has the first one's form (structure, shapes and types: public), is
    in all places without a record, or with one that cannot be used. Whether ``vmap`` takes
    a block is decided by the dummy as well; if not, all records are taken one by one.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        dataset: Any,
        parameters: dict[str, torch.nn.Parameter],
        block: int,
        seeds: torch.Generator,
    ) -> None:
        self._whole = _WithLoss(model, loss)
        self._dataset = dataset
        self.block = block
        self._seeds = seeds
        trained = {id(parameter) for parameter in parameters.values()}
        self._rest = {
            name: tensor.detach().clone()
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
            if id(tensor) not in trained
        }
        self._device = next(iter(parameters.values())).device
        self._logged: set[str] = set()
        with torch.random.fork_rng(devices=[]):
            self._dummy, self._form = self._zeros()
            if self._dummy is not None:
                self._try_out({name: p.detach().clone() for name, p in parameters.items()})

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return records' gradients by name, shape (block, *parameter's), and which are records'.

        Those of ``drawn``, at most ``block``, come first, in its order. A record is none that
        cannot be read, or with which the loss fails; in a block, also one that has another form
        than the first. ``kept`` are the parameters' values.
        """
        *own, of_block = torch.randint(1 << 62, (self.block + 1,), generator=self._seeds).tolist()
        records = list(zip(drawn.tolist(), own, strict=False))
        with torch.random.fork_rng(devices=[]):
            if self._dummy is None:
                each, places = self._apart(kept, records)
            else:
                each, places = self._together(kept, records, of_block)
        used = torch.zeros(self.block, dtype=torch.bool, device=self._device)
        used[places] = True
        return each, used

    def _zeros(self) -> tuple[_Leaves | None, Any]:
        """Return the dummy and its structure; None where the first record has no such form.

        No value has a part in it: a text, say, cannot be made zero.
        """
        if not len(self._dataset):
            return None, None
        first = self._attempt(
            lambda: tree_flatten(self._record(0, 0)), "The first record cannot be read."
        )
        if first is None or not all(
            isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in first[0]
        ):
            self._log("Records are taken one by one, which is slower: the first has no form.")
            return None, None
        leaves = [torch.zeros(x.shape, dtype=x.dtype, device=self._device) for x in first[0]]
        return leaves, first[1]

    def _try_out(self, kept: Tensors) -> None:
        """Try the loss with the dummy, and whether ``vmap`` takes it and mixes no records."""
        self._seed(0)
        try:
            self._alone(kept, tree_unflatten([x.clone() for x in self._dummy or ()], self._form))
        except Exception as error:
            raise ValueError(
                "Expected loss(model, record) to work for a record of zeros, of the form of the "
                f"data set's first, as a batch of one; got {type(error).__name__}: {error}"
            ) from error
        try:
            with RefuseMixing(self._whole):
                self._at_once(kept, {}, 0)
        except Exception:
            self._log("Records are taken one by one, which is slower: vmap does not take them.")
            self._dummy = None

    def _value(self, kept: Tensors, record: Any) -> torch.Tensor:
        # Copies: modules write into their buffers, and the app's code may into anything.
        state = {f"model.{name}": tensor.clone() for name, tensor in (self._rest | kept).items()}
        value = functional_call(self._whole, state, (record,))
        assert isinstance(value, torch.Tensor)
        return value

    def _record(self, index: int, seed: int) -> Any:
        self._seed(seed)
        return tree_map(
            lambda leaf: leaf.to(self._device) if isinstance(leaf, torch.Tensor) else leaf,
            default_collate([self._dataset[index]]),
        )

    def _row(self, index: int, seed: int) -> _Leaves:
        """Return a record that has the dummy's form, laid out in memory as the dummy is."""
        assert self._dummy is not None
        leaves, form = tree_flatten(self._record(index, seed))
        if form != self._form:
            raise ValueError("A record consists of other things than the first.")
        row = [torch.empty_like(zeros) for zeros in self._dummy]
        for own, leaf in zip(row, leaves, strict=True):
            # A collation of several would make integers floats where one of them is.
            if leaf.dtype != own.dtype or leaf.shape != own.shape:
                raise ValueError("A record differs from the first in type or shape.")
            own.copy_(leaf.detach())
        return row

    def _together(
        self, kept: Tensors, records: list[tuple[int, int]], seed: int
    ) -> tuple[Tensors, list[int]]:
        """Return gradients of a block, and the places of those records that could be used."""
        read = {
            place: self._attempt(lambda r=record: self._row(*r))  # type: ignore[misc]
            for place, record in enumerate(records)
        }
        rows = {place: row for place, row in read.items() if row is not None}
        each = self._attempt(lambda: self._at_once(kept, rows, seed))
        if each is None:  # an index out of range, say, is an error of the whole block
            rows = self._working(kept, rows, seed)
            each = self._attempt(lambda: self._at_once(kept, rows, seed))
        if each is None:  # with the dummy alone: at these parameters, which noisy steps have made
            return self._nothing(kept), []
        return each, list(rows)

    def _working(self, kept: Tensors, rows: _Rows, seed: int) -> _Rows:
        """Return the records with which the loss works, found by halves of a block.

        The dummy is in all other places. So what becomes of a record follows from it alone.
        """
        if self._attempt(lambda: self._at_once(kept, rows, seed)) is not None:
            return rows
        if len(rows) < 2:
            return {}
        places = list(rows)
        first, second = (
            self._working(kept, {place: rows[place] for place in half}, seed)
            for half in (places[::2], places[1::2])
        )
        return first | second

    def _at_once(self, kept: Tensors, rows: _Rows, seed: int) -> Tensors:
        """Return the gradients of a block that holds some records, and else the dummy."""
        assert self._dummy is not None
        self._seed(seed)
        each = [rows.get(place, self._dummy) for place in range(self.block)]
        block = tree_unflatten(
            [torch.stack(leaves) for leaves in zip(*each, strict=True)], self._form
        )
        function = vmap(grad(self._value), in_dims=(None, 0), randomness="different")
        return dict(function(kept, block))

    def _apart(self, kept: Tensors, records: list[tuple[int, int]]) -> tuple[Tensors, list[int]]:
        """Return gradients, one record at a time, and the places of those that have one."""
        each, used = self._nothing(kept), list[int]()
        for place, record in enumerate(records):
            gradient = self._attempt(lambda r=record: self._alone(kept, self._record(*r)))  # type: ignore[misc]
            if gradient is not None:
                used.append(place)
                for name, part in gradient.items():
                    each[name][place] = part
        return each, used

    def _nothing(self, kept: Tensors) -> Tensors:
        """Return gradients of 0, those of a whole block."""
        return {name: x.new_zeros((self.block, *x.shape)) for name, x in kept.items()}

    def _alone(self, kept: Tensors, record: Any) -> Tensors:
        """Return a record's gradient, by plain automatic differentiation."""
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in kept.items()}
        value = self._value(leaves, record)
        found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        return {
            name: torch.zeros_like(tensor) if gradient is None else gradient
            for (name, tensor), gradient in zip(kept.items(), found, strict=True)
        }

    def _attempt(
        self, compute: Callable[[], _T], failure: str = "A record that cannot be used counts as 0."
    ) -> _T | None:
        """Return what is computed; None, with a line in the log, if that fails."""
        try:
            return compute()
        except KeyboardInterrupt:  # is the operator's
            raise
        except BaseException:  # sys.exit on one record must not cost the others their step
            self._log(failure)
            return None

    def _seed(self, seed: int) -> None:
        # No record's part in what is random depends on how much of it others take. All devices'
        # generators are seeded only where it matters: it takes 200 times as long.
        (torch.default_generator if self._device.type == "cpu" else torch).manual_seed(seed)

    def _log(self, text: str) -> None:
        """Log something, with what is being handled, once."""
        if text not in self._logged:
            logging.getLogger(__name__).warning(text, exc_info=True)
        self._logged.add(text)


class _WithLoss(torch.nn.Module):
    """A model and its loss in one module, so that the loss sees tensors given from outside."""

    def __init__(self, model: torch.nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, record: Any) -> torch.Tensor:
        """Return the loss of one record."""
        value = self._loss(self.model, record)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            found = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(f"Expected loss to return one number for a record, got {found}.")
        return value.sum()


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
    """Within it, a function by which one record reaches another raises NotImplementedError.

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
