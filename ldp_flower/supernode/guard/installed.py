"""Which folders of the node's installation a run's training has to see."""

import sys
from pathlib import Path

import flwr

import ldp_flower
from ldp_flower import clients, strategies

_OF_PACKAGES = {"site-packages", "dist-packages"}


def python_path() -> list[str]:
    """Return where Python looks for modules, but for folders that are no installation's."""
    library = Path(sys.base_prefix).resolve()
    imported = Path(flwr.__path__[0]).resolve().parent
    return [
        entry
        for entry in sys.path
        if (folder := Path(entry).resolve()).exists()
        and entry
        and (folder.name in _OF_PACKAGES or folder == imported or _of_library(folder, library))
    ]


def _of_library(folder: Path, library: Path) -> bool:
    return folder.is_relative_to(library / "lib") and folder != library / "lib"


def folders() -> list[Path]:
    """Return the folders of Python, its packages and this library, none within another."""
    packages = (ldp_flower, clients, strategies)
    found = [
        Path(sys.base_prefix),
        Path(sys.prefix),
        *map(Path, python_path()),
        *(Path(package.__path__[0]) for package in packages),
    ]
    return outermost([Path("/usr"), *found])[1:]


def outermost(paths: list[Path]) -> list[Path]:
    """Return these paths without those that lie in another of them."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept
