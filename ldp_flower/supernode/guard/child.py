"""The program in the sandbox: loads a run's app, trains, and writes numbers to its output.

It is started as a script, and what is on its input comes from the operator's side. From the
moment when the app is imported nothing that this process does is trusted.
"""

import ctypes
import json
import os
import pickle
import resource
import struct
import sys
import tomllib
import zipfile
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from flwr.app import RecordDict
    from flwr.clientapp import ClientApp

    from ldp_flower.clients import LdpUpdateMod

_APP = "app"  # a folder of the scratch space
# Of prctl. A process that was root is not dumpable, and its own /proc is closed to it.
_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _FILTER = 4, 22, 38, 2


def main() -> None:
    """Answer one request."""
    settings = json.loads(sys.argv[1])
    confine(**settings["confine"])
    sys.path[:] = settings["path"]
    sys.argv[:] = [_APP]
    answer = os.dup(1)
    os.dup2(2, 1)  # what the app prints is for the log
    import_module("flwr.clientapp")  # while the other side reads the message
    request = pickle.load(sys.stdin.buffer)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with open(answer, "wb") as opened:
        opened.write(_trained(**request).tobytes())


def confine(limits: dict[str, int], user: int | None, filtered: str) -> None:
    """Take the limits, become somebody else where the sandbox is root's, and give up calls."""
    for name, limit in limits.items():
        number = int(name)
        _, most = resource.getrlimit(number)
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(number, (limit, limit))
    system = ctypes.CDLL(None, use_errno=True)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        system.prctl(_SET_DUMPABLE, 1, 0, 0, 0)
    if filtered:
        steps = ctypes.create_string_buffer(bytes.fromhex(filtered))
        program = struct.pack("@HP", len(filtered) // 16, ctypes.addressof(steps))
        if system.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or system.prctl(
            _SET_SECCOMP, _FILTER, program, 0, 0
        ):
            raise OSError(ctypes.get_errno(), "The filter of system calls is not taken")


def _trained(
    fab: bytes, message: Any, context: Any, name: str, shapes: dict[str, tuple[int, ...]]
) -> "np.ndarray":
    """Return the model that training returns: a float64 for each parameter, NaN where none is."""
    reply = _loaded(fab)(message, context)
    return _flat(reply.content, name, shapes)


def _loaded(fab: bytes) -> "ClientApp":
    """Unpack a run's app, and import what its configuration names."""
    with zipfile.ZipFile(BytesIO(fab)) as packed:
        packed.extractall(_APP)
    with open(f"{_APP}/pyproject.toml", "rb") as opened:
        reference = tomllib.load(opened)["tool"]["flwr"]["app"]["components"]["clientapp"]
    module, _, attribute = reference.partition(":")
    sys.path.insert(0, os.path.abspath(_APP))
    app: ClientApp = getattr(import_module(module), attribute)
    if (own := sys.modules.get("ldp_flower.clients.update_mod")) is not None:
        # The operator's side has the mod already; a second one would find nothing to pay for.
        own.LdpUpdateMod.__call__ = _passes
        for mod in app._mods:
            if isinstance(mod, own.LdpUpdateMod):
                _check(mod)
    return app


def _passes(mod: "LdpUpdateMod", message: Any, context: Any, train: Any) -> Any:
    _check(mod)
    return train(message, context)


def _check(mod: "LdpUpdateMod") -> None:
    """Refuse the mods that do not report one update of the whole node."""
    if type(mod).__name__ != "LdpUpdateMod":
        raise TypeError(f"An app with {type(mod).__name__} has to be the operator's own: --app.")


def _flat(content: "RecordDict", name: str, shapes: dict[str, tuple[int, ...]]) -> "np.ndarray":
    import numpy as np

    records = content.array_records
    record = records[name] if name in records else next(iter(records.values()))
    parts = []
    for key, shape in shapes.items():
        array = record[key].numpy() if key in record else np.empty(0, complex)
        fits = array.shape == tuple(shape) and array.dtype.kind in "fiub"
        part = array.astype(np.float64) if fits else np.full(shape, np.nan)
        parts.append(part.ravel())
    return np.concatenate(parts)


if __name__ == "__main__":
    main()
