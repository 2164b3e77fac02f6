"""A lock between a node's processes: only one of them answers a query at a time."""

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def answering(path: Path, digest: str) -> Iterator[None]:
    """Hold the lock of the query with this digest; other processes and threads wait for it.

    A server may send a query twice. The node answers one copy at a time, so that the second copy
    finds the reply that is stored for the first. The lock covers one byte of the file at ``path``.
    The position of the byte follows from the digest. The operating system releases a lock when the
    process that holds it ends. On Windows, where Flower runs no nodes, there is no lock.
    """
    if sys.platform == "win32":
        yield
        return
    place = int(digest[:15], 16)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if sys.platform == "linux":  # a lock per open file, so that threads exclude each other
            lock = struct.pack("hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, lock)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        yield
    finally:
        os.close(file)
