"""Export of a PyTorch module to a network's graph, on the author's machine."""

import math
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.export.graph_signature import InputKind
from torch.nn import functional as F

from .graph import (
    DTYPES,
    MAX_INTEGER,
    Dtype,
    Graph,
    NetworkError,
    Operation,
    Reference,
    Tensor,
    need,
)
from .operations import row_of

_TORCH: Final = str(Path(torch.__file__).parent)
_FRAME: Final = re.compile(r'File "(.+)", line (\d+), in .*\n\s*(.*)')  # of a node's stack trace
_GETITEM = "<built-in function getitem>"
# Keywords about place and layout of a value in memory, which the interpreter decides.
_LEFT_OUT = {"device", "layout", "pin_memory", "memory_format", "implicit", "non_blocking"}


def exported(
    module: torch.nn.Module, example: Any, loss: str, trainable: Sequence[str]
) -> tuple[Graph, dict[str, NDArray[Any]], list[str]]:
    """Return a module's graph for one record, its parameters' values, and operations' origins.

    Raises NetworkError if the module uses an operation that is not on the list, or ``trainable``
    matches no parameter.
    """
    for name, part in module.named_modules():
        mixes = getattr(part, "running_mean", None) is not None
        random = isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0
        if part.training and (mixes or random):
            why = _MIXES if mixes else _RANDOM
            raise NetworkError(f"{type(part).__name__} {name!r} is refused. {why}")
    one = _one(example)
    try:
        table = torch.export.default_decompositions()
        for operation, rule in _RULES.items():
            table[operation] = rule
        program = torch.export.export(module, (one,)).run_decompositions(table)
        _leave_out_assertions(program.graph)
    except Exception as error:
        text = str(error).partition("\n")[0][:300]
        raise NetworkError(
            "Expected a module that torch.export takes, for one record as a batch of one, and that "
            f"does not branch on values of a record (torch.where chooses by them): {text}"
        ) from error
    sources, arrays, trained = _inputs(program, trainable)
    operations: list[Operation] = []
    origins: list[str] = []
    *nodes, last = program.graph.nodes
    for node in nodes:
        if node.op == "call_function" and str(node.target) == _GETITEM:
            whole, part = node.args
            sources[node] = Reference(sources[whole].source, part)
        elif node.op == "call_function":
            origins.append(_origin(node))
            try:
                operation = _operation(node, sources)
            except NetworkError as error:
                raise NetworkError(f"{error} {origins[-1]}") from None
            sources[node] = Reference(len(operations))
            operations.append(operation)
    (results,) = last.args
    need(
        len(results) == 1 and isinstance(results[0], torch.fx.Node),
        f"a module that returns one tensor, got {len(results)} results: wrap it in a module that "
        "returns only the tensor from which the loss is computed",
    )
    record = Tensor(_dtype(one.dtype), tuple(one.shape[1:]))
    parameters = {
        name: Tensor(str(array.dtype), array.shape, name in trained)
        for name, array in arrays.items()
    }
    return Graph(record, parameters, tuple(operations), sources[results[0]], loss), arrays, origins


def _one(example: Any) -> torch.Tensor:
    """Return a record as a batch of one. Integers of any width become integers of eight bytes."""
    if isinstance(example, tuple) and any(getattr(each, "ndim", 0) for each in example):
        need(
            len(example) == 1,
            f"one array as example, got a tuple of shapes {[list(np.shape(e)) for e in example]}. "
            "Leave out the target. Join several inputs to one array, and take it apart in the "
            "module",
        )
        (example,) = example
    one = torch.as_tensor(example).detach()[None]
    return one.to(getattr(torch, _dtype(one.dtype)))


def _operation(node: torch.fx.Node, sources: dict[torch.fx.Node, Reference]) -> Operation:
    name = str(node.target)
    try:
        row_of(name)
    except NetworkError as error:
        known = (text for parts, text in _ADVICE.items() if any(part in name for part in parts))
        raise NetworkError(f"{error} {next(known, _LISTED)}") from None
    keywords = {k: _value(v, sources) for k, v in node.kwargs.items() if k not in _LEFT_OUT}
    return Operation(name, tuple(_value(each, sources) for each in node.args), keywords)


def _origin(node: torch.fx.Node) -> str:
    """Return a sentence with the module and the line of code from which an operation comes."""
    modules = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = modules[-1] if modules else ("", "")
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [each for each in frames if not each[0].startswith(_TORCH)]
    lines = [f"{Path(file).name}, line {line}: {code}" for file, line, code in own[-1:]]
    of_module = str(kind).rpartition(".")[2] + f" {path!r}" * bool(path)
    return f"It comes from {', '.join([of_module, *lines])}"


_MIXES: Final = "Batch statistics mix records: use GroupNorm, or freeze them by eval()."
_RANDOM: Final = "Dropout is random: call eval() on the module."
#: Advice on operations that are not on the list, by parts of their names.
_ADVICE: Final = {
    ("dropout",): _RANDOM,
    ("alias",): "Instead of detach(), use trainable= to name what is trained.",
    ("batch_norm",): _MIXES,
    ("rand", "bernoulli", "multinomial", "normal"): "A network computes without randomness.",
    ("sort", "topk", "argm", "median", "kthvalue"): "Use max, min, softmax or pools instead.",
    ("gather", "scatter", "index_", "take"): "Use Embedding, one_hot or torch.where instead.",
    ("copy", "empty", "fill"): "Build a tensor by torch.cat, torch.where or F.pad, not in parts.",
    ("isnan", "isinf"): "Fill missing values in the data: a record with NaN counts as 0.",
    ("embedding_bag",): "Use Embedding, and sum its rows.",
    ("cdist",): "Use norms of differences instead.",
}
_LISTED: Final = "The page models-as-data.md lists the accepted operations."


