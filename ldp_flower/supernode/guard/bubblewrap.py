"""The command line of bubblewrap: a run's training sees the node's packages and its data only."""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_USR: Final = Path("/usr")
_LINKED: Final = tuple(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64"))
_ETC: Final = tuple(Path("/etc", name) for name in ("ld.so.cache", "alternatives", "localtime"))
#: What every process in a sandbox can read.
SYSTEM: Final = (_USR, *_LINKED, *_ETC)
_WRITABLE: Final = ("/tmp", "/dev/shm")


def command(program: str, visible: Sequence[Path], data: Sequence[Path], scratch: int) -> list[str]:
    """Return how to start a command in a sandbox; the command is what is appended.

    Parameters
    ----------
    program : str
        Path of bubblewrap.
    visible : sequence of Path
        Folders of the installation.
    data : sequence of Path
        Folders, or files, of the operator's data.
    scratch : int
        Bytes of files that it may write into each of ``/tmp`` and ``/dev/shm``, which are memory.

    Notes
    -----
    The sandbox has no network but a loopback interface of its own, processes, shared memory,
    host name and devices of its own, and an empty root with these folders, read-only. It ends
    with the process that starts it.

    An operator who is root has no rights to give up to a user namespace that would make it a
    stranger to its own files: then the command has to give up root (:mod:`.child`).
    """
    arguments = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
    arguments += ["--cap-drop", "ALL", "--hostname", "training"]
    if os.geteuid():
        arguments += ["--unshare-user", "--disable-userns"]
    else:
        arguments += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", str(_USR), str(_USR)]
    for path in _LINKED:
        arguments += _system(path)
    for path in _ETC:
        arguments += ["--ro-bind-try", str(path), str(path)]
    for folder in _WRITABLE:
        arguments += ["--perms", "1777", "--size", str(scratch), "--tmpfs", folder]
    made: set[Path] = set()
    for path in [*visible, *data]:
        arguments += _parents(path, made)
        arguments += ["--ro-bind", str(path), str(path)]
    for folder in ("/dev", "/proc", "/"):
        arguments += ["--remount-ro", folder]
    return [*arguments, "--chdir", _WRITABLE[0]]


def _system(path: Path) -> Iterable[str]:
    if path.is_symlink():  # into /usr
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


def _parents(path: Path, made: set[Path]) -> Iterable[str]:
    """Make the folders that lead to a path; bubblewrap's own are for nobody else to enter."""
    for parent in reversed(path.parents[:-1]):
        if parent not in made:
            made.add(parent)
            yield from ("--dir", str(parent))


_OF_PACKAGES: Final = {"site-packages", "dist-packages"}
_LIBRARY: Final = ("ldp_flower", "ldp_flower.clients", "ldp_flower.strategies")


def python_path() -> list[str]:
    """Return where Python looks for modules, but for folders that are no installation's."""
    library = Path(sys.base_prefix).resolve()
    flowers = _folder("flwr").resolve().parent
    return [
        entry
        for entry in sys.path
        if entry
        and (folder := Path(entry).resolve()).exists()
        and (folder.name in _OF_PACKAGES or folder == flowers or _of_library(folder, library))
    ]


def _of_library(folder: Path, library: Path) -> bool:
    return folder.is_relative_to(library / "lib") and folder != library / "lib"


def folders() -> list[Path]:
    """Return the folders of Python, its packages and this library, none within another."""
    found = [
        Path(sys.base_prefix),
        Path(sys.prefix),
        *map(Path, python_path()),
        *map(_folder, _LIBRARY),
    ]
    return outermost([Path("/usr"), *found])[1:]


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def outermost(paths: list[Path]) -> list[Path]:
    """Return these paths without those that lie in another of them."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept
