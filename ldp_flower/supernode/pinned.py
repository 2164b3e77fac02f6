"""A pinned node: every message is answered by the app that the operator has installed."""

import importlib
from dataclasses import dataclass

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from .run import Run


class AppError(Exception):
    """There is no such app."""


@dataclass(frozen=True)
class Pinned:
    """Answers every message of every run by one ClientApp, and looks into no run's code.

    Parameters
    ----------
    name : str
        What the app is called in the log.
    app : ClientApp
        The operator's app.
    """

    name: str
    app: ClientApp

    @property
    def fate(self) -> str:
        """What the log says has become of the run's own app."""
        return "was not looked at"

    def answer(self, message: Message, context: Context, run: Run) -> Message:
        """Return the app's reply."""
        return self.app(message, context)


def load(reference: str) -> ClientApp:
    """Return the app that ``module:attribute`` names, as Python finds the module.

    Raises
    ------
    AppError
        If there is none.
    """
    module, colon, attribute = reference.partition(":")
    if not (module and colon and attribute):
        raise AppError(f"Expected --app MODULE:ATTRIBUTE, got {reference!r}.")
    try:
        app = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise AppError(
            f"The app {reference!r} cannot be loaded: {type(error).__name__}: {error}. Its module "
            "must be installed, or in a folder of PYTHONPATH."
        ) from error
    if not isinstance(app, ClientApp):
        raise AppError(f"Expected {reference!r} to be a ClientApp, got {type(app).__name__}.")
    return app
