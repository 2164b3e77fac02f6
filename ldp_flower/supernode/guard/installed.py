"""Which folders of the node's installation a run's training has to see."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
