"""Types and shapes of the results of layers: reductions, norms, pools, tables and products.

Every function takes the arguments of an operation and returns the type and shape of its result.
The functions are in the order of the table in ``operations``. Those for elementwise operations and
layouts are in ``shapes``.
"""

import math

from .graph import Dtype, Tensor, need
from .shapes import Shape, broadcast, common, converted, dim_index, dim_indices, same


def _reduced(x: Tensor, dims: Shape | None, keepdim: bool, dtype: str) -> Tensor:
    gone = dim_indices(x, dims) if dims else range(len(x.shape))
    kept = (1 if i in gone else s for i, s in enumerate(x.shape) if keepdim or i not in gone)
    return Tensor(dtype, tuple(kept))


def reduced(x: Tensor, dims: Shape | None, keepdim: bool, **_: object) -> Tensor:
    """Return type and shape of a reduction along ``dims``; without ``dims``, along all."""
    return _reduced(x, dims, keepdim, x.dtype)


def summed(x: Tensor, dims: Shape | None, keepdim: bool, dtype: Dtype | None) -> Tensor:
    """Return type and shape of a sum; sums of truth values and of integers are integers."""
    return _reduced(x, dims, keepdim, dtype.name if dtype else common(x, 0))


def whether_any(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Return the type and shape of the result of a test for any true value along a dimension."""
    return _reduced(x, (dim,), keepdim, "bool")


def along(x: Tensor, dim: int, dtype: Dtype | None = None, **_: object) -> Tensor:
    """Return type and shape of an operation along a dimension that keeps the shape."""
    dim_index(x, dim)
    return converted(x, dtype)


def _require_parameters(x: Tensor, shape: Shape, *parameters: Tensor | None) -> None:
    for each in parameters:
        need(
            each is None or (each.dtype == x.dtype and each.shape == shape),
            f"parameters of {x.dtype} and shape {list(shape)}",
        )


def layer_norm(
    x: Tensor, shape: Shape, weight: Tensor | None, bias: Tensor | None, **_: object
) -> tuple[Tensor, ...]:
    """Return types and shapes of layer norm: normalised values, means and deviations."""
    batch = len(x.shape) - len(shape)
    need(bool(shape) and x.shape[max(batch, 0) :] == shape, "the shape of the last dimensions")
    _require_parameters(x, shape, weight, bias)
    each = Tensor(x.dtype, x.shape[:batch] + (1,) * len(shape))
    return same(x), each, each


def group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    **_: object,
) -> tuple[Tensor, ...]:
    """Return types and shapes of group norm: normalised values, means and deviations."""
    fits = x.shape[:2] == (batch, channels) and math.prod(x.shape[2:]) == area
    need(fits and channels % groups == 0, "groups that fit the values")
    need((weight is None) == (bias is None), "both weight and bias, or neither")
    _require_parameters(x, (channels,), weight, bias)
    each = Tensor(x.dtype, (batch, groups))
    return same(x), each, each


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    **_: object,
) -> tuple[Tensor, ...]:
    """Return the only result of batch norm that may be used: normalised values."""
    need(len(x.shape) > 1, "values of at least two dimensions")
    _require_parameters(x, x.shape[1:2], weight, bias, mean, variance)
    return (same(x),)


def _require_image(x: Tensor, sizes: Shape | tuple[float, ...]) -> None:
    """Raise NetworkError unless values have a batch, channels and a dimension for each size."""
    need(len(x.shape) == len(sizes) + 2, f"values of {len(sizes) + 2} dimensions")


def _pooled(x: Tensor, kernel: Shape, stride: Shape, padding: Shape, ceil: bool) -> Tensor:
    """Return type and shape of a pool; every window contains at least one element of the image."""
    _require_image(x, kernel)
    need(all(2 * p <= k for p, k in zip(padding, kernel, strict=True)), "half a kernel of padding")
    sizes = []
    for size, k, s, p in zip(x.shape[2:], kernel, stride or kernel, padding, strict=True):
        room = size + 2 * p - k
        need(room >= 0, "kernels within the images")
        steps = -(-room // s) if ceil else room // s
        sizes.append(steps + (steps * s < size + p))  # the last window starts within the image
    return Tensor(x.dtype, (*x.shape[:2], *sizes))


def max_pooled(
    x: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil: bool
) -> tuple[Tensor, ...]:
    """Return types and shapes of a max pool: the largest values of windows, and their indices."""
    found = _pooled(x, kernel, stride, padding, ceil)
    return found, Tensor("int64", found.shape)


def mean_pooled(
    x: Tensor, kernel: Shape, stride: Shape, padding: Shape, ceil: bool, **_: object
) -> Tensor:
    """Return the type and shape of the result of a mean pool."""
    found = _pooled(x, kernel, stride, padding, ceil)
    # Unlike the other pools, PyTorch's mean pool of volumes compares kernels with unpadded sizes.
    longer = any(k > size for k, size in zip(kernel, x.shape[2:], strict=True))
    need(len(kernel) < 3 or not longer, "kernels within the volumes without padding")
    return found


def adapted(x: Tensor, size: Shape) -> Tensor:
    """Return type and shape of a pool to a given size, whose windows cover the image."""
    _require_image(x, size)
    return Tensor(x.dtype, x.shape[:2] + size)


def largest_adapted(x: Tensor, size: Shape) -> tuple[Tensor, ...]:
    """Return types and shapes of a max pool to a given size: largest values, and their indices."""
    found = adapted(x, size)
    return found, Tensor("int64", found.shape)


def resized(
    x: Tensor, size: Shape | None, scales: tuple[float, float] | None, **_: object
) -> Tensor:
    """Return type and shape of resizing an image to a given size or by given scales."""
    need((size is None) != (scales is None), "either a size or scales")
    _require_image(x, size or scales or ())
    if scales is not None:
        size = tuple(int(s * scale) for s, scale in zip(x.shape[2:], scales, strict=True))
    assert size is not None
    return Tensor(x.dtype, x.shape[:2] + size)


def looked_up(table: Tensor, indices: Tensor, padding: int, **_: object) -> Tensor:
    """Return the type and shape of the result of a lookup, one row of a table for each index."""
    need(len(table.shape) == 2, "a table of two dimensions")
    need(-1 <= padding < table.shape[0], "a row of the table, or -1")
    return Tensor(table.dtype, (*indices.shape, table.shape[1]))


# ----------------------------------------------------------------------------------- products


def product(x: Tensor, other: Tensor, *, dims: int = 2) -> Tensor:
    """Return type and shape of a product of matrices; raise NetworkError if they do not fit.

    With ``dims`` 3 it is a batched product: (b, n, m) times (b, m, p) gives (b, n, p).
    """
    need(x.dtype == other.dtype, "matrices of one type")
    need(
        len(x.shape) == len(other.shape) == dims
        and x.shape[:-2] == other.shape[:-2]
        and x.shape[-1] == other.shape[-2],
        "matrices of which one has as many columns as the other has rows",
    )
    return Tensor(x.dtype, (*x.shape[:-1], other.shape[-1]))


def product_plus(bias: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """Return type and shape of a product of matrices plus a bias that is broadcast to it."""
    found = product(x, other)
    need(bias.dtype == x.dtype, "matrices of one type")
    need(broadcast(bias, found) == found.shape, "a summand that is broadcast to the product")
    return found


def convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Tensor:
    """Return type and shape of a convolution of a sequence, an image or a volume."""
    dims = len(stride)
    need(len(padding) == len(dilation) == len(output_padding) == dims, "lists of one length")
    need(len(x.shape) == len(weight.shape) == dims + 2, f"values of {dims + 2} dimensions")
    own, others = weight.shape[0], weight.shape[1] * groups
    into, out = (own, others) if transposed else (others, own)
    need(x.dtype == weight.dtype, "a kernel of the values' type")
    need(x.shape[1] == into and into % groups == out % groups == 0, "groups that fit the channels")
    _require_parameters(x, (out,), bias)
    sizes = []
    for size, k, s, p, d, o in zip(
        x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True
    ):
        reach = d * (k - 1) + 1
        if transposed:
            need(o < max(s, d), "an output padding below stride or dilation")
            sizes.append((size - 1) * s - 2 * p + reach + o)
        else:
            need(o == 0, "no output padding")
            need(size + 2 * p >= reach, "kernels within the values")
            sizes.append((size + 2 * p - reach) // s + 1)
    return Tensor(x.dtype, (x.shape[0], out, *sizes))
