"""A SuperNode that finds no programs but the operator's, started and kept alive."""

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
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from . import answering, flower
from .settings import Settings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MIN_UPTIME: Final = 60.0  # seconds after which a SuperNode that ends is one that had worked
_MAX_PAUSE: Final = 60.0  # seconds
_LOOK: Final = 5.0  # seconds between two looks at a SuperNode
_log = logging.getLogger("flwr")


class LaunchError(Exception):
    """The programs of a node cannot be started."""


@contextmanager
def programs(settings: Settings) -> Iterator[Path]:
    """Make the folder that is the whole PATH of a SuperNode, and remove it afterwards.

    A SuperNode starts programs by name. Whatever kind of task a run makes it take on, there
    is none but these: the one that looks for tasks, which is Flower's own, and the one that
    answers. LaunchError if nothing can be executed where temporary files are.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as name:
        folder = Path(name)
        file = folder / "settings.json"
        settings.write(file)
        answer = [sys.executable, "-P", "-m", answering.__name__, str(file)]
        for program, command in {
            "flower-superexec": flower.command("flower-superexec"),
            "flwr-clientapp": answer,
            "flwr-agentapp": answer,  # a run decides which of the two its messages are for
        }.items():
            (folder / program).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            (folder / program).chmod(0o700)
            if not os.access(folder / program, os.X_OK):
                raise LaunchError(
                    f"Nothing can be executed in {folder.parent}, which is mounted so: set TMPDIR "
                    "to a folder of the node's own."
                )
        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX)  # systemd-tmpfiles leaves what is locked
        try:
            yield folder
        finally:
            os.close(opened)


def supervise(arguments: Sequence[str], settings: Settings) -> int:
    """Run a SuperNode until it gets a signal to end, anew whenever it ends by itself.

    One that ends within a minute of its first start is not started again: it cannot work. Returns
    the exit code: that of the SuperNode, 0 after a signal to end.
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
    """Hands the signals that end this process on to the SuperNode, and remembers them."""

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
        """Return the exit code of a process, which ends when this one gets a signal to.

        It is ended, with code 1, if what it has started has ended: a SuperNode goes on without the
        program that looks for tasks, and answers nobody any more.
        """
        with subprocess.Popen(command, env=environment) as self._process:
            if self.to_end:  # signalled before there was a process
                self._process.terminate()
            ended: set[int] = set()
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return self._process.wait(_LOOK)
                # Seen twice: one that is waited for has ended for a moment, too.
                ended, before = _ended_children(self._process.pid), ended
                if ended & before:
                    self._process.terminate()
                    return self._process.wait() or 1

    def within(self, seconds: float) -> bool:
        """Whether this process gets a signal to end within some seconds."""
        end = time.monotonic() + seconds
        while not self.to_end and time.monotonic() < end:
            time.sleep(0.1)
        return self.to_end


def _ended_children(pid: int) -> set[int]:
    try:
        children = psutil.Process(pid).children()
        return {child.pid for child in children if child.status() == psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:  # one is no more
        return set()
