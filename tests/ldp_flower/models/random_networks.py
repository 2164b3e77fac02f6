"""Random networks: for each operation arguments that fit, and such with something wrong in them."""

import math
from dataclasses import replace

import numpy as np

from ldp_flower.models.arguments import Held
from ldp_flower.models.checking import Shapes
from ldp_flower.models.graph import (
    CLASS_LOSSES,
    LOSSES,
    RECORD,
    Dtype,
    Graph,
    Limits,
    NetworkError,
    Operation,
    Reference,
    Tensor,
)
from ldp_flower.models.network import Network
from ldp_flower.models.operations import OPERATIONS

# Operations with several results.
SEVERAL = ("aten.max_pool", "aten.adaptive_max", "aten.native_", "aten._native", "aten.split")
MOST = 600  # numbers in one value
RECORDS = [(6,), (4, 6), (5,), (2, 5, 6), (4, 4, 4), (3, 7), (2, 3, 4, 4), (1, 8, 8)]
UNARY = "relu sigmoid tanh exp log log1p sqrt rsqrt reciprocal erf sin cos".split()
UNARY += "abs neg gelu sign floor".split()
ARITHMETIC = [
    f"{name}.{of}" for name in ("add", "sub", "mul", "div") for of in ("Tensor", "Scalar")
]
COMPARED = [f"{name}.{of}" for name in "eq ne lt le gt ge".split() for of in ("Tensor", "Scalar")]


