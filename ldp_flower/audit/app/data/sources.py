"""Where an app's data come in: functions that return them, found at work and then answered for."""

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

from flwr.app import Message

from ....guarantee.users import Users
from ..errors import CannotAuditError
from ..loading import AuditedApp
from .forms import fingerprint, leaves, size
from .values import kept, stands_alone
from .variants import BASE, Variant

_OF_DATA = re.compile(r"load|data|read|fetch|partition|users|records|rows|samples|table", re.I)
_NOT_DATA = re.compile(
    r"param|weight|model|grad|nois|init|state|clip|sigm|loss|metric|eval|train$|^train_?(?!.*"
    r"(data|load|set))|fit|update|predict|score|config",
    re.I,
)
# Libraries whose functions read data: by module, and names of functions.
_READERS = re.compile(
    r"^(pandas\.io\..*|pandas\.core\.frame|numpy\.lib.*|flwr_datasets.*|datasets\..*|"
    r"sklearn\.datasets.*|torchvision\.datasets.*|ldp_flower\.audit\.app\.data\.stand_in)$"
)
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # parts of functions
_READER_NAMES = re.compile(r"^(read_\w+|load\w*|genfromtxt|fetch_\w+|make_\w+)$")


@dataclass
class _Call:
    """Calls of one function in one look at a node."""

    values: list[bytes] = field(default_factory=list)
    of_app: bool = True
    of_users: bool = False


@dataclass(frozen=True)
class Source:
    """A function that returns a node's data.

    Attributes
    ----------
    label : str
        Its name.
    functions : tuple of function
        All functions of its code.
    """

    label: str
    functions: tuple[FunctionType, ...]


