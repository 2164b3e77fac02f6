"""Parser of the untrusted text of a network. It does not need PyTorch."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from .arguments import WEIGHT
from .graph import (
    DTYPES,
    FLOATS,
    FORMAT,
    LOSSES,
    MAX_DIMS,
    MAX_INTEGER,
    Dtype,
    Graph,
    Limits,
    NetworkError,
    Operation,
    Reference,
    Tensor,
    need,
)
from .operations import row_of

_NAME: Final = re.compile(r"[A-Za-z0-9_.]{1,256}")
_MAX_LIST = 256  # largest number of entries of one argument; a DenseNet joins some 60 tensors


def parsed(text: str, limits: Limits | None = None) -> Graph:
    """Return the graph in the untrusted text of a network.

    Raise NetworkError if the text does not describe a network within the limits.
    """
    limits = limits or Limits()
    need(isinstance(text, str), f"a text, got {type(text).__name__}")
    limits.require("text_bytes", len(text), "ASCII characters of text")
    need(text.isascii(), "a text of ASCII characters")
    try:
        plain = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except NetworkError:
        raise
    except RecursionError:
        raise NetworkError("Expected JSON of few levels, got deep nesting.") from None
    except ValueError:
        raise NetworkError("Expected the text of a network to be JSON.") from None
    keys = ("format", "loss", "record", "parameters", "operations", "output")
    weighted = isinstance(plain, dict) and "class_weights" in plain
    fields = _fields("network", plain, (*keys, "class_weights") if weighted else keys)
    need(fields["format"] == FORMAT, f"format {FORMAT!r}")
    loss = fields["loss"]
    need(loss in LOSSES, f"a loss in {list(LOSSES)}, got {_shown(loss)}")
    record = _tensor("record", fields["record"])
    limits.require("tensor", record.size, "numbers in a record")
    parameters = _parameters(fields["parameters"], limits)
    listed = fields["operations"]
    need(isinstance(listed, list), "a list of operations")
    limits.require("operations", len(listed), "operations")
    operations: list[Operation] = []
    for each in listed:
        try:
            operations.append(_operation(each, parameters, operations))
        except NetworkError as error:
            raise NetworkError(str(error), len(operations)) from None
    output = _value(fields["output"], parameters, operations)
    computed = isinstance(output, Reference)
    need(computed, "the output to be a value that the network computes")
    weights = _class_weights(fields["class_weights"]) if weighted else ()
    return Graph(record, parameters, tuple(operations), output, loss, weights)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    need(len(found) == len(pairs), "different names in one object, got a name twice")
    return found


def _no_constant(name: str) -> None:
    raise NetworkError(f"Expected finite numbers, got {name}.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}..."


def _text(plain: dict[str, Any], key: str) -> str:
    return plain[key] if isinstance(plain[key], str) else ""


def _fields(what: str, plain: object, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(plain, dict) or set(plain) != set(keys):
        raise NetworkError(f"Expected a {what} with {', '.join(keys)}.")
    return plain


def _tensor(what: str, plain: object, *more_keys: str) -> Tensor:
    fields = _fields(what, plain, ("dtype", "shape", *more_keys))
    dtype, shape, trainable = fields["dtype"], fields["shape"], fields.get("trainable", False)
    need(dtype in DTYPES, f"{what} of {', '.join(DTYPES)}, got {_shown(dtype)}")
    need(
        isinstance(shape, list)
        and len(shape) <= MAX_DIMS
        and all(type(each) is int and 0 < each <= MAX_INTEGER for each in shape),
        f"{what} of at most {MAX_DIMS} sizes above 0, got shape {_shown(shape)}",
    )
    need(type(trainable) is bool, f"trainable true or false of {what}")
    of_floats = dtype in FLOATS or not trainable
    need(of_floats, f"{what}, which is trained, of {' or '.join(FLOATS)}")
    return Tensor(dtype, tuple(shape), trainable)


def _parameters(plain: object, limits: Limits) -> dict[str, Tensor]:
    if not isinstance(plain, dict):
        raise NetworkError("Expected parameters by name.")
    limits.require("operations", len(plain), "parameters by name")
    found: dict[str, Tensor] = {}
    for name, each in plain.items():
        valid = _NAME.fullmatch(name) is not None
        need(valid, f"names of letters, digits, . and _, got {_shown(name)}")
        found[name] = _tensor(f"parameter {name}", each, "trainable")
    trained, frozen = (
        sum(tensor.size for tensor in found.values() if tensor.trainable is kept)
        for kept in (True, False)
    )
    need(trained > 0, "a parameter that is trainable, got none")
    limits.require("parameters", trained, "trained parameters")
    limits.require("frozen", frozen, "parameters and constants that are not trained")
    return found


def _class_weights(plain: Any) -> tuple[float, ...]:
    need(
        isinstance(plain, list)
        and len(plain) <= _MAX_LIST
        and all(map(WEIGHT.holds, plain))
        and any(plain),
        f"class_weights to be a list of at most {_MAX_LIST}, each {WEIGHT.words}, and one above "
        f"0, got {_shown(plain)}",
    )
    return tuple(map(float, plain))


def _operation(
    plain: object, parameters: Mapping[str, Tensor], before: list[Operation]
) -> Operation:
    if not (
        isinstance(plain, list)
        and len(plain) == 3
        and isinstance(plain[0], str)
        and isinstance(plain[1], list)
        and isinstance(plain[2], dict)
        and len(plain[1]) + len(plain[2]) <= _MAX_LIST
    ):
        raise NetworkError("Expected each operation as [name, [arguments], {keywords}].")
    name, arguments, keywords = plain
    row_of(name)
    return Operation(
        name,
        tuple(_argument(each, parameters, before) for each in arguments),
        {key: _argument(each, parameters, before) for key, each in keywords.items()},
    )


def _argument(plain: object, parameters: Mapping[str, Tensor], before: list[Operation]) -> Any:
    if not isinstance(plain, list):
        return _value(plain, parameters, before)
    need(len(plain) <= _MAX_LIST, f"lists of at most {_MAX_LIST} entries, got {len(plain)}")
    return tuple(_value(each, parameters, before) for each in plain)


def _value(plain: object, parameters: Mapping[str, Tensor], before: list[Operation]) -> Any:
    if plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, int):
        need(abs(plain) <= MAX_INTEGER, "integers of at most 2**53")
        return plain
    if isinstance(plain, float):
        need(math.isfinite(plain), "finite numbers, got a number that is too large")
        return plain
    if isinstance(plain, str) and plain in ("none", "tanh"):  # gelu's forms
        return plain
    if not isinstance(plain, dict):
        raise NetworkError(f"Expected a number or an earlier value, got {_shown(plain)}.")
    if plain == {"record": 0}:
        return Reference(None)
    if set(plain) == {"parameter"} and (name := _text(plain, "parameter")) in parameters:
        return Reference(name)
    if set(plain) == {"dtype"} and (name := _text(plain, "dtype")) in DTYPES:
        return Dtype(name)
    if "operation" in plain and set(plain) <= {"operation", "part"}:
        number, part = plain["operation"], plain.get("part")
        known = type(number) is int and 0 <= number < len(before)
        if known and (part is None or (type(part) is int and part >= 0)):
            return Reference(number, part)
    raise NetworkError(f"Expected a parameter or an earlier operation, got {_shown(plain)}.")
