"""One record never touches another: with any other in its place, all else keeps its bits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks import KINDS, data_of, gradients, network_of, odd_ones

from ldp_flower.clients.private_training.steps import clipped_sums
from ldp_flower.models.graph import CLASS_LOSSES, Dtype, Graph, Operation, Reference, Tensor
from ldp_flower.models.network import Network
from ldp_flower.models.operations import OPERATIONS

BLOCK, BOUND = 16, 0.5
DRAWN = np.arange(13)  # the others are places without a record


# A record between others; in the slow run also the first and the last one.
in_places = pytest.mark.parametrize(
    "place", [7, *(pytest.param(place, marks=pytest.mark.slow) for place in (0, 12))]
)


def bits(tensor):
    return tensor.view(torch.int64 if tensor.dtype == torch.float64 else torch.int32)


def compare(network, rows, targets, place):
    """Change one record; return comparisons, and how often its own gradient changed."""
    block = {"rows": rows, "targets": targets}
    before, used = gradients(network, *block.values(), DRAWN, BLOCK)
    sums, counted = clipped_sums(before, used, BOUND)
    assert counted.tolist() == [True] * 13 + [False] * 3
    compared = changed = 0
    others = [i for i in range(BLOCK) if i != place]
    for name, row, target in odd_ones(rows[place], targets[place]):
        odd = {key: value.clone() for key, value in block.items()}
        odd["rows"][place], odd["targets"][place] = row, target
        after, used = gradients(network, *odd.values(), DRAWN, BLOCK)
        moved_sums, counted = clipped_sums(after, used, BOUND)
        assert counted[others[:12]].all(), name
        for key, gradient in after.items():
            assert torch.equal(bits(before[key][others]), bits(gradient[others])), (name, key)
            changed += not torch.equal(bits(before[key][place]), bits(gradient[place]))
            compared += 1
        squares = sum(float((moved_sums[k] - sums[k]).square().sum()) for k in sums)
        assert squares**0.5 <= 2 * BOUND, name
        assert all(each.isfinite().all() for each in moved_sums.values()), name
    return compared, changed


@in_places
@pytest.mark.parametrize("kind", KINDS)
def test_networks_keep_records_apart(kind, place):
    compared, changed = compare(network_of(kind), *data_of(kind, 13), place)
    assert compared >= 22 and changed > compared / 2


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_losses_of_classes_keep_records_apart(loss):
    whole = network_of("U-Net")
    weighted = replace(whole.graph, loss=loss, class_weights=(1.0, 3.0))
    compared, changed = compare(Network(weighted, whole.arrays), *data_of("U-Net", 13), 7)
    assert compared >= 22 and changed > compared / 2


@pytest.mark.parametrize("kind", KINDS)
def test_neither_company_nor_place_moves_a_gradient(kind):
    """Company moves no bit. A place may move the last ones: products are computed in tiles."""
    rows, targets = data_of(kind, 26)
    orders = [np.arange(13), np.r_[0, 14:26], np.array([0]), np.roll(np.arange(13), 5)]
    found = [gradients(network_of(kind), rows, targets, order, BLOCK)[0] for order in orders]
    places = [order.tolist().index(0) for order in orders]
    for name in found[0]:
        own, *company, moved = [g[name][place] for g, place in zip(found, places, strict=True)]
        assert own.any()
        assert all(torch.equal(bits(own), bits(other)) for other in company), name
        torch.testing.assert_close(own, moved, rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------- single operations

X, W, V = "x", "w", "v"  # record times parameter, parameter, another parameter
_IMAGE, _VOLUME, _ROW = (2, 6, 6), (2, 4, 4, 5), (4, 6)


def case(*arguments, shape=_ROW, other=(1,), keywords=None):
    return {"arguments": arguments, "shape": shape, "other": other, "keywords": keywords or {}}


CASES = {
    "view.default": [case(X, (1, 24)), case(X, (6, -1))],
    "unsqueeze.default": [case(X, 1)],
    "expand.default": [case(X, (3, 4, 6))],
    "clone.default": [case(X)],
    "permute.default": [case(X, (0, 2, 1))],
    "squeeze.dims": [case(X, (0,))],
    "slice.Tensor": [case(X, 2, 1, 6, 2)],
    "select.int": [case(X, 1, 3)],
    "index.Tensor": [
        case(X, (None, "places")),
        case(X, (None, None, "places")),
        case(X, (None, "lines", "places")),
    ],
    "cat.default": [case((X, W, X), 1)],
    "flip.default": [case(X, (1, 2))],
    "repeat.default": [case(X, (1, 2, 3))],
    "split_with_sizes.default": [case(X, (1, 3), 1)],
    "constant_pad_nd.default": [case(X, (1, 2, 0, -1), 0.5)],
    **{
        f"{name}.default": [case(X)]
        for name in (
            *("relu", "gelu", "sigmoid", "tanh", "exp", "log", "log1p", "sqrt", "rsqrt"),
            *("reciprocal", "abs", "neg", "erf", "sin", "cos", "leaky_relu", "elu", "hardtanh"),
            *("sign", "floor"),
        )
    },
    "clamp.default": [case(X, -0.5, 0.5)],
    "pow.Tensor_Scalar": [case(X, 2), case(X, 3.5), case(X, -1)],
    "logical_not.default": [case(X)],
    **{f"{name}.default": [case(X, W)] for name in ("logical_and", "logical_or")},
    **{f"{name}.default": [case(X, W)] for name in ("minimum", "maximum")},
    "where.self": [case("mask", X, W)],
    **{f"{name}.Tensor": [case(X, W)] for name in ("add", "sub", "mul", "div")},
    **{f"{name}.Scalar": [case(X, 1.5)] for name in ("add", "sub", "mul", "div")},
    **{f"{name}.Tensor": [case(X, W)] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"{name}.Scalar": [case(X, 0)] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "_to_copy.default": [case(X, keywords={"dtype": Dtype(d)}) for d in ("float64", "int64")],
    "sum.dim_IntList": [case(X, (2,)), case(X, (1, 2), True)],
    "mean.dim": [case(X, (1,))],
    "amax.default": [case(X, (2,))],
    "amin.default": [case(X, (1,))],
    "var.correction": [case(X, (2,), keywords={"correction": 1})],
    "linalg_vector_norm.default": [case(X, 2, (1,)), case(X, 3.0, (1, 2))],
    "any.dim": [case(X, 2)],
    "cumsum.default": [case(X, 2)],
    "_softmax.default": [case(X, 2, False)],
    "_log_softmax.default": [case(X, 1, False)],
    "native_layer_norm.default": [case(X, (6,), V, V, 1e-5, other=(6,))],
    "native_group_norm.default": [
        case(X, V, V, 1, 2, 36, g, 1e-5, shape=_IMAGE, other=(2,)) for g in (1, 2)
    ],
    "_native_batch_norm_legit_no_training.default": [
        case(X, V, V, "one", "one", 0.1, 1e-5, shape=_IMAGE, other=(2,))
    ],
    "max_pool2d_with_indices.default": [
        case(X, (2, 2), (2, 2), shape=_IMAGE),
        case(X, (3, 3), (1, 1), (1, 1), shape=_IMAGE),
    ],
    "avg_pool2d.default": [case(X, (2, 2), (2, 2), shape=_IMAGE)],
    "max_pool3d_with_indices.default": [
        case(X, (2, 2, 2), (2, 2, 2), shape=_VOLUME),
        case(X, (3, 3, 3), (1, 1, 1), (1, 1, 1), shape=_VOLUME),
    ],
    "avg_pool3d.default": [case(X, (2, 2, 2), (2, 2, 1), shape=_VOLUME)],
    **{
        f"{name}{len(size)}d.default": [case(X, size, shape=shape)]
        for name in ("_adaptive_avg_pool", "adaptive_max_pool")
        for size, shape in (((4, 5), _IMAGE), ((3, 2, 5), _VOLUME))
    },
    "upsample_nearest2d.vec": [case(X, (12, 9), None, shape=_IMAGE)],
    "upsample_bilinear2d.vec": [
        case(X, (12, 9), False, None, shape=_IMAGE),
        case(X, None, True, (2.0, 2.0), shape=_IMAGE),
    ],
    "embedding.default": [case(V, "words", other=(5, 3)), case(V, "words", 2, other=(5, 3))],
    "mm.default": [case("flat", V, shape=(7,), other=(7, 5))],
    "bmm.default": [case(X, V, other=(1, 6, 5)), case(X, "turned")],
    "addmm.default": [case("bias", "flat", V, shape=(7,), other=(7, 5))],
    "convolution.default": [
        case(X, V, None, s, p, d, t, o, g, shape=_IMAGE, other=other)
        for s, p, d, t, o, g, other in (
            ((1, 1), (1, 1), (1, 1), False, (0, 0), 1, (5, 2, 3, 3)),
            ((2, 2), (0, 0), (2, 2), False, (0, 0), 2, (4, 1, 2, 2)),
            ((2, 2), (0, 0), (1, 1), True, (0, 0), 1, (2, 3, 2, 2)),
            ((1, 1), (0, 0), (1, 1), False, (0, 0), 2, (2, 1, 3, 3)),
        )
    ]
    + [case(X, V, "bias", (1,), (1,), (1,), False, (0,), 1, shape=(2, 9), other=(5, 2, 3))]
    + [
        case(X, V, None, *[(s,) * 3 for s in (2, 1, 1)], t, (0,) * 3, 1, shape=_VOLUME, other=other)
        for t, other in ((False, (5, 2, 3, 3, 3)), (True, (2, 3, 3, 3, 3)))
    ],
    "full.default": [case((1, 4, 6), 0.5)],
    "full_like.default": [case(X, 0.5)],
    "scalar_tensor.default": [case(0.5)],
    "arange.start_step": [case(0, 6, 1, keywords={"dtype": Dtype("float32")})],
}
_BOTH = "aten.add.Tensor"


def network_with(name, arguments, shape, other, keywords):
    """Return a network of one operation, whose output all numbers of which are fitted."""
    whole = (1, *shape)
    generator = torch.Generator().manual_seed(3)
    parameters = {W: whole, V: other, "bias": (5,), "one": other}
    operations = [Operation("aten.mul.Tensor", (Reference(None), Reference(W)), {})]
    values = {X: Reference(0), **{key: Reference(key) for key in parameters}}

    def computed(operation, *given, **named):
        operations.append(Operation(f"aten.{operation}", given, named))
        return Reference(len(operations) - 1)

    if "mask" in arguments:
        values["mask"] = computed("gt.Scalar", values[X], 0)
    if "words" in arguments:
        values["words"] = computed("_to_copy.default", values[X], dtype=Dtype("int64"))
    if "turned" in arguments:
        values["turned"] = computed("permute.default", values[X], (0, 2, 1))
    if name == "index.Tensor":
        values["places"] = computed("arange.start_step", -2, 6)  # from before to behind
        values["lines"] = computed("view.default", values["places"], (4, 2, 1))
        values["places"] = computed("view.default", values["places"], (2, 4))
    values["flat"] = values[X]

    def value(argument):
        if isinstance(argument, tuple):
            return tuple(value(each) for each in argument)
        return values.get(argument, argument) if isinstance(argument, str) else argument

    result = computed(name, *map(value, arguments), **keywords)
    if name == "split_with_sizes.default":
        result = Reference(result.source, 1)
    elif name.startswith(("max_pool", "adaptive_max", "native_", "_native")):
        result = Reference(result.source, 0)
    result = computed("_to_copy.default", result, dtype=Dtype("float32"))
    # Whatever the operation does with a record, something of it is learnt from.
    result = computed("view.default", result, (1, -1))
    scale = computed("sum.dim_IntList", values[X], tuple(range(1, len(whole))))
    scale = computed("view.default", scale, (1, 1))
    result = computed("add.Tensor", result, scale)
    graph = Graph(
        Tensor("float32", shape),
        {key: Tensor("float32", each, key != "one") for key, each in parameters.items()},
        tuple(operations),
        result,
        "mse",
    )
    arrays = {
        key: torch.randn(each, generator=generator).abs().add(0.1).numpy()
        for key, each in parameters.items()
    }
    network = Network(graph, arrays)
    network.check()
    return network


def test_every_operation_has_a_case():
    assert {f"aten.{name}" for name in CASES} == set(OPERATIONS)


@in_places
@pytest.mark.parametrize("name", CASES)
def test_operations_keep_records_apart(name, place):
    for each in CASES[name]:
        network = network_with(name, **each)
        generator = torch.Generator().manual_seed(4)
        rows = torch.randn(13, *each["shape"], generator=generator).abs() + 0.1
        targets = torch.randn(13, *network.target().shape, generator=generator)
        compared, changed = compare(network, rows, targets, place)
        assert compared >= 19 and changed > compared / 20
