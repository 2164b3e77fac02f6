"""A process that runs submitted code: its input, its bounded output, and its limits."""

import contextlib
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final, Self

import psutil

from .limits import Limits

_PATIENCE: Final = 0.1  # seconds between two looks at the memory
_PIECE: Final = 1 << 16
_RESERVE: Final = 0.05  # of the machine's memory, which nobody's training gets
#: Starts a command such that, where the machine has too little for all, others come first.
_BEHIND_OTHERS: Final = (
    *("/bin/sh", "-c"),
    'echo 1000 2>/dev/null > /proc/self/oom_score_adj; exec nice -n 10 "$@"',
    "sh",
)


class UntrustedProcessError(Exception):
    """The process gave no answer of the form that was asked for."""


class UntrustedProcess:
    """A process that gets bytes, and whose answer has as many bytes as it is asked for.

    Nothing in the answer is interpreted here. The process, and with its sandbox all that it
    has started, is ended on leaving the ``with`` statement, whatever it is doing then.

    Parameters
    ----------
    command : sequence of str
        How to start it.
    environment : mapping of str to str
        All of its environment, and of the sandbox's.
    limits : Limits
        What it may use.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], limits: Limits
    ) -> None:
        self._limits = limits
        self._output = bytearray()
        self._folder = tempfile.TemporaryDirectory(prefix="ldp-flower-training-")
        self._process = subprocess.Popen(
            [*_BEHIND_OTHERS, *command],
            cwd=self._folder.name,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        started = self._started()
        self._process.kill()
        for process in started:  # in a sandbox they end with the first
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._process.wait()
        self._hear()  # a pipe holds no more than one piece
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._folder.cleanup()

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        return process.stdin, process.stdout, process.stderr

    @property
    def output(self) -> str:
        """The last of what it has printed, in ASCII: it moves no cursor, and forges no line."""
        lines = self._output.decode("ascii", "backslashreplace").splitlines()
        return "\n".join(f"| {ascii(line)[1:-1]}" for line in lines)

    def answer(self, request: bytes, size: int) -> bytes:
        """Send the request and return the ``size`` bytes that are answered.

        Raises
        ------
        UntrustedProcessError
            If there are fewer when it ends, or it uses more time or memory than it may.
        """
        deadline = time.monotonic() + self._limits.seconds
        pending, answer, looked = memoryview(request), bytearray(), time.monotonic()
        stdin, stdout, stderr = self._pipes
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while len(answer) < size:
                now = time.monotonic()
                if now > deadline:
                    raise UntrustedProcessError(f"It took longer than {self._limits.seconds} s.")
                if now > looked + _PATIENCE:
                    self._check_memory()
                    looked = time.monotonic()
                for key, _ in selector.select(min(_PATIENCE, deadline - now)):
                    if key.fileobj is stdin:
                        pending = _written(stdin, pending)
                        if not pending:
                            selector.unregister(stdin)
                            stdin.close()
                    elif key.fileobj is stdout:
                        piece = os.read(stdout.fileno(), min(_PIECE, size - len(answer)))
                        if not piece:
                            raise UntrustedProcessError("It ended, or closed its output, unasked.")
                        answer += piece
                    elif not self._hear():
                        selector.unregister(stderr)
        return bytes(answer)

    def _hear(self) -> bool:
        """Take a piece of what it prints; whether there was any."""
        try:
            piece = os.read(self._pipes[2].fileno(), _PIECE)
        except BlockingIOError:
            return False
        self._output += piece
        del self._output[: -self._limits.output]
        return bool(piece)

    def _check_memory(self) -> None:
        used = 0
        for process in self._started():
            with contextlib.suppress(psutil.Error):
                used += process.memory_info().rss
        if used > self._limits.memory_bytes:
            raise UntrustedProcessError(f"It used more than {self._limits.memory} MiB.")
        # What the kernel keeps for a process, in sockets above all, is in no account of it.
        machine = psutil.virtual_memory()
        if machine.available < _RESERVE * machine.total:
            raise UntrustedProcessError("The machine's memory was nearly used up.")

    def _started(self) -> list[psutil.Process]:
        try:
            found: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
        return found


def _written(pipe: IO[bytes], pending: memoryview) -> memoryview:
    """Write what the pipe takes and return the rest: none if nobody reads any more."""
    try:
        return pending[os.write(pipe.fileno(), pending[:_PIECE]) :]
    except BrokenPipeError:
        return pending[:0]