class Growing:
    """A graph that operations are added to, as long as they are accepted."""

    def __init__(self, rng):
        self.rng = rng
        shape = RECORDS[rng.integers(len(RECORDS))]
        self.record = Tensor("int64" if rng.random() < 0.2 else "float32", shape)
        self.parameters, self.operations = {}, []
        self.shapes = Shapes(self.record, self.parameters, Limits(tensor=MOST))
        self.values = [RECORD]
        self.refused = 0
        if self.record.dtype == "float32":
            self.add("mul.Tensor", RECORD, self.parameter(self.record.shape, trainable=True))
        else:
            self.add("embedding", self.parameter((5, 3), trainable=True), RECORD)

    # ------------------------------------------------------------------- chance

    def whole(self, least, most):
        return int(self.rng.integers(least, most + 1))

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def maybe(self, share=0.5):
        return bool(self.rng.random() < share)

    def real(self):
        return self.one([0, 1, -1, 2, 0.5, -1.5, 3.25, float(self.rng.normal())])

    # ------------------------------------------------------------------- values

    def parameter(self, shape, dtype="float32", trainable=None):
        trainable = self.maybe() if trainable is None else trainable
        name = f"p{len(self.parameters)}"
        tensor = Tensor(dtype, tuple(shape), trainable and "float" in dtype)
        self.parameters[name] = tensor
        self.shapes._known[Reference(name)] = Held(tensor, False)  # the graph still grows
        return Reference(name)

    def learnt(self, shape, dtype="float32"):
        """Return what depends on parameters alone, in some layout."""
        kind, shape = self.whole(0, 6), tuple(shape)
        if kind == 0:
            return self.add("select.int", self.parameter((*shape, 2), dtype), -1, self.whole(0, 1))
        if kind == 1:
            turned = self.parameter(shape[::-1], dtype)
            return self.add("permute", turned, tuple(range(len(shape)))[::-1])
        if kind == 2:
            return self.add("expand", self.parameter([1] * len(shape), dtype), shape)
        return self.parameter(shape, dtype)

    def of(self, reference):
        return self.shapes.find(reference).tensor

    def any(self, *dtypes, dims=range(9)):
        """Return a value of some type, of the latest mostly; ValueError if there is none."""
        fit = [
            each
            for each in self.values
            if (not dtypes or self.of(each).dtype in dtypes) and len(self.of(each).shape) in dims
        ]
        return self.one(fit[-4:] if self.maybe(0.8) else fit)

    def like(self, reference):
        """Return something that is broadcast with a value."""
        tensor = self.of(reference)
        same = [each for each in self.values if self.of(each) == replace(tensor, trainable=False)]
        if self.maybe(0.3) and same:
            return self.one(same)
        shape = [1 if self.maybe(0.3) else size for size in tensor.shape]
        shape = shape[self.whole(0, len(shape)) :] if self.maybe(0.3) else shape
        return self.parameter(shape, tensor.dtype)

    def dim(self, reference):
        dims = len(self.of(reference).shape)
        return self.whole(-dims, dims - 1)

    def dims(self, reference):
        dims = list(range(len(self.of(reference).shape)))
        return tuple(
            int(d) - (len(dims) if self.maybe(0.3) else 0)
            for d in self.rng.permutation(dims)[: self.whole(0, len(dims))]
        )

    def add(self, name, *arguments, **keywords):
        """Add an operation; NetworkError if it is refused."""
        name = name if name.startswith("aten.") else f"aten.{name}"
        name = name if name in OPERATIONS else f"{name}.default"
        operation = Operation(name, arguments, keywords)
        number, row = len(self.operations), OPERATIONS[name]
        results, *_ = self.shapes.add(operation)
        self.operations.append(operation)
        parts = range(min(row.usable, len(results))) if name.startswith(SEVERAL) else [None]
        self.values += [Reference(number, part) for part in parts]
        return self.values[-1]

    def network(self):
        """Return it as a network that learns from all of its values."""
        floats = [
            self.add("view", self.add("_to_copy", each, dtype=Dtype("float32")), (1, -1))
            for each in self.values[1:]
            if self.shapes.find(each).of_record and self.of(each).size <= MOST // 2
        ]
        self.shapes._limits = Limits(tensor=1 << 20)
        output = self.add("cat", tuple(floats), 1)
        if self.maybe(0.3):  # one number, as users' targets are
            output = self.add("sum.dim_IntList", output, (1,), True)
        loss = self.one([each for each in LOSSES if each not in CLASS_LOSSES or self.maybe()])
        if loss in CLASS_LOSSES and self.of(output).size < 2:
            loss = "mse"
        weighted = loss in CLASS_LOSSES and self.of(output).size <= 256 and self.maybe()
        weights = (0.5,) * (self.of(output).size * weighted)
        values = dict(self.parameters), tuple(self.operations)
        graph = Graph(self.record, *values, output, loss, weights)
        arrays = {name: self.array(tensor) for name, tensor in self.parameters.items()}
        return Network(graph, arrays)

    def array(self, tensor):
        if tensor.dtype == "bool":
            return self.rng.random(tensor.shape) < 0.5
        numbers = self.rng.normal(size=tensor.shape) * self.one([1, 1, 1, 30])
        return np.asarray(np.abs(numbers) + 0.1 if self.maybe() else numbers, tensor.dtype)


NUMBERS = "float32", "float64", "int64"
FLOATS = "float32", "float64"


def fitting(g, name):
    """Return arguments that fit, mostly; IndexError if the graph has no value for them."""
    short = name.removesuffix(".default").removeprefix("aten.")
    if short in UNARY:
        return (g.any(*(FLOATS if short == "gelu" else NUMBERS)),), (
            {"approximate": "tanh"} if short == "gelu" and g.maybe() else {}
        )
    if short in (*ARITHMETIC, *COMPARED):
        x = g.any() if short[:3] not in ("sub", "div") else g.any(*NUMBERS)
        other = g.real() if short.endswith("Scalar") or g.maybe(0.2) else g.like(x)
        return ((other, x) if short.endswith("Tensor") and g.maybe(0.3) else (x, other)), {}
    return _FITTING[short](g)


def _x(rule, *dtypes, dims=range(9)):
    def made(g):
        x = g.any(*dtypes, dims=dims)
        found = rule(g, x, g.of(x).shape)
        return found if isinstance(found[-1], dict) else (found, {})

    return made


