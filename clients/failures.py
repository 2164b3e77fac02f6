"""Failures by data or by the app's code, which must be visible in the operator's log only."""

from collections.abc import Callable
from types import TracebackType


class contained:  # a context manager, with a small letter like contextlib.suppress
    """Call ``failed`` if the code inside the context fails, and continue after the context.

    This holds for all exceptions, also of ``sys.exit``: otherwise the data of one user could lose
    the answers of others. Only a KeyboardInterrupt, which comes from the operator, is raised.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed

    def __enter__(self) -> None:
        """Begin the code that may fail."""

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> bool:
        """Return True, so that Python continues, unless the operator has interrupted the code."""
        if kind is None or issubclass(kind, KeyboardInterrupt):
            return False
        self._failed()
        return True
