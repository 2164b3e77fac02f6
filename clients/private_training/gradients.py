"""Gradients of single records, each computed as if there were no other."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import default_collate

Tensors = dict[str, torch.Tensor]
Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


class Gradients:
    """The gradients of single records by some of a model's parameters.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    loss : callable
        The app's function from the model and one record, as a batch of one, to a number.
    dataset : sequence
        The records.
    parameters : dict of str to Parameter
        What of the model is trained; all else stays as it is now.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        dataset: Any,
        parameters: dict[str, torch.nn.Parameter],
    ) -> None:
        self._whole = _WithLoss(model, loss)
        self._dataset = dataset
        self._start = {name: p.detach().clone() for name, p in parameters.items()}
        trained = {id(parameter) for parameter in parameters.values()}
        self._rest = {
            name: tensor.detach().clone()
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
            if id(tensor) not in trained
        }
        self._device = next(iter(parameters.values())).device
        self._told: set[str] = set()

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> Tensors:
        """Return records' gradients by name, shape (records, *parameter's), finite.

        Where something goes wrong with all records together, each is taken alone. One with
        which it goes wrong then, or whose gradient is not finite, has the gradient 0.

        Parameters
        ----------
        kept : dict of str to Tensor
            The parameters' values.
        drawn : ndarray of int
            The records' indices.
        """
        if not len(drawn):
            return {name: tensor.new_zeros((0, *tensor.shape)) for name, tensor in kept.items()}
        try:
            each = self._together(kept, drawn)
        except KeyboardInterrupt:  # is the operator's
            raise
        except BaseException:
            self._tell("Records cannot be taken together, and are one by one, which is slower.")
            each = self._apart(kept, drawn)
        finite = torch.stack([g.reshape(len(g), -1).isfinite().all(1) for g in each.values()]).all(
            0
        )
        if not finite.all():
            self._tell("Gradients of some records are not finite and count as 0.", trace=False)
        # Not by a product: NaN times 0 is NaN.
        return {
            name: torch.where(finite.view(-1, *[1] * (g.dim() - 1)), g, torch.zeros_like(g))
            for name, g in each.items()
        }

    def try_out(self) -> None:
        """Raise ValueError if the loss fails for a record of zeros, of the first one's form.

        So an app that cannot train is refused before anybody pays. No value has a part in it:
        a text, say, cannot be made zero, and with one nothing is tried.
        """
        try:
            leaves, form = tree_flatten(self._record(0))
            if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
                return
            zeros = tree_unflatten([torch.zeros_like(leaf) for leaf in leaves], form)
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._tell("The first record cannot be read.")
            return
        try:
            self._alone(self._start, zeros)
        except Exception as error:
            raise ValueError(
                "Expected loss(model, record) to work for a record of zeros, of the form of the "
                f"data set's first, as a batch of one; got {type(error).__name__}: {error}"
            ) from error

    def _value(self, kept: Tensors, record: Any) -> torch.Tensor:
        # Copies: modules write into their buffers, and the app's code may into anything.
        state = {f"model.{name}": tensor.clone() for name, tensor in (self._rest | kept).items()}
        value = functional_call(self._whole, state, (record,))
        assert isinstance(value, torch.Tensor)
        return value

    def _record(self, index: int) -> Any:
        return tree_map(self._moved, default_collate([self._dataset[index]]))

    def _moved(self, leaf: Any) -> Any:
        return leaf.to(self._device) if isinstance(leaf, torch.Tensor) else leaf

    def _together(self, kept: Tensors, drawn: NDArray[np.intp]) -> Tensors:
        function = vmap(grad(self._value), in_dims=(None, 0), randomness="different")
        return dict(function(kept, _stacked([self._record(int(i)) for i in drawn])))

    def _apart(self, kept: Tensors, drawn: NDArray[np.intp]) -> Tensors:
        rows = []
        for i in drawn:
            try:
                rows.append(self._alone(kept, self._record(int(i))))
            except KeyboardInterrupt:
                raise
            except BaseException:  # sys.exit on one record must not cost the others their step
                self._tell("A record that has no gradient counts as 0.")
                rows.append({name: torch.zeros_like(tensor) for name, tensor in kept.items()})
        return {name: torch.stack([row[name] for row in rows]) for name in kept}

    def _alone(self, kept: Tensors, record: Any) -> Tensors:
        """Return a record's gradient, by plain automatic differentiation."""
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in kept.items()}
        value = self._value(leaves, record)
        found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        return {
            name: torch.zeros_like(tensor) if gradient is None else gradient
            for (name, tensor), gradient in zip(kept.items(), found, strict=True)
        }

    def _tell(self, text: str, trace: bool = True) -> None:
        """Log something, with what is being handled, once."""
        if text not in self._told:
            logging.getLogger(__name__).warning(text, exc_info=trace)
        self._told.add(text)


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


def _stacked(records: list[Any]) -> Any:
    """Return records of one form, each a batch of one, as one with a leading axis more.

    A collation of several would make some like others: it takes keys from the first, and
    makes integers floats where one of them is.
    """
    each, forms = zip(*map(tree_flatten, records), strict=True)
    if any(form != forms[0] for form in forms):
        raise ValueError("Records differ in what they consist of.")
    for leaves in zip(*each, strict=True):
        if len({(leaf.dtype, leaf.shape) for leaf in leaves}) > 1:
            raise ValueError("Records differ in type or shape.")
    stacks = [torch.stack(leaves) for leaves in zip(*each, strict=True)]
    return tree_unflatten(stacks, forms[0])