class Sources:
    """What a node's data are made to be.

    Parameters
    ----------
    app : AuditedApp
        The app.
    """

    def __init__(self, app: AuditedApp) -> None:
        self._app = app
        self.found: list[Source] = []
        self.records = 0
        self._variant = BASE
        self._counts: dict[str, int] = {}
        self._noting: Callable[[str, int, Any], object] | None = None
        self._others: dict[tuple[str, int], Any] = {}
        self._of_many = False
        self.targets_alone = False

    # ------------------------------------------------------------------ finding

    def named(self, reference: str) -> None:
        """Take the function that the app's owner names, ``module:function``.

        Raises
        ------
        CannotAuditError
            If there is no such function.
        """
        module, _, name = reference.partition(":")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        found = getattr(found, "__wrapped__", found)
        found = getattr(found, "__func__", found)
        if not isinstance(found, FunctionType):
            known = sorted(
                f"{m.__name__}:{n}"
                for m in self._app.modules()
                for n, f in vars(m).items()
                if isinstance(f, FunctionType) and f.__module__ == m.__name__
            )
            raise CannotAuditError(
                f"Expected --loader to be a function of the app as MODULE:FUNCTION, one of "
                f"{known}, got {reference!r}."
            )
        self.found = [Source(reference, _functions(found.__code__))]

    def find(self, look: Callable[[int], object]) -> None:
        """Look for functions that return data while nodes answer.

        Parameters
        ----------
        look : callable
            Lets the node of a number answer all messages, with caches emptied.
        """
        looks = [self._watched(look, node) for node in (0, 0, 1)]
        first, again, other = looks
        certain, likely = [], []
        for code, call in first.items():
            name = code.co_name
            same = code in again and again[code].values == call.values
            differs = code in other and other[code].values != call.values
            reads = not call.of_app or _OF_DATA.search(name)
            if _NOT_DATA.search(name) and not _OF_DATA.search(name):
                continue
            if same and differs:
                certain.append(code)
            elif reads:
                likely.append(code)
        # Users are who is protected: what they are made of belongs to several of them.
        of_users = [code for code in certain + likely if first[code].of_users]
        chosen = of_users or certain or likely
        self.found = [Source(c.co_name, _functions(c)) for c in self._innermost(chosen, look)]
        self.found = [source for source in self.found if source.functions]

    def _watched(self, look: Callable[[int], object], node: int) -> dict[CodeType, _Call]:
        calls: dict[CodeType, _Call] = {}

        def note(frame: FrameType, event: str, returned: Any) -> None:
            if event != "return" or returned is None or frame.f_code.co_name in _COMPREHENSIONS:
                return
            of_app = self._app.owns(frame.f_code.co_filename)
            if not of_app and not (_reads(frame) and self._called_by_app(frame)):
                return
            if isinstance(returned, Message) or not _takes_no_data(frame):
                return
            if any(True for _ in leaves(returned)):
                call = calls.setdefault(frame.f_code, _Call(of_app=of_app))
                call.values.append(fingerprint(returned))
                call.of_users |= isinstance(returned, Users)

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

    def _innermost(self, codes: list[CodeType], look: Callable[[int], object]) -> list[CodeType]:
        """Return those functions within whose calls none of the others returns."""
        outer: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "return" and frame.f_code in codes:
                caller = frame.f_back
                while caller is not None:
                    if caller.f_code in codes and caller.f_code is not frame.f_code:
                        outer.add(caller.f_code)
                    caller = caller.f_back

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            look(0)
        finally:
            sys.setprofile(before)
        return [code for code in codes if code not in outer]

    # ---------------------------------------------------------------- answering

    def use(self, variant: Variant) -> None:
        """Let data be of this variant from now on."""
        self._variant = variant

    def begin(self) -> None:
        """Begin a message: the first call of every source comes next."""
        self._counts = {}

    @contextmanager
    def answered_for(self, look: Callable[[int], object]) -> Iterator[None]:
        """Let sources return data of the variant in use, inside this context."""
        with ExitStack() as stack:
            for source in self.found:
                for function in source.functions:
                    original = _copy(function)
                    answer = self._answer(source.label, original)
                    stack.enter_context(_code_of(function, answer))
            for label, number, value in self._recorded(look, 1):
                self._others.setdefault((label, number), value)
            own = self._recorded(look, 0)
            self.records = max((size(value) for *_, value in own), default=0)
            self._of_many = any(isinstance(value, Users) and len(value) > 1 for *_, value in own)
            self.targets_alone = any(stands_alone(value) for *_, value in own)
            yield

    def _recorded(self, look: Callable[[int], object], node: int) -> list[tuple[str, int, Any]]:
        found: list[tuple[str, int, Any]] = []
        self.shown(lambda label, number, v: found.append((label, number, kept(v))), look, node)
        return found

    def shown(
        self, note: Callable[[str, int, Any], object], look: Callable[[int], object], node: int = 0
    ) -> None:
        """Show a function all that sources return in a look: which, its how-manyth call, what."""
        self._noting = note
        look(node)
        self._noting = None

    def _answer(self, label: str, original: FunctionType) -> Callable[..., Any]:
        of_app = self._app.owns(original.__code__.co_filename)

        def call(*args: Any, **kwargs: Any) -> Any:
            value = original(*args, **kwargs)
            # A library's reader serves others, too: Flower reads a model's arrays by NumPy's.
            if not (of_app or self._called_by_app(sys._getframe(1))):
                return value
            number = self._counts.get(label, 0)
            self._counts[label] = number + 1
            if self._noting is not None:
                self._noting(label, number, value)
                return value
            if self._variant.partition:
                other = self._others.get((label, number), value)
                return Variant("a copy", lambda a: a.copy()).of(other)
            return self._variant.of(value)

        return call

    @property
    def others_differ(self) -> bool:
        """Whether another node's data are a neighbour: they are not, of many users."""
        return bool(self._others) and not self._of_many


def _takes_no_data(frame: FrameType) -> bool:
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        value = frame.f_locals.get(name)
        if name == "self" or isinstance(value, str | int | float | dict | list):
            continue
        if isinstance(value, Message) or any(True for _ in leaves(value)):
            return False
        if hasattr(value, "parameters") or hasattr(value, "fit"):
            return False
    return True


def _reads(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return bool(_READERS.match(module) and _READER_NAMES.match(frame.f_code.co_name))


def _functions(code: CodeType) -> tuple[FunctionType, ...]:
    return tuple(f for f in gc.get_referrers(code) if isinstance(f, FunctionType))


def _copy(function: FunctionType) -> FunctionType:
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@contextmanager
def _code_of(function: FunctionType, call: Callable[..., Any]) -> Iterator[None]:
    """Let a function do something else, whoever holds it."""
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
