"""A program that tries to get out of the sandbox that it is started in, and tells how far it got.

Run as a script, like the one that trains, and confined like it.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_TO_A_HYPERVISOR: Final = 40  # AF_VSOCK
HOLDS: Final = b"0"
UNREADABLE: Final = b"1"  # the data, for the account that training has in the sandbox
FOUND: Final = {
    b"2": "the data can be written.",
    b"3": "the ledger, or another file of the operator's, can be seen.",
    b"4": "there is a network.",
    b"6": "there are sockets of a kind that no network namespace holds.",
    b"5": "it shows the processes of others.",
}


def main() -> None:
    """Write one byte: what was found."""
    sys.path.insert(0, os.path.dirname(__file__))
    from child import confine  # type: ignore[import-not-found]  # the script beside this one

    settings, data, hidden = (json.loads(text) for text in sys.argv[1:])
    confine(**settings["confine"])
    os.write(1, next(_holes(data, hidden), HOLDS))


def _holes(data: list[str], hidden: list[str]) -> Iterator[bytes]:
    if not all(_readable(path) for path in data):
        yield UNREADABLE
    if any(os.access(path, os.W_OK) for path in data):
        yield b"2"
    if any(os.path.lexists(path) for path in hidden):
        yield b"3"
    if {name for _, name in socket.if_nameindex()} - {"lo"}:
        yield b"4"
    if sum(name.isdigit() for name in os.listdir("/proc")) > 3:  # bubblewrap, and this
        yield b"5"
    with suppress(OSError):
        socket.socket(_TO_A_HYPERVISOR).close()
        yield b"6"


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0))


if __name__ == "__main__":
    main()
