"""A process that dies (``kill -9``) between two lines of what a client does with its ledger.

A module of its own, which an app of the deployment tests has a copy of.
"""

import os
import signal
import sys

from ldp_flower.clients import node, respond
from ldp_flower.guarantee import ledger, ledger_file

# Where secrets are drawn, what is paid is written, and replies are made.
_FILES = {module.__file__ for module in (respond, node, ledger, ledger_file)}


def die_at(line, first=lambda: None):
    """Let this process die before so many of the lines have run, after a last call."""
    left = line

    def tracer(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in _FILES:
            return None
        if event == "line":
            left -= 1
            if not left:
                first()
                os.kill(os.getpid(), signal.SIGKILL)
        return tracer

    sys.settrace(tracer)
