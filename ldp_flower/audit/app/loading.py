"""Import of a foreign Flower app: its two halves, its modules, and a new start of both."""

import contextlib
import importlib
import io
import logging
import os
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from ...presentation import words
from .findings import CannotAuditError

_OF_A_SERVER = " If the app has a server only, attack its protocol by `ldp-flower audit PROTOCOL`."

RunConfig = dict[str, bool | float | int | str]


class AuditedApp:
    """Imported Flower app of a directory: its client, server, run_config and declared num_nodes.

    ``overrides`` are settings that replace those in ``[tool.flwr.app.config]``. Raise
    :class:`CannotAuditError` if the app cannot be imported.
    """

    client: ClientApp
    server: ServerApp

    def __init__(self, folder: Path, overrides: RunConfig) -> None:
        self.folder = folder.expanduser().resolve()
        project = project_of(self.folder)
        declared = project["app"]
        self.run_config: RunConfig = flat_settings(declared.get("config", {}))
        if unknown := sorted(set(overrides) - set(self.run_config)):
            raise CannotAuditError(
                f"Expected settings in {sorted(self.run_config)}, got {unknown}."
            )
        self.run_config |= overrides
        self.num_nodes = declared_nodes(project, self.run_config)
        self._components: dict[str, str] = declared.get("components", {})
        self.loader = self._components.get("loader")
        if str(self.folder) not in sys.path[:1]:
            sys.path.insert(0, str(self.folder))
        self.restart()

    def restart(self) -> None:
        """Import the app's modules again, as a newly started process would."""
        for module in self.modules():
            del sys.modules[module.__name__]
        self.client = self._component("clientapp", ClientApp)
        self.server = self._component("serverapp", ServerApp)

    def modules(self) -> list[ModuleType]:
        """Return the imported modules that belong to the app."""
        return [module for module in list(sys.modules.values()) if self._owns(module)]

    def _owns(self, module: ModuleType) -> bool:
        # A package without __init__.py has a path instead of a file.
        file = getattr(module, "__file__", None)
        path = str(file or next(iter(getattr(module, "__path__", ())), ""))
        return path.startswith(f"{self.folder}{os.sep}") and "site-packages" not in path

    def _component(self, name: str, kind: type) -> Any:
        reference = self._components.get(name, "")
        module, colon, attribute = reference.partition(":")
        if not colon:
            raise CannotAuditError(
                f"Expected [tool.flwr.app.components] {name} = 'module:object' in pyproject.toml, "
                f"got {reference!r}." + (_OF_A_SERVER if name == "clientapp" else "")
            )
        try:
            found = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # the app's modules may raise anything
            why = f"cannot be imported: {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError):
                lacking = error.name or ""
                why = f"needs the module {lacking!r}. {words.advice_on_missing(lacking)}"
            raise CannotAuditError(f"The app's {name} {reference!r} {why}") from error
        if not isinstance(found, kind):
            raise CannotAuditError(
                f"Expected {reference!r} to be a {kind.__name__}, got {type(found).__name__}."
            )
        return found


def project_of(folder: Path) -> dict[str, Any]:
    """Return the table ``[tool.flwr]`` in the pyproject.toml of the Flower app in a directory."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        raise CannotAuditError(f"{folder} is not a Flower app: it has no pyproject.toml.")
    try:
        tool: dict[str, Any] = tomllib.loads(file.read_text("utf-8")).get("tool", {})
    except (ValueError, OSError) as error:
        raise CannotAuditError(f"{file} cannot be read: {error}") from error
    found: dict[str, Any] = tool.get("flwr", {})
    if "app" not in found:
        raise CannotAuditError(
            f"{folder} is not a Flower app: its pyproject.toml has no [tool.flwr.app]."
        )
    return found


def declared_nodes(project: dict[str, Any], config: RunConfig) -> int | None:
    """Return the number of nodes that an app declares for its simulation; None if it declares none.

    The app's own ``num-nodes`` takes precedence over Flower's ``num-supernodes``.
    """
    federations = project.get("federations", {})  # in apps for older versions of Flower
    default = federations.get(str(federations.get("default")), {})
    for found in (config.get("num-nodes"), default.get("options", {}).get("num-supernodes")):
        if isinstance(found, int) and found > 0:
            return found
    return None


def flat_settings(config: dict[str, Any], prefix: str = "") -> RunConfig:
    """Return nested settings as a flat mapping, with Flower's names ``a.b``."""
    flat: RunConfig = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= flat_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress all output of Flower and the app, since there are hundreds of runs."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
