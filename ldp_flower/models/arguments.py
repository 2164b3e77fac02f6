"""Kinds of arguments of operations: type, range, and whether they may depend on the record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .graph import DTYPES, FLOATS, MAX_DIMS, MAX_INTEGER, Dtype, Tensor, need, nested

LARGEST: Final = 3.4028234663852886e38  # largest float32; PyTorch refuses larger ones in a run
MAX_WINDOW: Final = 1024  # largest kernel, stride, padding or scale
_REQUIRED: Final = object()


@dataclass(frozen=True)
class Held:
    """Value of a graph while the graph is checked: its type and shape, and where it comes from.

    ``of_record`` is True if the value depends on the record. Kernels that trust their parameters
    must not get such a value.
    """

    tensor: Tensor
    of_record: bool


@dataclass(frozen=True)
class Kind:
    """Kind of one argument of an operation.

    ``holds`` tests a value, and ``words`` describes the values for which it is true. An argument
    without a ``default`` is required. A ``named`` argument is given by its name, and all others
    by position, as in PyTorch.
    """

    words: str
    holds: Callable[[Any], bool]
    default: Any = _REQUIRED
    named: bool = False

    @property
    def required(self) -> bool:
        """True if the argument is required."""
        return self.default is _REQUIRED

    def or_null(self) -> "Kind":
        """Return a kind that also accepts null."""
        holds = self.holds
        return replace(self, words=f"{self.words} or null", holds=lambda v: v is None or holds(v))

    def or_none(self) -> "Kind":
        """Return a kind that also accepts an empty list."""
        holds = self.holds
        return replace(self, words=f"{self.words} or none", holds=lambda v: v == () or holds(v))

    def or_else(self, default: Any) -> "Kind":
        """Return a kind of optional arguments with this default; a default of None accepts null."""
        return replace(self.or_null() if default is None else self, default=default)

    def by_name(self) -> "Kind":
        """Return a kind whose argument is given by its name."""
        return replace(self, named=True)


def bound(
    takes: Mapping[str, Kind], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an operation's arguments by name, with defaults for those that are not given.

    ``takes`` has the kinds of the arguments by name. Values of the graph are given as
    :class:`Held`, and returned as :class:`Tensor`. Raises NetworkError if an argument is missing,
    unknown or of the wrong kind.
    """
    places = [name for name, kind in takes.items() if not kind.named]
    need(len(arguments) <= len(places), f"at most {len(places)} arguments, got {len(arguments)}")
    for name in keywords:
        need(name in takes and takes[name].named, f"no keyword {name[:40]!a}")
    given = {**dict(zip(places, arguments, strict=False)), **keywords}
    found = {}
    for name, kind in takes.items():
        need(name in given or not kind.required, f"{name}, {kind.words}, got none")
        if name in given:
            need(kind.holds(given[name]), f"{name} to be {kind.words}")
        found[name] = nested(_bare, given.get(name, kind.default))
    return found


def _bare(value: Any) -> Any:
    return value.tensor if isinstance(value, Held) else value


def _tensor(words: str, *dtypes: str) -> Kind:
    return Kind(words, lambda value: isinstance(value, Held) and value.tensor.dtype in dtypes)


def _list(words: str, lengths: range, each: Callable[[Any], bool]) -> Kind:
    """Return the kind of lists of one of these lengths, of entries for which ``each`` is true."""
    return Kind(words, lambda v: isinstance(v, tuple) and len(v) in lengths and all(map(each, v)))


def _integers(words: str, least: int, most: int, lengths: range) -> Kind:
    return _list(words, lengths, whole(least, most).holds)


def sizes(dims: int, least: int = 1, most: int = MAX_WINDOW) -> Kind:
    """Return the kind of arguments that are lists of sizes: one for each of ``dims`` dimensions."""
    return _integers(f"{dims} sizes of {least} to {most}", least, most, range(dims, dims + 1))


def whole(least: int, most: int) -> Kind:
    """Return the kind of arguments that are integers within bounds."""
    return Kind(f"an integer of {least} to {most}", lambda v: type(v) is int and least <= v <= most)


def real(least: float, most: float) -> Kind:
    """Return the kind of arguments that are numbers within bounds."""
    return Kind(
        f"a number of {least:g} to {most:g}",
        lambda value: type(value) in (int, float) and least <= value <= most,
    )


ANY: Final = _tensor("a tensor", *DTYPES)
NUMBERS: Final = _tensor("a tensor of numbers", *FLOATS, "int64")
FLOAT: Final = _tensor("a tensor of floats", *FLOATS)
INTEGERS: Final = _tensor("a tensor of integers", "int64")
BOOLS: Final = _tensor("a tensor of truths", "bool")
#: Kind for kernels that expect learned parameters, and must not get values that depend on a record.
PARAMETER: Final = Kind(
    "floats that depend on parameters alone",
    lambda value: FLOAT.holds(value) and not value.of_record,
)
TENSORS: Final = _list("a list of tensors", range(1, MAX_INTEGER), ANY.holds)

#: Indices along dimensions; null stands for a whole dimension.
PLACES: Final = _list(
    "a list of null and integers that depend on parameters alone",
    range(MAX_INTEGER),
    lambda value: value is None or (INTEGERS.holds(value) and not value.of_record),
)

SCALAR: Final = real(-LARGEST, LARGEST)
VALUE: Final = Kind("a number or a truth", lambda v: isinstance(v, bool) or SCALAR.holds(v))
#: A number may stand for a tensor.
OPERAND: Final = Kind("a tensor or a number", lambda v: ANY.holds(v) or SCALAR.holds(v))
NUMERIC: Final = Kind(
    "a tensor of numbers or a number", lambda v: NUMBERS.holds(v) or SCALAR.holds(v)
)
POSITION: Final = whole(-MAX_INTEGER, MAX_INTEGER)
COUNT: Final = whole(1, MAX_INTEGER)
DIM: Final = whole(-MAX_DIMS, MAX_DIMS)
FLAG: Final = Kind("true or false", lambda value: isinstance(value, bool))
FALSE: Final = Kind("false", lambda value: value is False)
EPS: Final = real(0, 1)
WEIGHT: Final = real(0, LARGEST)
DTYPE: Final = Kind("a type", lambda value: isinstance(value, Dtype))
FLOAT_TYPE: Final = Kind("a type of floats", lambda v: isinstance(v, Dtype) and v.name in FLOATS)
GELU: Final = Kind("none or tanh", lambda value: value in ("none", "tanh"))

DIMS: Final = _integers("a list of dimensions", -MAX_DIMS, MAX_DIMS, range(MAX_DIMS + 1))
SIZES: Final = _integers("a list of sizes above 0", 1, MAX_INTEGER, range(MAX_DIMS + 1))
OPEN_SIZES: Final = _integers("a list of sizes", -1, MAX_INTEGER, range(MAX_DIMS + 1))
PADS: Final = _integers(
    "an even list of pads", -MAX_INTEGER, MAX_INTEGER, range(0, 2 * MAX_DIMS + 1, 2)
)
PARTS: Final = _integers("a list of sizes above 0", 1, MAX_INTEGER, range(1, 257))
WINDOW: Final = _integers("1 to 3 sizes", 1, MAX_WINDOW, range(1, 4))
PADDING: Final = _integers("1 to 3 sizes", 0, MAX_WINDOW, range(1, 4))
IMAGE: Final = sizes(2, most=MAX_INTEGER)
SCALES: Final = _list(
    f"two scales above 0, at most {MAX_WINDOW}",
    range(2, 3),
    lambda value: type(value) in (int, float) and 0 < value <= MAX_WINDOW,
)
