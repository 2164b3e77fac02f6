"""Types and shapes of the results of operations, from their arguments.

The functions raise NetworkError where PyTorch would fail, or would read or write outside an array.
They are in the order of the table in ``operations``. Those for layers are in ``layers``.
"""

import math
from collections.abc import Iterable

from .graph import FLOATS, MAX_INTEGER, Dtype, Tensor, need

Shape = tuple[int, ...]
Operand = Tensor | int | float
_RANKS = ("bool", "int64", "float32", "float64")


# -------------------------------------------------------------------------------- elementwise


def common(*values: Operand) -> str:
    """Return the name of the type to which PyTorch converts all operands: the widest of them."""
    tensors = {value.dtype for value in values if isinstance(value, Tensor)}
    need(bool(tensors), "a tensor among the arguments")
    need(not {"float32", "float64"} <= tensors, "floats of one precision")
    numbers = {
        "float32" if isinstance(value, float) else "int64"
        for value in values
        if not isinstance(value, Tensor)
    }
    return max(tensors | numbers, key=_RANKS.index)


def broadcast(*values: Operand) -> Shape:
    """Return the shape to which all values are broadcast."""
    shapes = [value.shape for value in values if isinstance(value, Tensor)]
    longest = max(map(len, shapes))
    columns = zip(*((1,) * (longest - len(shape)) + shape for shape in shapes), strict=True)
    sizes = [set(column) - {1} for column in columns]
    need(all(len(each) < 2 for each in sizes), "shapes of which one can be broadcast to the other")
    return tuple(each.pop() if each else 1 for each in sizes)


def same(x: Tensor, **_: object) -> Tensor:
    """Return the type and shape of the first argument."""
    return Tensor(x.dtype, x.shape)


def as_float(x: Tensor) -> Tensor:
    """Return the type and shape of ``x`` after conversion to floats."""
    return Tensor(max(x.dtype, "float32", key=_RANKS.index), x.shape)


def as_bool(x: Tensor) -> Tensor:
    """Return the type and shape of truth values, one for each entry of ``x``."""
    return Tensor("bool", x.shape)


def combined(x: Operand, other: Operand) -> Tensor:
    """Return type and shape of a sum or of another combination of two operands."""
    return Tensor(common(x, other), broadcast(x, other))


def divided(x: Operand, other: Operand) -> Tensor:
    """Return the type and shape of the result of a quotient."""
    return as_float(combined(x, other))


def compared(x: Operand, other: Operand) -> Tensor:
    """Return the type and shape of the result of a comparison, which has truth values."""
    return as_bool(combined(x, other))


