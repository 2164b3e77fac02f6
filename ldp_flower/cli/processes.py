"""Processes and signals: end everything that was started, whatever happens."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psutil

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ()


class TimeIsUp(Exception):
    """The end of the time; no TimeoutError, which is an OSError and handled as such."""


@contextmanager
def ended_by_signals(timeout: float | None = None) -> Iterator[None]:
    """Let signals leave the block as SystemExit, and the end of the time as TimeIsUp."""

    def leave(number: int, _frame: object) -> None:
        if number == signal.SIGALRM:
            raise TimeIsUp
        raise SystemExit(128 + number)

    previous = {number: signal.getsignal(number) for number in (*_ENDING_SIGNALS, signal.SIGALRM)}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, leave)
    signal.setitimer(signal.ITIMER_REAL, timeout or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Keep an impatient second Ctrl-C from interrupting the clean-up."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Not a mask: another thread would take the signal and Python hand it to this one.
    signals = (signal.SIGINT, *_ENDING_SIGNALS)
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Process(NamedTuple):
    """A living process."""

    pid: int
    parent: int
    session: int


class Family:
    """The session of a process and all sessions that were started from it.

    Parents do not show it: an orphan is adopted by the system. Sessions do, as long as
    they were looked up before the process that started them ended.
    """

    def __init__(self, leader: int) -> None:
        self._sessions = {leader}

    def members(self) -> set[int]:
        """Return the ids of all living members."""
        processes = _processes()
        while True:
            members = {one.pid for one in processes if one.session in self._sessions}
            sessions = {one.session for one in processes if one.parent in members}
            if sessions <= self._sessions:
                return members
            self._sessions |= sessions

    def end(self, timeout: float) -> None:
        """Ask all members to end, and kill those that have not after some seconds."""
        end = time.monotonic() + timeout
        self._send(signal.SIGTERM)
        while self.members() and time.monotonic() < end:
            time.sleep(0.1)
        while self._send(signal.SIGKILL):
            time.sleep(0.1)

    def _send(self, number: signal.Signals) -> bool:
        members = self.members()
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(members)


def _processes() -> list[Process]:
    """Return all living processes; what only waits to be collected is dead."""
    processes = []
    for one in psutil.process_iter(["ppid", "status"]):
        with suppress(OSError):
            if one.info["status"] != psutil.STATUS_ZOMBIE:
                processes.append(Process(one.pid, one.info["ppid"], os.getsid(one.pid)))
    return processes
