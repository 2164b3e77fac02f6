"""Gradients of single records, each computed independently of the other records."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import default_collate

from ..failures import contained
from .mixing import RefuseMixing

Tensors = dict[str, torch.Tensor]
Loss = Callable[[torch.nn.Module, Any], torch.Tensor]
_Leaves = list[torch.Tensor]  # the tensors of one record, as a batch of one
_Rows = dict[int, _Leaves]  # records by their place in a block
_T = TypeVar("_T")


class Gradients:
    """The gradients of single records with respect to some of a model's parameters.

    All other parameters and buffers keep the values that they have at construction.

    Parameters
    ----------
    loss : callable
        The app's function from the model and one record, as a batch of one, to a number.
    dataset : sequence
        The records.
    block : int
        Public number of records per block.
    seeds : torch.Generator
        Source of seeds for PyTorch's generator, from which drop-out and augmentation draw.

    Raises
    ------
    ValueError
        If the loss fails for a record of zeros with the first record's form.

    Notes
    -----
    A block has one shape and runs the same kernels for any contents of its records. A dummy is a
    record of zeros with the first record's form (structure, shapes and types, which are public). It
    fills all places without a record, or with a record that cannot be used. The dummy also decides
    if ``vmap`` can process a block. If it cannot, all records are processed one by one.
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
        """Return gradients by name, shape (block, *parameter's), and a mask of the records.

        The gradients of the records ``drawn``, at most ``block``, come first, in this order. The
        mask is False for a record that cannot be read, or for which the loss fails. In a block, it
        is also False for a record with another form than the first. ``kept`` are the parameters'
        values.
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
        """Return zeros with the shapes and types of the first record's tensors, and its structure.

        Return None twice if there is no record, or if the first record cannot be read or does not
        consist of dense tensors. The result does not depend on the record's values.
        """
        if not len(self._dataset):
            return None, None
        first = self._attempt(
            lambda: tree_flatten(self._record(0, 0)), "The first record cannot be read."
        )
        if first is None or not all(
            isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in first[0]
        ):
            self._log(
                "Records are processed one by one, which is slower: the first record does not "
                "consist of tensors."
            )
            return None, None
        leaves = [torch.zeros(x.shape, dtype=x.dtype, device=self._device) for x in first[0]]
        return leaves, first[1]

    def _try_out(self, kept: Tensors) -> None:
        """Try the loss with the dummy; process no blocks if ``vmap`` fails or could mix records.

        Raise ValueError if the loss fails for the dummy.
        """
        self._seed(0)
        try:
            self._alone(kept, tree_unflatten([x.clone() for x in self._dummy or ()], self._form))
        except Exception as error:
            raise ValueError(
                "Expected loss(model, record) to work for a record of zeros with the form of the "
                f"data set's first record, as a batch of one; got {type(error).__name__}: {error}"
            ) from error
        try:
            with RefuseMixing(self._whole):
                self._at_once(kept, {}, 0)
        except Exception:
            self._log(
                "Records are processed one by one, which is slower: torch.func.vmap cannot compute "
                "the loss of several records at once, or the model may mix the records of a batch."
            )
            self._dummy = None

    def _value(self, kept: Tensors, record: Any) -> torch.Tensor:
        # Copies, since modules write into their buffers, and the app's code may write anywhere.
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
        """Return the tensors of the record at ``index``, in the dummy record's memory layout.

        Raise ValueError if the record has another structure, type or shape.
        """
        assert self._dummy is not None
        leaves, form = tree_flatten(self._record(index, seed))
        if form != self._form:
            raise ValueError("A record has another structure than the first record.")
        row = [torch.empty_like(zeros) for zeros in self._dummy]
        for own, leaf in zip(row, leaves, strict=True):
            # Collating several records would turn integers into floats if one record has a float.
            if leaf.dtype != own.dtype or leaf.shape != own.shape:
                raise ValueError("A record has another type or shape than the first record.")
            own.copy_(leaf.detach())
        return row

    def _together(
        self, kept: Tensors, records: list[tuple[int, int]], seed: int
    ) -> tuple[Tensors, list[int]]:
        """Return the gradients of a block of records, and the places of the usable records.

        All gradients of the block are computed at once.
        """
        read = {
            place: self._attempt(lambda r=record: self._row(*r))  # type: ignore[misc]
            for place, record in enumerate(records)
        }
        rows = {place: row for place, row in read.items() if row is not None}
        each = self._attempt(lambda: self._at_once(kept, rows, seed))
        if each is None:  # an index out of range, for example, makes the whole block fail
            rows = self._working(kept, rows, seed)
            each = self._attempt(lambda: self._at_once(kept, rows, seed))
        if each is None:  # even the dummy fails, at the parameters that noisy steps have reached
            return self._nothing(kept), []
        return each, list(rows)

    def _working(self, kept: Tensors, rows: _Rows, seed: int) -> _Rows:
        """Return the records for which the loss works, found by bisection of the block.

        The dummy fills all other places. So the result for a record follows from it alone.
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
        """Return the gradients of a block in one computation, by parameter.

        The block has ``rows`` at their places, and the dummy record in all other places.
        """
        assert self._dummy is not None
        self._seed(seed)
        each = [rows.get(place, self._dummy) for place in range(self.block)]
        block = tree_unflatten(
            [torch.stack(leaves) for leaves in zip(*each, strict=True)], self._form
        )
        function = vmap(grad(self._value), in_dims=(None, 0), randomness="different")
        return dict(function(kept, block))

    def _apart(self, kept: Tensors, records: list[tuple[int, int]]) -> tuple[Tensors, list[int]]:
        """Return the gradients of a block of records, and the places of the usable records.

        The gradients are computed one record at a time.
        """
        each, used = self._nothing(kept), list[int]()
        for place, record in enumerate(records):
            gradient = self._attempt(lambda r=record: self._alone(kept, self._record(*r)))  # type: ignore[misc]
            if gradient is not None:
                used.append(place)
                for name, part in gradient.items():
                    each[name][place] = part
        return each, used

    def _nothing(self, kept: Tensors) -> Tensors:
        """Return a block of gradients that are all 0, by parameter."""
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
        """Return the result of ``compute``, or log ``failure`` and return None if it fails."""
        with contained(lambda: self._log(failure)):
            return compute()
        return None

    def _seed(self, seed: int) -> None:
        # A seed for each record or block, so that draws do not depend on the draws for other
        # records. The generators of all devices are seeded only if the model is not on a CPU, since
        # this takes 200 times as long.
        (torch.default_generator if self._device.type == "cpu" else torch).manual_seed(seed)

    def _log(self, text: str) -> None:
        """Log a text with the current exception; each text is logged once."""
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
