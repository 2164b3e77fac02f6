"""Networks that somebody made up to harm a node are refused in words, and cost nothing."""

import json
import tracemalloc

import numpy as np
import pytest

from ldp_flower.models import Graph, Limits, Network, NetworkError
from ldp_flower.models.parsing import parsed

X, W = {"record": 0}, {"parameter": "w"}


def of(number, **part):
    return {"operation": number, **part}


def text_of(operations, output=None, **changes):
    """Return the text of a network that would be fine, but for what is changed."""
    plain = {
        "format": "ldp-flower network 1",
        "loss": "mse",
        "record": {"dtype": "float32", "shape": [4]},
        "parameters": {"w": {"dtype": "float32", "shape": [4, 3], "trainable": True}},
        "operations": operations,
        "output": output or of(len(operations) - 1),
    }
    return json.dumps({**plain, **changes})


def parameter(dtype="float32", shape=(4, 3), trainable=True):
    return {"dtype": dtype, "shape": list(shape), "trainable": trainable}


MM = ["aten.mm.default", [X, W], {}]
GOOD = [MM]


def call(name, *arguments, **keywords):
    return [f"aten.{name}", list(arguments), keywords]


def only(name, *arguments, **keywords):
    return text_of([call(name, *arguments, **keywords)])


def after(*operations, **changes):
    """Return a network that computes something small first."""
    return text_of([MM, *operations], **changes)


ONE = of(0)
BIG = 1 << 40
IMAGE = {"record": {"dtype": "float32", "shape": [2, 64, 64]}}


