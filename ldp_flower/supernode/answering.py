"""The program that answers one message, as a replacement of Flower's ``flwr-clientapp``.

A SuperNode starts a program of this name for each message. Flower's program unpacks the run's app
and imports it. This program runs Flower's with two changes: it unpacks nothing, and it calls the
operator's app with the message.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.supernode.runtime import run_clientapp as flowers

from ..clients import Refusal
from ..guarantee import ledger, peers
from . import flower
from .journal import SubmittedRun, collected_log, line_of
from .settings import Settings

_log = logging.getLogger("flwr")
_FAILED = "The operator's app gave no answer to this message; the node's log says why."


def main(settings_file: str, arguments: list[str]) -> None:
    """Answer one message with the app, table or records that the operator has chosen."""
    flower.check()
    settings = Settings.read(Path(settings_file))
    os.environ["PATH"] = settings.path
    peers.operators_files.set(settings.files)
    _let_answer(settings.source.client_app, settings.name)
    flower.run("flwr-clientapp", arguments)


def _let_answer(load_app: Callable[[], ClientApp], name: str) -> None:
    """Make Flower's program call the operator's app instead of an app that a server sends."""
    fabs: list[bytes] = []

    def load(fab_id: str, fab_version: str, _fab_hash: str) -> Callable[..., Message]:
        def answer(message: Message, context: Context) -> Message:
            run = SubmittedRun(context.run_id, fab_id, fab_version, fabs[0])
            return answered(load_app, name, message, context, run)

        return answer

    for step, replacement in {
        "install_from_fab": lambda fab, **_: fabs.append(fab),
        "get_project_dir": lambda *_: Path(os.devnull),
        "install_app_dependencies": _refuse_install,
        "get_load_client_app_fn": lambda **_: load,
    }.items():
        assert hasattr(flowers, step)
        setattr(flowers, step, replacement)


def _refuse_install(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("An operator's node installs nothing that a run asks for.")


def answered(
    load_app: Callable[[], ClientApp],
    name: str,
    message: Message,
    context: Context,
    run: SubmittedRun,
) -> Message:
    """Return the operator's app's reply to a message, and log it; an error has a fixed text."""
    started = time.monotonic()
    with collected_log(ledger.__name__, logging.INFO) as paid:
        try:
            reply = load_app()(message, context)
            own = message.metadata.message_id
            if not (isinstance(reply, Message) and reply.metadata.reply_to_message_id == own):
                raise TypeError(f"Expected a reply to the message, got {type(reply).__name__}.")
        except KeyboardInterrupt:  # comes from the operator
            raise
        except BaseException:  # an app may call sys.exit, and the process would never answer
            _log.exception("%s could not answer.", name)
            reply = Message(Error(Refusal.FAILED, _FAILED), reply_to=message)
    _log.info(line_of(message, reply, run, name, time.monotonic() - started, paid))
    return reply


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
