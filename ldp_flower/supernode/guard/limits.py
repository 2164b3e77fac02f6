"""What a run's training may use of the operator's machine."""

import resource
from dataclasses import dataclass, fields

from ldp_flower.validation import check_integer

_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one message's training may use, all of its processes together.

    Attributes
    ----------
    seconds : int (default: 600)
        From the start to the last byte of the update.
    memory : int (default: 8192)
        Mebibytes. One process gets no more at all; several together are ended when seen
        above it.
    processes : int (default: 512)
        Processes and threads.
    files : int (default: 1024)
        Open files of one process.
    scratch : int (default: 1024)
        Mebibytes of files in ``/tmp``, which are in memory and gone afterwards.
    output : int (default: 65536)
        Bytes of what it prints that get into the operator's log, the last ones.

    Raises
    ------
    ValueError
        If one is not a positive integer.
    """

    seconds: int = 600
    memory: int = 8192
    processes: int = 512
    files: int = 1024
    scratch: int = 1024
    output: int = 65536

    def __post_init__(self) -> None:
        for each in fields(self):
            check_integer(each.name, getattr(self, each.name), 1)

    @property
    def memory_bytes(self) -> int:
        """``memory`` in bytes."""
        return self.memory * _MEBIBYTE

    @property
    def scratch_bytes(self) -> int:
        """``scratch`` in bytes."""
        return self.scratch * _MEBIBYTE

    def of_process(self) -> dict[int, int]:
        """Return the kernel's limits on each process, by its numbers of them."""
        return {
            resource.RLIMIT_AS: self.memory_bytes,
            resource.RLIMIT_FSIZE: self.scratch_bytes,
            resource.RLIMIT_NOFILE: self.files,
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_CORE: 0,
        }
