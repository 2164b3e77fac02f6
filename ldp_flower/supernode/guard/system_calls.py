"""Which of the kernel's calls a run's training has no use for, as a filter for seccomp.

Namespaces do not cover all that leads out. A lease on a file makes others wait who open it,
outside, too. Sockets to a hypervisor know no network
namespace, keys no file system, and memory that is in no process is seen by nobody who counts.
What is refused here is refused by an error; training goes on.
"""

import errno
import platform
import struct
from typing import Final, NamedTuple

_NEW: Final = {  # the same on all architectures
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "memfd_secret": 447,
}
_CLONE3: Final = 435
_FAMILIES: Final = (1, 2, 10, 16)  # unix, internet, internet 6, netlink
_NAMESPACES: Final = 0x7E020080  # flags of clone: all namespaces
_SETLEASE: Final = 1024  # a command of fcntl


class _Architecture(NamedTuple):
    audit: int
    clone: int
    fcntl: int
    socket: int
    refused: dict[str, int]


_ARCHITECTURES: Final = {
    "x86_64": _Architecture(
        audit=0xC000003E,
        clone=56,
        fcntl=72,
        socket=41,
        refused={
            **{"shmget": 29, "msgget": 68, "ptrace": 101, "syslog": 103, "personality": 135},
            **{"pivot_root": 155, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167},
            **{"swapoff": 168, "reboot": 169, "init_module": 175, "delete_module": 176},
            **{"quotactl": 179, "kexec_load": 246, "add_key": 248, "request_key": 249},
            **{"keyctl": 250, "unshare": 272, "vmsplice": 278, "perf_event_open": 298},
            **{"name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308},
            **{"process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312},
            **{"finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321},
            **{"userfaultfd": 323},
        },
    ),
    "aarch64": _Architecture(
        audit=0xC00000B7,
        clone=220,
        fcntl=25,
        socket=198,
        refused={
            **{"shmget": 194, "msgget": 186, "ptrace": 117, "syslog": 116, "personality": 92},
            **{"pivot_root": 41, "acct": 89, "mount": 40, "umount2": 39, "swapon": 224},
            **{"swapoff": 225, "reboot": 142, "init_module": 105, "delete_module": 106},
            **{"quotactl": 60, "kexec_load": 104, "add_key": 217, "request_key": 218},
            **{"keyctl": 219, "unshare": 97, "vmsplice": 75, "perf_event_open": 241},
            **{"name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268},
            **{"process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272},
            **{"finit_module": 273, "memfd_create": 279, "kexec_file_load": 294, "bpf": 280},
            **{"userfaultfd": 282},
        },
    ),
}

# Berkeley packet filter, and where it finds what in the kernel's struct seccomp_data.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_OTHER_NUMBERS: Final = 0x40000000  # x32's, which are other names of the same calls


def program(machine: str | None = None) -> bytes:
    """Return the filter for this machine's architecture.

    Raises
    ------
    LookupError
        If its calls are not known here.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise LookupError(f"Expected a machine of {' or '.join(_ARCHITECTURES)}, got {machine}.")
    known = _ARCHITECTURES[machine]
    refuse = _step(_RETURN, _ERROR | errno.EPERM)
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, known.audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _OTHER_NUMBERS, 0, 1),
        refuse,
        _step(_EQUAL, _CLONE3, 0, 1),
        _step(_RETURN, _ERROR | errno.ENOSYS),  # clone takes its place, whose flags can be read
    ]
    for number in sorted([*known.refused.values(), *_NEW.values()]):
        steps += [_step(_EQUAL, number, 0, 1), refuse]
    steps += [
        _step(_EQUAL, known.clone, 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_ANY_BIT, _NAMESPACES, 0, 1),
        refuse,
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, known.fcntl, 0, 4),
        _step(_LOAD, _SECOND_ARGUMENT_AT),
        _step(_EQUAL, _SETLEASE, 0, 1),
        refuse,
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, known.socket, 0, len(_FAMILIES) + 2),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        *(
            _step(_EQUAL, family, len(_FAMILIES) - place, 0)
            for place, family in enumerate(_FAMILIES)
        ),
        refuse,
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
