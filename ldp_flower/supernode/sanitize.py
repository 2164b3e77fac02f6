"""Sanitise untrusted run configurations and names before Flower's SuperNode parses or logs them.

Flower does both in the one process that all messages pass. A setting that cannot be parsed would
end the process, a large one would fill its memory, and a name with line ends would forge lines
of the operator's log.
"""

import io
import logging
import zipfile
from typing import Final

from flwr.app.user_config import UserConfig
from flwr.supercore.run import Run
from flwr.supernode import start_client_internal as flowers

from .journal import shortened

_MAX_SETTINGS_BYTES: Final = 1 << 20  # bytes of a run's pyproject.toml
_log = logging.getLogger("flwr")


def take_care() -> None:
    """Make this process, which is to be a SuperNode, read and log with care."""
    assert hasattr(flowers, "get_fused_config_from_fab")
    read = flowers.get_fused_config_from_fab

    def settings(fab: bytes, run: Run) -> UserConfig:
        """Return a run's settings; none where they cannot be read."""
        try:
            with zipfile.ZipFile(io.BytesIO(fab)) as packed:
                size = packed.getinfo("pyproject.toml").file_size
            if size > _MAX_SETTINGS_BYTES:
                raise ValueError(f"Its pyproject.toml has {size} bytes.")
            found: UserConfig = read(fab, run)
            return found
        except Exception as error:  # the next message is somebody else's
            _log.error("A run's settings cannot be read, and are left out: %s", error)
            return {}

    vars(flowers)["get_fused_config_from_fab"] = settings
    for handler in _log.handlers:
        handler.addFilter(printable)


def printable(record: logging.LogRecord) -> bool:
    """Make what a line of the log is filled in with short, and of one line."""
    if isinstance(record.msg, BaseException):
        record.msg = shortened(str(record.msg))
    if isinstance(record.args, tuple):
        record.args = tuple(
            each if isinstance(each, int | float) else shortened(str(each)) for each in record.args
        )
    return True
