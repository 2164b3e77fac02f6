"""Start and supervision of a SuperNode that can run the operator's programs only."""

import ctypes
import fcntl
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from . import answering, flower
from .settings import Settings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MIN_UPTIME: Final = 60.0  # seconds; a SuperNode that ran at least this long has worked
_MAX_PAUSE: Final = 60.0  # longest pause before a restart, in seconds
_PR_SET_PDEATHSIG: Final = 1  # of <linux/prctl.h>
_LOOK: Final = 5.0  # seconds between two checks of a SuperNode
_log = logging.getLogger("flwr")


class LaunchError(Exception):
    """Error of a node whose programs cannot be started."""


@contextmanager
def programs(settings: Settings) -> Iterator[Path]:
    """Make the folder that is the whole PATH of a SuperNode, and remove it afterwards.

    A SuperNode starts programs by name. For all kinds of tasks of a run, it finds two programs
    only: Flower's program that looks for tasks, and the program that answers. Raise LaunchError if
    the folder of temporary files does not allow executable files.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as name:
        folder = Path(name)
        file = folder / "settings.json"
        settings.write(file)
        answer = [sys.executable, "-P", "-m", answering.__name__, str(file)]
        for program, command in {
            "flower-superexec": flower.command("flower-superexec"),
            "flwr-clientapp": answer,
            "flwr-agentapp": answer,  # a run chooses which of the two names gets its messages
        }.items():
            (folder / program).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            (folder / program).chmod(0o700)
            if not os.access(folder / program, os.X_OK):
                raise LaunchError(
                    f"Expected a folder for temporary files that may hold programs, got "
                    f"{folder.parent}, which is mounted with noexec: set TMPDIR to another folder."
                )
        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX)  # systemd-tmpfiles does not clean up a locked folder
        try:
            yield folder
        finally:
            os.close(opened)


def supervise(arguments: Sequence[str], settings: Settings) -> int:
    """Run a SuperNode until a signal to end, and restart it if it ends with an error.

    A SuperNode that ends within a minute of its first start is not restarted, since it cannot work.
    Return the SuperNode's exit code, or 0 after a signal to end.
    """
    command = flower.command("flower-supernode", *arguments)
    with programs(settings) as folder, _EndSignal() as signalled:
        environment = os.environ | {"PATH": str(folder)}
        pause, settled = 1.0, False
        while True:
            started = time.monotonic()
            code = signalled.run(command, environment)
            if signalled.to_end:
                return 0
            if time.monotonic() - started >= _MIN_UPTIME:
                pause, settled = 1.0, True
            if code == 0 or not settled:
                return code
            _log.error("The SuperNode ended with code %d; started anew in %g s.", code, pause)
            if signalled.within(pause):
                return 0
            pause = min(2 * pause, _MAX_PAUSE)


class _EndSignal:
    """Handler of the signals that end this process: it forwards them and remembers them."""

    def __init__(self) -> None:
        self.to_end = False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "_EndSignal":
        self._previous = {number: signal.signal(number, self._end) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.to_end = True
        if self._process is not None:
            self._process.terminate()

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """Run a process, and return its exit code; a signal to end this process ends it, too.

        The process is also ended, with code 1 instead of 0, if one of its children has ended. A
        SuperNode would go on without the program that looks for tasks, and answer no more messages.
        """
        ends_with_this = partial(_end_with, os.getpid())
        with subprocess.Popen(command, env=environment, preexec_fn=ends_with_this) as self._process:
            if self.to_end:  # signalled before there was a process
                self._process.terminate()
            ended: set[int] = set()
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return self._process.wait(_LOOK)
                # A child counts if two checks see it ended: until its parent waits for it, an
                # ended child looks the same for a moment.
                ended, before = _ended_children(self._process.pid), ended
                if ended & before:
                    self._process.terminate()
                    return self._process.wait() or 1

    def within(self, seconds: float) -> bool:
        """Return True if a signal to end reaches this process within ``seconds`` seconds."""
        end = time.monotonic() + seconds
        while not self.to_end and time.monotonic() < end:
            time.sleep(0.1)
        return self.to_end


def _end_with(parent: int) -> None:
    """Have this process signalled to end when its parent ends, even if the parent is killed.

    Otherwise Flower's process would go on answering without the command that supervises it. Only
    Linux has such a signal.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent has ended before
            os._exit(1)


def _ended_children(pid: int) -> set[int]:
    try:
        children = psutil.Process(pid).children()
        return {child.pid for child in children if child.status() == psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:  # a process has gone in the meantime
        return set()
