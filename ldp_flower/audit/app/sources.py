"""Sources of an app's data: functions that return records, found in a run and then replaced."""

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

from flwr.app import Message

from .findings import CannotAuditError
from .loading import AuditedApp
from .variants import BASE, digest, has_records

_OF_DATA = re.compile(r"load|data|read|fetch|partition|users|records|rows|samples|table", re.I)
_NOT_DATA = re.compile(
    "param|weight|model|grad|nois|init|state|clip|sigm|loss|metric|eval|train|fit|update|predict|"
    "score|config",
    re.I,
)
# Library functions that read data, by names of modules and of functions.
_READERS = re.compile(
    r"^(pandas\.io\..*|pandas\.core\.frame|numpy\.lib.*|flwr_datasets.*|datasets\..*|"
    r"sklearn\.datasets.*|torchvision\.datasets.*)$"
)
_READER_NAMES = re.compile(r"^(read_\w+|load\w*|genfromtxt|fetch_\w+|make_\w+)$")
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # parts of functions


@dataclass
class _Call:
    """Observed calls of one function while a node answers."""

    of_app: bool
    values: list[bytes] = field(default_factory=list)
    callers: set[CodeType] = field(default_factory=set)


class Sources:
    """Functions of an app that return a node's data, and the data that they return."""

    def __init__(self, app: AuditedApp) -> None:
        self._app = app
        self.found: list[tuple[str, CodeType]] = []  # names and code of the functions
        self.returned: list[Any] = []  # data that were returned in the present run
        self.variant = BASE  # variant of the data in the present run

    def named(self, reference: str) -> None:
        """Use the function that the app's owner names, ``module:function``, as the source."""
        module, _, name = reference.partition(":")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        found = getattr(getattr(found, "__wrapped__", found), "__func__", found)
        if not isinstance(found, FunctionType):
            own = [(m.__name__, f) for m in self._app.modules() for f in vars(m).values()]
            known = {f"{m}:{f.__name__}" for m, f in own if isinstance(f, FunctionType)}
            expected = f"Expected --loader to be a function of the app, one of {sorted(known)}"
            raise CannotAuditError(f"{expected}, got {reference!r}.")
        self.found = [(reference, found.__code__)]

    def find(self, look: Callable[[int], object]) -> None:
        """Search for functions that return data; ``look(i)`` lets node ``i`` answer."""
        first, again, other = (self._watched(look, node) for node in (0, 0, 1))
        certain, likely = [], []
        for code, call in first.items():
            by_name = _OF_DATA.search(code.co_name)
            if _NOT_DATA.search(code.co_name) and not by_name:
                continue
            same = code in again and again[code].values == call.values
            if same and code in other and other[code].values != call.values:
                certain.append(code)
            elif by_name or not call.of_app:
                likely.append(code)
        chosen = certain or likely
        outer = {code for one in chosen for code in first[one].callers - {one}}
        self.found = [(code.co_name, code) for code in chosen if code not in outer]

    def _watched(self, look: Callable[[int], object], node: int) -> dict[CodeType, _Call]:
        """Return the functions that return records while a node answers."""
        calls: dict[CodeType, _Call] = {}

        def note(frame: FrameType, event: str, returned: Any) -> None:
            code = frame.f_code
            if event != "return" or returned is None or code.co_name in _COMPREHENSIONS:
                return
            of_app = self._app.owns(code.co_filename)
            if not of_app and not (_reads(frame) and self._called_by_app(frame)):
                return
            if has_records(returned) and not _takes_data(frame):
                call = calls.setdefault(code, _Call(of_app))
                call.values.append(digest(returned))
                caller = frame.f_back
                while caller is not None:
                    call.callers.add(caller.f_code)
                    caller = caller.f_back

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            look(node)
        finally:
            sys.setprofile(before)
        return calls

    def _called_by_app(self, frame: FrameType) -> bool:
        caller = frame.f_back
        return caller is not None and self._app.owns(caller.f_code.co_filename)

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Let sources return data of the present variant, inside this context."""
        with ExitStack() as stack:
            for holder in [each for _, code in self.found for each in gc.get_referrers(code)]:
                if isinstance(holder, FunctionType):
                    stack.enter_context(_code_of(holder, self._answer(holder)))
            yield

    def _answer(self, of: FunctionType) -> Callable[..., Any]:
        rest = of.__globals__, of.__name__, of.__defaults__, of.__closure__
        original = FunctionType(of.__code__, *rest)
        original.__kwdefaults__ = of.__kwdefaults__
        of_app = self._app.owns(of.__code__.co_filename)

        def call(*args: Any, **kwargs: Any) -> Any:
            value = original(*args, **kwargs)
            # Leave other callers of a library's reader alone: Flower uses NumPy's for model arrays.
            if not (of_app or self._called_by_app(sys._getframe(1))):
                return value
            self.returned.append(self.variant.of(value))
            return self.returned[-1]

        return call


def _takes_data(frame: FrameType) -> bool:
    """Return True if a function has records, a message or a model among its arguments."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [frame.f_locals.get(name) for name in names if name != "self"]
    return any(
        isinstance(value, Message) or hasattr(value, "parameters") or hasattr(value, "fit")
        or has_records(value)
        for value in given
        if not isinstance(value, str | int | float | dict | list)
    )  # fmt: skip


def _reads(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return bool(_READERS.match(module) and _READER_NAMES.match(frame.f_code.co_name))


@contextmanager
def _code_of(function: FunctionType, call: Callable[..., Any]) -> Iterator[None]:
    """Replace the code of a function in place, so that all references to it use ``call``."""
    before, hook = function.__code__, f"__audited_{id(function)}"
    function.__globals__[hook] = call
    scope: dict[str, Any] = {}
    exec(f"def answer(*args, **kwargs):\n return {hook}(*args, **kwargs)", scope)
    function.__code__ = scope["answer"].__code__.replace(
        co_name=before.co_name, co_freevars=before.co_freevars
    )
    try:
        yield
    finally:
        function.__code__ = before
        del function.__globals__[hook]