def chosen(condition: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """Return the type and shape of the result of a choice between two values by a condition."""
    return Tensor(common(x, other), broadcast(condition, x, other))


def clamped(x: Tensor, least: float | None, most: float | None) -> Tensor:
    """Return the type and shape of the result of clipping to one or two bounds."""
    bounds = [each for each in (least, most) if each is not None]
    need(bool(bounds), "a bound")
    return Tensor(common(x, *bounds), x.shape)


def within(x: Tensor, least: float, most: float) -> Tensor:
    """Return the type and shape of the result of clipping to two bounds, which must be in order."""
    need(least <= most, "bounds in order")
    return same(x)


def powered(x: Tensor, exponent: float) -> Tensor:
    """Return the type and shape of the result of a power."""
    need(x.dtype != "int64" or exponent >= 0, "no negative powers of integers")
    return Tensor(common(x, exponent), x.shape)


def converted(x: Tensor, dtype: Dtype | None) -> Tensor:
    """Return the type and shape of ``x`` after conversion to ``dtype``.

    The shape stays the same. If ``dtype`` is None, the type stays the same, too.
    """
    return Tensor(dtype.name if dtype else x.dtype, x.shape)


def _fits_type(value: float, dtype: str) -> bool:
    return dtype in FLOATS or not isinstance(value, float)


# ------------------------------------------------------------------------------------- layout


def dim_index(x: Tensor, dim: int, more: int = 0) -> int:
    """Return the index of a dimension of ``x``, from 0; a negative ``dim`` counts from the end.

    ``more`` is the number of dimensions that the result has beyond those of ``x``. Raise
    NetworkError if the dimension does not exist.
    """
    dims = len(x.shape) + more
    need(-dims <= dim < dims, "an existing dimension")
    return dim % dims


def dim_indices(x: Tensor, dims: Iterable[int]) -> list[int]:
    """Return the indices of several dimensions; raise NetworkError if one is listed twice."""
    found = [dim_index(x, dim) for dim in dims]
    need(len(set(found)) == len(found), "each dimension once")
    return found


def _with(x: Tensor, dim: int, *sizes: int) -> Tensor:
    return Tensor(x.dtype, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def viewed(x: Tensor, size: Shape) -> Tensor:
    """Return the type and shape of ``x`` after it is reshaped to ``size``.

    One size may be -1, and is then inferred from the others.
    """
    rest = math.prod(each for each in size if each != -1)
    need(0 not in size and size.count(-1) < 2, "at most one size of -1")
    need(x.size % rest == 0 and (-1 in size or x.size == rest), f"a shape of {x.size} numbers")
    return Tensor(x.dtype, tuple(x.size // rest if each == -1 else each for each in size))


def unsqueezed(x: Tensor, dim: int) -> Tensor:
    """Return the type and shape of values with an additional dimension of size 1."""
    at = dim_index(x, dim, 1)
    return Tensor(x.dtype, (*x.shape[:at], 1, *x.shape[at:]))


def squeezed(x: Tensor, dims: Shape) -> Tensor:
    """Return the type and shape of values without the given dimensions, if they have size 1."""
    gone = dim_indices(x, dims)
    return Tensor(x.dtype, tuple(s for i, s in enumerate(x.shape) if s != 1 or i not in gone))


def expanded(x: Tensor, size: Shape) -> Tensor:
    """Return type and shape of repetition along dimensions of size 1; size -1 keeps a dimension."""
    more = len(size) - len(x.shape)
    need(more >= 0, "a size for each dimension")
    old = (1,) * more + x.shape
    sizes = [
        before if asked == -1 and i >= more else asked
        for i, (before, asked) in enumerate(zip(old, size, strict=True))
    ]
    fits = all(new >= 1 and before in (1, new) for before, new in zip(old, sizes, strict=True))
    need(fits, "sizes that dimensions can be expanded to")
    return Tensor(x.dtype, tuple(sizes))


def permuted(x: Tensor, dims: Shape) -> Tensor:
    """Return the type and shape of values with their dimensions in another order."""
    need(len(dims) == len(x.shape), "every dimension")
    return Tensor(x.dtype, tuple(x.shape[dim] for dim in dim_indices(x, dims)))


def flipped(x: Tensor, dims: Shape) -> Tensor:
    """Return the type and shape of the result of reversing the order along some dimensions."""
    dim_indices(x, dims)
    return same(x)


def sliced(x: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """Return the type and shape of the result of a slice along a dimension, as in Python."""
    at = dim_index(x, dim)
    return _with(x, at, len(range(x.shape[at])[start:end:step]))


def selected(x: Tensor, dim: int, index: int) -> Tensor:
    """Return the type and shape of the result of selecting one index of a dimension."""
    at = dim_index(x, dim)
    need(-x.shape[at] <= index < x.shape[at], "an existing index")
    return _with(x, at)


def indexed(x: Tensor, indices: tuple[Tensor | None, ...]) -> Tensor:
    """Return type and shape of a selection by indices along adjacent dimensions."""
    at = [dim for dim, index in enumerate(indices) if index is not None]
    need(bool(at) and len(indices) <= len(x.shape), "indices along existing dimensions")
    first, behind = at[0], at[-1] + 1
    need(len(at) == behind - first, "indices along adjacent dimensions")
    found = broadcast(*(each for each in indices if each is not None))
    return Tensor(x.dtype, (*x.shape[:first], *found, *x.shape[behind:]))


def joined(tensors: tuple[Tensor, ...], dim: int) -> Tensor:
    """Return the type and shape of the result of concatenating tensors along a dimension."""
    first = tensors[0]
    at = dim_index(first, dim)
    kinds = {(t.dtype, len(t.shape), t.shape[:at], t.shape[at + 1 :]) for t in tensors}
    need(len(kinds) == 1, "tensors of one type, whose other dimensions are the same")
    return _with(first, at, sum(t.shape[at] for t in tensors))


def repeated(x: Tensor, repeats: Shape) -> Tensor:
    """Return the type and shape of the result of repeating a tensor along its dimensions."""
    more = len(repeats) - len(x.shape)
    need(more >= 0, "a number for each dimension")
    sizes = zip((1,) * more + x.shape, repeats, strict=True)
    return Tensor(x.dtype, tuple(size * times for size, times in sizes))


def split(x: Tensor, sizes: Shape, dim: int) -> tuple[Tensor, ...]:
    """Return types and shapes of the results of splitting a tensor along a dimension."""
    at = dim_index(x, dim)
    need(sum(sizes) == x.shape[at], "sizes that add up to the dimension's")
    each = {size: _with(x, at, size) for size in set(sizes)}
    return tuple(each[size] for size in sizes)


def padded(x: Tensor, pad: Shape, value: float) -> Tensor:
    """Return type and shape of padding, from the last dimension on; negative pads cut off."""
    need(x.dtype != "bool" and _fits_type(value, x.dtype), "a value of the tensor's type")
    need(len(pad) <= 2 * len(x.shape), "pads of existing dimensions")
    sizes = list(x.shape)
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        left = sizes[-i] + min(before, 0) + min(after, 0)
        need(left >= 1, "pads that leave something of each dimension")
        sizes[-i] += before + after
    return Tensor(x.dtype, tuple(sizes))


# ---------------------------------------------------------------------------------- constants


def filled(size: Shape, value: float, dtype: Dtype | None) -> Tensor:
    """Return the type and shape of the result of filling a shape with one number."""
    own = {bool: "bool", int: "int64", float: "float32"}[type(value)]
    return scalar(value, dtype or Dtype(own), size)


def filled_like(x: Tensor, value: float, dtype: Dtype | None) -> Tensor:
    """Return the type and shape of the result of filling another tensor's shape with one number."""
    return scalar(value, dtype or Dtype(x.dtype), x.shape)


def scalar(value: float, dtype: Dtype | None, size: Shape = ()) -> Tensor:
    """Return the type and shape of a constant; by default of a single float32 number."""
    name = dtype.name if dtype else "float32"
    need(_fits_type(value, name), "a value of the type")
    return Tensor(name, size)


def counted(start: float, end: float, step: float, dtype: Dtype | None) -> Tensor:
    """Return the type and shape of the result of a range: numbers at equal distances."""
    need(step != 0, "a step other than 0")
    whole = all(isinstance(each, int) for each in (start, end, step))
    name = dtype.name if dtype else "int64" if whole else "float32"
    need(name != "bool" and (whole or name != "int64"), "numbers of the type")
    steps = (end - start) / step
    need(0 < steps < MAX_INTEGER, "an end that steps from the start reach")
    return Tensor(name, (math.ceil(steps),))
