"""The table of operations: that it is PyTorch's, what it refuses, and what it counts."""

import json
import time

import numpy as np
import pytest
import torch
from networks import gradients
from test_hostile_networks import (
    ONE,
    X,
    after,
    call,
    checked,
    convolution,
    of,
    only,
    parameter,
    text_of,
)

from ldp_flower.models import Limits, Network, NetworkError
from ldp_flower.models.checking import measure
from ldp_flower.models.operations import OPERATIONS
from ldp_flower.models.parsing import parsed

# How something lies in memory is the interpreter's affair; alpha and beta are refused.
_LEFT_OUT = {
    *("device", "layout", "pin_memory", "memory_format", "implicit", "non_blocking"),
    *("alpha", "beta", "dtype"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arguments_are_declared_as_pytorch_has_them(name):
    """In the same order, of the same names where they have one, left out where they may be."""
    _, packet, overload = name.split(".")
    schema = getattr(getattr(torch.ops.aten, packet), overload)._schema.arguments
    theirs = [each for each in schema if not each.kwarg_only]
    if theirs[-1].name == "alpha":
        theirs.pop()
    takes = OPERATIONS[name].takes
    ours = [kind for kind in takes.values() if not kind.named]
    assert len(ours) == len(theirs)
    for kind, their in zip(ours, theirs, strict=True):
        assert kind.required == (not their.has_default_value())
        if not kind.required:
            default = their.default_value
            assert kind.default == (tuple(default) if isinstance(default, list) else default)
    named = {key for key, kind in takes.items() if kind.named}
    assert named <= (by_name := {each.name for each in schema if each.kwarg_only})
    assert by_name - named <= _LEFT_OUT


def image(name, *arguments, shape=(3, 8, 8), **parameters):
    """Return a network of one operation on images, with more parameters."""
    listed = {"w": parameter(shape=(1, *shape)), **parameters}
    operations = [call("mul.Tensor", X, {"parameter": "w"}), call(name, *arguments)]
    record = {"dtype": "float32", "shape": list(shape)}
    output = of(1, part=0) if name.startswith(_SEVERAL) else of(1)
    return text_of(operations, output, parameters=listed, record=record)


_SEVERAL = ("max_pool", "adaptive_max", "native_", "_native", "split")
A, B, ALONE = ({"parameter": name} for name in ("a", "b", "alone"))
C, _PLACES = {"parameter": "c"}, parameter("int64", [2], trainable=False)
_THREE = {"a": parameter(shape=[3]), "b": parameter(shape=[3]), "alone": parameter(shape=[1])}
_NORM = "_native_batch_norm_legit_no_training.default"


def norm(weight=A, bias=B, mean=A, variance=B):
    return image(_NORM, ONE, weight, bias, mean, variance, 0.1, 1e-5, **_THREE)


def learnt(name, *arguments, **changes):
    """Return a network in which something that is to be a parameter is of the record."""
    flat = call("view.default", X, [3])
    return text_of(
        [flat, call(name, *arguments)],
        of(1, part=0) if name.startswith(_SEVERAL) else of(1),
        record={"dtype": "float32", "shape": [3]},
        parameters={"w": parameter(shape=[1, 3, 2, 2]), **_THREE},
        **changes,
    )


def pool(kernel, stride, padding, dilation=(1, 1), ceil=False, shape=(3, 8, 8)):
    arguments = list(kernel), list(stride), list(padding), list(dilation), ceil
    return image("max_pool2d_with_indices.default", ONE, *arguments, shape=shape)


W = {"parameter": "w"}
FITTING = {
    "a norm": norm(),
    "a norm without weights": norm(None, None),
    "a pool": pool((3, 3), (2, 2), (1, 1)),
    "a pool with a part of a window": pool((2, 2), (2, 2), (0, 0), ceil=True, shape=(3, 7, 7)),
    "a convolution": convolution((2, 2, 3, 3)),
    "a norm of lines": image(
        "native_layer_norm.default", ONE, [3], A, B, 1e-5, **_THREE, shape=(2, 3)
    ),
}
# Networks that PyTorch's own functions for shapes let pass.
MISFITS = {
    "a mean of one number": norm(mean=ALONE),
    "a variance of one number": norm(variance=ALONE),
    "a weight of one number": norm(weight=ALONE),
    "a bias of one number": norm(bias=ALONE),
    "windows without an element": pool((2, 2), (2, 2), (1, 1), (3, 3), shape=(3, 2, 2)),
    "a dilated pool": pool((2, 2), (1, 1), (0, 0), (2, 2)),
    "a mean of a record": learnt(_NORM, W, A, B, ONE, B, 0.1, 1e-5),
    "a variance of a record": learnt(_NORM, W, A, B, A, ONE, 0.1, 1e-5),
    "a norm's weight of a record": learnt("native_layer_norm.default", W, [3], ONE, B, 1e-5),
    "a convolution's bias of a record": learnt(
        "convolution.default", W, W, ONE, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    ),
    "a kernel of a record": text_of(
        [call("convolution.default", X, X, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)],
        parameters={"w": parameter()},
        record={"dtype": "float32", "shape": [1, 2, 2]},
    ),
    "a table of a record": text_of(
        [
            call("select.int", X, 0, 0),
            call("_to_copy.default", of(0), dtype={"dtype": "int64"}),
            call("embedding.default", of(0), of(1)),
        ],
        record={"dtype": "float32", "shape": [2, 2]},
    ),
    "places that a record chooses": text_of(
        [
            call("_to_copy.default", X, dtype={"dtype": "int64"}),
            call("index.Tensor", X, [None, of(0)]),
        ]
    ),
    "places that are truths": text_of(
        [call("gt.Scalar", W, 0), call("index.Tensor", W, [of(0)]), call("mm.default", X, of(1))]
    ),
    "places along dimensions apart": image("index.Tensor", ONE, [None, C, None, C], c=_PLACES),
    "places along a dimension that there is not": image(
        "index.Tensor", ONE, [None, None, None, None, C], c=_PLACES
    ),
    "no places": only("index.Tensor", X, [None, None]),
    "a convolution's bias of another size": image(
        *("convolution.default", ONE, {"parameter": "k"}, ALONE),
        *([1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        k=parameter(shape=(4, 3, 3, 3)),
        alone=parameter(shape=[3]),
    ),
    "a group norm's weight of another size": image(
        "native_group_norm.default", ONE, ALONE, ALONE, 1, 3, 64, 3, 1e-5, **_THREE
    ),
    "a group norm with a bias alone": image(
        "native_group_norm.default", ONE, None, B, 1, 3, 64, 3, 1e-5, **_THREE
    ),
    "more padding than half a kernel": pool((3, 3), (1, 1), (2, 2)),
    "a pool of volumes on images": image("avg_pool3d.default", ONE, [2, 2, 2]),
    "a pool of images on volumes": image("adaptive_max_pool2d.default", ONE, [2, 2, 2]),
    "a kernel of one size": image("avg_pool2d.default", ONE, [2]),
    "a volume's kernel beyond its edges": image(
        "max_pool3d_with_indices.default", ONE, [1, 1, 5], shape=(1, 4, 4, 4)
    ),
    "a volume's kernel within its padding only": image(
        "avg_pool3d.default", ONE, [2, 2, 2], [1, 1, 1], [1, 1, 1], shape=(3, 6, 3, 1)
    ),
    "a mean pool with more padding": image("avg_pool2d.default", ONE, [2, 2], [1, 1], [2, 2]),
    "a pad that cuts all off": only("constant_pad_nd.default", X, [-5, 3], 0.0),
    "an output padding without a stride": image(
        "convolution.default",
        *(ONE, {"parameter": "k"}, None, [1, 1], [0, 0], [1, 1], True, [1, 1], 1),
        k=parameter(shape=(3, 4, 3, 3)),
    ),
    "a number that float32 does not hold": only("constant_pad_nd.default", X, [1, 1], 1e300),
    "negative powers of integers": text_of(
        [
            call("_to_copy.default", X, dtype={"dtype": "int64"}),
            call("pow.Tensor_Scalar", of(0), -1),
        ]
    ),
    "a sum without dimensions": only("sum.dim_IntList", X),
    "a norm of an order without bound": only("linalg_vector_norm.default", X, 3e38),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits_is_accepted(name):
    assert checked(FITTING[name]).output.shape[0] == 1


@pytest.mark.parametrize("name", MISFITS)
def test_what_only_pytorch_lets_pass_is_refused_in_words(name):
    with pytest.raises(NetworkError, match=r"Operation \d+ \(aten\..*\): Expected ") as refused:
        checked(MISFITS[name])
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def test_places_out_of_range_are_the_nearest_ones():
    graph = parsed(
        text_of(
            [call("mul.Tensor", X, W), call("index.Tensor", of(0), [None, C])],
            parameters={
                "w": parameter(shape=(1, 4)),
                "c": parameter("int64", [6], trainable=False),
            },
        )
    )
    arrays = {"w": np.ones((1, 4), np.float32), "c": np.array([-9, -4, -1, 0, 3, 1 << 52])}
    found = Network(graph, arrays).run(np.arange(4.0, dtype=np.float32)[None])
    assert found.tolist() == [[0, 0, 3, 0, 3, 3]]


def test_one_place_of_a_vector_is_a_number():
    graph = parsed(
        text_of(
            [call("index.Tensor", W, [C]), call("mul.Tensor", X, of(0))],
            parameters={
                "w": parameter(shape=[4]),
                "c": parameter("int64", [], trainable=False),
            },
        )
    )
    arrays = {"w": np.arange(4, dtype=np.float32), "c": np.array(-2)}
    found = Network(graph, arrays).run(np.ones((1, 4), np.float32))
    assert found.tolist() == [[2, 2, 2, 2]]


def test_a_norm_takes_values_in_any_layout():
    """The kernel for groups fails where numbers do not lie behind each other."""
    graph = parsed(
        text_of(
            [
                call("mul.Tensor", X, W),
                call("split_with_sizes.default", of(0), [6, 2], 3),
                call("native_group_norm.default", of(1, part=0), A, B, 1, 3, 48, 3, 1e-5),
            ],
            of(2, part=0),
            record={"dtype": "float32", "shape": [3, 8, 8]},
            parameters={"w": parameter(shape=(1, 3, 8, 8)), **_THREE},
        )
    )
    rng = np.random.default_rng(0)
    arrays = {k: np.ones(t.shape, np.float32) for k, t in graph.parameters.items()}
    rows = rng.normal(size=(2, 3, 8, 8)).astype(np.float32)
    expected = (
        torch.nn.functional.group_norm(torch.from_numpy(rows[..., :6].copy()), 3) + 1
    )  # the bias
    np.testing.assert_allclose(Network(graph, arrays).run(rows), expected, rtol=1e-5, atol=1e-5)


def test_a_norm_takes_records_in_any_layout():
    """Each record's value lies as it should; those of all do not lie behind each other."""
    graph = parsed(
        text_of(
            [
                call("mul.Tensor", X, W),
                call("select.int", of(0), 2, 1),
                call("native_group_norm.default", of(1), ALONE, ALONE, 1, 1, 1, 1, 1e-5),
                call("add.Tensor", of(2, part=0), of(1)),
            ],
            record={"dtype": "float32", "shape": [1, 6]},
            parameters={"w": parameter(shape=(1, 1, 6)), "alone": parameter(shape=[1])},
        )
    )
    arrays = {k: np.ones(t.shape, np.float32) for k, t in graph.parameters.items()}
    rows = torch.arange(18.0).reshape(3, 1, 6)
    network = Network(graph, arrays)
    found, _ = gradients(network, rows, torch.zeros(3), np.arange(3), 4)
    # The output is 1 + x w, as a single number is normed to 0.
    expected = 2 * (1 + rows[:, 0, 1]) * rows[:, 0, 1]
    torch.testing.assert_close(found["w"][:3, 0, 0, 1], expected)


def test_products_count_twice_what_they_multiply():
    assert checked(after()).flops == 2 * 4 * 3
    assert checked(convolution((5, 2, 3, 3))).flops == 2 * (5 * 62 * 62) * (2 * 3 * 3)


def test_slow_functions_count_what_they_cost():
    """exp(-100) takes a thousand times as long as a sum, in some layouts of a server's choice."""
    costs = {name: checked(only(f"{name}.default", X)).flops for name in ("relu", "exp", "log")}
    assert costs == {"relu": 8, "exp": 2500 * 8, "log": 350 * 8}
    long = text_of([call("expand.default", X, [1 << 18, 4]), *[call("exp.default", of(0))] * 20])
    with pytest.raises(NetworkError, match="floating-point operations"):
        checked(long)


LONG = {
    "parts": ([call("split_with_sizes.default", X, [1] * 256, 1)] * 6_900, of(0, part=0), 256),
    "joints": ([call("cat.default", [X] * 256, 1)] * 1_240, of(0), 4),
    "operations": ([call("add.Tensor", X, ONE if i else X) for i in range(20_000)], of(0), 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_a_check_of_a_long_text_is_quick(kind):
    """Of 4 MiB of lists, or as many operations as there may be: 1 to 3 s of a core."""
    operations, output, width = LONG[kind]
    text = text_of(operations, output, record={"dtype": "float32", "shape": [width]})
    text = json.dumps(json.loads(text), separators=(",", ":"))
    assert len(text) > 3_900_000 or len(operations) == Limits().operations
    start = time.process_time()
    measure(parsed(text), Limits())
    assert time.process_time() - start < 15
