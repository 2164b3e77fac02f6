"""The commands ``ldp-flower keys`` and ``ldp-flower peers``, for keys of nodes and of analysts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import FAILED, USAGE, command_group, console, fail, failing, option

keys = command_group(
    "Make and change the key of a node that shares its noise, or of an analyst of a study."
)
peers = command_group("Keep the file of the nodes with which a node shares its noise.")

_OVERLAP = timedelta(days=14)  # time in which the old and the new key of a node are accepted

KeyPath = Annotated[Path, typer.Argument(metavar="KEY_FILE", help="File of the private key.")]
PeersPath = Annotated[Path, typer.Argument(metavar="PEERS_FILE", help="File of the peers.")]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the node: lowercase letters, digits, hyphens."),
]


def _node_name(name: str | None) -> str | None:
    """Check a node's name before a command makes its key."""
    from ..guarantee.peers import is_name

    if name is not None and not is_name(name):
        fail(f"Expected NAME of 1 to 40 lowercase letters, digits or hyphens, got {name!r}.", USAGE)
    return name


NameOfNode = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="Name of the node; an analyst's key needs none.",
        callback=_node_name,
    ),
]
PublicKey = Annotated[str, typer.Argument(metavar="KEY", help="Its key, 64 hexadecimal digits.")]


@keys.command("create")
def keys_create(path: KeyPath, name: NameOfNode = None) -> None:
    """Create a key in the file KEY_FILE: of the node NAME or, without a name, of an analyst.

    The command prints what the peers of the node need, or what the operators of a study need.
    """
    from ..guarantee.peers import PeersError
    from ..guarantee.peers_file import create_key

    with failing(PeersError, code=FAILED):
        _print_lines(create_key(path).public_key().public_bytes_raw(), path, name)


@keys.command("show")
def keys_show(path: KeyPath, name: NameOfNode = None) -> None:
    """Print again the lines that other operators need about the key in KEY_FILE."""
    from ..guarantee.peers import PeersError, read_key

    with failing(PeersError, code=FAILED):
        _print_lines(read_key(path).public_key().public_bytes_raw(), path, name)


@keys.command("rotate")
def keys_rotate(path: KeyPath, name: Name) -> None:
    """Create a new key beside KEY_FILE, and print the command by which peers accept it.

    The old key signs the new key. Change to the new key with `keys switch` once all peers have it.
    """
    from ..guarantee.peers import PeersError, read_key
    from ..guarantee.peers_file import create_key, rotation

    with failing(PeersError, code=FAILED):
        old = read_key(path)
        new = create_key(_new(path))
    before, after = (each.public_key().public_bytes_raw() for each in (old, new))
    proof = old.sign(rotation(name, before, after))
    console.print(Text(f"Created {_new(path)}. All peers, and this node itself, run:"))
    _print_command(f"ldp-flower peers add peers.toml {name} {after.hex()} --proof {proof.hex()}")
    console.print(Text(f"Then run: ldp-flower keys switch {path}"))


@keys.command("switch")
def keys_switch(path: KeyPath) -> None:
    """Replace the key in KEY_FILE by the new key that `keys rotate` has made."""
    from ..guarantee.peers import PeersError, read_key

    with failing(PeersError, code=FAILED):
        read_key(_new(path))
    _new(path).replace(path)
    console.print(Text(f"{path} holds the new key now."))


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


