"""One answer at a time to one question, whichever process of a node computes it."""

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
    """Wait until nobody else answers the question with this digest, and keep others waiting.

    One byte of the file at ``path`` is locked, whose place follows from the digest. The system ends
    a lock with the process that holds it. On Windows, where Flower runs no nodes, nothing is
    locked.
    """
    if sys.platform == "win32":
        yield
        return
    place = int(digest[:15], 16)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if sys.platform == "linux":  # the lock is this open file's: threads have one each
            lock = struct.pack("hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, lock)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        yield
    finally:
        os.close(file)
