"""Flower's programs on a node, in the versions whose internals were read and tested.

Flower has no public interface for the program that a SuperNode starts for a message, nor for its
use of the run's code. So this module knows the digest of the files that decide both. It refuses any
other contents before a program starts.
"""

import hashlib
import importlib
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: Files that the guarantee rests on: they decide which program answers a message, and how this
#: program uses a FAB.
FILES: Final = (
    "supercore/cli/flower_superexec.py",
    "supercore/constant.py",
    "supercore/superexec/executor/subprocess_executor.py",
    "supercore/superexec/plugin/base_exec_plugin.py",
    "supercore/superexec/run_superexec.py",
    "supernode/cli/flower_supernode.py",
    "supernode/cli/flwr_clientapp.py",
    "supernode/runtime/run_clientapp.py",
    "supernode/start_client_internal.py",
)
#: Digests of these files, by Flower's version.
TESTED: Final = {
    "1.38.0": "41b9ed4f8beb2f1d0b8ba1b1f0810bcab86c5f519d2747c7eed4cc606aab97aa",
    "1.39.0": "3e2777a5df8e1101494a2ba0341a18681e5de1b0ca2b93770ddb79357d24ba50",
    "1.40.0": "5c1d96e42a4daa031d99849b38a8ade3db18c62076e2d471ef4cc2f9567573ea",
    "1.41.0": "cb331938ab591d2a78576e5d27952e493bb1c378376e30fdf335a8f40a73b496",
    "1.42.0": "1ce25d41b54b9706c6987b055d086db89bc6b543da563304472e4e821ea4e858",
}
_PROGRAMS: Final = {
    "flower-supernode": "flwr.supernode.cli",
    "flower-superexec": "flwr.supercore.cli",
    "flwr-clientapp": "flwr.supernode.cli",
}


class UntestedFlower(Exception):
    """Error of a Flower installation whose internals differ from the tested ones."""


def check() -> None:
    """Raise UntestedFlower unless the installed Flower is an unchanged, tested version."""
    found = version("flwr")
    if found not in TESTED:
        raise UntestedFlower(
            f"Flower {found} has not been tested as an operator's node, where nothing of a run may "
            f"be executed: install one of {', '.join(TESTED)}."
        )
    if digest() != TESTED[found]:
        raise UntestedFlower(
            f"The installed Flower calls itself {found} and has other files than Flower {found}: "
            "install it anew."
        )


def digest() -> str:
    """Return one hash of all :data:`FILES` of the installed Flower, which :data:`TESTED` lists."""
    spec = find_spec("flwr")
    if spec is None or spec.origin is None:
        raise UntestedFlower("Flower is not installed.")
    root, digest = Path(spec.origin).parent, hashlib.sha256()
    for name in FILES:
        try:
            digest.update(hashlib.sha256((root / name).read_bytes()).digest())
        except OSError as error:
            raise UntestedFlower(f"Flower's file {name} cannot be read: {error}.") from error
    return digest.hexdigest()


def command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs one of Flower's programs, independently of PATH."""
    return [sys.executable, "-P", "-m", __name__, name, *arguments]


def run(name: str, arguments: list[str]) -> None:
    """Run one of Flower's programs in this process, as Flower's command would."""
    if name == "flower-supernode":
        importlib.import_module(f"{__package__}.journal").harden()
    sys.argv = [name, *arguments]
    program = getattr(importlib.import_module(_PROGRAMS[name]), name.replace("-", "_"))
    program()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