def _instance_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    *settings: Any,
) -> Any:
    """Return an instance norm as a group norm with one channel in a group, unless it is frozen."""
    of_record, momentum, eps, _ = settings  # the last one selects a kernel of GPUs
    if of_record:
        return F.group_norm(x, x.shape[1], weight, bias, eps)
    return F.batch_norm(x, mean, variance, weight, bias, False, momentum, eps)


def _index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    return _ATEN.index.Tensor(x, [*[None] * (dim % x.dim()), index])


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Return ``torch.roll(x, shifts, dims)``, expressed by index selection.

    The indices start at minus the shift, and negative indices count from the end.
    """
    for shift, dim in zip(shifts, dims, strict=True):
        first = -(shift % x.shape[dim])
        x = _index_select(x, dim, torch.arange(first, first + x.shape[dim]))
    return x


def _max(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest values along ``dim``, and their indices.

    A network may not use the indices, whose operation is not on the list.
    """
    return x.amax(dim, keepdim), x.argmax(dim, keepdim)


def _min(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest values along ``dim``, and their indices.

    A network may not use the indices, whose operation is not on the list.
    """
    return x.amin(dim, keepdim), x.argmin(dim, keepdim)


def _clamp(
    x: torch.Tensor, least: torch.Tensor | None = None, most: torch.Tensor | None = None
) -> torch.Tensor:
    x = x if least is None else torch.maximum(x, least)
    return x if most is None else torch.minimum(x, most)


_ATEN = torch.ops.aten
#: Rules that express operations by operations on the list, in addition to PyTorch's own rules.
_RULES: dict[Any, Callable[..., Any]] = {
    _ATEN.instance_norm.default: _instance_norm,
    _ATEN.index_select.default: _index_select,
    _ATEN.roll.default: _roll,
    _ATEN.clamp.Tensor: _clamp,
    _ATEN.max.dim: _max,
    _ATEN.min.dim: _min,
}


def _leave_out_assertions(graph: torch.fx.Graph) -> None:
    """Remove assertions, which have no results, and operations that serve assertions only.

    The check of the network's shapes and types takes their place.
    """
    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if schema is not None and not schema.returns:
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _inputs(
    program: torch.export.ExportedProgram, trainable: Sequence[str]
) -> tuple[dict[torch.fx.Node, Reference], dict[str, NDArray[Any]], set[str]]:
    """Return three things about the exported graph's inputs.

    They are the inputs' references, the values of the constant ones, and the names of the trained
    ones.
    """
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    used = {node for each in program.graph.nodes for node in each.all_input_nodes}
    sources: dict[torch.fx.Node, Reference] = {}
    arrays: dict[str, NDArray[Any]] = {}
    trained: set[str] = set()
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            sources[node] = Reference(None)
        elif node in used:  # BatchNorm has a counter of batches, which no operation reads
            name = str(spec.target)
            held = {**program.state_dict, **program.constants}[name]
            assert isinstance(held, torch.Tensor)
            sources[node], arrays[name] = Reference(name), _finite(name, held)
            wanted = any(fnmatchcase(name, pattern) for pattern in trainable)
            if spec.kind == InputKind.PARAMETER and held.requires_grad and wanted:
                trained.add(name)
    some, named = sorted(arrays), list(trainable)
    need(bool(trained), f"trainable to name parameters in {some}, got {named}")
    return sources, arrays, trained


def _finite(name: str, tensor: torch.Tensor) -> NDArray[Any]:
    """Return a constant's value; infinite numbers, as in masks, become the largest number."""
    array: NDArray[Any] = tensor.detach().cpu().numpy().astype(_dtype(tensor.dtype))
    need(not np.isnan(array).any(), f"parameters without NaN, got some in {name!r}")
    return np.nan_to_num(array) if array.dtype.kind == "f" else array


def _dtype(dtype: torch.dtype) -> str:
    """Return the name of an element type; integers of any width are ``int64``."""
    name = str(dtype).removeprefix("torch.")
    name = "int64" if name.startswith(("int", "uint")) else name
    need(name in DTYPES, f"numbers of {', '.join(DTYPES)}, got {name}: convert them")
    return name


def _value(value: Any, sources: dict[torch.fx.Node, Reference]) -> Any:
    if isinstance(value, torch.fx.Node):
        return sources[value]
    if isinstance(value, list | tuple):
        return tuple(_value(each, sources) for each in value)
    if isinstance(value, torch.dtype):
        return Dtype(_dtype(value))
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(float(np.finfo(np.float32).max), value)
    if type(value) is int:  # a slice to the end has a larger integer than a text may contain
        return max(-MAX_INTEGER, min(value, MAX_INTEGER))
    if value is None or isinstance(value, bool | float | str):
        return value
    raise NetworkError(f"Expected plain arguments of operations, got {type(value).__name__}.")
