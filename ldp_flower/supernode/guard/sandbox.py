"""Where a run's training runs, and whether that holds on this machine."""

import json
import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from . import bubblewrap, child, probe, system_calls
from .bubblewrap import folders, python_path
from .limits import Limits
from .untrusted_process import UntrustedProcess, UntrustedProcessError

_NOBODY: Final = 65534
_ENVIRONMENT: Final = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "nobody",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "FLWR_HOME": "/tmp/.flwr",
    "FLWR_TELEMETRY_ENABLED": "0",
}
_PASSED_ON: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TZ")


class SandboxError(Exception):
    """Training cannot be kept apart as the operator wants it."""


@dataclass(frozen=True)
class Sandbox:
    """Where a run's training runs.

    Parameters
    ----------
    data : tuple of Path
        Folders, or files, that training may read, at the paths that they have outside.
    limits : Limits
        What it may use.
    kind : {"bubblewrap", "none"}
        ``"none"`` keeps nothing apart but the process: what it runs has the operator's rights.

    Raises
    ------
    ValueError
        If ``kind`` is another.
    """

    data: tuple[Path, ...]
    limits: Limits = field(default_factory=Limits)
    kind: Literal["bubblewrap", "none"] = "bubblewrap"

    def __post_init__(self) -> None:
        if self.kind not in ("bubblewrap", "none"):
            raise ValueError(f"Expected sandbox bubblewrap or none, got {self.kind!r}.")

    def start(self, script: str = child.__file__, *arguments: str) -> UntrustedProcess:
        """Start a script in the sandbox."""
        return UntrustedProcess(self._command(script, arguments), self._environment(), self.limits)

    def check(self, hidden: Sequence[Path]) -> None:
        """Raise SandboxError unless it hides these files, and all else that it should.

        A process is started in it that tries.

        Parameters
        ----------
        hidden : sequence of Path
            Files of the operator that training must not reach, the ledger above all.
        """
        for path in self.data:
            if not path.is_absolute() or not path.exists():
                raise SandboxError(f"Expected data to be absolute paths that exist, got {path}.")
        secrets = [path.resolve() for path in hidden]
        for path in secrets:
            for shown in (*self.data, *folders()):
                if path.is_relative_to(shown.resolve()):
                    raise SandboxError(
                        f"{path} lies in {shown}, which training may read: move one of them."
                    )
        if self.kind != "none":
            self._check_own()
        for path in _odd_files(self.data, secrets):
            raise SandboxError(
                f"{path} among the data is a socket, a pipe, a device or the ledger, and a way "
                "out for what reads it: move it away."
            )
        if self.kind == "none":
            return
        self._try(secrets)

    def _check_own(self) -> None:
        """Raise SandboxError if data are where every node's training can read them."""
        for path in self.data:
            for shown in (*bubblewrap.SYSTEM, *folders()):
                if path.resolve().is_relative_to(shown.resolve()):
                    raise SandboxError(
                        f"{path} lies in {shown}, which training on every guarded node of this "
                        "machine may read: move the data."
                    )

    def _try(self, secrets: Sequence[Path]) -> None:
        """Start a process that tries to get out."""
        try:
            system_calls.program()
        except LookupError as error:
            raise SandboxError(f"Training needs a sandbox. {error}") from error
        if shutil.which("bwrap") is None:
            raise SandboxError(
                "Training needs a sandbox, and bubblewrap is not installed: install it (Debian "
                "and others: the package bubblewrap)."
            )
        readable, unseen = (json.dumps([str(p) for p in each]) for each in (self.data, secrets))
        stranger = self.start(probe.__file__, readable, unseen)
        try:
            with stranger:
                found = stranger.answer(b"", 1)
        except UntrustedProcessError:
            raise SandboxError(
                "Training needs a sandbox, which this system does not give: "
                f"{stranger.output or 'no reason given'}. Bubblewrap 0.8 or newer needs user "
                "namespaces (sysctl kernel.unprivileged_userns_clone, "
                "user.max_user_namespaces, AppArmor's rules; in a container, "
                "a seccomp profile that allows them)."
            ) from None
        if found == probe.UNREADABLE:
            raise SandboxError(
                f"Training runs as {self._account()}, who cannot read "
                f"{' or '.join(map(str, self.data))}: chown it."
            )
        if found != probe.HOLDS:
            raise SandboxError(f"The sandbox does not hold: {probe.FOUND[found]}")

    def _command(self, script: str, arguments: Sequence[str]) -> list[str]:
        apart = self.kind != "none"
        settings = {
            "path": python_path(),
            "confine": {
                "limits": self.limits.of_process(),
                "user": self._user() if apart else None,
                "filtered": system_calls.program().hex() if apart else "",
            },
        }
        python = [sys.executable, "-I", "-B", "-u", script, json.dumps(settings), *arguments]
        if not apart:
            return python
        program = shutil.which("bwrap") or "bwrap"
        within = bubblewrap.command(program, folders(), self.data, self.limits.scratch_bytes)
        for name, value in self._environment().items():
            within += ["--setenv", name, value]
        return [*within, "--", *python]

    def _user(self) -> int | None:
        """Return whom root's sandbox is somebody else's: the owner's of the data, or nobody's."""
        if os.geteuid():
            return None
        return next((path.stat().st_uid for path in self.data if path.stat().st_uid), _NOBODY)

    def _account(self) -> str:
        """Return the name of the account that training has in the sandbox."""
        user = os.geteuid() if (other := self._user()) is None else other
        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:  # has none
            return f"user {user}"

    def _environment(self) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return _ENVIRONMENT | passed_on


def _odd_files(data: Sequence[Path], secrets: Sequence[Path]) -> Iterator[Path]:
    """Yield what among the data is another's other end, or a secret under another name."""
    known = {(found.st_dev, found.st_ino) for path in secrets if (found := _status(path))}
    for top in data:
        inner = (Path(folder, name) for folder, _, files in os.walk(top) for name in files)
        for path in (top, *inner):
            found = _status(path)
            if found is None:
                continue
            plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            if (found.st_dev, found.st_ino) in known or not (plain or stat.S_ISLNK(found.st_mode)):
                yield path


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