def _factors(g, size):
    found = []
    while size > 1 and len(found) < 4:
        factor = g.one([f for f in range(1, size + 1) if size % f == 0])
        found.append(factor)
        size //= factor
    found.append(size)
    if g.maybe(0.4):
        found[g.whole(0, len(found) - 1)] = -1
    return tuple(found)


def _parts(g, size):
    found = []
    while size:
        found.append(g.whole(1, size))
        size -= found[-1]
    return tuple(found)


def _expand(g, x, shape):
    sizes = [g.one([s, -1]) if s > 1 else g.whole(1, 3) for s in shape]
    return x, (*[g.whole(1, 2)] * g.whole(0, 1), *sizes)


def _window(g, x, shape):
    kernel = tuple(g.whole(1, 3) for _ in shape[2:])
    stride = g.one([(), kernel, (1,) * len(kernel), tuple(g.whole(1, 4) for _ in kernel)])
    return x, kernel, stride, tuple(g.whole(0, k // 2) for k in kernel)


def _max_pool(g, x, shape):
    return (*_window(g, x, shape), (1,) * (len(shape) - 2), g.maybe())


def _mean_pool(g, x, shape):
    more = (g.maybe(), g.maybe(), g.one([None, 3]))
    return (*_window(g, x, shape), *more[: g.whole(0, 3)])


def _covering_pool(g, x, shape):
    return x, tuple(g.whole(1, 7) for _ in shape[2:])


def _scaled(g, shape, dtype, apart=True):
    both = g.learnt(shape, dtype), g.learnt(shape, dtype)
    alone = [(both[0], None), (None, both[1])] if apart else []
    return g.one([both, (None, None), *alone])


def _index(g, x, shape):
    first = g.whole(0, len(shape) - 1)
    along = shape[first : first + g.whole(1, 3)]
    sizes = [g.whole(1, 3) for _ in along]
    places = []
    for at, size in enumerate(along):
        numbers = g.add("arange.start_step", start := g.whole(-size - 1, 1), start + sizes[at])
        places.append(g.add("view", numbers, (sizes[at], *[1] * (len(along) - at - 1))))
    return x, (*[None] * first, *places)


def _layer_norm(g, x, shape):
    last = shape[len(shape) - g.whole(1, len(shape)) :]
    return (x, last, *_scaled(g, last, g.of(x).dtype), g.one([1e-5, 0.0]))


def _group_norm(g, x, shape):
    groups = g.one([f for f in range(1, shape[1] + 1) if shape[1] % f == 0])
    weights = _scaled(g, shape[1:2], g.of(x).dtype, apart=False)
    return (x, *weights, shape[0], shape[1], math.prod(shape[2:]), groups, g.one([1e-5, 0.0]))


def _batch_norm(g, x, shape):
    every = [g.learnt(shape[1:2], g.of(x).dtype) for _ in range(2)]
    return (x, *_scaled(g, shape[1:2], g.of(x).dtype), *every, 0.1, g.one([1e-5, 0.0]))


def _convolution(g, x, shape):
    dims, into = len(shape) - 2, shape[1]
    groups = g.one([f for f in range(1, into + 1) if into % f == 0])
    each, transposed = g.whole(1, 2), g.maybe(0.3)
    size = tuple(g.whole(1, 3) for _ in range(dims))
    weight = (into, each, *size) if transposed else (each * groups, into // groups, *size)
    stride, dilation = ([g.whole(1, 2) for _ in range(dims)] for _ in range(2))
    most = [max(each) - 1 for each in zip(stride, dilation, strict=True)]
    room = [g.whole(0, each) if transposed else 0 for each in most]
    dtype = g.of(x).dtype
    bias = g.one([None, g.learnt((each * groups,), dtype)])
    padding = tuple(g.whole(0, 2) for _ in range(dims))
    lists = tuple(stride), padding, tuple(dilation), transposed, tuple(room), groups
    return (x, g.learnt(weight, dtype), bias, *lists)


def _product(g, x, shape, more=()):
    turned = [v for v in g.values if g.of(v).shape == (*shape[:-2], shape[-1], shape[-2])]
    same = [v for v in turned if g.of(v).dtype == g.of(x).dtype]
    weight = g.learnt((*shape[:-2], shape[-1], g.whole(1, 4)), g.of(x).dtype)
    return x, g.one(same) if same and g.maybe() else weight


def _addmm(g, x, shape):
    x, other = _product(g, x, shape)
    out = (shape[0], g.of(other).shape[1])
    bias = [out, out[1:], (1, out[1]), (out[0], 1), ()]
    return g.parameter(g.one(bias), g.of(x).dtype), x, other


def _resized(g, corners):
    size = (g.whole(1, 9), g.whole(1, 9))
    scales = tuple(g.one([0.5, 1.0, 2.0, 1.7, 3]) for _ in range(2))
    return (size, *corners, None) if g.maybe() else (None, *corners, scales)


def _counted(g):
    start, step = g.whole(-3, 3), g.one([1, 2, -1, 0.5, -0.3])
    end = start + step * g.whole(1, 6)
    dtype = {"dtype": Dtype(g.one(["float32", "float64"]))} if g.maybe() else {}
    return (start, end, step), dtype


def _typed(g, *dtypes):
    return {"dtype": Dtype(g.one(dtypes))} if g.maybe() else {}


ALL = (*NUMBERS, "bool")
_FITTING = {
    "view": _x(lambda g, x, s: (x, _factors(g, math.prod(s)))),
    "unsqueeze": _x(lambda g, x, s: (x, g.whole(-len(s) - 1, len(s))), dims=range(7)),
    "expand": _x(_expand, dims=range(6)),
    "clone": _x(lambda g, x, s: (x,)),
    "permute": _x(
        lambda g, x, s: (x, tuple(int(d) - g.one([0, len(s)]) for d in g.rng.permutation(len(s))))
    ),
    "squeeze.dims": _x(lambda g, x, s: (x, g.dims(x))),
    "slice.Tensor": _x(
        lambda g, x, s: (
            *(x, d := g.dim(x), g.one([None, g.whole(-s[d] - 1, s[d])])),
            *(g.one([None, g.whole(-s[d], s[d] + 2)]), g.whole(1, 2)),
        ),
        dims=range(1, 9),
    ),
    "select.int": _x(
        lambda g, x, s: (x, d := g.dim(x), g.whole(-s[d], s[d] - 1)), dims=range(1, 9)
    ),
    "index.Tensor": _x(_index, dims=range(1, 7)),
    "cat": _x(
        lambda g, x, s: (
            tuple(g.one([x, g.parameter(s, g.of(x).dtype)]) for _ in range(g.whole(1, 3))),
            g.dim(x),
        ),
        dims=range(1, 9),
    ),
    "flip": _x(lambda g, x, s: (x, g.dims(x))),
    "repeat": _x(
        lambda g, x, s: (x, tuple(g.whole(1, 2) for _ in range(len(s) + g.whole(0, 1)))),
        dims=range(5),
    ),
    "split_with_sizes": _x(lambda g, x, s: (x, _parts(g, s[d := g.dim(x)]), d), dims=range(1, 9)),
    "constant_pad_nd": _x(
        lambda g, x, s: (
            x,
            tuple(g.whole(-1, 2) for _ in range(2 * g.whole(0, len(s)))),
            g.real() if g.of(x).dtype != "int64" else g.whole(-2, 2),
        ),
        *NUMBERS,
    ),
    "leaky_relu": _x(lambda g, x, s: (x, *[g.real()][: g.whole(0, 1)]), *FLOATS),
    "elu": _x(lambda g, x, s: (x, *[g.real() for _ in range(g.whole(0, 3))]), *FLOATS),
    "hardtanh": _x(lambda g, x, s: (x, *sorted([g.real(), g.real()])), *FLOATS),
    "clamp": _x(lambda g, x, s: (x, g.one([None, g.real()]), g.real()), *NUMBERS),
    "pow.Tensor_Scalar": _x(
        lambda g, x, s: (x, g.one([0, 1, 2, 3, -1, -2, 0.5, 1.5, -0.7, 300])), *NUMBERS
    ),
    "logical_not": _x(lambda g, x, s: (x,)),
    **{
        name: _x(lambda g, x, s: (x, g.like(x)), *dtypes)
        for name, dtypes in {
            "logical_and": ALL,
            "logical_or": ALL,
            "minimum": NUMBERS,
            "maximum": NUMBERS,
        }.items()
    },
    "where.self": lambda g: (
        (c := g.any("bool"), g.parameter(g.of(c).shape), g.parameter(g.of(c).shape[1:])),
        {},
    ),
    "_to_copy": _x(lambda g, x, s: ((x,), {"dtype": Dtype(g.one(ALL))})),
    "sum.dim_IntList": _x(lambda g, x, s: ((x, g.dims(x), g.maybe()), _typed(g, *FLOATS))),
    "mean.dim": _x(lambda g, x, s: ((x, g.dims(x), g.maybe()), _typed(g, *FLOATS)), *FLOATS),
    "amax": _x(lambda g, x, s: (x, g.dims(x), g.maybe()), *NUMBERS),
    "amin": _x(lambda g, x, s: (x, g.dims(x), g.maybe()), *NUMBERS),
    "var.correction": _x(
        lambda g, x, s: ((x, g.dims(x)), {"correction": g.one([0, 1, 0.5]), "keepdim": g.maybe()}),
        *FLOATS,
    ),
    "linalg_vector_norm": _x(
        lambda g, x, s: (x, g.one([0, 1, 2, 2.0, 3, 0.5, 7.3]), g.dims(x), g.maybe()), *FLOATS
    ),
    "any.dim": _x(lambda g, x, s: (x, g.dim(x), g.maybe()), dims=range(1, 9)),
    "cumsum": _x(lambda g, x, s: ((x, g.dim(x)), _typed(g, *FLOATS)), *NUMBERS, dims=range(1, 9)),
    "_softmax": _x(lambda g, x, s: (x, g.dim(x), False), *FLOATS, dims=range(1, 9)),
    "_log_softmax": _x(lambda g, x, s: (x, g.dim(x), False), *FLOATS, dims=range(1, 9)),
    "native_layer_norm": _x(_layer_norm, *FLOATS, dims=range(1, 9)),
    "native_group_norm": _x(_group_norm, *FLOATS, dims=range(2, 9)),
    "_native_batch_norm_legit_no_training": _x(_batch_norm, *FLOATS, dims=range(2, 9)),
    **{
        name.format(dims): _x(made, *FLOATS, dims=[dims + 2])
        for dims in (2, 3)
        for name, made in {
            "max_pool{}d_with_indices": _max_pool,
            "avg_pool{}d": _mean_pool,
            "_adaptive_avg_pool{}d": _covering_pool,
            "adaptive_max_pool{}d": _covering_pool,
        }.items()
    },
    "upsample_nearest2d.vec": _x(lambda g, x, s: (x, *_resized(g, ())), *FLOATS, dims=[4]),
    "upsample_bilinear2d.vec": _x(
        lambda g, x, s: (x, *_resized(g, (g.maybe(),))), *FLOATS, dims=[4]
    ),
    "embedding": lambda g: (
        (g.learnt((g.whole(1, 5), g.whole(1, 3))), g.any("int64"), g.one([-1, 0])),
        {},
    ),
    "mm": _x(_product, *FLOATS, dims=[2]),
    "bmm": _x(_product, *FLOATS, dims=[3]),
    "addmm": _x(_addmm, *FLOATS, dims=[2]),
    "convolution": _x(_convolution, *FLOATS, dims=[3, 4, 5]),
    "full": lambda g: (
        ((g.whole(1, 3),) * g.whole(0, 3), g.one([1, True, 0.5])),
        _typed(g, *FLOATS),
    ),
    "full_like": _x(lambda g, x, s: (x, g.whole(-2, 2))),
    "scalar_tensor": lambda g: ((g.real(),), _typed(g, *FLOATS)),
    "arange.start_step": _counted,
}

_JUNK = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 1 << 20, -(1 << 40), 1.5, -2.5, 1e-30, 3e38, "tanh"),
    *((), (0,), (1,), (2,), (-1,), (1, 1), (2, 2), (3, 3), (0, 1), (1, 2, 3), (9, 9), (0.5, 2.5)),
    *(Dtype("int64"), Dtype("float64"), Dtype("bool"), Dtype("float32")),
]


def _moved(g, value):
    """Return another argument instead of one: anything, or one that is nearly the same."""
    if g.maybe(0.25):
        return g.one(_JUNK)
    if g.maybe(0.25):
        return g.one(g.values)  # of a record, in any place
    if isinstance(value, Reference):
        tensor = g.of(value)
        shape = list(tensor.shape)
        at = g.whole(0, len(shape))
        if g.maybe(0.2) or at == len(shape):
            shape = g.one([[], [1], [*shape, 1], [1, *shape], shape[1:], shape[:-1]])
        else:
            shape[at] = g.one([1, max(1, shape[at] - 1), shape[at] + 1])
        dtype = g.one(ALL) if g.maybe(0.2) else tensor.dtype
        return g.parameter(shape, dtype)
    if isinstance(value, tuple) and value:
        at = g.whole(0, len(value) - 1)
        if g.maybe(0.3):
            return value[:at] + value[at + 1 :]
        return (*value[:at], _moved(g, value[at]), *value[at + g.whole(0, 1) :])
    if type(value) is bool:
        return not value
    if isinstance(value, int | float):
        return value + g.one([1, -1, 2, -3, 0.5]) if g.maybe() else -value
    return g.one(_JUNK)


def misfit(g, arguments, keywords):
    """Return arguments with something in them that is another."""
    arguments, keywords = list(arguments), dict(keywords)
    kind = g.whole(0, 9)
    if kind == 0 and arguments:
        arguments.pop()
    elif kind == 1:
        arguments.append(g.one(_JUNK))
    elif kind == 2:
        keywords[g.one(["dtype", "keepdim", "alpha", "out", "correction"])] = g.one(_JUNK)
    elif keywords and g.maybe(0.3):
        name = g.one(list(keywords))
        keywords[name] = _moved(g, keywords[name])
    elif arguments:
        at = g.whole(0, len(arguments) - 1)
        arguments[at] = _moved(g, arguments[at])
    return tuple(arguments), keywords


def random_network(seed, tried):
    """Return a network, and count in ``tried`` what was accepted and refused, by operation."""
    g = Growing(np.random.default_rng(seed))
    names = list(OPERATIONS)
    wanted = len(g.operations) + g.whole(1, 6)
    for _ in range(200):
        if len(g.operations) >= wanted:
            break
        name = g.one(names)
        try:
            arguments, keywords = fitting(g, name)
        except (IndexError, ValueError):  # no value of the type that it takes
            continue
        odd = g.maybe(0.6)
        if odd:
            arguments, keywords = misfit(g, arguments, keywords)
        try:
            g.add(name, *arguments, **keywords)
            tried[name, "misfit" if odd else "fit", "accepted"] += 1
        except NetworkError:
            tried[name, "misfit" if odd else "fit", "refused"] += 1
    return g.network()
