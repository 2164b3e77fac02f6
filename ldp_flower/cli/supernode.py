"""The command ``ldp-flower supernode``."""

import os
from typing import Annotated

import typer

from ..supernode import flower
from ..supernode.launch import supervise
from ..supernode.node_arguments import ArgumentsError, node_config_of
from ..supernode.pinned import AppError
from ..supernode.settings import Settings
from .console import USAGE, fail


def supernode(
    app: Annotated[str, typer.Option(metavar="MODULE:ATTRIBUTE", help="The operator's ClientApp.")],
    arguments: Annotated[
        list[str], typer.Argument(metavar="-- ARGUMENTS", help="Those of flower-supernode.")
    ],
) -> None:
    """Start Flower's SuperNode with the operator's own app, and keep it running.

    Every message of every run is answered by this app, which is installed here. Of what a run
    brings along nothing is unpacked, imported or executed.
    """
    settings = Settings(app=app, path=os.environ.get("PATH", os.defpath))
    try:
        flower.check()
        node_config_of(arguments)
        settings.operator()
    except (flower.UntestedFlower, ArgumentsError, AppError) as error:
        fail(str(error), USAGE)
    raise typer.Exit(supervise(arguments, settings))
