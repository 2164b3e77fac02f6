"""The closed list of operations that a network may consist of, and what each one takes.

All are pure functions of tensors: no randomness, no mutation, no data-dependent shape. What a row
does not declare is refused, before PyTorch sees it: kernels read and write what they believe their
arguments to be. What is not on the list is refused by name.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import layers, shapes
from .arguments import (
    ANY,
    BOOLS,
    COUNT,
    DIM,
    DIMS,
    DTYPE,
    EDGES,
    EPS,
    FALSE,
    FLAG,
    FLOAT,
    FLOAT_TYPE,
    GELU,
    IMAGE,
    INTEGERS,
    NUMBERS,
    NUMERIC,
    OPEN_SIZES,
    OPERAND,
    PADDING,
    PADS,
    PAIR,
    PAIR_OR_NONE,
    PARAMETER,
    PARTS,
    POSITION,
    SCALAR,
    SCALES,
    SIZES,
    TENSORS,
    UNDILATED,
    VALUE,
    WINDOW,
    Kind,
    bound,
    real,
    whole,
)
from .graph import NetworkError, Tensor

Results = Tensor | tuple[Tensor, ...]

# What a number costs, forwards and backwards, in additions of .1 ns: the slowest values, infinite
# and negative ones included, with denormals flushed to 0. exp(-100) takes 105 ns in four bytes and
# 250 in eight; log, sqrt, sin, erf and powers 10 to 35; what has a kernel of its own .5 to 5.
_EXP: Final = 2500
_SLOW: Final = 350
_SMOOTH: Final = 50
_BRANCH: Final = 10  # each number of each window of a pool


@dataclass(frozen=True)
class Signature:
    """One row: how arguments become results, and at what cost.

    ``takes`` are kinds of arguments in PyTorch's order, whose names are those of ``rule``. ``cost``
    is that of one number that is read or written, or a function of results and arguments. Of
    several results the first ``usable`` may be taken; the others are for the gradient.
    """

    rule: Callable[..., Results]
    takes: Mapping[str, Kind]
    cost: int | Callable[..., int]
    usable: int

    def results(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[Results, int]:
        """Return types and shapes of results, and the floating-point operations.

        NetworkError if arguments are of another kind, or do not fit together.
        """
        given = bound(self.takes, arguments, keywords)
        found = self.rule(**given)
        if callable(self.cost):
            return found, self.cost(found, **given)
        read = sum(_size(value) for value in given.values())
        return found, self.cost * (read + _size(found))


def _size(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.size
    return sum(map(_size, value)) if isinstance(value, tuple) else 0


def _takes(
    rule: Callable[..., Results],
    cost: int | Callable[..., int] = 1,
    usable: int = 1,
    /,
    **takes: Kind,
) -> Signature:
    return Signature(rule, takes, cost, usable)


def _product(found: Tensor, x: Tensor, **_: Any) -> int:
    return 2 * found.size * x.shape[-1]


def _convolution(found: Tensor, x: Tensor, weight: Tensor, transposed: bool, **_: Any) -> int:
    return 2 * (x if transposed else found).size * math.prod(weight.shape[1:])


def _windows(found: Results, x: Tensor, kernel: tuple[int, ...], **_: Any) -> int:
    return x.size + _BRANCH * _size(found) * math.prod(kernel)


def _covering(found: Tensor, x: Tensor, size: tuple[int, ...]) -> int:
    reach = (old // new + 2 for old, new in zip(x.shape[2:], size, strict=True))
    return x.size + _BRANCH * found.size * math.prod(reach)


_HERE, _IF_SAID, _BOUND = DIM.or_else(0), FLAG.or_else(False), SCALAR.or_else(None)
_OF_TYPE, _FLOATS = DTYPE.or_else(None).by_name(), FLOAT_TYPE.or_else(None).by_name()
_LEARNT, _OVER = PARAMETER.or_null(), DIMS.or_null()
_PAIRS = {"x": ANY, "other": ANY}
_OPERANDS = {"x": OPERAND, "other": OPERAND}
_NUMERIC = {"x": NUMERIC, "other": NUMERIC}
_WITH_SCALAR = {"x": ANY, "other": SCALAR}
_NUMBER_WITH_SCALAR = {"x": NUMBERS, "other": SCALAR}
_POOL = {
    "x": FLOAT,
    "kernel": PAIR,
    "stride": PAIR_OR_NONE.or_else(()),
    "padding": EDGES.or_else((0, 0)),
}
_NORMED = {"weight": _LEARNT, "bias": _LEARNT}

_ROWS: Final = {
    # layout
    "view": _takes(shapes.viewed, x=ANY, size=OPEN_SIZES),
    "unsqueeze": _takes(shapes.unsqueezed, x=ANY, dim=DIM),
    "expand": _takes(shapes.expanded, x=ANY, size=OPEN_SIZES),
    "clone": _takes(shapes.same, x=ANY),
    "permute": _takes(shapes.permuted, x=ANY, dims=DIMS),
    "squeeze.dims": _takes(shapes.squeezed, x=ANY, dims=DIMS),
    "slice.Tensor": _takes(
        shapes.sliced,
        x=ANY,
        dim=_HERE,
        start=POSITION.or_else(None),
        end=POSITION.or_else(None),
        step=COUNT.or_else(1),
    ),
    "select.int": _takes(shapes.selected, x=ANY, dim=DIM, index=POSITION),
    "cat": _takes(shapes.joined, tensors=TENSORS, dim=_HERE),
    "flip": _takes(shapes.flipped, x=ANY, dims=DIMS),
    "repeat": _takes(shapes.repeated, x=ANY, repeats=SIZES),
    "split_with_sizes": _takes(shapes.split, 1, 256, x=ANY, sizes=PARTS, dim=_HERE),
    "constant_pad_nd": _takes(shapes.padded, x=ANY, pad=PADS, value=SCALAR.or_else(0)),
    # elementwise
    "relu": _takes(shapes.same, x=NUMBERS),
    "gelu": _takes(shapes.same, _SMOOTH, x=FLOAT, approximate=GELU.or_else("none").by_name()),
    "sigmoid": _takes(shapes.as_float, _SMOOTH, x=NUMBERS),
    "tanh": _takes(shapes.as_float, _SMOOTH, x=NUMBERS),
    "exp": _takes(shapes.as_float, _EXP, x=NUMBERS),
    "log": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "log1p": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "sqrt": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "rsqrt": _takes(shapes.as_float, _SMOOTH, x=NUMBERS),
    "reciprocal": _takes(shapes.as_float, _SMOOTH, x=NUMBERS),
    "erf": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "sin": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "cos": _takes(shapes.as_float, _SLOW, x=NUMBERS),
    "abs": _takes(shapes.same, x=NUMBERS),
    "neg": _takes(shapes.same, x=NUMBERS),
    "leaky_relu": _takes(shapes.same, x=FLOAT, slope=SCALAR.or_else(0.01)),
    "elu": _takes(
        shapes.same,
        _SMOOTH,
        x=FLOAT,
        alpha=SCALAR.or_else(1),
        scale=SCALAR.or_else(1),
        input_scale=SCALAR.or_else(1),
    ),
    "hardtanh": _takes(shapes.within, x=FLOAT, least=SCALAR.or_else(-1), most=SCALAR.or_else(1)),
    "clamp": _takes(shapes.clamped, x=NUMBERS, least=_BOUND, most=_BOUND),
    "pow.Tensor_Scalar": _takes(shapes.powered, _SLOW, x=NUMBERS, exponent=real(-1024, 1024)),
    "logical_not": _takes(shapes.as_bool, x=ANY),
    "logical_and": _takes(shapes.compared, **_PAIRS),
    "logical_or": _takes(shapes.compared, **_PAIRS),
    "where.self": _takes(shapes.chosen, condition=BOOLS, **_PAIRS),
    "minimum": _takes(shapes.combined, x=NUMBERS, other=NUMBERS),
    "maximum": _takes(shapes.combined, x=NUMBERS, other=NUMBERS),
    "add.Tensor": _takes(shapes.combined, **_OPERANDS),
    "sub.Tensor": _takes(shapes.combined, **_NUMERIC),
    "mul.Tensor": _takes(shapes.combined, **_OPERANDS),
    "div.Tensor": _takes(shapes.divided, _SMOOTH, **_NUMERIC),
    "add.Scalar": _takes(shapes.combined, **_WITH_SCALAR),
    "sub.Scalar": _takes(shapes.combined, **_NUMBER_WITH_SCALAR),
    "mul.Scalar": _takes(shapes.combined, **_WITH_SCALAR),
    "div.Scalar": _takes(shapes.divided, _SMOOTH, **_NUMBER_WITH_SCALAR),
    **{
        f"{name}.{other}": _takes(shapes.compared, **kinds)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for other, kinds in (("Tensor", _PAIRS), ("Scalar", _WITH_SCALAR))
    },
    "_to_copy": _takes(shapes.converted, x=ANY, dtype=_OF_TYPE),
    # within a record
    "sum.dim_IntList": _takes(layers.summed, x=ANY, dims=_OVER, keepdim=_IF_SAID, dtype=_FLOATS),
    "mean.dim": _takes(layers.summed, x=FLOAT, dims=_OVER, keepdim=_IF_SAID, dtype=_FLOATS),
    "amax": _takes(layers.reduced, x=NUMBERS, dims=DIMS.or_else(()), keepdim=_IF_SAID),
    "amin": _takes(layers.reduced, x=NUMBERS, dims=DIMS.or_else(()), keepdim=_IF_SAID),
    "var.correction": _takes(
        layers.reduced,
        _SLOW,
        x=FLOAT,
        dims=_OVER.or_else(None),
        correction=real(0, 1 << 20).or_else(None).by_name(),
        keepdim=_IF_SAID.by_name(),
    ),
    "linalg_vector_norm": _takes(
        layers.reduced,
        _SLOW,
        x=FLOAT,
        order=real(0, 64).or_else(2),
        dims=_OVER.or_else(None),
        keepdim=_IF_SAID,
    ),
    "any.dim": _takes(layers.whether_any, x=ANY, dim=DIM, keepdim=_IF_SAID),
    "cumsum": _takes(layers.along, _SMOOTH, x=NUMBERS, dim=DIM, dtype=_FLOATS),
    "_softmax": _takes(layers.along, _SMOOTH, x=FLOAT, dim=DIM, half_to_float=FALSE),
    "_log_softmax": _takes(layers.along, _SMOOTH, x=FLOAT, dim=DIM, half_to_float=FALSE),
    "native_layer_norm": _takes(
        layers.layer_norm, _SMOOTH, x=FLOAT, shape=SIZES, **_NORMED, eps=EPS
    ),
    "native_group_norm": _takes(
        layers.group_norm,
        _SMOOTH,
        x=FLOAT,
        **_NORMED,
        batch=COUNT,
        channels=COUNT,
        area=COUNT,
        groups=COUNT,
        eps=EPS,
    ),
    "_native_batch_norm_legit_no_training": _takes(
        layers.batch_norm,
        _SMOOTH,
        x=FLOAT,
        **_NORMED,
        mean=PARAMETER,
        variance=PARAMETER,
        momentum=EPS,
        eps=EPS,
    ),
    "max_pool2d_with_indices": _takes(
        layers.max_pooled, _windows, **_POOL, dilation=UNDILATED.or_else((1, 1)), ceil=_IF_SAID
    ),
    "avg_pool2d": _takes(
        layers.mean_pooled,
        _windows,
        **_POOL,
        ceil=_IF_SAID,
        count_padding=FLAG.or_else(True),
        divisor=whole(1, 1 << 20).or_else(None),
    ),
    "_adaptive_avg_pool2d": _takes(layers.adapted, _covering, x=FLOAT, size=IMAGE),
    "upsample_nearest2d.vec": _takes(
        layers.resized, x=FLOAT, size=IMAGE.or_null(), scales=SCALES.or_null()
    ),
    "upsample_bilinear2d.vec": _takes(
        layers.resized,
        _SMOOTH,
        x=FLOAT,
        size=IMAGE.or_null(),
        corners=FLAG,
        scales=SCALES.or_null(),
    ),
    "embedding": _takes(
        layers.looked_up,
        table=PARAMETER,
        indices=INTEGERS,
        padding=POSITION.or_else(-1),
        by_frequency=FALSE.or_else(False),
        sparse=FALSE.or_else(False),
    ),
    # products
    "mm": _takes(layers.product, _product, x=FLOAT, other=FLOAT),
    "bmm": _takes(layers.products, _product, x=FLOAT, other=FLOAT),
    "addmm": _takes(layers.product_plus, _product, bias=FLOAT, x=FLOAT, other=FLOAT),
    "convolution": _takes(
        layers.convolved,
        _convolution,
        x=FLOAT,
        weight=PARAMETER,
        bias=_LEARNT,
        stride=WINDOW,
        padding=PADDING,
        dilation=WINDOW,
        transposed=FLAG,
        output_padding=PADDING,
        groups=COUNT,
    ),
    # constants
    "full": _takes(shapes.filled, size=SIZES, value=VALUE, dtype=_OF_TYPE),
    "full_like": _takes(shapes.filled_like, x=ANY, value=VALUE, dtype=_OF_TYPE),
    "scalar_tensor": _takes(shapes.scalar, value=VALUE, dtype=_OF_TYPE),
    "arange.start_step": _takes(
        shapes.counted,
        start=real(-(1 << 31), 1 << 31),
        end=real(-(1 << 31), 1 << 31),
        step=real(-(1 << 31), 1 << 31).or_else(1),
        dtype=_OF_TYPE,
    ),
}

#: By names with overload, as PyTorch prints them.
OPERATIONS: Final = {
    f"aten.{name}" if "." in name else f"aten.{name}.default": row for name, row in _ROWS.items()
}

MIXES: Final = "BatchNorm mixes records: use GroupNorm, or freeze its statistics by eval()."
_RANDOM: Final = "Dropout is random: call eval() on the module."

#: What to do about common operations that are not on the list.
ADVICE: Final = {
    "aten.native_dropout.default": _RANDOM,
    "aten.dropout.default": _RANDOM,
    "aten._native_batch_norm_legit.default": MIXES,
    "aten._native_batch_norm_legit.no_stats": MIXES,
    "aten._native_batch_norm_legit_functional.default": MIXES,
    "aten.native_batch_norm.default": MIXES,
}


def row_of(name: str) -> Signature:
    """Return an operation's row; NetworkError says why there is none."""
    if name not in OPERATIONS:
        why = ADVICE.get(name, "It is not on the list of operations that keep records apart.")
        raise NetworkError(f"Operation {name[:80]} is refused. {why}")
    return OPERATIONS[name]
