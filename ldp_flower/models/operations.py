"""The closed list of operations that a network may consist of.

All are pure functions of tensors: no randomness, no mutation, no data-dependent shape. Each one
has been tried with one record changed to anything, bit by bit, under ``vmap``. What is not on
the list is refused by name.
"""

from typing import Final

_LAYOUT: Final = """
    view unsqueeze expand clone permute squeeze.dims slice.Tensor select.int cat flip repeat
    split_with_sizes constant_pad_nd
"""
_ELEMENTWISE: Final = """
    relu gelu sigmoid tanh exp log log1p sqrt rsqrt reciprocal abs neg erf sin cos leaky_relu elu
    hardtanh clamp pow.Tensor_Scalar logical_not logical_and logical_or where.self
    minimum maximum add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar
    div.Tensor div.Scalar eq.Scalar eq.Tensor ne.Scalar ne.Tensor lt.Scalar lt.Tensor
    le.Scalar le.Tensor gt.Scalar gt.Tensor ge.Scalar ge.Tensor _to_copy
"""
_WITHIN_A_RECORD: Final = """
    sum.dim_IntList mean.dim amax amin var.correction linalg_vector_norm any.dim cumsum
    _softmax _log_softmax native_layer_norm native_group_norm _native_batch_norm_legit_no_training
    max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d upsample_nearest2d.vec
    upsample_bilinear2d.vec embedding
"""
_PRODUCTS: Final = "mm bmm addmm convolution"
_CONSTANTS: Final = "full full_like scalar_tensor arange.start_step"

#: Names with overload, as PyTorch prints them.
OPERATIONS: Final = frozenset(
    f"aten.{name}" if "." in name else f"aten.{name}.default"
    for name in " ".join([_LAYOUT, _ELEMENTWISE, _WITHIN_A_RECORD, _PRODUCTS, _CONSTANTS]).split()
)

#: Operations that return several tensors, with how many of them may be used; the others are
#: indices and statistics for the gradient.
PARTS: Final = {
    "aten.split_with_sizes.default": 256,
    "aten.max_pool2d_with_indices.default": 1,
    "aten.native_layer_norm.default": 1,
    "aten.native_group_norm.default": 1,
    "aten._native_batch_norm_legit_no_training.default": 1,
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


def refusal(name: str) -> str:
    """Return why an operation that is not on the list is refused, in words."""
    why = ADVICE.get(name, "It is not on the list of operations that keep records apart.")
    return f"Operation {name[:80]} is refused. {why}"
