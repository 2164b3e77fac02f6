"""The arguments of ``flower-supernode``, parsed as Flower parses them."""

import re
import shlex
import socket
import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from flwr.common.config import parse_config_args
from flwr.common.constant import ISOLATION_MODE_SUBPROCESS
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

_PAIR: Final = re.compile(r"(\S+?)=(\'[^\']*\'|\"[^\"]*\"|\S+)")  # Flower's pattern of a pair


class ArgumentsError(Exception):
    """Error of arguments that would take the control of a SuperNode from its operator."""


def node_config_of(arguments: Sequence[str]) -> Mapping[str, object]:
    """Return the node's configuration in the arguments of a SuperNode.

    Raise ArgumentsError if the arguments would let others answer the node's messages or install
    the packages of a run, or if the configuration cannot be read. Raise SystemExit if Flower does
    not know the arguments.
    """
    known = _parse_args_run_supernode().parse_args(list(arguments))
    if known.isolation != ISOLATION_MODE_SUBPROCESS:
        raise ArgumentsError(
            f"Expected no --isolation {known.isolation}: then any program that reaches the "
            "SuperNode's port can answer its messages instead of the operator's app."
        )
    if not _is_loopback(known.host):
        raise ArgumentsError(
            f"Expected no --host {known.host}: any program that reaches the SuperNode's port can "
            "answer its messages, so that the port has to be for this machine only."
        )
    if known.runtime_dependency_install:
        raise ArgumentsError(
            "Expected no --allow-runtime-dependency-installation: a run would decide what is "
            "installed."
        )
    return read(known.node_config)


def check_port(arguments: Sequence[str]) -> None:
    """Raise ArgumentsError if another program has the port of a SuperNode with these arguments."""
    known = _parse_args_run_supernode().parse_args(list(arguments))
    family, kind, protocol, _, address = socket.getaddrinfo(
        known.host, known.port, type=socket.SOCK_STREAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # As for servers: a port counts as free if its last connections are only closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise ArgumentsError(
                f"Port {known.port} of {known.host} cannot be used ({error.strerror}): another "
                "SuperNode may have it. Each on one machine needs a --port of its own."
            ) from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a host name
        return False


def read(node_config: str | None) -> Mapping[str, object]:
    """Return the values of a ``--node-config``, as Flower parses it.

    Raise ArgumentsError if it cannot be parsed, or if Flower would silently ignore a part of it.
    """
    text = node_config or ""
    in_file = text.endswith(".toml")
    if not in_file:
        if left := _PAIR.sub(" ", text).split():
            raise ArgumentsError(
                f"Flower does not read {shlex.join(left)} in the node's configuration: expected "
                "pairs key=value without spaces."
            )
        _check_pairs(_PAIR.findall(text))
    try:
        return parse_config_args([node_config] if node_config else None)
    except (Exception, SystemExit) as error:
        named = f" {text}" if in_file else ""
        raise ArgumentsError(f"The node's configuration{named} cannot be read: {error}") from error


def _check_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    keys = [key for key, _ in pairs]
    for key, value in pairs:
        if keys.count(key) > 1:
            raise ArgumentsError(f"Expected one value for {key} in the node's configuration.")
        try:
            tomllib.loads(f"{key} = {value}")
        except tomllib.TOMLDecodeError as error:
            raise ArgumentsError(
                "Expected a number, true, false or a text in quotes (single ones where it has a "
                f"backslash) for {key} in the node's configuration, got {value}."
            ) from error
