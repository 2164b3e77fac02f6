"""Network: a graph together with the values of its parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import Floats
from .checking import NetworkCost, measure, target_of
from .graph import LOSSES, Graph, Limits, NetworkError, Tensor, need
from .parsing import parsed

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Network:
    """Network as data: operations from a closed list, and parameters.

    Parameters
    ----------
    graph : Graph
        The computation for one record.
    arrays : mapping of str to ndarray
        Values of all parameters, buffers and constants of the graph.

    Raises
    ------
    NetworkError
        If the arrays do not match the names, types and shapes in the graph, or are not finite.

    Notes
    -----
    Methods that compute need PyTorch (the extra ``torch``).

    Guarantee
    ---------
    1. A graph consists of operations from a closed list, without randomness, mutation, files or
       code. It is parsed as JSON, and a reference can only lead to an earlier value.
    2. :meth:`check` bounds the text, the number of operations and of parameters, the size of
       every intermediate value and the floating-point operations from shapes alone, before
       anything of that size exists.
    3. Each operation declares the type, shape and range of its arguments, and whether they may
       depend on the record. :meth:`check` checks them without PyTorch, so that kernels neither
       fail nor read or write outside their arrays, for any contents of the records.
    4. An index out of range, into a table or into another array, is replaced by the nearest valid
       one. A target whose class is out of range is ignored. A record's own numbers can be indices
       into tables only.
    """

    graph: Graph
    arrays: Arrays = field(repr=False)

    def __post_init__(self) -> None:
        names = set(self.graph.parameters)
        need(set(self.arrays) == names, "arrays of the names that the graph has")
        for name, tensor in self.graph.parameters.items():
            array = self.arrays[name]
            need(
                array.shape == tensor.shape and array.dtype.name == tensor.dtype,
                f"{name} of {tensor.dtype} and shape {list(tensor.shape)}, got "
                f"{array.dtype.name} and {list(array.shape)}",
            )
            need(bool(np.isfinite(array).all()), f"finite numbers in {name}")

    def __repr__(self) -> str:
        """Return a short text with the size of the network, whose full text is long."""
        return (
            f"Network({self.num_trainable:,} trainable parameters, "
            f"{len(self.graph.operations)} operations, loss {self.graph.loss})"
        )

    @classmethod
    def export(
        cls,
        module: "torch.nn.Module",
        example: "ArrayLike | torch.Tensor",
        loss: str,
        trainable: Sequence[str] = ("*",),
        limits: Limits | None = None,
        class_weights: Sequence[float] = (),
    ) -> Self:
        """Return a PyTorch module as data.

        Parameters
        ----------
        module : torch.nn.Module
            A module that takes a batch of records and returns one tensor. With Dropout or
            BatchNorm it must be in ``eval()`` mode.
        example : array_like or torch.Tensor
            One record, without a batch dimension. All records must have its shape. Integers of any
            width become int64.
        loss : {"cross_entropy", "focal", "dice", "binary_cross_entropy", "mse", "huber", "poisson"}
            Name of the loss. Losses of classes and cross-entropies take outputs before softmax and
            sigmoid; ``"poisson"`` takes logarithms of rates. ``"focal"`` has gamma 2.
        trainable : sequence of str (default: all)
            Names of parameters, with ``*`` for any text. Of these parameters, those that require
            gradients are trained.
        limits : Limits, optional
            Bounds that the nodes will use.
        class_weights : sequence of float (default: none)
            Factors of the classes in ``"cross_entropy"``, ``"focal"`` and ``"dice"``, at least 0. A
            record's loss is the mean over its positions of the weighted losses, and for ``"dice"``
            the mean over classes. So ``[0, 1]`` leaves out a background.

        Raises
        ------
        NetworkError
            If a node would refuse the network; the message names the operation, the module and the
            line of code from which it comes.
        """
        from .export import exported

        need(loss in LOSSES, f"a loss in {list(LOSSES)}, got {loss!r}")
        one_name = isinstance(trainable, str)
        need(not one_name, f"trainable to be a list of names, got {trainable!r}")
        graph, arrays, origins = exported(module, example, loss, trainable)
        graph = replace(graph, class_weights=tuple(map(float, class_weights)))
        try:
            network = cls(parsed(graph.to_text(), limits), arrays)
            network.check(limits)
        except NetworkError as error:
            if error.operation is None:
                raise
            text = f"{error} {origins[error.operation]}"
            raise NetworkError(text, error.operation) from None
        return network

    def check(self, limits: Limits | None = None) -> NetworkCost:
        """Check the network, and return its cost for one record.

        Raises NetworkError if shapes do not fit, the loss does not fit the output, or a bound is
        exceeded.
        """
        cost = measure(self.graph, limits or Limits())
        target_of(self.graph, cost.output)
        return cost

    def target(self, limits: Limits | None = None) -> Tensor:
        """Return the type and shape of a record's target."""
        return target_of(self.graph, self.check(limits).output)

    @property
    def num_trainable(self) -> int:
        """Number of parameters that are trained."""
        return sum(self.graph.parameters[name].size for name in self.graph.trainable)

    def run(self, records: ArrayLike) -> NDArray[Any]:
        """Return the outputs for records, shape (records, ...)."""
        import torch

        from .interpreter import RecordLoss

        rows = torch.as_tensor(np.asarray(records, self.graph.record.dtype))
        loss = RecordLoss.of(self.graph, {n: torch.tensor(a) for n, a in self.arrays.items()})
        with torch.no_grad():
            return torch.stack([loss.output({}, row)[0] for row in rows]).numpy()

    @property
    def vector(self) -> Floats:
        """All parameters, one after the other in the graph's order, as float64."""
        parts = [np.ravel(self.arrays[name]) for name in self.graph.parameters]
        return np.concatenate([np.zeros(0), *parts])

    @classmethod
    def of_vector(cls, graph: Graph, vector: Floats) -> Self:
        """Return the network whose parameters :attr:`vector` has put into one vector.

        Raise NetworkError if the vector does not match the graph.
        """
        sizes = [tensor.size for tensor in graph.parameters.values()]
        fits = vector.dtype == np.float64 and vector.shape == (sum(sizes),)
        need(fits, f"{sum(sizes)} parameters as one vector of float64")
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        named = zip(graph.parameters.items(), parts, strict=True)
        with np.errstate(all="ignore"):  # a number beyond four bytes becomes infinite: refused
            return cls(
                graph, {name: part.astype(t.dtype).reshape(t.shape) for (name, t), part in named}
            )

    def with_arrays(self, arrays: Arrays) -> Self:
        """Return a copy of the network with new values of some parameters."""
        return type(self)(self.graph, {**self.arrays, **arrays})

    def to_torch(self, module: "torch.nn.Module") -> "torch.nn.Module":
        """Return the module with the network's parameters loaded into it.

        It must have the parameters of the module that was exported.
        """
        import torch

        state = module.state_dict()
        known = {name: torch.tensor(array) for name, array in self.arrays.items() if name in state}
        missing = set(self.graph.trainable) - set(known)
        need(not missing, f"a module with {sorted(missing)}")
        module.load_state_dict(known, strict=False)
        return module

    def save(self, path: str | Path) -> None:
        """Write the graph to a JSON file, and the parameters beside it, with the suffix .npz."""
        Path(path).write_text(self.graph.to_text(), "ascii")
        np.savez(Path(path).with_suffix(".npz"), allow_pickle=False, **dict(self.arrays))

    @classmethod
    def load(cls, path: str | Path, limits: Limits | None = None) -> Self:
        """Return a network that :meth:`save` wrote.

        Raise NetworkError if the files do not hold a network within the limits.
        """
        graph = parsed(Path(path).read_text("ascii"), limits)
        with np.load(Path(path).with_suffix(".npz"), allow_pickle=False) as arrays:
            return cls(graph, {name: arrays[name] for name in arrays.files})
