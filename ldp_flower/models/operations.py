"""Closed list of the operations of which a network may consist, with their arguments.

All operations are pure functions of tensors: no randomness, no mutation, no data-dependent shape.
Arguments that a row does not declare are refused before PyTorch sees them, since kernels trust the
types and sizes of their arguments when they read and write memory. Operations that are not on the
list are refused by name.
"""

from functools import partial
from typing import Final

from . import layers, shapes
from .arguments import (
    ANY,
    BOOLS,
    COUNT,
    DIM,
    DIMS,
    DTYPE,
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
    PARAMETER,
    PARTS,
    PLACES,
    POSITION,
    SCALAR,
    SCALES,
    SIZES,
    TENSORS,
    VALUE,
    WINDOW,
    real,
    sizes,
    whole,
)
from .graph import MAX_INTEGER, NetworkError
from .signatures import (
    EXP,
    SLOW,
    SMOOTH,
    Signature,
    of_convolution,
    of_covering,
    of_product,
    of_windows,
    takes,
)

_HERE, _IF_SAID, _BOUND = DIM.or_else(0), FLAG.or_else(False), SCALAR.or_else(None)
_ONE, _PLACE, _FALSE = SCALAR.or_else(1), POSITION.or_else(None), FALSE.or_else(False)
_END = real(-(1 << 31), 1 << 31)
_OF_TYPE, _FLOATS = DTYPE.or_else(None).by_name(), FLOAT_TYPE.or_else(None).by_name()
_LEARNT, _OVER = PARAMETER.or_null(), DIMS.or_null()
_PAIRS = {"x": ANY, "other": ANY}
_OPERANDS = {"x": OPERAND, "other": OPERAND}
_NUMERIC = {"x": NUMERIC, "other": NUMERIC}
_WITH_SCALAR = {"x": ANY, "other": SCALAR}
_NUMBER_WITH_SCALAR = {"x": NUMBERS, "other": SCALAR}
_NORMED = {"weight": _LEARNT, "bias": _LEARNT}


def _pools(dims: int) -> dict[str, Signature]:
    """Return the table's rows for pools over images (``dims`` 2) or volumes (3), by operation."""
    window, covering = sizes(dims), {"x": FLOAT, "size": sizes(dims, most=MAX_INTEGER)}
    given = {
        "x": FLOAT,
        "kernel": window,
        "stride": window.or_none().or_else(()),
        "padding": sizes(dims, 0).or_else((0,) * dims),
    }
    undilated = sizes(dims, most=1).or_else((1,) * dims)
    return {
        f"max_pool{dims}d_with_indices": takes(
            layers.max_pooled, of_windows, **given, dilation=undilated, ceil=_IF_SAID
        ),
        f"avg_pool{dims}d": takes(
            layers.mean_pooled,
            of_windows,
            **given,
            ceil=_IF_SAID,
            count_padding=FLAG.or_else(True),
            divisor=whole(1, 1 << 20).or_else(None),
        ),
        f"_adaptive_avg_pool{dims}d": takes(layers.adapted, of_covering, **covering),
        f"adaptive_max_pool{dims}d": takes(layers.largest_adapted, of_covering, **covering),
    }


