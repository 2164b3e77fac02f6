"""Runs of a Flower app on a separate SuperLink, which is removed afterwards.

``flwr run`` alone starts a SuperLink that outlives it, shares its state and its environment with
all other runs of the same person, and returns exit code 0 even if the app fails. Here, every run
gets a separate SuperLink, home directory and port. All of them end with the run, also when it is
interrupted.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import psutil

from .console import Scalar, option

#: Number of simulated nodes if neither a command nor the app states one.
NODES = 4
NumNodes = Annotated[
    int | None,
    option(
        "Number of simulated SuperNodes of APP.",
        default=f"the app's num-nodes or num-supernodes, or {NODES}",
        min=1,
    ),
]
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit inside this context when a signal asks the process to end."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    with _handled_by(leave, *_ENDING_SIGNALS):
        yield


@contextmanager
def _handled_by(handler: Any, *signals: signal.Signals) -> Iterator[None]:
    """Let ``handler`` handle these signals inside this context, and the former ones after it."""
    previous = {number: signal.getsignal(number) for number in signals}
    for number, before in previous.items():
        if before is not signal.SIG_IGN:  # ignored signals stay ignored, as under nohup
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


class Family:
    """Family of a process: its session and all sessions that were started from it.

    Parent ids are not enough to find the members, since the system adopts orphans. Session ids
    are enough if they were looked up before the process that started the session ended.
    """

    def __init__(self, leader: int) -> None:
        self._sessions = {leader}

    def members(self) -> set[int]:
        """Return the process ids of all living members."""
        alive = []  # ids of a process, its parent and its session
        for one in psutil.process_iter(["ppid", "status"]):
            with suppress(OSError):
                if one.info["status"] != psutil.STATUS_ZOMBIE:  # zombies have already ended
                    alive.append((one.pid, one.info["ppid"], os.getsid(one.pid)))
        while True:
            members = {pid for pid, _, session in alive if session in self._sessions}
            sessions = {session for _, parent, session in alive if parent in members}
            if sessions <= self._sessions:
                return members
            self._sessions |= sessions

    def end(self, timeout: float) -> None:
        """Ask all members to end, and kill those that still live after ``timeout`` seconds."""
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


_HOST = "127.0.0.1"
_START_TIMEOUT = 90.0  # seconds; Flower's own 15 are too few on a busy machine
_STOP_TIMEOUT = 5.0  # seconds for an orderly end


class FlowerError(RuntimeError):
    """Error for a process of Flower that did not start, or that no longer answers."""


def declared_config(app: Path) -> dict[str, Scalar]:
    """Return the settings that the Flower app in a directory declares, flattened as Flower does."""
    from ..audit.app.loading import flat_settings, project_of

    return flat_settings(project_of(app)["app"].get("config", {}))


class SuperLink:
    """SuperLink for one run, with the simulation engine; see :func:`private_superlink`."""

    def __init__(self, home: Path, log: Path) -> None:
        self._home = home
        self._environment = _environment(home)
        # Only this process gets Ctrl-C, since the programs run in new sessions.
        self._start: Any = partial(
            subprocess.Popen,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port = probe.getsockname()[1]
        self._address = f"{_HOST}:{port}"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "run"\n[superlink.run]\n'
            f'address = "{self._address}"\ninsecure = true\n'
        )
        command = ["flower-superlink", "--insecure", "--simulation", "--host", _HOST]
        command += ["--port", str(port)]
        self._log = log
        log.write_bytes(b"")
        with log.open("ab") as output:
            self._process: subprocess.Popen[bytes] = self._start(command, stdout=output)
        self._family = Family(self._process.pid)

    def wait_until_ready(self) -> None:
        """Wait until the SuperLink answers; raise FlowerError if it does not start."""
        # Use no proxy, since a proxy cannot reach this machine's loopback address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        end = time.monotonic() + _START_TIMEOUT
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with opener.open(f"http://{self._address}/health", timeout=2):
                    self._family.members()  # looks up the sessions while all parents live
                    return
            except OSError:
                time.sleep(0.1)
        raise FlowerError("Flower's SuperLink did not start.")

    def run(
        self, app: Path, num_nodes: int, config: Mapping[str, Scalar]
    ) -> Generator[str, None, None]:
        """Submit the app in a directory and yield the lines of its log until it ends."""
        overrides = self._home / "run-config.toml"
        overrides.write_text(
            "".join(f"{key} = {_toml(value)}\n" for key, value in config.items()), "utf-8"
        )
        federation = f"num-supernodes={num_nodes} client-resources-num-cpus=1"
        command = ["flwr", "run", str(app), "--stream", "--federation-config", federation]
        process: subprocess.Popen[str] = self._start(
            [*command, "--run-config", str(overrides)],
            env=self._environment | {"COLUMNS": "1000"},  # wide enough to truncate no sentence
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        installed = re.compile(rf"{re.escape(str(self._home))}/apps/[^/]+")
        with process, self._log.open("a", buffering=1, encoding="utf-8") as log:
            try:
                for line in process.stdout or ():
                    # Tracebacks name Flower's copy of the app, which will be deleted.
                    line = installed.sub(lambda _: str(app), line)
                    log.write(line)
                    yield line.rstrip("\n")
            finally:
                process.kill()

    def outcome(self) -> tuple[str, str]:
        """Wait until the run has ended, and return its status and the details of an error.

        The status is a text such as ``finished:completed``, and empty if Flower did not accept the
        app. Waiting is needed if the log has ended before the run. Raises FlowerError if the
        SuperLink does not answer.
        """
        while True:
            answer = subprocess.run(
                ["flwr", "list", "--format", "json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
            )
            try:
                runs = json.loads(answer.stdout)["runs"]
            except (ValueError, KeyError) as error:
                raise FlowerError("Flower's SuperLink has stopped during the run.") from error
            if not runs:
                return "", ""
            status, details = runs[0]["status"], runs[0].get("status-details", "")
            if status.startswith("finished"):
                return status, "" if details == "N/A" else details
            time.sleep(5)

    def stop(self) -> None:
        """End the SuperLink and everything that it started."""
        self._family.end(_STOP_TIMEOUT)
        self._process.wait()


@contextmanager
def private_superlink(log: Path) -> Iterator[SuperLink]:
    """Yield a SuperLink that is started for one run, and end it in any case; its log is kept."""
    # Do not use TMPDIR: Ray puts sockets there, whose paths are limited to about 100 characters.
    home = Path(tempfile.mkdtemp(prefix="ldp-flower-", dir="/tmp"))
    superlink = None
    try:
        superlink = SuperLink(home, log)
        superlink.wait_until_ready()
        yield superlink
    finally:
        # A second Ctrl-C must not stop the clean-up. A signal mask would not help: another thread
        # would get the signal, and Python would pass it on to this thread.
        with _handled_by(signal.SIG_IGN, signal.SIGINT, *_ENDING_SIGNALS):
            if superlink is not None:
                superlink.stop()
            shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path) -> dict[str, str]:
    """Return the environment variables of all processes of the run."""

    def extended(name: str, separator: str, addition: str) -> str:
        return separator.join(filter(None, (addition, os.environ.get(name))))

    no_proxy = {name: extended(name, ",", _HOST) for name in ("no_proxy", "NO_PROXY")}
    return {
        **os.environ,
        **no_proxy,
        "FLWR_HOME": str(home),
        # The app uses the installed packages, without the network and without a second copy.
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(home),
        # Flower's parts look for each other on PATH, but the virtual environment may be inactive.
        "PATH": extended("PATH", os.pathsep, str(Path(sys.executable).parent)),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        # Ray warns of a change in its next version at every start.
        "PYTHONWARNINGS": extended(
            "PYTHONWARNINGS", ",", "ignore::FutureWarning:ray._private.worker"
        ),
    }


def _toml(value: Scalar) -> str:
    # A JSON string is also a TOML string, but JSON writes infinity differently from TOML.
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