def convolution(weight, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    return text_of(
        [call("convolution.default", X, W, None, stride, padding, dilation, False, [0, 0], groups)],
        parameters={"w": parameter(shape=weight)},
        **IMAGE,
    )


UNKNOWN = {
    f"operation {name}": only(name, X)
    for name in (
        *("rand_like.default", "bernoulli.p", "native_dropout.default", "nonzero.default"),
        *(
            "unique.default",
            "add_.Tensor",
            "copy_.default",
            "set_.source_Storage",
            "resize_.default",
        ),
        *("as_strided.default", "index_put.default", "masked_select.default"),
        *("item.default", "_local_scalar_dense.default", "from_file.default", "gather.default"),
        *("_native_batch_norm_legit_functional.default", "relu", "relu.default.default", ""),
        *("__class__.default", "svd.default", "linalg_inv.default", "empty.memory_format"),
    )
} | {
    "operation of another library": text_of([["torchvision.nms.default", [X], {}]]),
    "operation of Python": text_of([["os.system.default", ["id"], {}]]),
    "operation without a name": text_of([[None, [X], {}]]),
}
WIRE_TYPES = {
    "no text": None,
    "bytes": b"{}",
    "empty": "",
    "no JSON": "network",
    "no object": "[]",
    "too few fields": "{}",
    "one field more": text_of(GOOD, more=1),
    "another format": text_of(GOOD, format="ldp-flower network 2"),
    "another loss": text_of(GOOD, loss="import os"),
    "loss of another type": text_of(GOOD, loss=["mse"]),
    "weights of no classes": text_of(GOOD, class_weights=[1, 1, 1]),
    "weights that are no list": text_of(GOOD, loss="focal", class_weights={"a": 1}),
    "an infinite weight": text_of(GOOD, loss="focal", class_weights=[1, 7, 2]).replace(
        "7", "1e999"
    ),
    "deep nesting": "[" * 200_000 + "]" * 200_000,
    "deep nesting of objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deep arguments": text_of([call("cat.default", [[[X]]], 1)]),
    "operations are no list": text_of({"a": 1}),
    "an operation is no list": text_of(["aten.relu.default"]),
    "an operation has no arguments": text_of([["aten.relu.default"]]),
    "a million operations": text_of([call("relu.default", X)] * 1_000_000),
    "too many operations": text_of([call("neg.default", X)] * 20_001),
    "not ASCII": text_of(GOOD, loss="mse") + "\u2028",
    "one name twice": text_of(GOOD).replace('"parameters": {', '"parameters": {"w": {}, '),
    "one field twice": text_of(GOOD)[:-1] + ', "loss": "huber"}',
    "no parameters": text_of(GOOD, parameters={}),
    "nothing to train": text_of(GOOD, parameters={"w": parameter(trainable=False)}),
    "a parameter's name is a path": text_of(GOOD, parameters={"../w": parameter()}),
    "trainable is a number": text_of(GOOD, parameters={"w": parameter(trainable=1)}),
    "a trainable integer": text_of(GOOD, parameters={"w": parameter("int64")}),
    "a parameter of half precision": text_of(GOOD, parameters={"w": parameter("float16")}),
    "a parameter of objects": text_of(GOOD, parameters={"w": parameter("object")}),
    "a parameter of a list type": text_of(GOOD, parameters={"w": parameter(["float32"])}),
    "a record of complex numbers": text_of(GOOD, record={"dtype": "complex64", "shape": [4]}),
}
NUMBERS = {
    "NaN": text_of(GOOD).replace("[4, 3]", "[NaN, 3]"),
    "a constant NaN": only("add.Scalar", X, float("nan")),
    "a constant infinite": only("mul.Scalar", X, float("inf")),
    "a constant too large": only("mul.Scalar", X, 1.5).replace("1.5", "1e999"),
    "an integer too large": only("mul.Scalar", X, 1 << 70),
    "an integer of a million digits": only("mul.Scalar", X, 7).replace("7]", "7" * 1_000_000 + "]"),
    "a shape below zero": text_of(GOOD, parameters={"w": parameter(shape=(-4, -3))}),
    "a shape of zeros": text_of(GOOD, record={"dtype": "float32", "shape": [0]}),
    "a shape of floats": text_of(GOOD, parameters={"w": parameter(shape=(4.0, 3))}),
    "a shape of truths": text_of(GOOD, parameters={"w": parameter(shape=(True, 3))}),
    "a shape of many dimensions": text_of(GOOD, parameters={"w": parameter(shape=[1] * 1000)}),
    "a huge parameter": text_of(GOOD, parameters={"w": parameter(shape=(BIG, BIG))}),
    "many large parameters": text_of(
        GOOD, parameters={f"w{i}": parameter(shape=(1 << 20,)) for i in range(9)}
    ),
    "a huge record": text_of(GOOD, record={"dtype": "float32", "shape": [BIG]}),
}
REFERENCES = {
    "a cycle": text_of([call("add.Tensor", of(1), X), call("add.Tensor", of(0), X)]),
    "an operation on itself": text_of([call("add.Tensor", of(0), X)]),
    "an operation that is not there": after(call("relu.default", of(7))),
    "an operation before the first": after(call("relu.default", of(-1))),
    "a number of a truth": after(call("relu.default", of(True))),
    "a parameter that is not there": only("relu.default", {"parameter": "__class__"}),
    "a parameter's name is a list": only("relu.default", {"parameter": ["w"]}),
    "two records": only("relu.default", {"record": 1}),
    "a part of one result": after(call("relu.default", of(0, part=0))),
    "a part out of range": text_of(
        [call("split_with_sizes.default", X, [2, 2], 1), call("relu.default", of(0, part=9))]
    ),
    "all parts": text_of([call("split_with_sizes.default", X, [2, 2], 1)]),
    "indices of a pool": text_of(
        [call("max_pool2d_with_indices.default", X, [2, 2]), call("relu.default", of(0, part=1))],
        **IMAGE,
    ),
    "an output that is a number": text_of(GOOD, output=3),
    "an output that is not there": text_of(GOOD, output=of(4)),
    "a text as an argument": only("relu.default", "import os"),
    "an object as an argument": only("relu.default", {"file": "/etc/passwd"}),
}
SHAPES = {
    "shapes that do not fit": only("mm.default", W, W),
    "types that do not fit": only("embedding.default", W, X),
    "an argument too few": only("mm.default", X),
    "an argument too many": only("relu.default", X, X),
    "an unknown keyword": only("relu.default", X, out=X),
    "a device": only("full_like.default", X, 1, device="cuda"),
    "a type of its own": only("_to_copy.default", X, dtype={"dtype": "complex128"}),
    "a huge expansion": only("expand.default", X, [1 << 30, 4]),
    "an expansion beyond integers": only("expand.default", X, [1 << 52, 4]),
    "a huge constant": after(call("full.default", [1 << 20, 1 << 20], 1.0)),
    "a huge range": after(call("arange.start_step", 0, 1e15, 1)),
    "a range without an end": after(call("arange.start_step", 0, 1, 1e-15)),
    "a huge repetition": only("repeat.default", X, [1 << 20, 1 << 20]),
    "a huge pad": only("constant_pad_nd.default", X, [0, 1 << 50], 0.0),
    "nothing left": only("slice.Tensor", X, 1, 2, 2),
    "a negative pad": only("constant_pad_nd.default", X, [-3, -3], 0.0),
    "a place out of range": only("select.int", X, 1, 99),
    "a list without an end": text_of([call("cat.default", [X] * 1000, 1)]),
    "growing by doubling": text_of(
        [call("cat.default", [X if i == 0 else of(i - 1)] * 2, 1) for i in range(60)]
    ),
    "much that is small": text_of(
        [call("expand.default", X, [1 << 20, 4])] + [call("neg.default", of(0))] * 40
    ),
    "a large image": only("upsample_nearest2d.vec", X, [1 << 30, 1 << 30], None),
    "a scale without an end": text_of(
        [call("upsample_bilinear2d.vec", X, None, False, [1e9, 1e9])], **IMAGE
    ),
    "a dilation too large": convolution((2, 2, 3, 3), dilation=(1 << 40, 1)),
    "a padding too large": convolution((2, 2, 1, 1), (1 << 30, 1), (1 << 30, 1)),
    "a stride of zero": convolution((2, 2, 3, 3), (0, 0)),
    "groups of zero": convolution((2, 2, 3, 3), groups=0),
    "groups that do not fit": text_of(
        [call("native_group_norm.default", X, None, None, 1, 2, 4096, 0, 1e-5), MM], **IMAGE
    ),
    "groups of another image": text_of(
        [call("native_group_norm.default", X, None, None, 1, 2, 1 << 40, 1, 1e-5), MM], **IMAGE
    ),
    "too many operations on numbers": text_of(
        [call("bmm.default", X, X)] * 400, record={"dtype": "float32", "shape": [512, 512]}
    ),
    "gradients scaled by what is frequent": text_of(
        [
            call("_to_copy.default", X, dtype={"dtype": "int64"}),
            call("embedding.default", W, of(0), -1, True),
        ]
    ),
    "an output of integers": only("_to_copy.default", X, dtype={"dtype": "int64"}),
    "an output of many records": only("repeat.default", X, [2, 1]),
    "an output without classes": text_of(
        [call("sum.dim_IntList", X, [1], True)], loss="cross_entropy"
    ),
}
HOSTILE = {**UNKNOWN, **WIRE_TYPES, **NUMBERS, **REFERENCES, **SHAPES}


def test_there_are_many():
    assert len(HOSTILE) > 100


def checked(text):
    """Do what a node does before it loads data; parameters of the right shape are not missing."""
    graph = parsed(text)
    arrays = {name: np.ones(t.shape, t.dtype) for name, t in graph.parameters.items()}
    return Network(graph, arrays).check()


def test_what_is_changed_was_fine():
    assert checked(text_of(GOOD)).output.shape == (1, 3)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_networks_are_refused_in_words(name):
    with pytest.raises(NetworkError) as refused:
        checked(HOSTILE[name])
    words = str(refused.value)
    assert 20 < len(words) < 500 and words.isprintable()
    assert words.startswith(("Expected", "Operation"))


def test_a_long_text_is_not_read():
    """A text of 64 MiB takes no memory of its own: nothing of it is parsed."""
    text = text_of(GOOD) + " " * (1 << 26)
    tracemalloc.start()
    try:
        with pytest.raises(NetworkError, match="at most 4194304 ASCII characters"):
            parsed(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"w": np.ones((4, 3))},
        {"w": np.ones((3, 4), np.float32)},
        {"w": np.full((4, 3), np.nan, np.float32)},
        {"w": np.full((4, 3), np.inf, np.float32)},
        {"w": np.ones((4, 3), np.float32), "v": np.ones(1)},
        {"w": np.empty((4, 3), object)},
    ],
)
def test_parameters_that_do_not_fit_are_refused(arrays):
    with pytest.raises(NetworkError, match="Expected"):
        Network(parsed(text_of(GOOD)), arrays)


@pytest.mark.parametrize("limit", ["text_bytes", "operations", "parameters", "tensor"])
def test_limits_are_the_operators(limit):
    with pytest.raises(NetworkError):
        parsed(text_of([MM, call("relu.default", of(0))]), Limits(**{limit: 1}))
    with pytest.raises(ValueError, match="Expected an integer"):
        Limits(**{limit: 0})


@pytest.mark.parametrize("limit", ["intermediates", "flops"])
def test_limits_on_a_record_are_the_operators(limit):
    network = Network(parsed(text_of(GOOD)), {"w": np.ones((4, 3), np.float32)})
    with pytest.raises(NetworkError):
        network.check(Limits(**{limit: 1}))


def test_the_text_of_a_graph_is_that_graph():
    graph = parsed(text_of([MM, call("relu.default", of(0))]))
    assert isinstance(graph, Graph)
    assert parsed(graph.to_text()) == graph and parsed(graph.to_text()).to_text() == graph.to_text()
