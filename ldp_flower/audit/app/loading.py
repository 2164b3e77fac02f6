"""A stranger's Flower app: its two halves, its modules, and how they are put back as imported."""

import importlib
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from ...presentation import words
from .data import stand_in
from .errors import CannotAuditError

_OF_A_SERVER = (
    " An app of a server only asks whatever clients SuperNodes run: for this library's, attack the "
    "protocol by `ldp-flower audit PROTOCOL`."
)

RunConfig = dict[str, bool | float | int | str]


class AuditedApp:
    """An app in a directory, imported.

    Parameters
    ----------
    folder : Path
        The app's directory, with its ``pyproject.toml``.
    overrides : dict
        Settings other than the app's own, which are in ``[tool.flwr.app.config]``.
    sample : Path, optional
        Rows that ``flwr_datasets`` returns, where it is not installed.

    Attributes
    ----------
    client, server : ClientApp, ServerApp
        What the project names as its components.
    run_config : dict
        The run's configuration, flattened as Flower does.
    num_nodes : int or None
        Number of nodes that the project declares for a simulation.

    Raises
    ------
    CannotAuditError
        If there is no app, or it cannot be imported.
    """

    def __init__(self, folder: Path, overrides: RunConfig, sample: Path | None = None) -> None:
        self.folder = folder.expanduser().resolve()
        project = _project(self.folder)
        declared = project["tool"]["flwr"]["app"]
        self.run_config: RunConfig = flattened(declared.get("config", {}))
        if unknown := sorted(set(overrides) - set(self.run_config)):
            raise CannotAuditError(
                f"Expected settings in {sorted(self.run_config)}, got {unknown}."
            )
        self.run_config |= overrides
        self.num_nodes = _declared_nodes(project)
        sys.path.insert(0, str(self.folder))
        if sample is not None:
            stand_in.installed(sample)
        components = declared.get("components", {})
        self.client: ClientApp = self._component(components, "clientapp", ClientApp)
        self.server: ServerApp = self._component(components, "serverapp", ServerApp)
        self._as_imported: dict[ModuleType, dict[str, Any]] = {}
        self._contents: list[tuple[Any, Any]] = []
        for module in self.modules():
            self._remember(module)

    def modules(self) -> list[ModuleType]:
        """Return those modules of this process that are the app's own."""
        return [m for m in list(sys.modules.values()) if self.owns(getattr(m, "__file__", None))]

    def owns(self, file: str | None) -> bool:
        """Whether a file of code is the app's own."""
        own = isinstance(file, str) and file.startswith(f"{self.folder}{os.sep}")
        return own and "site-packages" not in str(file)

    def restore(self) -> None:
        """Put globals of the app's modules back as they were imported, and empty caches."""
        for module in self.modules():
            if module not in self._as_imported:
                self._remember(module)
            before, now = self._as_imported[module], vars(module)
            for name in set(now) - set(before):
                if not name.startswith("__"):
                    del now[name]
            for name, value in before.items():
                now[name] = value
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()
        for own, contents in self._contents:
            own.clear()
            own.extend(contents) if isinstance(own, list) else own.update(contents)

    def _remember(self, module: ModuleType) -> None:
        before = {k: v for k, v in vars(module).items() if not k.startswith("__")}
        self._as_imported[module] = before
        self._contents += [
            (value, value.copy()) for value in before.values() if type(value) in (dict, list, set)
        ]

    def _component(self, components: dict[str, str], name: str, kind: type) -> Any:
        reference = components.get(name, "")
        module, colon, attribute = reference.partition(":")
        if not colon:
            raise CannotAuditError(
                f"Expected [tool.flwr.app.components] {name} = 'module:object' in pyproject.toml, "
                f"got {reference!r}." + (_OF_A_SERVER if name == "clientapp" else "")
            )
        try:
            found = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise CannotAuditError(
                f"The app's {name} {reference!r} needs the module {error.name!r}. "
                + words.what_lacks(error.name or "")
                + (
                    " For flwr_datasets, --sample FILE puts the rows of a file in its place."
                    if (error.name or "").split(".")[0] in stand_in.NAMES
                    else ""
                )
            ) from error
        except Exception as error:  # whatever the app's modules do
            raise CannotAuditError(
                f"The app's {name} {reference!r} cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, kind):
            raise CannotAuditError(
                f"Expected {reference!r} to be a {kind.__name__}, got {type(found).__name__}."
            )
        return found


def _project(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        document: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise CannotAuditError(
            f"{folder} is no Flower app: {file.name} cannot be read ({error.strerror})."
        ) from error
    except ValueError as error:
        raise CannotAuditError(f"{file} cannot be read: {error}") from error
    if "app" not in document.get("tool", {}).get("flwr", {}):
        raise CannotAuditError(
            f"{folder} is no Flower app: its pyproject.toml has no [tool.flwr.app]."
        )
    return document


def flattened(config: dict[str, Any], prefix: str = "") -> RunConfig:
    """Return nested settings as Flower names them: ``a.b``."""
    flat: RunConfig = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _declared_nodes(project: dict[str, Any]) -> int | None:
    federations = project["tool"]["flwr"].get("federations", {})
    default = federations.get(str(federations.get("default")), {})
    found = default.get("options", {}).get("num-supernodes")
    return found if isinstance(found, int) else None


@contextmanager
def quiet() -> Iterator[None]:
    """Let neither Flower nor the app write to the terminal: hundreds of runs would."""
    import contextlib
    import io
    import logging
    import warnings

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