@peers.command("add")
def peers_add(
    path: PeersPath,
    name: Name,
    key: PublicKey,
    proof: Annotated[
        str | None, option("Signature of a new key by the old one, as keys rotate prints it.")
    ] = None,
    fingerprint: Annotated[
        str | None, option("Fingerprint that the node's operator tells you, by phone for example.")
    ] = None,
    checked: Annotated[str, option("Remark for the file: how and when the key was compared.")] = "",
) -> None:
    """Accept the key KEY of the node NAME in the file PEERS_FILE, which is made if it is missing.

    A first key is confirmed by its --fingerprint, which you get from the node's operator by another
    channel, such as the phone; without this option the command asks for it. A key that replaces an
    accepted one is confirmed by --proof, the signature by the old key that `keys rotate` prints.
    The old key then stays valid for 14 days. Expired keys are removed from the file.
    """
    from ..guarantee.peers import Peer, PeersError, read_peers
    from ..guarantee.peers_file import shown, signed_rotation, write_peers

    with failing(PeersError, code=FAILED):
        peer = Peer.of({"name": name, "key": key, "checked": checked})
        if proof is None:  # the operator is asked before the file is locked
            own = shown(peer.key)
            told = fingerprint or typer.prompt(f"Fingerprint that the operator of {name} has told")
            if "".join(told.split()) != "".join(own.split()):
                fail("The fingerprint is another one: this is not the key of that node.", FAILED)
        with _changing(path):
            listed = read_peers(path) if path.expanduser().exists() else []
            now = datetime.now(UTC).replace(microsecond=0)
            listed = [p for p in listed if p.is_accepted(now)]  # an old key signs no new one
            if proof is not None:
                replaced = signed_rotation(listed, peer, proof)
                until = now + _OVERLAP
                listed = [replace(p, until=until) if p == replaced else p for p in listed]
            write_peers(path, [*listed, peer])
    console.print(Text(f"{path} accepts {name} with the fingerprint {shown(peer.key)}."))


@peers.command("remove")
def peers_remove(
    path: PeersPath,
    name: Name,
    key: Annotated[
        str | None, option("First digits of the key to remove, if it is one of two.")
    ] = None,
) -> None:
    """Remove the node NAME from PEERS_FILE. Do so at once if others may know its key."""
    from ..guarantee.peers import PeersError, read_peers
    from ..guarantee.peers_file import write_peers

    with failing(PeersError, code=FAILED), _changing(path):
        listed = read_peers(path)
        left = [p for p in listed if not (p.name == name and p.key.hex().startswith(key or ""))]
        if len(left) == len(listed):
            fail(f"Expected the name of a peer in {path}, got {name!r}.", FAILED)
        write_peers(path, left)
    console.print(Text(f"{path} accepts {len(listed) - len(left)} key(s) less."))


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Lock the folder of a file, so that no other command changes the file meanwhile."""
    import fcntl

    try:
        folder = os.open(path.expanduser().absolute().parent, os.O_RDONLY)
    except OSError as error:
        fail(f"Cannot change {path}: {error.strerror}.", FAILED)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@peers.command("show")
def peers_show(path: PeersPath) -> None:
    """Show the nodes in the file PEERS_FILE, with the fingerprints of their keys."""
    from ..guarantee.peers import PeersError, read_peers
    from ..guarantee.peers_file import shown

    with failing(PeersError, code=FAILED):
        listed = read_peers(path)
    table = Table("name", "fingerprint", "until", "checked")
    for each in listed:
        until = "" if each.until is None else each.until.isoformat()
        table.add_row(each.name, shown(each.key), until, Text(each.checked))
    console.print(table)


def _print_lines(key: bytes, path: Path, name: str | None) -> None:
    from ..guarantee.peers_file import shown

    digits = key.hex()
    console.print(Text(f"The key is in {path}. Its fingerprint: {shown(key)}"))
    if name is None:
        console.print("Operators approve a study whose queries this key signs by the option:")
        _print_command(f"ldp-flower studies add ... --signed-by {digits}")
        console.print("or by this line in the study's table:")
        _print_command(f'signed-by = ["{digits}"]')
    else:
        console.print("All peers, and this node itself, run:")
        _print_command(f"ldp-flower peers add peers.toml {name} {digits}")
    console.print("Tell them the fingerprint on another way, such as by phone.")


def _print_command(command: str) -> None:
    console.print(Text(command), soft_wrap=True)