_ROWS: Final = {
    # layout
    "view": takes(shapes.viewed, x=ANY, size=OPEN_SIZES),
    "unsqueeze": takes(shapes.unsqueezed, x=ANY, dim=DIM),
    "expand": takes(shapes.expanded, x=ANY, size=OPEN_SIZES),
    "clone": takes(shapes.same, x=ANY),
    "permute": takes(shapes.permuted, x=ANY, dims=DIMS),
    "squeeze.dims": takes(shapes.squeezed, x=ANY, dims=DIMS),
    "slice.Tensor": takes(
        shapes.sliced, x=ANY, dim=_HERE, start=_PLACE, end=_PLACE, step=COUNT.or_else(1)
    ),
    "select.int": takes(shapes.selected, x=ANY, dim=DIM, index=POSITION),
    "index.Tensor": takes(shapes.indexed, SLOW, x=ANY, indices=PLACES),
    "cat": takes(shapes.joined, tensors=TENSORS, dim=_HERE),
    "flip": takes(shapes.flipped, x=ANY, dims=DIMS),
    "repeat": takes(shapes.repeated, x=ANY, repeats=SIZES),
    "split_with_sizes": takes(shapes.split, 1, 256, x=ANY, sizes=PARTS, dim=_HERE),
    "constant_pad_nd": takes(shapes.padded, x=ANY, pad=PADS, value=SCALAR.or_else(0)),
    # elementwise
    **dict.fromkeys(("relu", "abs", "neg", "sign", "floor"), takes(shapes.same, x=NUMBERS)),
    "gelu": takes(shapes.same, SMOOTH, x=FLOAT, approximate=GELU.or_else("none").by_name()),
    "exp": takes(shapes.as_float, EXP, x=NUMBERS),
    **dict.fromkeys(
        ("log", "log1p", "sqrt", "erf", "sin", "cos"), takes(shapes.as_float, SLOW, x=NUMBERS)
    ),
    **dict.fromkeys(
        ("sigmoid", "tanh", "rsqrt", "reciprocal"), takes(shapes.as_float, SMOOTH, x=NUMBERS)
    ),
    "leaky_relu": takes(shapes.same, x=FLOAT, slope=SCALAR.or_else(0.01)),
    "elu": takes(shapes.same, SMOOTH, x=FLOAT, alpha=_ONE, scale=_ONE, input_scale=_ONE),
    "hardtanh": takes(shapes.within, x=FLOAT, least=SCALAR.or_else(-1), most=_ONE),
    "clamp": takes(shapes.clamped, x=NUMBERS, least=_BOUND, most=_BOUND),
    "pow.Tensor_Scalar": takes(shapes.powered, SLOW, x=NUMBERS, exponent=real(-1024, 1024)),
    "logical_not": takes(shapes.as_bool, x=ANY),
    **dict.fromkeys(("logical_and", "logical_or"), takes(shapes.compared, **_PAIRS)),
    "where.self": takes(shapes.chosen, condition=BOOLS, **_PAIRS),
    "minimum": takes(shapes.combined, x=NUMBERS, other=NUMBERS),
    "maximum": takes(shapes.combined, x=NUMBERS, other=NUMBERS),
    "add.Tensor": takes(shapes.combined, **_OPERANDS),
    "sub.Tensor": takes(shapes.combined, **_NUMERIC),
    "mul.Tensor": takes(shapes.combined, **_OPERANDS),
    "div.Tensor": takes(shapes.divided, SMOOTH, **_NUMERIC),
    "add.Scalar": takes(shapes.combined, **_WITH_SCALAR),
    "sub.Scalar": takes(shapes.combined, **_NUMBER_WITH_SCALAR),
    "mul.Scalar": takes(shapes.combined, **_WITH_SCALAR),
    "div.Scalar": takes(shapes.divided, SMOOTH, **_NUMBER_WITH_SCALAR),
    **{
        f"{name}.{other}": takes(shapes.compared, **kinds)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for other, kinds in (("Tensor", _PAIRS), ("Scalar", _WITH_SCALAR))
    },
    "_to_copy": takes(shapes.converted, x=ANY, dtype=_OF_TYPE),
    # within a record
    "sum.dim_IntList": takes(layers.summed, x=ANY, dims=_OVER, keepdim=_IF_SAID, dtype=_FLOATS),
    "mean.dim": takes(layers.summed, x=FLOAT, dims=_OVER, keepdim=_IF_SAID, dtype=_FLOATS),
    "amax": takes(layers.reduced, x=NUMBERS, dims=DIMS.or_else(()), keepdim=_IF_SAID),
    "amin": takes(layers.reduced, x=NUMBERS, dims=DIMS.or_else(()), keepdim=_IF_SAID),
    "var.correction": takes(
        layers.reduced,
        SLOW,
        x=FLOAT,
        dims=_OVER.or_else(None),
        correction=real(0, 1 << 20).or_else(None).by_name(),
        keepdim=_IF_SAID.by_name(),
    ),
    "linalg_vector_norm": takes(
        layers.reduced,
        SLOW,
        x=FLOAT,
        order=real(0, 64).or_else(2),
        dims=_OVER.or_else(None),
        keepdim=_IF_SAID,
    ),
    "any.dim": takes(layers.whether_any, x=ANY, dim=DIM, keepdim=_IF_SAID),
    "cumsum": takes(layers.along, SMOOTH, x=NUMBERS, dim=DIM, dtype=_FLOATS),
    "_softmax": takes(layers.along, SMOOTH, x=FLOAT, dim=DIM, half_to_float=FALSE),
    "_log_softmax": takes(layers.along, SMOOTH, x=FLOAT, dim=DIM, half_to_float=FALSE),
    "native_layer_norm": takes(layers.layer_norm, SMOOTH, x=FLOAT, shape=SIZES, **_NORMED, eps=EPS),
    "native_group_norm": takes(
        layers.group_norm,
        SMOOTH,
        x=FLOAT,
        **_NORMED,
        batch=COUNT,
        channels=COUNT,
        area=COUNT,
        groups=COUNT,
        eps=EPS,
    ),
    "_native_batch_norm_legit_no_training": takes(
        layers.batch_norm,
        SMOOTH,
        x=FLOAT,
        **_NORMED,
        mean=PARAMETER,
        variance=PARAMETER,
        momentum=EPS,
        eps=EPS,
    ),
    **_pools(2),
    **_pools(3),
    "upsample_nearest2d.vec": takes(
        layers.resized, x=FLOAT, size=IMAGE.or_null(), scales=SCALES.or_null()
    ),
    "upsample_bilinear2d.vec": takes(
        layers.resized, SMOOTH, x=FLOAT, size=IMAGE.or_null(), corners=FLAG, scales=SCALES.or_null()
    ),
    "embedding": takes(
        layers.looked_up,
        table=PARAMETER,
        indices=INTEGERS,
        padding=POSITION.or_else(-1),
        by_frequency=_FALSE,
        sparse=_FALSE,
    ),
    # products
    "mm": takes(layers.product, of_product, x=FLOAT, other=FLOAT),
    "bmm": takes(partial(layers.product, dims=3), of_product, x=FLOAT, other=FLOAT),
    "addmm": takes(layers.product_plus, of_product, bias=FLOAT, x=FLOAT, other=FLOAT),
    "convolution": takes(
        layers.convolved,
        of_convolution,
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
    "full": takes(shapes.filled, size=SIZES, value=VALUE, dtype=_OF_TYPE),
    "full_like": takes(shapes.filled_like, x=ANY, value=VALUE, dtype=_OF_TYPE),
    "scalar_tensor": takes(shapes.scalar, value=VALUE, dtype=_OF_TYPE),
    "arange.start_step": takes(
        shapes.counted, start=_END, end=_END, step=_END.or_else(1), dtype=_OF_TYPE
    ),
}

#: The table of operations, by names with overload, as PyTorch prints them.
OPERATIONS: Final = {
    f"aten.{name}" if "." in name else f"aten.{name}.default": row for name, row in _ROWS.items()
}


def row_of(name: str) -> Signature:
    """Return the table's row for an operation; raise NetworkError if it is not in the table."""
    if name not in OPERATIONS:
        raise NetworkError(
            f"Operation {name[:80]} is refused. It is not on the list of operations that keep "
            "records apart."
        )
    return OPERATIONS[name]
